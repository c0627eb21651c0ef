"""The content of a report as plain values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.data.tables.labels import common_scale, scale_words
from cuspfa.errors import InputError
from cuspfa.posterior.category_tables import CategoryTable, ThresholdTable
from cuspfa.posterior.draws import Draws, Interval, check_draws
from cuspfa.posterior.error_curve import MORE_TOLERABLE, TOLERABLE
from cuspfa.posterior.fit_info import FitInfo
from cuspfa.posterior.provenance import Provenance
from cuspfa.reporting.figures.values import fitted_correlation, grouped_order
from cuspfa.reporting.labels import axes_name, described_names
from cuspfa.reporting.summary import FactorLine, Summary, summarise, summary_draws
from cuspfa.rotation.aligned import AlignedDraws, Item, LoadingTable
from cuspfa.rotation.gpa import Rotation, as_rotation

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior

OTHER_AXES = ("varimax", "oblimin")
"""Axes that the report can be switched to, besides the fit's own and principal axes."""
OTHER_AXES_LOADINGS = 3e5
"""Loadings of all draws up to which each draw is rotated to axes that are not the fit's own by the
criterion itself."""
OTHER_AXES_DRAWS = 300
"""Draws behind intervals on axes that are not the fit's own."""
FACTOR_ITEMS = 4
"""Variables that a factor is described by."""
PATTERN_ROWS, SHOWN_PATTERNS = 5, 12
"""Rows that a pattern of missing values needs to be shown, and patterns that are shown."""
REPORT_VARIABLES = 2000
"""Variables in the report: of more, those that load most."""


class LoadingsOnAxes(NamedTuple):
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
    """Are the intervals conditional on the axes? If not, they include their uncertainty."""
    order: Indices
    """Variables by the factor they load on most."""
    factor_names: tuple[str, ...]
    """Empty where the factors are numbered."""


class Rule(NamedTuple):
    """The number of factors by one rule."""

    name: str
    number: int
    ours: bool
    """Is it the rule of this model?"""


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
        """The number of missing values."""
        return sum(number for _, number in self.by_column)


@dataclass(frozen=True, eq=False)
class ReportContent:
    """What a report shows. `shown` has the positions of the variables in it."""

    posterior: Posterior
    summary: Summary
    names: list[str]
    labels: list[str]
    """The wording of the variables that are shown, with labels of their values unless all share
    them; empty if none."""
    scale: str
    """Labels of values that all variables share, in words; empty if none."""
    shown: Indices
    axes: list[LoadingsOnAxes]
    factors: list[tuple[FactorLine, list[Item]]]
    """Factors on the fit's own axes, with the variables that load most."""
    explained: tuple[float, float, float]
    """Share of all variance that the factors explain: median and 95 % interval."""
    communality: tuple[Array, Interval]
    """Of the variables that are shown: medians and 95 % intervals."""
    rules: list[Rule]
    sample: Array | None
    """Correlations of the data, of the variables that are shown."""
    fitted: Array
    n_draws: int
    missing: MissingValues | None
    scores: Array | None
    thresholds: ThresholdTable
    """Of ordinal columns."""
    categories: CategoryTable
    notes: tuple[str, ...] = ()
    """Sentences on the data, from checks of the rows."""

    @property
    def n_factors(self) -> int:
        """K."""
        return self.posterior.n_active

    @property
    def described(self) -> dict[str, str]:
        """Names of all columns with their wording, by name."""
        names = self.posterior.column_names
        return dict(zip(names, described_names(names, self.posterior.column_labels), strict=True))

    @property
    def fit_info(self) -> FitInfo | None:
        """Record of the fit."""
        return self.posterior.fit_info

    @property
    def provenance(self) -> Provenance | None:
        """Provenance of the fit."""
        return self.posterior.provenance

    @property
    def number_given(self) -> bool:
        """Was the number of factors given, not inferred?"""
        return self.posterior.number_given


