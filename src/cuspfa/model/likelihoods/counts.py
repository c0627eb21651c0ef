"""Counts by log rates: x_ij has the mean m_ij = exp(μ_j + o_i + f_ij), with offsets o_i.

Counts are Poisson, or negative binomial with the variance m + m²/r_j: r_j, the dispersion of a
column, is learned. It is infinite for Poisson counts. A negative binomial count is a Poisson one
whose rate is m times a gamma number with the shape r and the mean one. The logarithm of this number
has the variance ψ′(r), the trigamma function: the response variance of a column.

Values are (n, q + 1) arrays: the last column has the offsets, which are numbers on the log scale.

A priori locations μ_j are normal around the logarithm of the column's mean rate, with the standard
deviation `location_sd`, and log r_j is normal.

Cells have no Gaussian pseudo-data: exact draws use `tangents` as proposals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import digamma, expit, gammaln, polygamma

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa._utils.arguments import one_of
from cuspfa.errors import DataError
from cuspfa.model.likelihoods.base import (
    LEAST_TILTED_VARIANCE,
    QUADRATURE_NODES,
    CellExpectations,
    ColumnParameters,
    Intervals,
    PseudoData,
    ResponsePrior,
    Tangents,
    TiltedMoments,
    hermite_nodes,
)

CountFamily = Literal["poisson", "negative_binomial"]
COUNT_FAMILIES: tuple[CountFamily, ...] = ("poisson", "negative_binomial")
LARGEST_COUNT = 1e9
"""Larger counts have no digits for a log density."""
LARGEST_LOG_RATE = 200.0
"""Logarithms of rates above it are taken as this."""
LARGEST_DRAWN_RATE = 1e15
NODES_BY_VARIANCE = ((0.5, 15), (1.5, 25), (3.0, 41), (np.inf, 61))
"""Nodes of quadrature around the mode of a cell, by the variance of f below which they do."""
CENTRING_STEPS, LONGEST_CENTRING_STEP = 8, 2.0
"""Newton's steps to the mode."""
COUNTS_AT_ONCE = 4000
"""Cells of a block, whose arrays stay in the cache of a processor."""
POISSON_VARIANCE = 1e-6
"""Response variance of Poisson counts, which stands for zero: divisions by it are possible."""
LOG_DISPERSION_MEAN, LOG_DISPERSION_SD = 1.0, 2.0
"""Of the prior of log r: 95 % of r are between 0.05 and 150."""
SMALLEST_LOG_DISPERSION, LARGEST_LOG_DISPERSION = -7.0, 14.0
"""Beyond which its likelihood is flat to the digits of its sums."""


class CountParameters(NamedTuple):
    """Parameters of counts; before the last axis there may be one of chains."""

    location: Array
    """(q,) μ_j."""
    dispersion: Array
    """(q,) r_j; infinite for Poisson counts."""


