"""The values behind the tables of a paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa._utils.arguments import between, true_or_false
from cuspfa._utils.tables import Columns, TabularResult
from cuspfa.data.tables.labels import common_scale
from cuspfa.diagnostics.fit_measures import FitMeasures, fit_measures
from cuspfa.diagnostics.reliability import determinacy, scale_draws
from cuspfa.posterior.draws import Draws, check_draws
from cuspfa.posterior.provenance import versions
from cuspfa.posterior.quantiles import tails
from cuspfa.reporting.kinds_text import has_counts
from cuspfa.reporting.labels import axes_name
from cuspfa.reporting.summary import summary_draws
from cuspfa.rotation.aligned import AlignedDraws

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior


class Estimate(NamedTuple):
    """A number with the ends of its credible interval."""

    value: float
    lower: float
    upper: float


class ItemRow(NamedTuple):
    """One variable."""

    name: str
    wording: str
    """Empty if it is not known."""
    loadings: tuple[Estimate, ...]
    """On each factor: the mean loading on the correlation scale, as `loadings_` has it."""
    communality: Estimate
    """The median of draws."""
    factor: int | None
    """The position of the factor with its largest loading, from 0; None without factors."""


class FactorRow(NamedTuple):
    """One factor, and the scale of the variables with their largest loading on it."""

    name: str
    share: Estimate
    """Share of the variance of all variables, the median of draws."""
    determinacy: float
    """Correlation of the factor with its scores."""
    n_items: int
    reversed_items: tuple[str, ...]
    """Variables that are reversed before they are added."""
    alpha: Estimate | None
    """Cronbach's α of the scale, the median of draws; None with fewer than two variables."""
    omega: Estimate | None
    """McDonald's ω, the part of the variance of the sum that is due to the factors."""


@dataclass(frozen=True, repr=False)
class TableContent(TabularResult):
    """What all formats of the tables are written from."""

    items: tuple[ItemRow, ...]
    factors: tuple[FactorRow, ...]
    explained: Estimate
    correlations: tuple[tuple[Estimate, ...], ...] | None
    fit: FitMeasures | None
    n_rows: int
    rotation: str
    suppress: float
    intervals: bool
    sort: bool
    prob: float
    scale: tuple[tuple[float, str], ...]
    given_axes: bool
    """Are the intervals of loadings conditional on the axes?"""
    has_missing: bool
    exact_draws: bool
    """Are the draws behind the intervals of the exact posterior?"""
    latent: bool
    """Are some columns not Gaussian, so that loadings are those of latent responses?"""
    log_rates: bool
    """Are some columns counts, so that no sum of the items is one of latent responses?"""
    model_error: float
    named: bool
    """Were the factors given names?"""
    version: str
    """Of cuspfa."""

    def _columns(self) -> Columns:
        """One line for each variable: all loadings with their intervals, suppressed or not."""
        columns: dict[str, list[Any]] = {
            "variable": [row.name for row in self.items],
            "label": [row.wording for row in self.items],
        }
        for h, factor in enumerate(self.factors):
            for end in Estimate._fields:
                head = factor.name if end == "value" else f"{factor.name} {end}"
                columns[head] = [getattr(row.loadings[h], end) for row in self.items]
        for end in Estimate._fields:
            head = "communality" if end == "value" else f"communality {end}"
            columns[head] = [getattr(row.communality, end) for row in self.items]
        return columns


Content = TypeVar("Content", bound=TableContent)