def gather(
    posterior: Posterior,
    draws: Draws | None = None,
    scores: Any = None,
    *,
    aligned: AlignedDraws | None = None,
    other_axes: bool = True,
    notes: Sequence[str] = (),
) -> ReportContent:
    """The content of a report. Without `draws` it makes them, the same every time.

    `aligned` are draws on the axes of the posterior, where they are known. `other_axes` asks for
    axes that are not the posterior's own too.
    """
    if aligned is None:
        draws = summary_draws(posterior) if draws is None else draws
        check_draws(draws, len(posterior.noise_variance))
        aligned = posterior.align(draws=draws)
    draws = aligned.draws
    summary = summarise(posterior, draws, aligned)
    names = posterior.column_names
    scale = ", ".join(scale_words(common_scale(names, posterior.value_labels)))
    labels = posterior.column_labels if scale else _labels(posterior)
    shown = _shown_variables(posterior.rotated_solution.loadings)
    flat = posterior.standardized_loadings[shown]
    sample = posterior.sample_correlation
    common = draws.communality
    choices = _choices(posterior) if other_axes else [posterior.rotation]
    axes = [_axes(posterior, aligned, posterior.rotation, shown, own=True)]
    axes += [_axes(posterior, _few(posterior, draws, one), one, shown) for one in choices[1:]]
    total = np.quantile(common.mean(axis=1), [0.5, 0.025, 0.975])
    return ReportContent(
        posterior=posterior,
        summary=summary,
        names=[names[j] for j in shown],
        labels=[labels[j] for j in shown],
        scale=scale,
        shown=shown,
        axes=axes,
        factors=[(line, _items(axes[0].table, h)) for h, line in enumerate(summary.factors)],
        explained=(float(total[0]), float(total[1]), float(total[2])),
        communality=(
            np.median(common[:, shown], axis=0),
            Interval(*np.quantile(common[:, shown], [0.025, 0.975], axis=0)),
        ),
        rules=_rules(posterior, summary),
        sample=None if sample is None else sample[np.ix_(shown, shown)],
        fitted=fitted_correlation(flat),
        n_draws=len(draws),
        missing=_missing_values(posterior, names),
        scores=_scores_to_show(scores, posterior),
        thresholds=posterior.threshold_table(draws=draws),
        categories=posterior.category_probabilities(draws=draws),
        notes=tuple(notes),
    )


def _shown_variables(loadings: Array) -> Indices:
    p, k = loadings.shape
    if p <= REPORT_VARIABLES:
        return np.arange(p)
    largest = np.max(np.abs(loadings), axis=1) if k else np.zeros(p)
    return np.sort(np.argsort(-largest, kind="stable")[:REPORT_VARIABLES])


def _labels(posterior: Posterior) -> list[str]:
    """The wording of each column, and the labels of its values."""
    found, known = [], posterior.value_labels
    for name, text in zip(posterior.column_names, posterior.column_labels, strict=True):
        values = known.get(name, {})
        scale = ", ".join(scale_words(sorted(values.items())))
        found.append(f"{text} ({scale})".strip() if scale else text)
    return found


# --- axes ---


def _choices(posterior: Posterior) -> list[Rotation | None]:
    """The fit's own axes first."""
    own = posterior.rotation
    if posterior.n_active < 2:
        return [own]
    found = [own, *([] if own is None else [None])]
    taken = {None if own is None else own.method}
    return found + [as_rotation(word) for word in OTHER_AXES if word not in taken]


def _few(posterior: Posterior, draws: Draws, rotation: Rotation | None) -> AlignedDraws:
    """Draws on axes that are not the fit's own."""
    if rotation is None:
        return posterior.align(None, draws=draws)
    # Evenly spread, as draws of a sampler are ordered by chain.
    few = np.linspace(0, len(draws) - 1, min(len(draws), OTHER_AXES_DRAWS)).astype(np.intp)
    draws = draws.some(few)
    quick = draws.loadings.size <= OTHER_AXES_LOADINGS
    return posterior.align(rotation, alignment=None if quick else "procrustes", draws=draws)


