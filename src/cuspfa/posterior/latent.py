"""The posterior of a fit to ordinal columns, on the scale of their latent responses.

A latent response is z_ij = λ_jᵀη_i + ε_ij. Thresholds divide it into categories. Its noise variance
is 1 with the probit link and π²/3 with the logit link. Loadings, covariances and correlations are
those of latent responses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from scipy.special import expit, ndtr

from cuspfa._typing import Array, BoolArray, Indices, PosteriorKind, RandomState
from cuspfa._utils.arguments import generator, must_be, true_or_false, whole
from cuspfa.data.categories import Categories
from cuspfa.data.cells import NormalScores
from cuspfa.data.latent_correlations import ResponseKind, estimate_correlations
from cuspfa.diagnostics.ordinal_reliability import ordinal_omega
from cuspfa.errors import DataError, InputError
from cuspfa.model.likelihoods.base import hermite_nodes
from cuspfa.model.likelihoods.kinds import COUNT_KINDS, LikelihoodTable
from cuspfa.posterior.base import Posterior, Quantity, required_dispersion
from cuspfa.posterior.category_tables import CategoryTable, CountTable, ThresholdTable
from cuspfa.posterior.draws import N_DRAWS, Draws
from cuspfa.posterior.error_curve import CurveGap, ModelErrorCurve
from cuspfa.posterior.latent_entries import LatentEntries
from cuspfa.posterior.quantiles import tails
from cuspfa.rotation.axes import principal_axes

WIDEST_POLYCHORIC = 150
"""Columns up to which polychoric correlations are computed for the measures of fit."""
MOST_POLYCHORIC_VALUES = 10_000_000
"""Values of the rows, evenly spaced ones, that they are computed from."""
LOGIT_NODES = 41
"""Nodes of quadrature for the probability of a category with the logit link."""


class LatentParameters(NamedTuple):
    """Parameters beside the loadings; before each axis there may be one of draws."""

    mean: Array
    """(p,) locations; zero for ordinal columns."""
    noise_variance: Array
    """(p,)"""
    thresholds: Array
    """(T,), in the order of columns."""
    dispersion: Array
    """(D,) of negative binomial columns, in their order."""


class LatentDraws(NamedTuple):
    """Draws that are kept, chain after chain, on the scale of the engine."""

    loadings: Array
    """(S, p, K)"""
    parameters: LatentParameters
    """(S, …) each."""
    n_chains: int


class CellSweeps(Protocol):
    """The cells of a fit, kept in its process for draws, and never saved."""

    @property
    def rows(self) -> Array:
        """(n, p) the rows of the data, in the user's units."""

    @property
    def is_exact(self) -> bool:
        """Are draws made by exact sweeps?"""

    def draw(self) -> LatentDraws:
        """Draws, the same every time."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LatentPosterior(Posterior):
    """Mode of loadings and thresholds with the scores integrated out, and exact draws.

    The draws are made by Gibbs sweeps when they are first needed, and kept. No row of the data is
    in a file, a pickle or a copy.

    Attributes
    ----------
    columns : LikelihoodTable
        The likelihood of each column.
    loadings_mode : ndarray (p, K)
    parameters : LatentParameters
        The mode, on the scale of latent responses.
    frequencies : ndarray
        Number of answers in each category, column after column.
    counts : ndarray (p,)
        Values that each column has.
    categories : mapping
        Labels of categories, by the columns of a data frame that had any.
    transforms : mapping
        Functions to normal scores, by the columns that are analysed as these.
    mean_offset : float
        Of the rows of the fit, for log rates of counts.
    exact : bool
        Are draws exact? With model error they are those of the normal distribution at the mode.
    stored : LatentDraws or None
        Draws from a file.
    cells : CellSweeps or None
        The data for draws, in the process of the fit.
    """

    kind: ClassVar[PosteriorKind] = "latent"
    layout: ClassVar = LatentEntries()

    columns: LikelihoodTable
    loadings_mode: Array
    parameters: LatentParameters
    frequencies: Array
    counts: Array
    categories: Mapping[str, Categories] = field(default_factory=dict)
    transforms: Mapping[str, NormalScores] = field(default_factory=dict)
    mean_offset: float = 0.0
    exact: bool = True
    stored: LatentDraws | None = None
    cells: CellSweeps | None = None

    def __getstate__(self) -> dict[str, Any]:
        """With draws and correlations, as the rows behind them are left out."""
        if self._can_draw:
            _ = self.kept, self.sample_correlation
        return {**self.__dict__, "cells": None}

    @classmethod
    def from_entries(cls, content: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The posterior of a file, from checked entries and arrays of the right shapes."""
        (fields,) = cls.layout.values(content, arrays)
        mode, stored, knots = (fields.pop(name) for name in ("mode", "draws", "knots"))
        return cls(
            **fields,
            parameters=LatentParameters(**mode),
            transforms={name: NormalScores(*own) for name, own in knots.items()},
            stored=LatentDraws(
                stored["loadings"], LatentParameters(**stored["parameters"]), stored["n_chains"]
            ),
        )

    @property
    def likelihoods(self) -> LikelihoodTable:
        """The likelihood of each column, and why it has it."""
        return self.columns

    # --- the mode ---

    @property
    def n_active(self) -> int:
        """K."""
        return int(self.loadings_mode.shape[1])

    @property
    def active(self) -> Array:
        """(K,) ones: the number of factors is that of the fit."""
        return np.ones(self.n_active)

    @property
    def expected_active_factors(self) -> float:
        """E[H*] by the weights of the search; K where the number was given."""
        search = [] if self.fit_info is None else self.fit_info.search
        total = sum(one.weight for one in search)
        if not total > 0:
            return float(self.n_active)
        return float(sum(one.weight * one.n_factors for one in search) / total)

    @property
    def loadings(self) -> Array:
        """(p, K) the mode of the loadings of latent responses, in no particular rotation."""
        return self.scale[:, None] * self.loadings_mode

    @property
    def noise_variance(self) -> Array:
        """(p,) noise variances; of latent responses 1 with the probit link, π²/3 with logit."""
        return np.asarray(self.scale**2 * self.parameters.noise_variance)

    @property
    def mean(self) -> Array:
        """(p,) means of the columns; 0 of latent responses."""
        return np.asarray(self.center + self.scale * self.parameters.mean)

    @property
    def column_counts(self) -> Array:
        """(p,) values that each column has."""
        return self.counts

    @property
    def thresholds(self) -> tuple[Array, ...]:
        """Thresholds of each column, on the scale of latent responses of variance one.

        One fewer than its categories; empty for columns that are not ordinal.
        """
        return self.by_column(self.parameters.thresholds / self._sd[self._owner])

    @property
    def sample_correlation(self) -> Array | None:
        """Polychoric correlations of the data, (p, p), where the rows or these were kept.

        None with counts, whose correlations are not those of their log rates.
        """
        if self.correlation is None and self.cells is not None:
            if any(one.kind in COUNT_KINDS for one in self.columns):
                return None
            if self.cells.rows.shape[1] > WIDEST_POLYCHORIC:
                return None
            kinds: tuple[ResponseKind, ...] = tuple(
                "ordinal" if one.kind == "ordinal" else "continuous" for one in self.columns
            )
            rows = self.cells.rows[:: -(-self.cells.rows.size // MOST_POLYCHORIC_VALUES)]
            if np.any(np.nanmin(rows, axis=0) == np.nanmax(rows, axis=0)):
                return None
            try:
                found = estimate_correlations(rows, self.column_names, kinds).correlation
            except DataError:  # pairs without a row in common
                return None
            object.__setattr__(self, "correlation", found)
        return self.correlation

    @property
    def correlation_rows(self) -> None:
        """None: polychoric correlations are not those of a number of Gaussian rows."""
        return

    @cached_property
    def model_error_curve(self) -> ModelErrorCurve:
        """No curve: it is for Gaussian columns."""
        return ModelErrorCurve((), CurveGap.LIKELIHOOD)

    # --- draws ---

    @property
    def has_latent_responses(self) -> bool:
        """True."""
        return True

    @property
    def has_exact_draws(self) -> bool:
        """Are there exact draws, or the data for them?"""
        return self.exact and self._can_draw

    @property
    def _can_draw(self) -> bool:
        return self.stored is not None or "kept" in self.__dict__ or self.cells is not None

    @cached_property
    def kept(self) -> LatentDraws:
        """All draws, chain after chain."""
        if self.stored is not None:
            return self.stored
        if self.cells is None:
            raise InputError("This posterior has no draws and no data to make them from.")
        return self.cells.draw()

    def draw(
        self,
        n_draws: int = N_DRAWS,
        *,
        random_state: RandomState = 0,
        average_over_k: bool = False,
        population: bool = False,
    ) -> Draws:
        """Draws of loadings and thresholds, given the number of factors.

        They are made once, by exact sweeps from the mode, and kept. With model error there are no
        exact sweeps, and draws are those of the normal distribution at the mode.

        Parameters
        ----------
        n_draws : int, default=1000
            Number of draws; if fewer were kept, these are all given, chain after chain.
        random_state : None, int, numpy.random.Generator or RandomState, default=0
            Which ones, where fewer than all are asked for; None gives others each time.
        average_over_k : bool, default=False
            Must be False: the draws are given the number of factors.
        population : bool, default=False
            Must be False.

        Returns
        -------
        Draws
            With `thresholds`.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.load_bfi(subset="items").data[:300, :5]
        >>> model = CuspFactorAnalysis(n_factors=1, likelihood="ordinal").fit(X)
        >>> model.posterior_.draw(100).loadings.shape
        (100, 5, 1)
        """
        asked, rng = whole("n_draws", n_draws, 1), generator(random_state)
        for name, value in (("average_over_k", average_over_k), ("population", population)):
            if true_or_false(name, value):
                raise must_be(name, "False for likelihoods other than 'gaussian'", value)
        every = self.as_draws(self.kept)
        if asked >= len(every):
            return every
        return every.some(np.sort(rng.choice(len(every), asked, replace=False)))

    def with_population(self, draws: Draws, rng: np.random.Generator) -> Draws:
        """Refused: the population covariance of latent responses is not drawn."""
        raise must_be("population", "False for likelihoods other than 'gaussian'", True)

    def as_draws(self, drawn: LatentDraws, active: BoolArray | None = None) -> Draws:
        """Draws in the user's units."""
        loadings, known, _ = drawn
        return Draws(
            loadings * self.scale[:, None],
            known.noise_variance * self.scale**2,
            self.center + known.mean * self.scale,
            active,
            thresholds=known.thresholds,
            dispersion=known.dispersion,
        )

    def draws_by_chain(self, n_draws: int = N_DRAWS, random_state: RandomState = 0) -> Draws:
        """All draws that were kept, chain after chain."""
        return self.draw(len(self.kept.loadings))

    # --- thresholds and categories ---

    @property
    def _ends(self) -> Indices:
        """(p,) ends of the thresholds of each column among all of them."""
        sizes = [max(len(one.levels) - 1, 0) for one in self.likelihoods]
        return np.cumsum(sizes).astype(np.intp)

    @property
    def _owner(self) -> Indices:
        """(T,) the column of each threshold."""
        return np.repeat(np.arange(len(self.scale)), np.diff(self._ends, prepend=0))

    def by_column(self, thresholds: Array) -> tuple[Array, ...]:
        """Thresholds (…, T) of all columns by column."""
        return tuple(np.split(thresholds, self._ends[:-1], axis=-1))

    @property
    def threshold_names(self) -> list[str]:
        """Such as "Q1: 2|3", for each threshold."""
        pairs = zip(self.column_names, self.likelihoods, strict=True)
        return [
            f"{name}: {low}|{high}" for name, one in pairs for low, high in pairwise(one.levels)
        ]

    def level_labels(self, j: int) -> list[str]:
        """Labels of the levels of a column: words of the data, or the numbers."""
        name, levels = self.column_names[j], self.likelihoods[j].levels
        if name in self.categories:
            return [self.categories[name][level] for level in levels]
        known = self.value_labels.get(name, {})
        return [known.get(float(level), str(level)) for level in levels]

    def thresholds_of(self, columns: Indices) -> tuple[Indices, list[str]]:
        """Positions and names of the thresholds of some columns, in the order of all."""
        at = np.flatnonzero(np.isin(self._owner, columns))
        return at, [self.threshold_names[i] for i in at]

    def rare_categories(self, fewest: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Categories with fewer rows than this; those within a scale, or with a label, with none.

        Each is named as "column: category".
        """
        rare, empty, place = [], [], 0
        for j, (name, one) in enumerate(zip(self.column_names, self.columns, strict=True)):
            labels = self.level_labels(j)
            counts = self.frequencies[place : place + len(one.levels)]
            place += len(one.levels)
            pairs = zip(labels, counts, strict=True)
            rare += [f"{name}: {label}" for label, count in pairs if count < fewest]
            words = dict(enumerate(self.categories.get(name, ())))
            known = {int(value): label for value, label in self.value_labels.get(name, {}).items()}
            words = words or known
            possible = set(words) | set(_scale(one.levels))
            missing = sorted(possible - set(one.levels)) if one.levels else []
            empty += [f"{name}: {words.get(level, str(level))}" for level in missing]
        return tuple(rare), tuple(empty)

    def standardized_thresholds(self, draws: Draws) -> Array:
        """(n_draws, T) thresholds of draws, for latent responses of variance one."""
        thresholds = self._required_thresholds(draws)
        variance = np.sum(draws.loadings**2, axis=2) + draws.noise_variance
        return np.asarray(thresholds / np.sqrt(variance)[:, self._owner])

    def _check_quantity(self, quantity: Quantity) -> None:
        super()._check_quantity(quantity)
        if quantity == "mean" and all(one.kind == "ordinal" for one in self.columns):
            raise InputError(
                "quantity must not be 'mean' for ordinal columns: use 'thresholds' for their "
                "location."
            )

    def category_probabilities(
        self, prob: float = 0.95, *, draws: Draws | None = None
    ) -> CategoryTable:
        """Observed and predicted share of each category of the ordinal columns.

        Parameters
        ----------
        prob : float, default=0.95
            Probability of the intervals.
        draws : Draws or None, default=None
            Draws to use; None takes all.

        Returns
        -------
        CategoryTable
            A row for each category.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.load_bfi(subset="items").data[:300, :5]
        >>> model = CuspFactorAnalysis(n_factors=1, likelihood="ordinal").fit(X)
        >>> table = model.posterior_.category_probabilities().to_frame()
        >>> list(table.columns)[:4]
        ['column', 'category', 'label', 'count']
        """
        at = tails(prob)
        draws = self.draws_by_chain() if draws is None else draws
        drawn = self.by_column(self._required_thresholds(draws))
        common = np.sum(draws.loadings**2, axis=2)
        own = self.by_column(self.parameters.thresholds)
        own_common = np.sum(self.loadings**2, axis=1)
        found, place = CategoryTable(), 0
        for j, one in enumerate(self.likelihoods):
            if not one.levels:
                continue
            counts = self.frequencies[place : place + len(one.levels)]
            place += len(one.levels)
            chances = category_chances(drawn[j], common[:, j], one.link)
            lower, upper = np.quantile(chances, at, axis=0)
            columns = zip(
                one.levels,
                self.level_labels(j),
                counts,
                counts / max(counts.sum(), 1.0),
                category_chances(own[j], own_common[j], one.link),
                lower,
                upper,
                strict=True,
            )
            for level, label, count, observed, predicted, low, high in columns:
                found.append(
                    {
                        "column": self.column_names[j],
                        "category": level,
                        "label": label,
                        "count": int(count),
                        "observed": float(observed),
                        "predicted": float(predicted),
                        "lower": float(low),
                        "upper": float(high),
                    }
                )
        return found

    def threshold_table(self, prob: float = 0.95, *, draws: Draws | None = None) -> ThresholdTable:
        """Thresholds of latent responses of variance one, with intervals.

        Parameters
        ----------
        prob : float, default=0.95
            Probability of the intervals.
        draws : Draws or None, default=None
            Draws to use; None takes all.

        Returns
        -------
        ThresholdTable

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.load_bfi(subset="items").data[:300, :5]
        >>> model = CuspFactorAnalysis(n_factors=1, likelihood="ordinal").fit(X)
        >>> len(model.posterior_.threshold_table())
        25
        """
        own = np.concatenate([np.zeros(0), *self.thresholds])
        if not len(own):
            return ThresholdTable()
        draws = self.draws_by_chain() if draws is None else draws
        lower, upper = self.interval("thresholds", prob, draws=draws)
        pairs = [
            (name, low, high)
            for name, one in zip(self.column_names, self.columns, strict=True)
            for low, high in pairwise(one.levels)
        ]
        return ThresholdTable(
            {
                "column": name,
                "below": below,
                "above": above,
                "threshold": float(value),
                "lower": float(low),
                "upper": float(high),
            }
            for (name, below, above), value, low, high in zip(pairs, own, lower, upper, strict=True)
        )

    @property
    def dispersed(self) -> Indices:
        """(D,) positions of negative binomial columns."""
        return np.flatnonzero([one.kind == "negative_binomial" for one in self.columns])

    def count_table(self, prob: float = 0.95, *, draws: Draws | None = None) -> CountTable:
        """Log rates and dispersions of the columns of counts, with intervals.

        The log rate is that of a row with scores and an offset of zero. The variance of a count
        with the mean m is m + m²/r, with the dispersion r.

        Parameters
        ----------
        prob : float, default=0.95
            Probability of the intervals.
        draws : Draws or None, default=None
            Draws to use; None takes all.

        Returns
        -------
        CountTable

        Examples
        --------
        >>> import numpy as np
        >>> from cuspfa import CuspFactorAnalysis
        >>> rng = np.random.default_rng(0)
        >>> X = rng.poisson(np.exp(1 + 0.5 * rng.normal(size=(80, 1)) * np.ones(4)))
        >>> model = CuspFactorAnalysis(n_factors=1, likelihood="negative_binomial").fit(X)
        >>> list(model.posterior_.count_table().to_frame().columns)[:2]
        ['column', 'log_rate']
        """
        at, found = tails(prob), CountTable()
        counts = [j for j, one in enumerate(self.columns) if one.kind in COUNT_KINDS]
        if not counts:
            return found
        draws = self.draws_by_chain() if draws is None else draws
        assert draws.mean is not None
        low, high = np.quantile(draws.mean[:, counts], at, axis=0)
        place = {int(j): number for number, j in enumerate(self.dispersed)}
        drawn = required_dispersion(draws)
        for number, j in enumerate(counts):
            own, ends = np.inf, (np.inf, np.inf)
            if j in place:
                own = float(self.parameters.dispersion[place[j]])
                ends = tuple(np.quantile(drawn[:, place[j]], at).tolist())
            found.append(
                {
                    "column": self.column_names[j],
                    "log_rate": float(self.mean[j]),
                    "log_rate_lower": float(low[number]),
                    "log_rate_upper": float(high[number]),
                    "dispersion": own,
                    "lower": ends[0],
                    "upper": ends[1],
                }
            )
        return found

    @cached_property
    def answers_omega(self) -> float:
        """ω of the sum of the answers, keyed by the first factor (Green & Yang, 2009).

        NaN unless all columns are ordinal with the probit link.
        """
        loadings = principal_axes(self.standardized_loadings)
        if not loadings.shape[1] or {one.link for one in self.columns} != {"probit"}:
            return float("nan")
        keys = np.where(loadings[:, 0] < 0, -1.0, 1.0)
        levels = [np.array(one.levels, dtype=float) for one in self.columns]
        return ordinal_omega(loadings, self.thresholds, levels, keys)

    def _required_thresholds(self, draws: Draws) -> Array:
        if draws.thresholds is None:
            raise must_be("draws", "draws of this posterior, with thresholds", "draws without")
        return draws.thresholds


def _scale(levels: Sequence[int]) -> range:
    """The whole numbers from the lowest level to the highest, unless these are far apart."""
    if not levels or levels[-1] - levels[0] > 2 * len(levels):
        return range(0)
    return range(levels[0], levels[-1] + 1)


def category_chances(thresholds: Array, common: Any, link: str) -> Array:
    """(…, C) P(x = c) for thresholds (…, C − 1) of a latent response whose common variance is
    `common` (…), scores integrated out.
    """
    spread = np.sqrt(np.asarray(common, dtype=float))[..., None]
    if link == "probit":
        below = ndtr(thresholds / np.sqrt(1.0 + spread**2))
    else:
        nodes = zip(*hermite_nodes(LOGIT_NODES), strict=True)
        below = sum(weight * expit(thresholds - node * spread) for node, weight in nodes)
    ends = np.zeros((*below.shape[:-1], 1))
    return np.asarray(np.diff(np.concatenate([ends, below, ends + 1.0], axis=-1), axis=-1))