@dataclass(frozen=True)
class CountLikelihood:
    """q columns of counts of the same family; made by `of` from the rows of a fit."""

    names: tuple[str, ...]
    """Names of the columns in messages."""
    family: CountFamily
    center: tuple[float, ...]
    """Means of the prior of the locations."""
    location_sd: float = 5.0

    def __post_init__(self) -> None:
        one_of("family", self.family, COUNT_FAMILIES)

    @classmethod
    def of(
        cls, rows: Any, names: tuple[str, ...] | None = None, family: CountFamily = "poisson"
    ) -> CountLikelihood:
        """The likelihood of these rows, whose last column has the offsets."""
        table = np.asarray(rows, dtype=float)
        q = table.shape[1] - 1
        names = tuple(f"column {j}" for j in range(q)) if names is None else names
        values = cls(names, family, (0.0,) * q).check(table)
        for column, name in zip(values[:, :-1].T, names, strict=True):
            if not np.any(column > 0):
                raise DataError(
                    f"Counts of {name} must have one above zero. Got "
                    f"{'zeros' if np.any(column == 0) else 'missing values'} only; drop the column."
                )
        return cls(names, family, tuple(_log_mean_rates(values).tolist()))

    @property
    def has_offset(self) -> bool:
        """Yes."""
        return True

    @property
    def exact_information(self) -> BoolArray:
        """None."""
        return np.zeros(len(self.names), dtype=np.bool_)

    @property
    def direct(self) -> BoolArray:
        """All columns."""
        return np.ones(len(self.names), dtype=np.bool_)

    @property
    def packed_owner(self) -> Indices:
        """Locations, then dispersions."""
        return np.tile(np.arange(len(self.names)), 1 if self._is_poisson else 2)

    @property
    def _is_poisson(self) -> bool:
        return self.family == "poisson"

    def check(self, rows: Any) -> Array:
        """The rows; whole numbers from 0 on where observed."""
        table = np.array(rows, dtype=float)
        for column, name in zip(table.T, self.names, strict=False):
            require_counts(column, name)
        return table

    def initial(self, values: Array) -> CountParameters:
        """Logarithms of mean rates, and what variances are above the means."""
        rates, excess = _log_mean_rates(values), _excess(values)
        location = np.where(np.isfinite(rates), rates, np.array(self.center))
        return CountParameters(location, self._dispersion_of(excess))

    def _dispersion_of(self, inverse: Array) -> Array:
        """R of 1/r, within limits."""
        if self._is_poisson:
            return np.full(inverse.shape, np.inf)
        return np.asarray(1.0 / np.clip(inverse, 0.05, 20.0))

    def expectations(
        self, values: Array, mean: Array, variance: Array, parameters: CountParameters
    ) -> CellExpectations:
        """In closed form for Poisson counts, else by quadrature."""
        x, observed, shift = self._observed_counts(values, mean, parameters)
        if self._is_poisson:
            log_rate = mean + shift
            rate = np.exp(np.minimum(log_rate + 0.5 * variance, LARGEST_LOG_RATE))
            value = x * log_rate - rate - gammaln(x + 1.0)
            return CellExpectations(
                *(np.where(observed, one, 0.0) for one in (value, x - rate, -rate))
            )
        sd, r = np.sqrt(variance), parameters.dispersion
        found = np.zeros((3, *mean.shape))
        for node, weight in zip(*hermite_nodes(QUADRATURE_NODES), strict=True):
            terms = self._terms(x, mean + shift + node * sd, r)
            for whole, part in zip(found, terms, strict=True):
                whole += weight * part
        found[0] += _constants(x, r)
        found[2] *= -1.0
        return CellExpectations(*(np.where(observed, one, 0.0) for one in found))

    def tangents(self, values: Array, linear: Array, parameters: CountParameters) -> Tangents:
        """In closed form."""
        x, observed, shift = self._observed_counts(values, linear, parameters)
        r = parameters.dispersion[..., None, :]
        found = self._terms(x, linear + shift, r)
        return Tangents(*(np.where(observed, one, 0.0) for one in found))

    def first_linear(self, values: Array, parameters: CountParameters) -> Array:
        """F of the logarithms of the counts and a half, (…, n, q); 0 where missing."""
        shape = (*parameters.location.shape[:-1], len(values[..., 0].T), len(self.names))
        counts, shift = self._counts_and_shift(values, np.zeros(shape), parameters)
        logs = np.log(np.where(np.isnan(counts), 0.0, counts) + 0.5) - shift
        return np.where(np.isnan(counts), 0.0, logs)

    def tilted(
        self, values: Array, mean: Array, variance: Array, parameters: CountParameters
    ) -> TiltedMoments:
        """By quadrature around the mode of each cell.

        The derivatives are those of the moments of f where a count says more of f than its normal
        distribution, else expected derivatives of the log density: each where digits are kept.
        """
        found = TiltedMoments(*np.zeros((3, *mean.shape)))
        for at, size, x, r, shift, m, v in self._blocks(values, mean, variance, parameters):
            center, sd, z, parts, log_total, terms = self._around_mode(size, x, r, shift, m, v)
            first = np.sum(parts * z, axis=0)
            spread = (np.sum(parts * z**2, axis=0) - first**2) * sd**2
            slope = np.sum(parts * terms.slope, axis=0)
            bend = np.sum(parts * ((terms.slope - slope) ** 2 - terms.weight), axis=0)
            informed = spread < 0.5 * v
            found.log_normalizer.flat[at] = log_total + _constants(x, r)
            found.slope.flat[at] = np.where(informed, (center + sd * first - m) / v, slope)
            found.curvature.flat[at] = np.where(informed, (spread / v - 1.0) / v, bend)
        return found

    def tilted_further(
        self, values: Array, mean: Array, variance: Array, parameters: CountParameters
    ) -> tuple[Array, Array]:
        """Cumulants of f, divided by powers of its variance."""
        third, fourth = np.zeros((2, *mean.shape))
        for at, size, x, r, shift, m, v in self._blocks(values, mean, variance, parameters):
            _, sd, z, parts, *_ = self._around_mode(size, x, r, shift, m, v)
            centred = z - np.sum(parts * z, axis=0)
            two, three, four = (np.sum(parts * centred**power, axis=0) for power in (2, 3, 4))
            ratio = sd / v
            third.flat[at] = three * ratio**3
            fourth.flat[at] = (four - 3.0 * two**2) * ratio**4
        return third, fourth

    def tilted_gradient(
        self, values: Array, mean: Array, variance: Array, parameters: CountParameters
    ) -> Array:
        """By locations as by the mean of f; by log r as an expected derivative."""
        if np.all(variance <= LEAST_TILTED_VARIANCE):
            return self._gradient_at(values, mean, parameters)
        slope = self.tilted(values, mean, variance, parameters).slope
        if self._is_poisson:
            return slope
        logs = np.zeros(mean.shape)
        for at, size, x, r, shift, m, v in self._blocks(values, mean, variance, parameters):
            center, sd, z, parts, *_ = self._around_mode(size, x, r, shift, m, v)
            own = _by_log_dispersion(x, center + sd * z + shift, r)
            logs.flat[at] = np.sum(parts * own, axis=0)
        return np.concatenate([slope, logs], axis=1)

    def _gradient_at(self, values: Array, linear: Array, parameters: CountParameters) -> Array:
        """The same where f is known."""
        slope = self.tangents(values, linear, parameters).slope
        if self._is_poisson:
            return slope
        x, observed, shift = self._observed_counts(values, linear, parameters)
        own = _by_log_dispersion(x, linear + shift, parameters.dispersion)
        return np.concatenate([slope, np.where(observed, own, 0.0)], axis=1)

    def shifted(self, parameters: CountParameters, amount: Array) -> CountParameters:
        """Locations μ_j − amount_j."""
        return parameters._replace(location=parameters.location - amount)

    def start_values(self, values: Array) -> Array:
        """Logarithms of the counts and a half, less the offset."""
        return np.asarray(np.log(values[:, :-1] + 0.5) - values[:, -1:])

    def start(self, values: Array, shares: Array) -> tuple[CountParameters, Array]:
        """Rates whose logarithms have these shares of the variance of logarithms of counts."""
        sd = np.maximum(np.nanstd(self.start_values(values), axis=0), 0.1)
        initial = self.initial(values)
        common = shares * sd**2
        left = (1.0 + _excess(values)) * np.exp(-common) - 1.0
        location = initial.location - 0.5 * common
        return CountParameters(location, self._dispersion_of(left)), sd

    @property
    def n_packed(self) -> int:
        """Locations, and logarithms of dispersions."""
        return len(self.packed_owner)

    def pack(self, parameters: CountParameters) -> Array:
        """Locations, and logarithms of r."""
        if self._is_poisson:
            return parameters.location
        return np.concatenate([parameters.location, np.log(parameters.dispersion)], axis=-1)

    def unpack(self, packed: Array) -> CountParameters:
        """What `pack` made."""
        q = len(self.names)
        location = packed[..., :q]
        if self._is_poisson:
            return CountParameters(location, np.full(location.shape, np.inf))
        return CountParameters(location, _as_dispersion(packed[..., q:]))

    def log_packed_prior(self, packed: Array) -> Array:
        """Normal."""
        return np.asarray(self._log_priors(self.unpack(packed)).sum(axis=-1))

    def packed_prior_derivatives(self, packed: Array) -> tuple[Array, Array]:
        """In closed form."""
        mean, sd = self._packed_prior
        return -(packed - mean) / sd**2, np.diag(sd**-2)

    @property
    def _packed_prior(self) -> tuple[Array, Array]:
        """Means and standard deviations."""
        center, q = np.array(self.center), len(self.names)
        mean, sd = center, np.full(q, self.location_sd)
        if not self._is_poisson:
            mean = np.concatenate([mean, np.full(q, LOG_DISPERSION_MEAN)])
            sd = np.concatenate([sd, np.full(q, LOG_DISPERSION_SD)])
        return mean, sd

    def _log_priors(self, parameters: CountParameters) -> Array:
        """Log density of each column, (…, q)."""
        own = _log_normal_density(parameters.location, np.array(self.center), self.location_sd)
        if self._is_poisson:
            return own
        logs = np.log(parameters.dispersion)
        return own + _log_normal_density(logs, LOG_DISPERSION_MEAN, LOG_DISPERSION_SD)

    def intervals(self, values: Array, parameters: CountParameters) -> Intervals | None:
        """None: counts have no normal responses."""
        return None

    # --- exact draws ---

    def draw(
        self, values: Array, linear: Array, parameters: CountParameters, rng: np.random.Generator
    ) -> tuple[CountParameters, PseudoData]:
        """Dispersions given f; no pseudo-data, which a precision of zero says."""
        if not self._is_poisson:
            parameters = self._draw_dispersion(values, linear, parameters, rng)
        return parameters, PseudoData(linear, np.zeros(linear.shape))

    def _draw_dispersion(
        self, values: Array, linear: Array, parameters: CountParameters, rng: np.random.Generator
    ) -> CountParameters:
        """A Metropolis step for log r of each column, with the proposal of one Newton step.

        The way back is proposed by the step from there.
        """
        counts, shift = self._counts_and_shift(values, linear, parameters)
        counts = np.broadcast_to(counts, linear.shape)
        log_rate = linear + shift
        # Sums of functions of x + r alone need each distinct count of a column once.
        tally = _Tally.of(counts)

        def at(logs: Array) -> tuple[Array, Array, Array]:
            """Log posterior, and mean and precision of the proposal from here, (B, q)."""
            value, slope, bend = _dispersion_sums(tally, counts, log_rate, logs)
            centred = (logs - LOG_DISPERSION_MEAN) / LOG_DISPERSION_SD**2
            value = value + _log_normal_density(logs, LOG_DISPERSION_MEAN, LOG_DISPERSION_SD)
            precision = np.maximum(-bend, 0.0) + LOG_DISPERSION_SD**-2
            step = (slope - centred) / precision
            return value, logs + np.clip(step, -1.0, 1.0), precision

        old = np.log(parameters.dispersion)
        here, mean, precision = at(old)
        new = mean + rng.standard_normal(old.shape) / np.sqrt(precision)
        inside = (new > SMALLEST_LOG_DISPERSION) & (new < LARGEST_LOG_DISPERSION)
        new = np.where(inside, new, old)
        there, back, back_precision = at(new)
        log_ratio = there - here + 0.5 * (np.log(back_precision) - np.log(precision))
        log_ratio += 0.5 * (precision * (new - mean) ** 2 - back_precision * (old - back) ** 2)
        moved = inside & (-rng.standard_exponential(old.shape) < log_ratio)
        return parameters._replace(dispersion=np.exp(np.where(moved, new, old)))

    def response_prior(self, parameters: CountParameters) -> ResponsePrior:
        """Of the locations."""
        away = (parameters.location - np.array(self.center)) / self.location_sd**2
        shape = away.shape
        return ResponsePrior(
            np.full(shape, self.location_sd**-2),
            -away,
            np.zeros(shape),
            np.ones(shape),
            np.zeros(shape[-1], dtype=bool),
        )

    def rescaled(self, parameters: CountParameters, factor: Array) -> CountParameters:
        """The parameters as they are."""
        return parameters

    # --- prediction ---

    def response_variance(self, parameters: CountParameters) -> Array:
        """ψ′(r), of the logarithms of rates given f; for Poisson counts nearly zero."""
        if self._is_poisson:
            return np.full(parameters.location.shape, POISSON_VARIANCE)
        return np.asarray(polygamma(1, parameters.dispersion) + POISSON_VARIANCE)

    def log_density(self, values: Array, linear: Array, parameters: CountParameters) -> Array:
        """0 where missing."""
        x, observed, shift = self._observed_counts(values, linear, parameters)
        r = parameters.dispersion[..., None, :]
        own = self._terms(x, linear + shift, r).value + _constants(x, r)
        return np.where(observed, own, 0.0)

    def sample(self, linear: Array, parameters: CountParameters, rng: np.random.Generator) -> Array:
        """Counts; the offsets are a part of `linear`."""
        rate = np.exp(np.minimum(linear + parameters.location, LARGEST_LOG_RATE))
        if not self._is_poisson:
            r = np.broadcast_to(parameters.dispersion, rate.shape)
            rate = rate * rng.standard_gamma(r) / r
        return rng.poisson(np.minimum(rate, LARGEST_DRAWN_RATE)).astype(float)

    def mean(self, mean: Array, variance: Array, parameters: CountParameters) -> Array:
        """Expected counts; the offsets are a part of `mean`."""
        logs = mean + parameters.location + 0.5 * variance
        return np.asarray(np.exp(np.minimum(logs, LARGEST_LOG_RATE)))

    def by_column(self, parameters: CountParameters) -> ColumnParameters:
        """Locations and dispersions."""
        location, variance = parameters.location, self.response_variance(parameters)
        empty = np.zeros((*location.shape[:-1], 0))
        return ColumnParameters(
            location, variance, [empty] * len(self.names), parameters.dispersion
        )

    def from_columns(self, known: ColumnParameters) -> CountParameters:
        """Locations and dispersions."""
        return CountParameters(known.location, known.dispersion)

    # --- inside ---

    def _counts_and_shift(
        self, values: Array, like: Array, parameters: CountParameters
    ) -> tuple[Array, Array]:
        """Counts (…, n, q), and μ_j + o_i of the shape of `like`."""
        shift = parameters.location[..., None, :] + values[..., -1:]
        return values[..., :-1], np.broadcast_to(shift, like.shape)

    def _observed_counts(
        self, values: Array, like: Array, parameters: CountParameters
    ) -> tuple[Array, BoolArray, Array]:
        """Counts with 0 where missing, where they are observed, and μ_j + o_i."""
        counts, shift = self._counts_and_shift(values, like, parameters)
        observed: BoolArray = ~np.isnan(counts)
        return np.where(observed, counts, 0.0), observed, shift

    def _terms(self, x: Array, log_rate: Array, r: Array) -> Tangents:
        """Of counts without missing values."""
        log_rate = np.minimum(log_rate, LARGEST_LOG_RATE)
        if self._is_poisson:
            rate = np.exp(log_rate)
            return Tangents(x * log_rate - rate, x - rate, rate)
        u, total = log_rate - np.log(r), x + r
        share = expit(u)
        # log(1 + e^u), without overflow.
        above = np.maximum(u, 0.0) + np.log1p(np.exp(-np.abs(u)))
        return Tangents(x * u - total * above, x - total * share, total * share * (1.0 - share))

    def _blocks(
        self, values: Array, mean: Array, variance: Array, parameters: CountParameters
    ) -> Iterator[tuple[Indices, int, Array, Array, Array, Array, Array]]:
        """Places of observed cells by blocks, with nodes, x, r, μ + o and moments of f."""
        counts, shift = self._counts_and_shift(values, mean, parameters)
        places = np.flatnonzero(~np.isnan(counts))
        x, add = np.ascontiguousarray(counts).reshape(-1), np.ascontiguousarray(shift).reshape(-1)
        r = np.broadcast_to(parameters.dispersion, mean.shape)
        floor, below = np.maximum(variance, LEAST_TILTED_VARIANCE), 0.0
        spread = floor.flat[places]
        for limit, size in NODES_BY_VARIANCE:
            own = places[(spread >= below) & (spread < limit)]
            below = limit
            for first in range(0, len(own), COUNTS_AT_ONCE):
                at = own[first : first + COUNTS_AT_ONCE]
                yield at, size, x[at], r.flat[at], add[at], mean.flat[at], floor.flat[at]

    def _around_mode(
        self, size: int, x: Array, r: Array, shift: Array, m: Array, v: Array
    ) -> tuple[Array, Array, Array, Array, Array, Tangents]:
        """Nodes for p(x | f) N(f; m, v): their centre and scale, standard nodes (N, 1), shares
        (N, cells) of the integral, its logarithm, and terms of the log density at the nodes.
        """
        guess = np.log(x + 0.5) - shift
        weight = x + 0.5 if self._is_poisson else (x + 0.5) / (1.0 + (x + 0.5) / r)
        center = (m / v + weight * guess) / (1.0 / v + weight)
        for _ in range(CENTRING_STEPS):
            terms = self._terms(x, center + shift, r)
            step = (terms.slope - (center - m) / v) / (terms.weight + 1.0 / v)
            center = center + np.clip(step, -LONGEST_CENTRING_STEP, LONGEST_CENTRING_STEP)
        terms = self._terms(x, center + shift, r)
        top = terms.value - 0.5 * (center - m) ** 2 / v
        sd = 1.0 / np.sqrt(terms.weight + 1.0 / v)
        nodes, weights = hermite_nodes(size)
        z = nodes[:, None]
        f = center + sd * z
        terms = self._terms(x, f + shift, r)
        logs = terms.value - 0.5 * (f - m) ** 2 / v - top + 0.5 * z**2
        parts = weights[:, None] * np.exp(logs)
        total = parts.sum(axis=0)
        log_total = top + np.log(total) + np.log(sd) - 0.5 * np.log(v)
        return center, sd, z, parts / total, log_total, terms


