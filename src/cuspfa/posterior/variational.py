"""The variational posterior in the user's units; its draws correct the variances of mean field."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from cuspfa._typing import Array, RandomState
from cuspfa._utils.arguments import generator, true_or_false, whole
from cuspfa._utils.threads import one_blas_thread
from cuspfa.data.in_memory import RotatedRows
from cuspfa.errors import InputError
from cuspfa.inference.compiled_sweeps import sweep_chains
from cuspfa.inference.kernels import (
    Statistics,
    begin_at,
    draw_rotation,
    first_scales,
    flip,
    scale_rotation_move,
    squared_norms,
)
from cuspfa.inference.updates import LoadingsDistribution
from cuspfa.missing.kernels import RowsInMemory, begin_filled, sweep_filled
from cuspfa.missing.saturated import unrestricted
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.model.model_error import ModelError, Sample, nearest_gaussian
from cuspfa.model.slabs import Slab
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.distributions import Means, ScoreDistribution
from cuspfa.posterior.draws import N_DRAWS, Draws, refused_if_singular
from cuspfa.posterior.variational_entries import VariationalEntries

LOADINGS_TOGETHER, LOADINGS_IN_CACHE = 1 << 19, 1 << 17
"""Loadings of draws that are swept together, 4 MB, and of draws from q at a time, 1 MB."""
MAX_SWEEPS_PER_DRAW, MAX_OPERATIONS = 8, 2e10
"""Most sweeps of a draw after the scale-rotation move, and most operations of all draws."""
MIN_CHAINS, DRAWS_PER_CHAIN, DRAWS_PER_ROWS_CHAIN = 40, 5, 25
"""Chains go on after their first draw: fewest chains, and about so many draws in a chain. With
missing values a sweep goes through all rows, so that there are more."""
SWEEPS_APART = 2
"""Sweeps from one draw of a chain to the next; with missing values one."""
SCORES_TOGETHER = 1 << 22
"""Numbers of the scores of chains that move together: 32 MB."""


def _chunks(shape: tuple[int, ...], numbers: int = LOADINGS_TOGETHER) -> list[slice]:
    """Slices of draws (size, p, K), each with about this many numbers."""
    step = max(1, numbers // max(shape[1] * shape[2], 1))
    return [slice(first, first + step) for first in range(0, shape[0], step)]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class VariationalPosterior(Posterior):
    """The variational distribution q*(Λ) q*(σ²) of the active factors.

    Inactive factors, of which few have mean loadings other than zero, enter the variances alone.
    No row of the data is kept as it was; `statistics` may hold them up to a rotation. Rows with
    missing values are kept in `rows`, for draws in the process that made the fit. They are not
    saved, pickled or copied.

    Attributes
    ----------
    loadings_distribution : LoadingsDistribution
        q(λ_j) = N(μ_j, V_j) of the K factors, on the engine's scale.
    noise_distribution : Noise
        q(σ²_j) = InvGa(A_j, B_j) on that scale.
    score_distribution : ScoreDistribution
        Second moments of the scores.
    slab_probability : ndarray (K,)
        Probability that a factor is modelled by the slab, above one half.
    expected_active : float
        E[H*] over all H columns.
    tail_variance : ndarray (p,)
        What all inactive factors together add to each variance, on that scale.
    slab, prior
        The slab with its updated hyperparameters, and the prior.
    statistics : Statistics or None
        YᵀY on the engine's scale or, of fewer rows than columns, a root of it, which is the rows up
        to a rotation; None where it would be large.
    center, scale : ndarray (p,)
        The user's value is center + scale × the engine's.
    n_rows : int
        Rows of the data.
    names : list of str or None
        Column names.
    weight : float
        The evidence weight of this number of factors; not a probability.
    alternatives : tuple of VariationalPosterior
        Posteriors for other numbers of factors of notable weight.
    rotation : Rotation or None
        The axes that its factors are shown on.
    fit_info : FitInfo or None
        How the fit went.
    means : Means or None
        Of incomplete columns; None where nothing is missing.
    correlation : ndarray (p, p) or None
        Of incomplete data, estimated without a factor model, once it was asked for.
    effective : Effective or None
        Complete rows with as much information on the correlations, once these were asked for.
    rows : RowsInMemory or None
        Incomplete rows, for exact sweeps; None after `cuspfa.load`, pickling or copying.
    provenance : Provenance or None
        Where it came from.
    """

    kind: ClassVar = "variational"
    layout: ClassVar = VariationalEntries()

    loadings_distribution: LoadingsDistribution
    noise_distribution: Noise
    score_distribution: ScoreDistribution
    slab_probability: Array
    expected_active: float
    tail_variance: Array
    slab: Slab
    weight: float = 1.0
    alternatives: tuple[VariationalPosterior, ...] = ()
    means: Means | None = None
    rows: RowsInMemory | None = None

    @classmethod
    def from_entries(cls, content: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The posterior of a file, from checked entries and arrays of the right shapes."""
        own, *others = cls.layout.values(content, arrays)
        return cls(**own, alternatives=tuple(cls(**other) for other in others))

    @property
    def n_active(self) -> int:
        """K."""
        return int(self.loadings_distribution.mean.shape[1])

    @property
    def sample_correlation(self) -> Array | None:
        """(p, p) of the data, where their statistics are kept.

        With missing values, those of a normal distribution without factors, by EM from where this
        one is; None where that would take long, and where neither the rows nor their correlations
        were kept.
        """
        if self.means is not None:
            if self.correlation is None and self.rows is not None:
                start = self.covariance / self.scale[:, None] / self.scale
                found = unrestricted(self.rows.data, self.means.location, start)
                if found is not None:  # once is enough
                    object.__setattr__(self, "correlation", found.correlation)
                    object.__setattr__(self, "effective", found.effective)
            return self.correlation
        return super().sample_correlation

    @property
    def mean(self) -> Array:
        """(p,) E of the columns' means, in the user's units."""
        return self.center if self.means is None else self.center + self.scale * self.means.location

    @property
    def column_counts(self) -> Array:
        """(p,) values that each column has."""
        return super().column_counts if self.means is None else self.means.counts

    @property
    def active(self) -> Array:
        """(K,) the probability that each factor is modelled by the slab, above one half."""
        return self.slab_probability

    @property
    def expected_active_factors(self) -> float:
        """E[H*] over all H columns."""
        return self.expected_active

    @property
    def loadings(self) -> Array:
        """E[Λ], (p, K), in the user's units."""
        return self.scale[:, None] * self.loadings_distribution.mean

    @property
    def noise_variance(self) -> Array:
        """E[Ω] less the part explained by the mean loadings, a diagonal, (p,).

        It is E[σ²_j] + tr V_j: under q the rows of Λ are independent, so their variance adds to
        the variances only, and E[Ω] = E[Λ] E[Λ]ᵀ + diag(noise_variance) exactly.
        """
        own = (
            self.noise_distribution.variance
            + self.loadings_distribution.row_variance
            + self.tail_variance
        )
        return np.asarray(self.scale**2 * own)

    def draw(
        self,
        n_draws: int = N_DRAWS,
        *,
        random_state: RandomState = 0,
        average_over_k: bool = False,
        mean_field: bool = False,
        sweeps: int | None = None,
        population: bool = False,
    ) -> Draws:
        """Draw loadings and noise variances given the number of factors.

        Mean field treats loadings and scores as independent, so that intervals of draws from q are
        too narrow, often by half. Each draw from q is therefore moved along the scale-rotation
        directions by their exact distribution. It then goes through a few exact Gibbs sweeps on
        sufficient statistics, which leave the posterior invariant.

        Parameters
        ----------
        n_draws : int, default=1000
            Number of draws.
        random_state : None, int, numpy.random.Generator or RandomState, default=0
            Seed; None gives other draws each time.
        average_over_k : bool, default=False
            Draw the number of factors too, by the weights of `search_`; loadings of draws with
            fewer factors are filled up with zeros.
        mean_field : bool, default=False
            Draw from q itself, as the paper does.
        sweeps : int or None, default=None
            Exact sweeps before the first draw of a chain. None means 8, or fewer where these would
            take long. 0 means the scale-rotation move alone, which is fast for every p. About five
            draws come from a chain, two sweeps apart; with missing values about 25, one sweep
            apart.
        population : bool, default=False
            Also draw the population covariance of each draw, with model error: p×p numbers each.

        Returns
        -------
        Draws

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(100, 8, 2, random_state=0).X
        >>> draws = CuspFactorAnalysis(random_state=0).fit(X).posterior_.draw(50)
        >>> draws.covariance.shape
        (50, 8, 8)
        """
        size = whole("n_draws", n_draws, 1)
        true_or_false("mean_field", mean_field)
        true_or_false("average_over_k", average_over_k)
        rng = generator(random_state)
        if true_or_false("population", population):
            drawn = self.draw(
                size,
                random_state=rng,
                average_over_k=average_over_k,
                mean_field=mean_field,
                sweeps=sweeps,
            )
            return self.with_population(drawn, rng)
        if average_over_k and self.alternatives:
            return self._draw_averaged(size, rng, mean_field=mean_field, sweeps=sweeps)
        p, k = self.loadings_distribution.mean.shape
        mean = None if self.means is None else np.empty((size, p))
        draws = Draws(np.empty((size, p, k)), np.empty((size, p)), mean)
        threads = one_blas_thread(p * min(p, round(self.score_distribution.n)))
        with refused_if_singular(), threads:
            number = self._sweeps(size, sweeps)
            if mean_field or number == 0 or k == 0:
                rotations = None if mean_field or k == 0 else self._draw_scale_rotations(size, rng)
                self._draw_from_q(draws, rotations, rng)
            elif self._swept_rows is not None:
                self._draw_from_rows(draws, number, rng)
            else:
                self._draw_by_sweeps(draws, number, rng)
        return draws

    @cached_property
    def swept(self) -> Statistics | None:
        """The data that exact sweeps are made on; None where there are none.

        With model error, Gaussian rows that are nearest to the density of the data at the mean. For
        fewer effective rows than columns there are none.
        """
        statistics, p = self.statistics, len(self.scale)
        if statistics is None or self.model_error == 0.0:
            return statistics
        error = ModelError.of_size(self.model_error, p)
        if error.effective_rows(statistics.n) < p or len(statistics.rows) < p:
            return None
        mean = self.loadings_distribution.mean
        omega = mean @ mean.T + np.diag(1.0 / self.noise_distribution.precision)
        sample = Sample(statistics.rows.T @ statistics.rows, statistics.n)
        near = nearest_gaussian(omega, sample, error)
        return RotatedRows(near.cross_products, None, near.rows)

    @property
    def _swept_rows(self) -> RowsInMemory | None:
        """Incomplete rows that exact sweeps are made on; with model error there are none."""
        return self.rows if self.model_error == 0.0 else None

    def _draw_averaged(self, size: int, rng: np.random.Generator, **settings: Any) -> Draws:
        parts = (self, *self.alternatives)
        weights = np.array([part.weight for part in parts])
        sizes = rng.multinomial(size, weights / weights.sum())
        drawn = [
            part.draw(int(number), random_state=rng, **settings)
            for part, number in zip(parts, sizes, strict=True)
            if number
        ]
        most = max(one.loadings.shape[2] for one in drawn)
        padded = [
            np.pad(one.loadings, ((0, 0), (0, 0), (0, most - one.loadings.shape[2])))
            for one in drawn
        ]
        order = rng.permutation(size)  # so that the first of them are draws of the whole too
        noise = np.concatenate([one.noise_variance for one in drawn])
        means = [one.mean for one in drawn if one.mean is not None]
        mean = np.concatenate(means)[order] if means else None
        return Draws(np.concatenate(padded)[order], noise[order], mean)

    def _draw_from_q(self, draws: Draws, rotations: Array | None, rng: np.random.Generator) -> None:
        """Fill draws from q, the loadings multiplied by matrices (size, K, K)."""
        distribution, scale = self.loadings_distribution, self.scale
        parts = _chunks(draws.loadings.shape, LOADINGS_IN_CACHE)
        normal = np.empty((parts[0].stop, len(scale), distribution.directions))
        for part in parts:
            out = draws.loadings[part]
            z = rng.standard_normal(out=normal[: len(out)])
            drawn = distribution.deviations(z)
            drawn += distribution.mean
            drawn *= scale[:, None]
            if rotations is None:
                out[...] = drawn
            else:
                np.matmul(drawn, rotations[part], out=out)
        gamma = rng.standard_gamma(self.noise_distribution.shape, size=draws.noise_variance.shape)
        np.divide(scale**2 * self.noise_distribution.rate, gamma, out=draws.noise_variance)
        draws.noise_variance[...] += scale**2 * self.tail_variance
        if draws.mean is not None:
            draws.mean[...] = self.draw_means(Draws(draws.loadings, draws.noise_variance), rng)

    def _draw_scale_rotations(self, size: int, rng: np.random.Generator) -> Array:
        """Draws of the matrix that rotates and scales loadings, (size, K, K)."""
        p = len(self.scale)
        expected = self.loadings_distribution.weighted_gram(np.ones(p))
        columns = np.broadcast_to(expected, (size, *expected.shape))
        scales = first_scales(squared_norms(columns), self.slab, p, rng)
        rotation = draw_rotation(columns, scales, self.slab, p, rng)
        columns = rotation.transpose(0, 2, 1) @ columns @ rotation
        second, n = self.score_distribution.draw_second(size, rng), self.score_distribution.n
        moved, _, _ = scale_rotation_move(columns, second, scales, self.slab, n, p, rng)
        return np.asarray(rotation @ np.linalg.inv(moved))

    def _draw_by_sweeps(self, draws: Draws, number: int, rng: np.random.Generator) -> None:
        """Fill draws by exact sweeps of chains that begin at q and go on after their first draw.

        The noise has inactive factors in it.
        """
        assert self.swept is not None
        n_chains = self._chains(len(draws), DRAWS_PER_CHAIN)
        p, k = draws.loadings.shape[1:]
        for some in _chunks((n_chains, p, k)):
            size = len(range(n_chains)[some])
            chains = begin_at(
                self.loadings_distribution, self.noise_distribution, self.slab, size, rng
            )
            for first in range(some.start, len(draws), n_chains):
                count = number if first == some.start else min(number, SWEEPS_APART)
                chains = sweep_chains(chains, self.swept, self.slab, self.prior, count, rng)
                # Neighbours come from different chains, so that any few draws are of the whole.
                part = slice(first, min(first + size, len(draws)))
                kept = part.stop - part.start
                own = flip(chains.loadings)[:kept]
                np.multiply(own, self.scale[:, None], out=draws.loadings[part])
                np.multiply(chains.noise.T[:kept], self.scale**2, out=draws.noise_variance[part])

    def _draw_from_rows(self, draws: Draws, sweeps: int, rng: np.random.Generator) -> None:
        """Fill draws from chains that begin at q and go on after their first sweeps."""
        rows = self._swept_rows
        assert rows is not None
        assert self.means is not None
        assert draws.mean is not None
        chains = self._chains(len(draws), DRAWS_PER_ROWS_CHAIN)
        step = max(1, SCORES_TOGETHER // max(self.n_rows * self.n_active, 1))
        for first in range(0, chains, step):
            size = min(step, chains - first)
            at = begin_filled(
                self.loadings_distribution,
                self.noise_distribution,
                self.means.location,
                rows,
                self.slab,
                size,
                rng,
            )
            for number in range(sweeps + -(-(len(draws) - first) // chains)):
                at = sweep_filled(at, rows, self.slab, self.prior, rng)
                if number < sweeps:
                    continue
                # Neighbours come from different chains, so that any few draws are of the whole.
                begin = (number - sweeps) * chains + first
                part = slice(begin, min(begin + size, len(draws)))
                kept = len(draws.loadings[part])
                own = flip(at.chains.loadings)[:kept]
                np.multiply(own, self.scale[:, None], out=draws.loadings[part])
                np.multiply(at.chains.noise.T[:kept], self.scale**2, out=draws.noise_variance[part])
                draws.mean[part] = self.center + self.scale * at.mean.T[:kept]

    @staticmethod
    def _chains(size: int, draws_per_chain: int) -> int:
        return min(size, max(MIN_CHAINS, size // draws_per_chain))

    def _sweeps(self, size: int, asked: int | None) -> int:
        if asked is not None:
            number = whole("sweeps", asked, 0)
            if number and self.swept is None and self._swept_rows is None:
                raise InputError(
                    f"sweeps must be 0 or None for data of this size or kind, of which no "
                    f"statistics are kept. Got {asked} instead."
                )
            return number
        if self._swept_rows is not None:
            chains = self._chains(size, DRAWS_PER_ROWS_CHAIN)
            each = chains * self._swept_rows.work * max(self.n_active, 1)
            room = int(MAX_OPERATIONS / each) - -(-size // chains)
            return int(np.clip(room, 0, MAX_SWEEPS_PER_DRAW))
        if self.swept is None:
            return 0
        p, k = self.loadings_distribution.mean.shape
        each = 4 * p * min(p, self.score_distribution.n) * k + 100 * p * k + 40 * k**3
        return int(np.clip(MAX_OPERATIONS / (size * max(each, 1)), 0, MAX_SWEEPS_PER_DRAW))