def gather_tables(
    kind: type[Content],
    posterior: Posterior,
    *,
    suppress: float,
    sort: bool,
    intervals: bool,
    prob: float,
    draws: Draws | None,
) -> Content:
    """The content of the tables of a posterior; the arguments are those of `apa_tables`."""
    suppress = between("suppress", suppress, 0.0, 1.0)
    ends = tails(prob)
    if draws is None:
        draws = summary_draws(posterior)
    check_draws(draws, len(posterior.noise_variance))
    aligned = posterior.align(draws=draws)
    loadings, rotation = aligned.reference.loadings, posterior.rotation
    own_factor = _own_factors(loadings)
    names, labels = posterior.column_names, posterior.column_labels
    table = aligned.table(prob)
    common = _estimates(draws.communality, ends)
    grouped = true_or_false("sort", sort)
    items = tuple(
        ItemRow(
            names[j],
            labels[j],
            tuple(
                Estimate(*map(float, one))
                for one in zip(loadings[j], table.lower[j], table.upper[j], strict=True)
            ),
            common[j],
            None if own_factor is None else int(own_factor[j]),
        )
        for j in (_order(loadings, own_factor) if grouped else range(len(names)))
    )
    correlation = posterior.sample_correlation
    oblique = rotation is not None and rotation.is_oblique and loadings.shape[1] > 1
    made = versions() if posterior.provenance is None else posterior.provenance.versions
    return kind(
        items=items,
        factors=_factors(posterior, aligned, own_factor, ends),
        explained=_estimates(draws.communality.mean(axis=1, keepdims=True), ends)[0],
        correlations=_correlations(aligned, ends) if oblique else None,
        fit=None
        if correlation is None or len(names) < 2
        else fit_measures(posterior, correlation, draws),
        n_rows=int(posterior.n_rows),
        rotation=axes_name(rotation),
        suppress=suppress,
        intervals=true_or_false("intervals", intervals),
        sort=grouped,
        prob=float(prob),
        scale=common_scale(names, posterior.value_labels),
        given_axes=rotation is None,
        has_missing=bool(np.any(np.asarray(posterior.column_counts) < posterior.n_rows)),
        exact_draws=posterior.kind == "gibbs" or posterior.has_exact_draws,
        latent=posterior.has_latent_responses,
        log_rates=has_counts(posterior.likelihoods),
        model_error=posterior.model_error,
        named=bool(posterior.presentation.factor_names),
        version=dict(made).get("cuspfa", dict(versions())["cuspfa"]),
    )


def _own_factors(loadings: Array) -> Indices | None:
    """The factor of the largest absolute loading of each variable."""
    return np.argmax(np.abs(loadings), axis=1) if loadings.shape[1] else None


def _order(loadings: Array, own_factor: Indices | None) -> Indices:
    """Variables by factor, and within a factor by the size of the loading, the largest first."""
    if own_factor is None:
        return np.arange(len(loadings))
    return np.lexsort((-np.abs(loadings[np.arange(len(own_factor)), own_factor]), own_factor))


def _estimates(drawn: Array, ends: Any) -> list[Estimate]:
    """Medians and intervals of (n_draws, m) values; NaN are draws without a value."""
    found = np.nanquantile(drawn, [0.5, *ends], axis=0)
    return [Estimate(*map(float, one)) for one in found.T]


def _factors(
    posterior: Posterior, aligned: AlignedDraws, own_factor: Indices | None, ends: Any
) -> tuple[FactorRow, ...]:
    if own_factor is None:
        return ()
    solution, draws = aligned.reference, aligned.draws
    loadings, names = solution.loadings, posterior.column_names
    noise = 1.0 - np.sum(posterior.standardized_loadings**2, axis=1)
    known = determinacy(loadings, noise, factor_correlations=solution.correlations)
    shares = _estimates(posterior.share_draws(draws, aligned), ends)
    found = []
    for h, name in enumerate(posterior.factor_names):
        members = np.flatnonzero(own_factor == h)
        keys = np.where(loadings[members, h] < 0, -1.0, 1.0)
        alpha = omega = None
        if len(members) > 1 and not has_counts(posterior.likelihoods):
            drawn = scale_draws(draws, members, keys)
            alpha, omega = _estimates(np.column_stack(drawn), ends)
        reverse = tuple(names[j] for j in members[keys < 0])
        found.append(
            FactorRow(name, shares[h], float(known[h]), len(members), reverse, alpha, omega)
        )
    return tuple(found)


def _correlations(aligned: AlignedDraws, ends: Any) -> tuple[tuple[Estimate, ...], ...]:
    lower, upper = np.nanquantile(aligned.factor_correlations, ends, axis=0)
    means = aligned.reference.correlations
    return tuple(
        tuple(Estimate(*map(float, one)) for one in zip(*rows, strict=True))
        for rows in zip(means, lower, upper, strict=True)
    )