class _Tally(NamedTuple):
    """Distinct counts of each column of each chain."""

    numbers: Array
    """(T,) distinct counts, column after column; of all chains if these have the same counts."""
    times: Array
    """(T,) how often they occur."""
    owner: Indices
    """(T,) their columns; of chains with counts of their own, columns of chain after chain."""
    size: int
    """Number of owners."""

    @classmethod
    def of(cls, counts: Array) -> _Tally:
        """Of counts (B, n, q), NaN where missing."""
        shared = counts.strides[0] == 0
        own = counts[:1] if shared else counts
        size = own.shape[0] * own.shape[2]
        columns = own.transpose(0, 2, 1).reshape(size, -1)
        owner, _ = np.nonzero(~np.isnan(columns))
        x = columns[~np.isnan(columns)]
        order = np.lexsort((x, owner))
        x, owner = x[order], owner[order]
        first = np.ones(len(x), dtype=bool)
        first[1:] = (np.diff(x) != 0) | (np.diff(owner) != 0)
        at = np.flatnonzero(first)
        times = np.diff(np.append(at, len(x))).astype(float)
        return cls(x[at], times, owner[at].astype(np.intp), size)

    def sums(self, r: Array, function: Any) -> Array:
        """Σ_i function(x_ij + r_j) − function(r_j), (B, q)."""
        chains, q = r.shape
        if self.size == q:
            own = function(self.numbers + r[:, self.owner]) - function(r)[:, self.owner]
            starts = np.flatnonzero(np.diff(self.owner, prepend=-1))
            found = np.zeros((chains, q))
            found[:, self.owner[starts]] = np.add.reduceat(own * self.times, starts, axis=1)
            return found
        flat = r.reshape(-1)
        own = function(self.numbers + flat[self.owner]) - function(flat)[self.owner]
        total = np.bincount(self.owner, own * self.times, minlength=self.size)
        return np.asarray(total.reshape(chains, q))


