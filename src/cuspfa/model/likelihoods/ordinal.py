"""Ordered categories by cut-points: P(x_ij ≤ c | f_ij) = F(κ_jc − f_ij).

F is the normal distribution (probit) or the logistic one (logit). Two levels make a binary column.
The cut-points contain the location of a column, so that f_ij = λ_jᵀη_i has no intercept, and its
scale is that of F.

A priori the C − 1 cut-points of a column have the density

    Π_c N(κ_c; 0, `cut_sd`²) Π_c (κ_c − κ_{c−1})^(a − 1),    in order,

a = `gap_shape`. With a = 1 they are normal numbers in order. The scale of a column is that of its
noise, so that cut-points grow with the loadings: with a = 1 the prior prefers large loadings, by
(1 + λᵀλ)^½ for each cut-point, and items with many categories have factors where there are none.
With a = 0 there is one such term for each column. Small differences then make the density improper:
evidence is known up to a constant, which all numbers of factors share. The posterior is proper, as
each category has a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa._utils.arguments import one_of, positive
from cuspfa.errors import DataError
from cuspfa.inference._kernels import kernel
from cuspfa.model.likelihoods.base import (
    QUADRATURE_NODES,
    TILTED_NODES,
    CellExpectations,
    ColumnParameters,
    Intervals,
    PseudoData,
    ResponsePrior,
    TiltedMoments,
    WithPseudoData,
    further_by_quadrature,
    hermite_nodes,
    tilted_by_quadrature,
)
from cuspfa.model.likelihoods.links import (
    LINKS,
    LOG_ROOT_2PI,
    LOGIT,
    OUTERMOST,
    PROBIT,
    Link,
    probit_further,
)
from cuspfa.model.likelihoods.responses import (
    draw_logistic_precision,
    truncated_logistic,
    truncated_normal,
)

MOST_LEVELS = 20
"""More distinct values are not taken for ordered categories."""
CELLS_AT_ONCE = 8000
"""Of a block of cells, whose arrays stay in the cache of a processor."""
LOGISTIC_SD = math.pi / math.sqrt(3.0)
"""Standard deviation of the logistic distribution."""
CUT_MOVES = 2
"""Metropolis steps for the cut-points in each sweep."""
CUT_STEP = 1.5
"""Length of their proposals, in standard deviations of a cut-point given all else."""


@dataclass(frozen=True)
class OrdinalLikelihood(WithPseudoData):
    """q ordinal columns with the same link; made by `of` from the rows of a fit."""

    levels: tuple[tuple[int, ...], ...]
    """The values of each column that the fit had, in order."""
    names: tuple[str, ...]
    """Names of the columns in messages."""
    link: Link = "probit"
    cut_sd: float = 5.0
    gap_shape: float = 0.0
    """0 for fits. Above 0 the prior is proper, so that cut-points can be drawn from it."""

    def __post_init__(self) -> None:
        one_of("link", self.link, ("probit", "logit"))
        positive("cut_sd", self.cut_sd)

    @classmethod
    def of(
        cls,
        rows: Any,
        names: tuple[str, ...] | None = None,
        link: Link = "probit",
        cut_sd: float = 5.0,
    ) -> OrdinalLikelihood:
        """The likelihood of these rows: the levels of a column are the values it has."""
        table = np.asarray(rows, dtype=float)
        names = tuple(f"column {j}" for j in range(table.shape[1])) if names is None else names
        levels = tuple(_levels(column, name) for column, name in zip(table.T, names, strict=True))
        return cls(levels, names, link, cut_sd)

    @property
    def n_levels(self) -> Indices:
        """(q,) number of levels of each column."""
        return np.array([len(own) for own in self.levels], dtype=np.intp)

    def check(self, rows: Any) -> Array:
        """Positions of the values among the levels; NaN where missing."""
        table = np.asarray(rows, dtype=float)
        values = np.full(table.shape, np.nan)
        for j, (column, own) in enumerate(zip(table.T, self.levels, strict=True)):
            observed = ~np.isnan(column)
            place = np.searchsorted(own, column[observed])
            known = np.asarray(own)[np.minimum(place, len(own) - 1)] == column[observed]
            if not np.all(known):
                strange = column[observed][~known][0]
                raise DataError(
                    f"Values of {self.names[j]} must be categories that the fit has seen, "
                    f"{_listed(own)}. Got {strange:g} instead."
                )
            values[observed, j] = place
        return values

    def initial(self, values: Array) -> Array:
        """Cut-points (q, C − 1) of the observed shares, +∞ where a column has fewer levels."""
        cuts = np.full((len(self.levels), int(self.n_levels.max()) - 1), np.inf)
        for j, own in enumerate(self.levels):
            column = values[:, j]
            counts = np.bincount(column[~np.isnan(column)].astype(int), minlength=len(own)) + 0.5
            below = np.cumsum(counts)[:-1] / counts.sum()
            cuts[j, : len(own) - 1] = ndtri(below) if self.link == "probit" else logit(below)
        return cuts

    def limits(self, values: Array, cuts: Array) -> tuple[Array, Array]:
        """κ below and above each cell, of the shape of `values`; both far out where missing.

        Cut-points may be (…, q, C − 1), one set for each chain.
        """
        padded = _padded(cuts)
        missing = np.isnan(values)
        codes = np.where(missing, 0.0, values).astype(np.intp)
        if cuts.ndim == 2:
            columns = np.arange(cuts.shape[0])
            lower, upper = padded[columns, codes], padded[columns, codes + 1]
        else:
            turned = padded.swapaxes(-1, -2)
            lower = np.take_along_axis(turned, codes, axis=-2)
            upper = np.take_along_axis(turned, codes + 1, axis=-2)
        return np.where(missing, -OUTERMOST, lower), np.where(missing, OUTERMOST, upper)

    def expectations(
        self, values: Array, mean: Array, variance: Array, parameters: Array
    ) -> CellExpectations:
        """By quadrature."""
        found = CellExpectations(*np.zeros((3, *mean.shape)))
        for at, lower, upper, sd in self._blocks(values, mean, np.sqrt(variance), parameters):
            cells = np.zeros((3, len(at)))
            for node, weight in zip(*hermite_nodes(QUADRATURE_NODES), strict=True):
                low, high = lower - node * sd, upper - node * sd
                terms = LINKS[self.link].terms(low, high)
                cells[0] += weight * terms.log_probability
                cells[1] += weight * terms.slope
                cells[2] += weight * LINKS[self.link].curvature(low, high, terms)
            for whole, cell in zip(found, cells, strict=True):
                whole.flat[at] = cell
        return found

    def tilted(
        self, values: Array, mean: Array, variance: Array, parameters: Array
    ) -> TiltedMoments:
        """In closed form with the probit link, else by quadrature."""
        lower, upper = self.limits(values, parameters)
        if self.link == "logit":

            def log_density(linear: Array) -> Array:
                return LINKS[self.link].terms(lower - linear, upper - linear).log_probability

            return tilted_by_quadrature(log_density, mean, variance)
        sd = np.sqrt(1.0 + variance)
        lower, upper = (lower - mean) / sd, (upper - mean) / sd
        terms = PROBIT.terms(lower, upper)
        curvature = PROBIT.curvature(lower, upper, terms) / (1.0 + variance)
        return TiltedMoments(terms.log_probability, terms.slope / sd, curvature)

    def tilted_further(
        self, values: Array, mean: Array, variance: Array, parameters: Array
    ) -> tuple[Array, Array]:
        """In closed form with the probit link, else by quadrature."""
        lower, upper = self.limits(values, parameters)
        if self.link == "logit":

            def log_density(linear: Array) -> Array:
                return LOGIT.terms(lower - linear, upper - linear).log_probability

            return further_by_quadrature(log_density, mean, variance)
        sd = np.sqrt(1.0 + variance)
        third, fourth = probit_further((lower - mean) / sd, (upper - mean) / sd)
        return third / sd**3, fourth / sd**4

    def tilted_cut_slopes(
        self, values: Array, mean: Array, variance: Array, cuts: Array
    ) -> tuple[Array, Array]:
        """Derivatives of the normalizer of `tilted` by the cut-points above and below, (n, q)."""
        lower, upper = self.limits(values, cuts)
        if self.link == "probit":
            sd = np.sqrt(1.0 + variance)
            terms = PROBIT.terms((lower - mean) / sd, (upper - mean) / sd)
            return terms.a / sd, -terms.b / sd
        nodes, weights = hermite_nodes(TILTED_NODES)
        above, below, total = np.zeros((3, *mean.shape))
        for node, weight in zip(nodes, weights, strict=True):
            f = mean + node * np.sqrt(variance)
            terms = LOGIT.terms(lower - f, upper - f)
            part = weight * np.exp(terms.log_probability)
            total += part
            above += part * terms.a
            below -= part * terms.b
        return above / total, below / total

    def shifted(self, parameters: Array, amount: Array) -> Array:
        """Cut-points κ_j + amount_j."""
        return np.asarray(parameters + amount[..., None])

    def start(self, values: Array, shares: Array) -> tuple[Array, Array]:
        """Cut-points of the observed shares of categories, on the scale of the noise."""
        sd = 1.0 / np.sqrt(1.0 - shares)
        if self.link == "logit":
            # `initial` has the quantiles of the logistic distribution already.
            return self.initial(values) * sd[:, None], LOGISTIC_SD * sd
        return self.initial(values) * sd[:, None], sd

    @property
    def n_packed(self) -> int:
        """All cut-points."""
        return int(np.sum(self.n_levels - 1))

    def pack(self, parameters: Array) -> Array:
        """The first cut-point of each column and the logarithms of the differences, (…, m)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            gaps = np.log(np.diff(parameters, axis=-1))
        numbers = np.concatenate([parameters[..., :1], gaps], axis=-1)
        return np.asarray(numbers[..., self._finite])

    def unpack(self, packed: Array) -> Array:
        """Cut-points (…, q, C − 1)."""
        finite = self._finite
        numbers = np.zeros((*packed.shape[:-1], *finite.shape))
        numbers[..., finite] = packed
        numbers[..., 1:] = np.exp(numbers[..., 1:])
        return np.where(finite, np.cumsum(numbers, axis=-1), np.inf)

    def log_packed_prior(self, packed: Array) -> Array:
        """With the Jacobian of the logarithms, which takes away the −1 of each exponent."""
        return np.asarray(self.log_packed_density(self.unpack(packed)).sum(axis=-1))

    def packed_prior_derivatives(self, packed: Array) -> tuple[Array, Array]:
        """The curvature is that of the cut-points, without the part of the gradient."""
        cuts, finite, shrink = self.unpack(packed), self._finite, self.cut_sd**-2
        jacobian = _jacobian(cuts) * finite[:, :, None]
        towards = np.einsum("jck,jc->jk", jacobian, np.where(finite, cuts, 0.0))
        gradient = self.gap_shape * self._is_gap - shrink * towards[finite]
        curvature = np.zeros((len(gradient), len(gradient)))
        own = shrink * np.einsum("jck,jcl->jkl", jacobian, jacobian)
        first = 0
        for block, count in zip(own, finite.sum(axis=1), strict=True):
            at = slice(first, first + count)
            curvature[at, at] = block[:count, :count]
            first += count
        return gradient, curvature

    def intervals(self, values: Array, parameters: Array) -> Intervals | None:
        """Between cut-points, with a noise of one; None with the logit link."""
        if self.link == "logit":
            return None
        lower, upper = self.limits(values, parameters)
        lower[np.isnan(values)] = np.nan
        return Intervals(lower, upper, np.ones(len(parameters)))

    def tilted_gradient(
        self, values: Array, mean: Array, variance: Array, parameters: Array
    ) -> Array:
        """By the slopes of the cut-points above and below each cell."""
        above, below = self.tilted_cut_slopes(values, mean, variance, parameters)
        codes = np.where(np.isnan(values), -1.0, values)
        found = np.empty((*values.shape, parameters.shape[1]))
        found[:, :, 0] = above + below
        for c in range(1, parameters.shape[1]):
            with np.errstate(invalid="ignore"):
                gap = parameters[:, c] - parameters[:, c - 1]
            own = np.where(codes >= c, above, 0.0) + np.where(codes > c, below, 0.0)
            found[:, :, c] = np.where(self._finite[:, c], gap, 0.0) * own
        return np.asarray(found[:, self._finite])

    @property
    def _finite(self) -> BoolArray:
        """(q, C − 1) which places of the array of cut-points a column uses."""
        counts = self.n_levels - 1
        return np.asarray(np.arange(counts.max()) < counts[:, None], dtype=np.bool_)

    @property
    def _is_gap(self) -> BoolArray:
        """(m,) which packed parameters are logarithms of differences."""
        finite = self._finite
        places = np.broadcast_to(np.arange(finite.shape[1]), finite.shape)
        return np.asarray(places[finite] > 0, dtype=np.bool_)

    @property
    def exact_information(self) -> BoolArray:
        """None."""
        return np.zeros(len(self.names), dtype=np.bool_)

    @property
    def packed_owner(self) -> Indices:
        """All cut-points of a column, after those of the one before."""
        return np.repeat(np.arange(len(self.names)), self.n_levels - 1)

    def draw(
        self, values: Array, linear: Array, parameters: Array, rng: np.random.Generator
    ) -> tuple[Array, PseudoData]:
        """Metropolis steps for the cut-points, then the responses between them.

        Responses with the logit link are normal given precisions, which have Pólya–gamma
        distributions: the logistic density is their mixture.
        """
        cuts = self._draw_cuts(values, linear, parameters, rng)
        if self.link == "probit":
            z = self._draw_normal_responses(values, linear, cuts, rng)
            return cuts, PseudoData(z, np.ones(linear[:, 0].shape))
        lower, upper = self.limits(np.broadcast_to(values, linear.shape), cuts)
        residual = truncated_logistic(lower - linear, upper - linear, rng)
        return cuts, PseudoData(linear + residual, draw_logistic_precision(residual, rng))

    def _draw_normal_responses(
        self, values: Array, linear: Array, cuts: Array, rng: np.random.Generator
    ) -> Array:
        core = kernel("cells")
        if core is not None and values.ndim == 2:
            drawn = rng.random(linear.shape)
            core.responses_between(*_for_core(values, linear, cuts), drawn)
            return drawn
        lower, upper = self.limits(np.broadcast_to(values, linear.shape), cuts)
        return np.asarray(linear + truncated_normal(lower - linear, upper - linear, rng))

    def _log_probabilities(self, values: Array, linear: Array, cuts: Array) -> Array:
        """Σ_i ℓ_ij, (B, q), of chains."""
        core = kernel("cells")
        if core is not None and values.ndim == 2 and self.link == "probit":
            found = np.empty(cuts.shape[:2])
            core.log_probabilities(*_for_core(values, linear, cuts), found)
            return found
        return np.asarray(self.log_density(values, linear, cuts).sum(axis=1))

    def _draw_cuts(
        self, values: Array, linear: Array, cuts: Array, rng: np.random.Generator
    ) -> Array:
        """Metropolis steps for the cut-points of each column given f, without responses."""
        counts = np.maximum(np.sum(~np.isnan(values), axis=-2), 1)
        sizes = self.n_levels - 1
        lengths = CUT_STEP / np.sqrt(counts * sizes / 2.0)
        lengths = lengths * (LOGISTIC_SD if self.link == "logit" else 1.0)

        def log_target(at: Array) -> Array:
            own = self._log_probabilities(values, linear, at)
            return np.asarray(own + self.log_cut_density(at))

        here = log_target(cuts)
        for _ in range(CUT_MOVES):
            length = (lengths * np.exp(rng.uniform(-1.5, 0.5, size=cuts.shape[:2])))[..., None]
            proposal = cuts + length * rng.standard_normal(cuts.shape)
            with np.errstate(invalid="ignore"):
                ordered = np.all(~(np.diff(proposal, axis=-1) <= 0.0), axis=-1)
            safe = np.where(ordered[..., None], proposal, cuts)
            there = log_target(safe)
            moved = ordered & (-rng.standard_exponential(here.shape) < there - here)
            cuts = np.where(moved[..., None], safe, cuts)
            here = np.where(moved, there, here)
        return cuts

    def response_prior(self, parameters: Array) -> ResponsePrior:
        """Of cut-points, normal and in order, and of their differences."""
        finite, shrink = np.isfinite(parameters), self.cut_sd**-2
        cuts, counts = np.where(finite, parameters, 0.0), finite.sum(axis=-1).astype(float)
        return ResponsePrior(
            shrink * counts,
            shrink * cuts.sum(axis=-1),
            1.0 + self.gap_shape * (counts - 1.0),
            shrink * np.sum(cuts**2, axis=-1),
            np.ones(parameters.shape[-2], dtype=bool),
        )

    def rescaled(self, parameters: Array, factor: Array) -> Array:
        """Cut-points times factor."""
        return np.asarray(parameters * factor[..., None])

    def log_cut_density(self, cuts: Array) -> Array:
        """Log density of the cut-points of each column, (…, q)."""
        return self._log_ordered(cuts, self.gap_shape - 1.0)

    def log_packed_density(self, cuts: Array) -> Array:
        """Log density of the first cut-point and the logarithms of the differences, (…, q)."""
        return self._log_ordered(cuts, self.gap_shape)

    def _log_ordered(self, cuts: Array, power: float) -> Array:
        """That of normal numbers in order, with a power of the differences."""
        own = self._log_normal(cuts)
        return np.asarray(own + power * _log_gaps(cuts)) if power else own

    def _log_normal(self, cuts: Array) -> Array:
        """Log density of the order statistics of C − 1 normal numbers, by column (…, q)."""
        finite = np.isfinite(cuts)
        scaled = np.where(finite, cuts, 0.0) / self.cut_sd
        constant = math.log(self.cut_sd) + LOG_ROOT_2PI
        orders = np.array([math.lgamma(count) for count in self.n_levels])
        return np.asarray(orders - np.sum(0.5 * scaled**2 + constant * finite, axis=-1))

    def response_variance(self, parameters: Array) -> Array:
        """The variance of F for each column."""
        variance = LOGISTIC_SD**2 if self.link == "logit" else 1.0
        return np.full(parameters.shape[:-1], variance)

    def log_density(self, values: Array, linear: Array, parameters: Array) -> Array:
        """The log of P(x_ij | f_ij); 0 where missing."""
        if parameters.ndim > 2:
            values = np.broadcast_to(values, linear.shape)
        lower, upper = self.limits(values, parameters)
        return LINKS[self.link].terms(lower - linear, upper - linear).log_probability

    def sample(self, linear: Array, parameters: Array, rng: np.random.Generator) -> Array:
        """Categories, as a user has them."""
        uniform = rng.random(linear.shape)
        response = linear + (ndtri(uniform) if self.link == "probit" else logit(uniform))
        codes = np.sum(response[..., None] > parameters, axis=-1)
        return self._as_given(codes)

    def mean(self, mean: Array, variance: Array, parameters: Array) -> Array:
        """Expected categories, as numbers."""
        chances = self.probabilities(mean, variance, parameters)
        numbers = np.zeros((len(parameters), parameters.shape[-1] + 1))
        for j, own in enumerate(self.levels):
            numbers[j, : len(own)] = own
        return np.asarray(np.sum(chances * numbers, axis=-1))

    def probabilities(self, mean: Array, variance: Array, parameters: Array) -> Array:
        """P(x_ij = c) for f_ij ~ N(mean, variance), (n, q, C)."""
        padded = _padded(parameters)
        if self.link == "probit":
            below = ndtr((padded - mean[..., None]) / np.sqrt(1.0 + variance)[..., None])
        else:
            below = np.zeros((*mean.shape, padded.shape[-1]))
            for node, weight in zip(*hermite_nodes(QUADRATURE_NODES), strict=True):
                below += weight * expit(padded - (mean + node * np.sqrt(variance))[..., None])
        return np.asarray(np.maximum(np.diff(below, axis=-1), 0.0))

    def by_column(self, parameters: Array) -> ColumnParameters:
        """Cut-points without those that only fill up the array."""
        variance = self.response_variance(parameters)
        cuts = [parameters[..., j, : len(own) - 1] for j, own in enumerate(self.levels)]
        none = np.full(variance.shape, np.inf)
        return ColumnParameters(np.zeros_like(variance), variance, cuts, none)

    def from_columns(self, known: ColumnParameters) -> Array:
        """Cut-points (q, C − 1)."""
        cuts = np.full((len(self.levels), int(self.n_levels.max()) - 1), np.inf)
        for row, own in zip(cuts, known.thresholds, strict=True):
            row[: len(own)] = own
        return cuts

    def _as_given(self, codes: Indices) -> Array:
        values = np.empty(codes.shape)
        for j, own in enumerate(self.levels):
            values[..., j] = np.asarray(own, dtype=float)[codes[..., j]]
        return values

    def _blocks(
        self, values: Array, mean: Array, sd: Array, cuts: Array
    ) -> Iterator[tuple[Indices, Array, Array, Array]]:
        """Places of observed cells by blocks, with κ − E[f] below and above and the sd of f."""
        lower, upper = self.limits(values, cuts)
        places = np.flatnonzero(~np.isnan(values))
        for first in range(0, len(places), CELLS_AT_ONCE):
            at = places[first : first + CELLS_AT_ONCE]
            center = mean.flat[at]
            yield at, lower.flat[at] - center, upper.flat[at] - center, sd.flat[at]


