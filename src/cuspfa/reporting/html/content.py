"""The content of a report, as plain values, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.errors import InputError
from cuspfa.posterior.draws import Draws, Interval, check_draws
from cuspfa.posterior.fit_info import FitInfo
from cuspfa.posterior.provenance import Provenance
from cuspfa.reporting.figures.values import fitted_correlation, grouped_order
from cuspfa.reporting.summary import MIN_SHARE, Summary, summarise, summary_draws
from cuspfa.rotation.aligned import AlignedDraws, Item, LoadingTable
from cuspfa.rotation.gpa import Rotation, as_rotation

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior

OTHERS = ("varimax", "oblimin")
"""Axes that the report can be switched to, besides the fit's own and principal axes."""
QUICK, OTHER_QUICK = 1e6, 3e5
"""Loadings of all draws up to which each draw is rotated by the criterion itself: on the fit's own
axes, and on others."""
OTHER_DRAWS = 300
"""Draws behind intervals on axes that are not the fit's own."""
ITEMS = 4
"""Variables that a factor is described by."""
ALIKE, MOST_PATTERNS = 5, 12
"""Rows that a pattern of missing values needs to be shown, and patterns that are shown."""
WIDEST = 2000
"""Variables in the report: of more, those that load most."""


class Axes(NamedTuple):
    """Loadings on one set of axes."""

    key: str
    label: str
    oblique: bool
    table: LoadingTable
    """Of the variables that are shown; `mean` is the loadings of the mean solution."""
    shares: Array
    """(K, 3) share of the variance: median and 95 % interval."""
    correlations: Array
    """(K, K) of the factors."""
    quality: float
    """Congruence of draws with the mean solution; see `AlignedDraws.quality`."""
    given: bool
    """Are the intervals given the axes, or do they hold the uncertainty of these too?"""
    order: Indices
    """Variables by the factor they load on most."""


class FactorRow(NamedTuple):
    """One factor on the fit's own axes."""

    share: float
    lower: float
    upper: float
    determinacy: float
    items: list[Item]


class Rule(NamedTuple):
    """What a rule says of the number of factors."""

    name: str
    number: int
    ours: bool
    """Is it the model's own answer?"""


class MissingValues(NamedTuple):
    """Missing values."""

    by_column: list[tuple[str, int]]
    """Columns that have some, most first."""
    n_rows: int
    together: list[tuple[list[str], int]]
    """Columns that are missing together, and in how many rows just these; most first. Empty if the
    rows are no longer known. Patterns of few rows are left out, for privacy."""
    n_complete: int | None
    """Rows without a missing value, if that is known."""

    @property
    def total(self) -> int:
        """All of them."""
        return sum(number for _, number in self.by_column)


@dataclass(frozen=True, eq=False)
class Content:
    """All that a report shows. `shown` are the positions of the variables in it."""

    posterior: Posterior
    summary: Summary
    names: list[str]
    shown: Indices
    axes: list[Axes]
    factors: list[FactorRow]
    explained: tuple[float, float, float]
    """Share of all variance that the factors explain: median and 95 % interval."""
    communality: tuple[Array, Interval]
    """Of the variables that are shown: medians and 95 % intervals."""
    rules: list[Rule]
    n_large: int
    sample: Array | None
    """Correlations of the data, of the variables that are shown."""
    fitted: Array
    n_draws: int
    missing: MissingValues | None
    scores: Array | None

    @property
    def n_factors(self) -> int:
        """K."""
        return self.posterior.n_active

    @property
    def fit_info(self) -> FitInfo | None:
        """Record of the fit."""
        return self.posterior.fit_info

    @property
    def provenance(self) -> Provenance | None:
        """Provenance of the fit."""
        return self.posterior.provenance

    @property
    def chains(self) -> Array | None:
        """(chains, draws) log-likelihood of a sampler's draws; None without a sampler."""
        found = getattr(self.posterior, "log_likelihood", None)
        return None if found is None else found.reshape(self.posterior.n_chains, -1)

    @property
    def number_given(self) -> bool:
        """Was the number of factors given, not found?"""
        if self.provenance is not None:
            return self.provenance.settings.n_factors != "auto"
        fit_info = self.fit_info
        return fit_info is not None and fit_info.method != "gibbs" and len(fit_info.search) == 1


def gather(posterior: Posterior, draws: Draws | None = None, scores: Any = None) -> Content:
    """The content of a report; draws are made, the same every time, unless they are given."""
    if draws is None:
        draws = summary_draws(posterior)
    check_draws(draws, len(posterior.noise_variance))
    summary = summarise(posterior, draws)
    names = posterior.column_names
    shown = _shown(posterior.rotated_solution.loadings)
    flat = posterior.standardized_loadings[shown]
    sample = posterior.sample_correlation
    common = draws.communality
    choices = _choices(posterior)
    axes = [_axes(posterior, draws, one, shown, own=one is choices[0]) for one in choices]
    large = int(np.sum(np.median(draws.explained_variance_ratio, axis=0) > MIN_SHARE))
    total = np.quantile(common.mean(axis=1), [0.5, 0.025, 0.975])
    return Content(
        posterior=posterior,
        summary=summary,
        names=[names[j] for j in shown],
        shown=shown,
        axes=axes,
        factors=_factor_rows(summary, axes[0]),
        explained=(float(total[0]), float(total[1]), float(total[2])),
        communality=(
            np.median(common[:, shown], axis=0),
            Interval(*np.quantile(common[:, shown], [0.025, 0.975], axis=0)),
        ),
        rules=_rules(posterior, summary, large),
        n_large=large,
        sample=None if sample is None else sample[np.ix_(shown, shown)],
        fitted=fitted_correlation(flat),
        n_draws=len(draws),
        missing=_missing(posterior, names),
        scores=_scores(scores, posterior),
    )