def _dispersion_sums(
    tally: _Tally, counts: Array, log_rate: Array, logs: Array
) -> tuple[Array, Array, Array]:
    """Log-likelihood of log r of each column and two derivatives, (B, q)."""
    observed = ~np.isnan(counts)
    x, r = np.where(observed, counts, 0.0), np.exp(logs)[:, None, :]
    u = np.minimum(log_rate, LARGEST_LOG_RATE) - logs[:, None, :]
    share = expit(u)
    above = np.maximum(u, 0.0) + np.log1p(np.exp(-np.abs(u)))
    value = np.sum(np.where(observed, x * u - (x + r) * above, 0.0), axis=1)
    # By r: −log(1 + e^u) + 1 − (x + r)(1 − s)/r, and its derivative.
    ratio = (x + r) * (1.0 - share) / r
    first = np.sum(np.where(observed, 1.0 - above - ratio, 0.0), axis=1)
    second = (share - (1.0 - share) * (1.0 - ratio)) / r
    second = np.sum(np.where(observed, second, 0.0), axis=1)
    flat = np.exp(logs)
    value = value + tally.sums(flat, gammaln)
    first = first + tally.sums(flat, digamma)
    second = second + tally.sums(flat, _trigamma)
    return value, flat * first, flat * first + flat**2 * second