def _axes(
    posterior: Posterior,
    aligned: AlignedDraws,
    rotation: Rotation | None,
    shown: Indices,
    *,
    own: bool = False,
) -> LoadingsOnAxes:
    loadings, draws = aligned.reference.loadings, aligned.draws
    quick = own or draws.loadings.size <= OTHER_AXES_LOADINGS
    return LoadingsOnAxes(
        key="principal" if rotation is None else rotation.method,
        label=axes_name(rotation).capitalize(),
        oblique=rotation is not None and rotation.is_oblique,
        table=replace(aligned.table(columns=shown), mean=loadings[shown]),
        shares=_share_table(posterior, aligned, draws, rotation),
        correlations=aligned.reference.correlations,
        quality=aligned.quality,
        given=rotation is None or not quick,
        order=grouped_order(loadings[shown])[0],
        factor_names=posterior.presentation.factor_names if own else (),
    )


def _share_table(
    posterior: Posterior, aligned: AlignedDraws, draws: Draws, rotation: Rotation | None
) -> Array:
    """Medians and intervals of draws, as the summary has them."""
    drawn = draws.explained_variance_ratio if rotation is None else aligned.explained_variance_ratio
    return np.asarray(np.quantile(drawn, [0.5, 0.025, 0.975], axis=0).T[: posterior.n_active])


def _items(table: LoadingTable, h: int) -> list[Item]:
    best = np.argsort(-np.abs(table.mean[:, h]), kind="stable")[:FACTOR_ITEMS]
    return [table.item(j, h) for j in best]


# --- the number of factors ---


def _rules(posterior: Posterior, summary: Summary) -> list[Rule]:
    fit_info = posterior.fit_info
    found = [Rule("this model", posterior.n_active, True)]
    if posterior.n_active:
        words = f"more than {summary.large_share.short} of variance"
        found.append(Rule(words, summary.n_large, False))
    for point in map(summary.curve.find, (TOLERABLE, MORE_TOLERABLE)):
        if point is not None and point.model_error != posterior.model_error:
            words = f"model off by RMSEA {point.model_error:g}"
            found.append(Rule(words, point.n_factors, False))
    has_bound = fit_info is not None and not math.isnan(fit_info.lower_bound)
    if fit_info is not None and has_bound and len(fit_info.search) > 1:
        best = max(fit_info.search, key=lambda entry: entry.lower_bound)
        found.append(Rule("evidence lower bound", best.n_factors, False))
    if summary.parallel is not None:
        found.append(Rule("parallel analysis", summary.parallel, False))
    if summary.partial is not None:
        found.append(Rule("minimum average partial", summary.partial, False))
    return found


# --- the data ---


def _missing_values(posterior: Posterior, names: list[str]) -> MissingValues | None:
    lacking = posterior.n_rows - np.asarray(posterior.column_counts)
    order = np.argsort(-lacking, kind="stable")
    found = [(names[j], int(lacking[j])) for j in order if lacking[j] > 0]
    if not found:
        return None
    rows = posterior.rows  # None in a posterior that was loaded
    together: list[tuple[list[str], int]] = []
    complete = None
    if rows is not None:
        patterns, sizes = rows.data.patterns, rows.data.sizes
        complete = int(sizes[patterns.all(axis=1)].sum())
        lacks_some = np.flatnonzero(~patterns.all(axis=1) & (sizes >= PATTERN_ROWS))
        for one in sorted(lacks_some, key=lambda i: -sizes[i])[:SHOWN_PATTERNS]:
            lacked = [names[j] for j in np.flatnonzero(~patterns[one])]
            together.append((lacked, int(sizes[one])))
    return MissingValues(found, posterior.n_rows, together, complete)


def _scores_to_show(scores: Any, posterior: Posterior) -> Array | None:
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