def _shown(loadings: Array) -> Indices:
    p, k = loadings.shape
    if p <= WIDEST:
        return np.arange(p)
    largest = np.max(np.abs(loadings), axis=1) if k else np.zeros(p)
    return np.sort(np.argsort(-largest, kind="stable")[:WIDEST])


# --- axes ---


def _choices(posterior: Posterior) -> list[Rotation | None]:
    """The fit's own axes first."""
    own = posterior.rotation
    if posterior.n_active < 2:
        return [own]
    found = [own, *([] if own is None else [None])]
    taken = {None if own is None else own.method}
    return found + [as_rotation(word) for word in OTHERS if word not in taken]


def _axes(
    posterior: Posterior, draws: Draws, rotation: Rotation | None, shown: Indices, *, own: bool
) -> Axes:
    if rotation is not None and not own:
        # Evenly spread: draws of a sampler stand chain after chain.
        few = np.linspace(0, len(draws) - 1, min(len(draws), OTHER_DRAWS)).astype(np.intp)
        draws = draws.some(few)
    quick = draws.loadings.size <= (QUICK if own else OTHER_QUICK)
    way: Literal["procrustes"] | None = None if rotation is None or quick else "procrustes"
    aligned = posterior.align("own" if own else rotation, alignment=way, draws=draws)
    loadings = aligned.reference.loadings
    return Axes(
        key="principal" if rotation is None else rotation.method,
        label="Principal axes" if rotation is None else rotation.method.capitalize(),
        oblique=rotation is not None and rotation.is_oblique,
        table=replace(aligned.table(columns=shown), mean=loadings[shown]),
        shares=_share_table(posterior, aligned, draws, rotation),
        correlations=aligned.reference.correlations,
        quality=aligned.quality,
        given=rotation is None or not quick,
        order=grouped_order(loadings[shown])[0],
    )


def _share_table(
    posterior: Posterior, aligned: AlignedDraws, draws: Draws, rotation: Rotation | None
) -> Array:
    """Medians and intervals of draws, as the summary has them."""
    drawn = draws.explained_variance_ratio if rotation is None else aligned.explained_variance_ratio
    return np.asarray(np.quantile(drawn, [0.5, 0.025, 0.975], axis=0).T[: posterior.n_active])


def _factor_rows(summary: Summary, axes: Axes) -> list[FactorRow]:
    table, found = axes.table, []
    for h, line in enumerate(summary.factors):
        best = np.argsort(-np.abs(table.mean[:, h]), kind="stable")[:ITEMS]
        items = [table.item(j, h) for j in best]
        found.append(FactorRow(line.share, line.lower, line.upper, line.determinacy, items))
    return found


# --- the number of factors ---


def _rules(posterior: Posterior, summary: Summary, large: int) -> list[Rule]:
    fit_info = posterior.fit_info
    found = [Rule("this model", posterior.n_active, True)]
    if posterior.n_active:
        found.append(Rule(f"more than {100 * MIN_SHARE:.0f} % of variance", large, False))
    if fit_info is not None and fit_info.method == "variational" and len(fit_info.search) > 1:
        best = max(fit_info.search, key=lambda entry: entry.lower_bound)
        found.append(Rule("evidence lower bound", best.n_factors, False))
    if summary.parallel is not None:
        found.append(Rule("parallel analysis", summary.parallel, False))
    if summary.partial is not None:
        found.append(Rule("minimum average partial", summary.partial, False))
    return found


# --- the data ---


def _missing(posterior: Posterior, names: list[str]) -> MissingValues | None:
    lacking = posterior.n_rows - np.asarray(posterior.column_counts)
    order = np.argsort(-lacking, kind="stable")
    found = [(names[j], int(lacking[j])) for j in order if lacking[j] > 0]
    if not found:
        return None
    rows = getattr(posterior, "rows", None)  # in the process that fitted them alone
    together: list[tuple[list[str], int]] = []
    complete = None
    if rows is not None:
        patterns, sizes = rows.data.patterns, rows.data.sizes
        complete = int(sizes[patterns.all(axis=1)].sum())
        lacks_some = np.flatnonzero(~patterns.all(axis=1) & (sizes >= ALIKE))
        for one in sorted(lacks_some, key=lambda i: -sizes[i])[:MOST_PATTERNS]:
            lacked = [names[j] for j in np.flatnonzero(~patterns[one])]
            together.append((lacked, int(sizes[one])))
    return MissingValues(found, posterior.n_rows, together, complete)


def _scores(scores: Any, posterior: Posterior) -> Array | None:
    if scores is None:
        return None
    array = np.asarray(scores, dtype=float)
    shape = (posterior.n_rows, posterior.n_active)
    if array.shape != shape:
        raise InputError(
            f"scores must be of shape {shape}, rows that were analysed (with any value) by "
            f"factors. Got {array.shape} instead."
        )
    return array