def _trigamma(x: Array) -> Array:
    return np.asarray(polygamma(1, x))


def _by_log_dispersion(x: Array, log_rate: Array, r: Array) -> Array:
    """The derivative of the log density of cells by log r."""
    u = np.minimum(log_rate, LARGEST_LOG_RATE) - np.log(r)
    share = expit(u)
    above = np.maximum(u, 0.0) + np.log1p(np.exp(-np.abs(u)))
    ratio = (x + r) * (1.0 - share) / r
    return np.asarray(r * (digamma(x + r) - digamma(r) - above + 1.0 - ratio))


def _constants(x: Array, r: Array) -> Array:
    """The part of the log density of counts that does not depend on f."""
    own = -gammaln(x + 1.0)
    if np.all(np.isinf(r)):
        return np.asarray(own)
    return np.asarray(own + gammaln(x + r) - gammaln(r))


def _as_dispersion(logs: Array) -> Array:
    return np.exp(np.clip(logs, SMALLEST_LOG_DISPERSION, LARGEST_LOG_DISPERSION))


def _log_normal_density(at: Array, mean: Array | float, sd: float) -> Array:
    scaled = (at - mean) / sd
    return np.asarray(-0.5 * scaled**2 - math.log(sd) - 0.5 * math.log(2.0 * math.pi))


