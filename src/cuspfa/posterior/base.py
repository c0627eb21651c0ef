"""What every posterior can be asked, whatever engine made it.

An engine's posterior says how to draw and what its means are; the rest follows from these.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cuspfa._checks import must_be, one_of
from cuspfa._types import Array, Indices, RandomState
from cuspfa.data.checks import check_columns
from cuspfa.posterior.draws import Draws
from cuspfa.posterior.record import FitRecord

if TYPE_CHECKING:
    from cuspfa.posterior.summary import Summary

QUANTITIES = ("covariance", "correlation", "communality", "noise_variance", "variance_share")
BLOCK = 1 << 23
"""Numbers of a block of entries by draws: 64 MB."""


class Interval(NamedTuple):
    """Lower and upper ends, entry by entry."""

    lower: Array
    upper: Array


class Posterior(ABC):
    """Draws, means and intervals in the user's units."""

    names: list[str] | None
    """Column names, if the data had any."""
    n_rows: int
    """Rows of the data."""
    center: Array
    """(p,) Sample means."""
    record: FitRecord | None
    """How the fit went."""

    @property
    def mean(self) -> Array:
        """(p,) E of the columns' means; the sample means where nothing is missing."""
        return self.center

    @property
    @abstractmethod
    def n_active(self) -> int:
        """K, the number of active factors."""

    @property
    @abstractmethod
    def mean_loadings(self) -> Array:
        """(p, K), such that these and `noise_variance` make up the expected covariance."""

    @property
    @abstractmethod
    def noise_variance(self) -> Array:
        """(p,) the diagonal that E[Ω] has beside the mean loadings."""

    @property
    @abstractmethod
    def sample_correlation(self) -> Array | None:
        """Of the data, (p, p); None where it would be too large to keep."""

    @abstractmethod
    def draw(self, n_draws: int = 2000, *, random_state: RandomState = None) -> Draws:
        """Draws of loadings and noise variances."""

    @property
    def column_counts(self) -> Array:
        """(p,) values that each column has: all rows, unless some are missing."""
        return np.full(len(self.noise_variance), float(self.n_rows))

    def draw_means(self, draws: Draws, rng: np.random.Generator) -> Array:
        """Column means of each draw, (n_draws, p): those drawn with it, or given the rest of it.

        Without holes, N(ȳ, Ω/n); with holes N(E, D^{-1/2}ΩD^{-1/2}), D the numbers of values.
        """
        if draws.mean is not None:
            return draws.mean
        size, p, k = draws.loadings.shape
        shift = draws.loadings @ rng.standard_normal((size, k, 1))
        noise = np.sqrt(draws.noise_variance) * rng.standard_normal((size, p))
        return np.asarray(self.mean + (shift[:, :, 0] + noise) / np.sqrt(self.column_counts))

    @property
    def covariance(self) -> Array:
        """E[Ω], (p, p)."""
        mean = self.mean_loadings
        omega: Array = mean @ mean.T
        omega[np.diag_indices_from(omega)] += self.noise_variance
        return omega

    @property
    def standard_loadings(self) -> Array:
        """Mean loadings on the correlation scale, (p, K), in no particular rotation."""
        mean = self.mean_loadings
        sd = np.sqrt(np.sum(mean**2, axis=1) + self.noise_variance)
        return np.asarray(mean / sd[:, None])

    @property
    def variance_share(self) -> Array:
        """(K,) each factor's share of the variables' variance, on principal axes."""
        loadings = self.standard_loadings
        values = np.linalg.eigvalsh(loadings.T @ loadings)[::-1]
        return np.asarray(np.maximum(values, 0.0) / len(loadings))

    def n_factors(self, min_share: float = 0.03) -> int:
        """The number of factors that explain more than `min_share` of the variance each.

        By the medians of 500 draws of the shares, the same every time.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> CuspFactorAnalysis().fit(X).posterior_.n_factors(min_share=0.03)
        2
        """
        share = _share("min_share", min_share)
        drawn = self.draw(500, random_state=0).variance_share
        return int(np.sum(np.median(drawn, axis=0) > share))

    def summary(self, *, n_draws: int = 1000, random_state: RandomState = 0) -> Summary:
        """A page of text on the factors and the fit; `print` it.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> print(CuspFactorAnalysis().fit(X).posterior_.summary().headline)
        2 factors, all of which explain more than 3 % each (parallel analysis: 2)
        """
        from cuspfa.posterior.summary import summarise

        return summarise(self, self.draw(n_draws, random_state=random_state))

    def to_dict(
        self, *, scores: Any = None, n_draws: int = 1000, random_state: RandomState = 0
    ) -> dict[str, Any]:
        """The summary and more as plain values, ready for `json.dumps`.

        Parameters
        ----------
        scores : ndarray (n, K) or None, default=None
            Factor scores to include, as `transform` gives them. Without them nothing of any row of
            the data is inside, so that the result can be shared.
        n_draws, random_state
            For the intervals; see `draw`.
        """
        from cuspfa.posterior.summary import as_dict

        return as_dict(self, self.draw(n_draws, random_state=random_state), scores)

    def save(
        self, path: str | os.PathLike[str], *, statistics: bool = True, scores: Any = None
    ) -> None:
        """Write to a file, which `cuspfa.load` reads: the whole file or nothing.

        Parameters
        ----------
        path : str or os.PathLike
            The file; an old one is replaced.
        statistics : bool, default=True
            Include the cross-products of the data, where they were kept. Without them the file
            says less about the data, but draws have no exact sweeps and `summary` no measures of
            fit. A column in which one row alone differs from all others, such as a rare category,
            gives that row away by its cross-products: leave them out before such a fit is shared.
        scores : ndarray (n, K) or None, default=None
            Factor scores to include, as `transform` gives them; `posterior.files.load_scores`
            reads them. Without them no row, score or label of a row is inside.

        Examples
        --------
        >>> import os, tempfile
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(100, 8, 2, random_state=0).X
        >>> posterior = CuspFactorAnalysis().fit(X).posterior_
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     posterior.save(os.path.join(folder, "fit.cuspfa"))
        ...     os.listdir(folder)
        ['fit.cuspfa']
        """
        from cuspfa.posterior.files import save

        save(self, path, statistics=statistics, scores=scores)

    def interval(
        self,
        quantity: str,
        prob: float = 0.95,
        *,
        columns: Any = None,
        draws: Draws | None = None,
        n_draws: int = 2000,
        random_state: RandomState = 0,
    ) -> Interval:
        """Central credible interval of each entry of a quantity.

        Parameters
        ----------
        quantity : {"covariance", "correlation", "communality", "noise_variance", "variance_share"}
            Matrices (p, p); communalities and noise variances (p,); shares of variance (K,), those
            of the factors on principal axes of the correlation scale, strongest first.
        prob : float, default=0.95
            Probability of the interval.
        columns : None, or names, indices, slice or mask of some columns
            The entries of these alone; of no effect on shares of variance.
        draws : Draws or None
            Draws to use; None makes `n_draws` of them with `random_state`, the same every time.
        n_draws, random_state
            See `draw`.

        Returns
        -------
        Interval
            `lower` and `upper`. Matrices are worked through in blocks: besides the draws there is
            never more than 64 MB of entries by draws.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(100, 8, 2, random_state=0).X
        >>> posterior = CuspFactorAnalysis().fit(X).posterior_
        >>> lower, upper = posterior.interval("correlation", 0.9, columns=[0, 1, 2])
        >>> lower.shape
        (3, 3)
        """
        one_of("quantity", quantity, QUANTITIES)
        level = _share("prob", prob)
        if level <= 0.0:
            raise must_be("prob", "between 0 and 1", prob)
        if draws is None:
            draws = self.draw(n_draws, random_state=random_state)
        tails = [(1 - level) / 2, (1 + level) / 2]
        if quantity == "variance_share":
            return Interval(*np.quantile(draws.variance_share, tails, axis=0))
        chosen: Indices | slice = slice(None)
        if columns is not None:
            chosen = check_columns(columns, len(self.noise_variance), self.names)
        if quantity in ("communality", "noise_variance"):
            return Interval(*np.quantile(getattr(draws, quantity)[:, chosen], tails, axis=0))
        return _matrix_interval(draws.only(chosen), quantity == "correlation", tails)