def _for_core(values: Array, linear: Array, cuts: Array) -> tuple[Indices, Array, Array]:
    """Codes, −1 where missing, f and the ends of categories, as compiled code has them."""
    codes = np.where(np.isnan(values), -1.0, values).astype(np.intp)
    ends = np.ascontiguousarray(_padded(cuts))
    return np.ascontiguousarray(codes), np.ascontiguousarray(linear), ends


def _padded(cuts: Array) -> Array:
    """Cut-points between −∞ and +∞, (…, q, C + 1), as finite numbers."""
    ends = np.full((*cuts.shape[:-1], 1), OUTERMOST)
    return np.concatenate([-ends, np.minimum(cuts, OUTERMOST), ends], axis=-1)


def _log_gaps(cuts: Array) -> Array:
    """Σ_c log(κ_c − κ_{c−1}) of each column, (…, q)."""
    with np.errstate(invalid="ignore"):
        gaps = np.diff(cuts, axis=-1)
    return np.asarray(np.log(np.where(np.isfinite(gaps), gaps, 1.0)).sum(axis=-1))


def _jacobian(cuts: Array) -> Array:
    """∂κ_c/∂θ_k, (q, C − 1, C − 1): 1 for k = 1, the difference for 1 < k ≤ c."""
    gaps = np.ones_like(cuts)
    finite = np.isfinite(cuts[:, 1:])
    with np.errstate(invalid="ignore"):
        gaps[:, 1:] = np.where(finite, np.diff(cuts, axis=1), 0.0)
    size = cuts.shape[1]
    return np.asarray(np.tril(np.ones((size, size))) * gaps[:, None, :])


def _levels(column: Array, name: str) -> tuple[int, ...]:
    """The distinct values of a column, or a DataError."""
    observed = column[~np.isnan(column)]
    bad = observed[(observed < 0) | (observed != np.floor(observed)) | np.isinf(observed)]
    if len(bad):
        raise DataError(
            f"Values of {name} must be categories coded as whole numbers from 0 on. "
            f"Got {bad[0]:g} instead."
        )
    found = np.unique(observed).astype(int)
    if len(found) < 2:
        what = f"only the value {found[0]}" if len(found) else "no value"
        raise DataError(
            f"Values of {name} must have at least two categories. Got {what} instead; drop the "
            "column."
        )
    if len(found) > MOST_LEVELS:
        raise DataError(
            f"Values of {name} must have at most {MOST_LEVELS} categories. Got {len(found)} "
            "instead; use it as a continuous column, or join categories."
        )
    return tuple(int(value) for value in found)


def _listed(levels: tuple[int, ...]) -> str:
    return ", ".join(str(level) for level in levels)