def _log_mean_rates(values: Array) -> Array:
    """(q,) log Σ_i x_ij / Σ_i exp(o_i) over the observed cells; −∞ without a count above zero."""
    counts, offset = values[:, :-1], values[:, -1:]
    largest = float(np.max(offset, initial=-np.inf))
    effort = np.sum(np.where(np.isnan(counts), 0.0, np.exp(offset - largest)), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(np.nansum(counts, axis=0) / effort) - largest)


def _excess(values: Array) -> Array:
    """(q,) what squared coefficients of variation of counts have beyond Poisson counts."""
    counts = values[:, :-1]
    rate = np.exp(_log_mean_rates(values) + values[:, -1:])
    rate = np.where(np.isnan(counts), np.nan, rate)
    squares = np.nansum((counts - rate) ** 2 - rate, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = squares / np.nansum(rate**2, axis=0)
    return np.asarray(np.maximum(np.nan_to_num(found), 0.0))


def require_counts(column: Array, name: str) -> None:
    """Raise a DataError where a column has values that are no counts."""
    observed = column[~np.isnan(column)]
    bad = observed[(observed < 0) | (observed != np.floor(observed))]
    if len(bad):
        raise DataError(
            f"Counts of {name} must be whole numbers from 0 on. Got {bad[0]:g} instead; make codes "
            "for missing values NaN, and call measurements gaussian or normal_scores."
        )
    if np.any(observed > LARGEST_COUNT):
        raise DataError(
            f"Counts of {name} must be at most {LARGEST_COUNT:g}. Got {observed.max():g} instead; "
            "of such large numbers use logarithms, as gaussian."
        )