def _matrix_interval(draws: Draws, standardised: bool, tails: list[float]) -> Interval:
    variance = np.sum(draws.loadings**2, axis=2) + draws.noise_variance
    # Single precision from here on, on the correlation scale: half the memory, twice the speed.
    unit = np.sqrt(variance if standardised else variance.mean(axis=0, keepdims=True))
    loadings = (draws.loadings / unit[:, :, None]).astype(np.float32)
    noise = (draws.noise_variance / unit**2).astype(np.float32)
    size, p, _ = loadings.shape
    found = np.empty((2, p, p))
    first = 0
    while first < p:
        # Entries of some rows from the diagonal on: the matrix is symmetric.
        last = min(p, first + max(1, BLOCK // (size * (p - first))))
        block = np.matmul(loadings[:, first:last], loadings[:, first:].transpose(0, 2, 1))
        rows = np.arange(last - first)
        block[:, rows, rows] += noise[:, first:last]
        ends = _quantiles(block.reshape(size, -1), tails).reshape(2, last - first, p - first)
        found[:, first:last, first:] = ends
        found[:, first:, first:last] = ends.transpose(0, 2, 1)
        first = last
    if standardised:
        found[:, np.arange(p), np.arange(p)] = 1.0
    else:
        found *= unit[0][:, None] * unit[0]
    return Interval(*found)


def _quantiles(values: NDArray[np.float32], tails: list[float]) -> Array:
    """Along the first axis, linearly interpolated: (2, m) of (size, m).

    To sort short contiguous rows is several times quicker than `np.quantile` along the first axis.
    """
    ordered = np.sort(np.ascontiguousarray(values.T), axis=1)
    ends = []
    for tail in tails:
        at = tail * (len(values) - 1)
        low = int(at)
        high = min(low + 1, len(values) - 1)
        ends.append(ordered[:, low] + (at - low) * (ordered[:, high] - ordered[:, low]))
    return np.array(ends, dtype=float)


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise must_be(name, "a number between 0 and 1", value)
    if not 0.0 <= value < 1.0:
        raise must_be(name, "between 0 and 1", value)
    return float(value)
