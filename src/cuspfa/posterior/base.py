"""What every posterior offers, whatever engine made it.

A subclass defines draws and expectations; everything else follows from these.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from cuspfa._typing import Array, Indices, RandomState
from cuspfa._utils.arguments import generator, must_be, one_of
from cuspfa._utils.tables import data_frame
from cuspfa.data.validate import check_columns
from cuspfa.inference.kernels import Statistics
from cuspfa.interop.arviz_ import for_arviz
from cuspfa.io import posterior_format
from cuspfa.missing.saturated import Effective
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.draws import N_DRAWS, Draws, Interval, check_draws
from cuspfa.posterior.fit_info import FitInfo
from cuspfa.posterior.provenance import Provenance
from cuspfa.posterior.quantiles import sorted_quantiles, tails
from cuspfa.reporting.html import write_report
from cuspfa.reporting.repr_html import repr_html
from cuspfa.reporting.summary import Summary, as_dict, summarise
from cuspfa.rotation.aligned import AlignedDraws, align
from cuspfa.rotation.axes import on_axes
from cuspfa.rotation.gpa import Method, RotatedLoadings, Rotation

FEWEST_A_COLUMN = 3
"""Rows a column that data with missing values must be worth for measures of fit."""
Quantity = Literal[
    "covariance", "correlation", "communality", "noise_variance", "mean", "explained_variance_ratio"
]
"""What `Posterior.interval` can be asked for."""
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
MATRICES = ("covariance", "correlation")
BLOCK = 1 << 23
"""Numbers of a block of entries by draws: 64 MB."""


class Posterior(ABC):
    """Draws, means and intervals in the user's units, the same for every engine.

    Loadings, noise variances, means and covariances are in the user's units; shares of variance,
    communalities and what `align` gives are on the correlation scale. Everything is given the
    chosen number of factors, K, unless draws are made with `average_over_k=True`.

    Seeds: `random_state=0` is the default of every method that draws, so that the same call gives
    the same answer. Another seed gives other draws; None gives others each time.
    """

    kind: ClassVar[Literal["variational", "gibbs"]]
    """The engine that made it."""
    layout: ClassVar[posterior_format.Layout]
    """What a file of such a posterior holds."""
    names: list[str] | None
    """Column names, if the data had any."""
    n_rows: int
    """Rows of the data."""
    prior: CuspPrior
    """The prior of the fit."""
    center: Array
    """(p,) Sample means."""
    scale: Array
    """(p,) The user's value is center + scale × the engine's."""
    statistics: Statistics | None
    """YᵀY on the engine's scale, or a root of it; None where it would be large."""
    fit_info: FitInfo | None
    """How the fit went."""
    rotation: Rotation | None = None
    """The axes that its factors are shown on; None for principal axes."""
    provenance: Provenance | None = None
    """Where the fit came from."""
    effective: Effective | None = None
    """What rows with missing values are worth, where that is known."""
    n_chains: int = 1
    """Chains behind its draws, each with as many of them, one after the other."""

    @property
    def mean(self) -> Array:
        """(p,) E of the columns' means; the sample means where nothing is missing."""
        return self.center

    @property
    def column_names(self) -> list[str]:
        """Names of the columns: those of the data, or x0, x1, ..."""
        p = len(self.center)
        return [f"x{j}" for j in range(p)] if self.names is None else list(self.names)

    @abstractmethod
    def to_entries(self, *, statistics: bool) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays for a file; see `save`."""

    @classmethod
    @abstractmethod
    def from_entries(cls, content: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The posterior of a file, from checked entries and arrays of the right shapes."""

    @property
    @abstractmethod
    def n_active(self) -> int:
        """K, the number of active factors."""

    @property
    @abstractmethod
    def loadings(self) -> Array:
        """(p, K) loadings in the user's units: E[Ω] ≈ loadings loadingsᵀ + diag(noise_variance).

        In no particular rotation; `rotated_solution` has those on the axes of `rotation`.
        """

    @property
    @abstractmethod
    def active(self) -> Array:
        """(K,) the probability of each factor of `loadings` to be one, not the spike's."""

    @property
    @abstractmethod
    def expected_active_factors(self) -> float:
        """E[H*], the expected number of active factors."""

    @property
    @abstractmethod
    def noise_variance(self) -> Array:
        """(p,) the diagonal that E[Ω] has beside the loadings."""

    @property
    @abstractmethod
    def sample_correlation(self) -> Array | None:
        """Of the data, (p, p); None where it would be too large to keep."""

    @property
    def correlation_rows(self) -> int | None:
        """The number of complete rows with as much information on the correlations as the data.

        The number of rows where nothing is missing. None where values are missing and that number
        is unknown, or too small for correlations without a model.
        """
        counts = np.asarray(self.column_counts)
        if np.all(counts >= self.n_rows):
            return int(self.n_rows)
        if self.sample_correlation is None or self.effective is None:
            return None
        rows = round(self.effective.correlations)
        return rows if rows >= FEWEST_A_COLUMN * len(counts) else None

    @abstractmethod
    def draw(
        self,
        n_draws: int = N_DRAWS,
        *,
        random_state: RandomState = 0,
        average_over_k: bool = False,
    ) -> Draws:
        """Draw loadings and noise variances.

        Parameters
        ----------
        n_draws : int, default=1000
            Number of draws. A sampler has no more than those that it kept.
        random_state : None, int, numpy.random.Generator or RandomState, default=0
            Seed; None gives other draws each time.
        average_over_k : bool, default=False
            False gives draws with the chosen number of factors, True draws of which the number of
            factors is drawn too. Loadings of draws with fewer factors are filled up with zeros.
        """

    def _draws_of_chains(self, n_draws: int, random_state: RandomState) -> Draws:
        """Draws for diagnostics, chain after chain."""
        return self.draw(n_draws, random_state=random_state)

    def n_shown(self, draws: Draws) -> int:
        """The number of factors of these draws to show: all, unless a subclass says otherwise."""
        return int(draws.loadings.shape[2])

    @property
    def column_counts(self) -> Array:
        """(p,) values that each column has: all rows, unless some are missing."""
        return np.full(len(self.noise_variance), float(self.n_rows))

    def draw_means(self, draws: Draws, rng: np.random.Generator) -> Array:
        """Column means of each draw, (n_draws, p): those drawn with it, or given the rest of it.

        Without missing values, N(ȳ, Ω/n); with missing values N(E, D^{-1/2}ΩD^{-1/2}), D the
        numbers of values.
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
        mean = self.loadings
        omega: Array = mean @ mean.T
        omega[np.diag_indices_from(omega)] += self.noise_variance
        return omega

    @property
    def standardized_loadings(self) -> Array:
        """`loadings` on the correlation scale, (p, K), in no particular rotation."""
        mean = self.loadings
        sd = np.sqrt(np.sum(mean**2, axis=1) + self.noise_variance)
        return np.asarray(mean / sd[:, None])

    @cached_property
    def rotated_solution(self) -> RotatedLoadings:
        """Mean loadings on the correlation scale and the axes of `rotation`.

        With the factors' correlations and the matrix that turns principal axes to these: what
        `CuspFactorAnalysis` has as `loadings_`, `factor_correlations_` and `rotation_matrix_`.
        """
        return on_axes(self.standardized_loadings, self.rotation)

    @property
    def components(self) -> Array:
        """(K, p) the loadings of `rotated_solution` in the user's units."""
        mean = self.loadings
        sd = np.sqrt(np.sum(mean**2, axis=1) + self.noise_variance)
        return np.asarray((sd[:, None] * self.rotated_solution.loadings).T)

    @property
    def explained_variance_ratio(self) -> Array:
        """(K,) each factor's share of the variables' variance, on principal axes."""
        loadings = self.standardized_loadings
        values = np.linalg.eigvalsh(loadings.T @ loadings)[::-1]
        return np.asarray(np.maximum(values, 0.0) / len(loadings))

    def n_major_factors(
        self,
        min_share: float = 0.03,
        *,
        n_draws: int = N_DRAWS,
        random_state: RandomState = 0,
    ) -> int:
        """The number of factors that explain more than `min_share` of the variance each.

        Parameters
        ----------
        min_share : float, default=0.03
            Share of the variables' variance, compared with the median of draws of each share.
        n_draws, random_state
            See `draw`.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> CuspFactorAnalysis().fit(X).posterior_.n_major_factors(min_share=0.03)
        2
        """
        share = _share("min_share", min_share)
        drawn = self.draw(n_draws, random_state=random_state).explained_variance_ratio
        return int(np.sum(np.median(drawn, axis=0) > share))

    def summary(self, *, n_draws: int = N_DRAWS, random_state: RandomState = 0) -> Summary:
        """A page of text on the factors and the fit; `print` it.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> print(CuspFactorAnalysis().fit(X).posterior_.summary().headline)
        2 factors, all of which explain more than 3 % each (parallel analysis: 2)
        """
        return summarise(self, self.draw(n_draws, random_state=random_state))

    def to_dict(
        self, *, scores: Any = None, n_draws: int = N_DRAWS, random_state: RandomState = 0
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
            Include the statistics of the data, where they were kept: cross-products of the columns
            or, of data with more columns than rows, the centred rows up to a rotation. Without
            them the file says less about the data, but draws have no exact sweeps and `summary` no
            measures of fit. A column in which one row alone differs from all others, such as a
            rare category, gives that row away by its cross-products, and rotated rows give away
            all that is known of how rows differ: leave them out before such a fit is shared.
        scores : ndarray (n, K) or None, default=None
            Factor scores to include, as `transform` gives them; `cuspfa.posterior.load_scores`
            reads them. Without them no score or label of a row is inside, and no row as it was.

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
        target = posterior_format.check_target(path)
        if not isinstance(statistics, (bool, np.bool_)):
            raise must_be("statistics", "True or False", statistics)
        content, arrays = self.to_entries(statistics=bool(statistics))
        posterior_format.save(
            type(self), content, arrays, target, scores=scores, n_factors=self.n_active
        )

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        scores: Any = None,
        draws: Draws | None = None,
    ) -> None:
        """Write one HTML page on the fit, which opens in any browser and needs nothing else.

        The answer first, then figures, loadings with intervals on several axes, measures of fit,
        what was done, and tables to download. Needs jinja2 and matplotlib:
        `pip install 'cuspfa[cli]'`.

        Parameters
        ----------
        path : str or os.PathLike
            The file; an old one is replaced, by the whole page or not at all.
        title : str or None, default=None
            Name of the page; None for "Factor analysis".
        scores : ndarray (n, K) or None, default=None
            Factor scores to include, as `transform` gives them. Without them nothing of any row
            of the data is inside.
        draws : Draws or None, default=None
            For the intervals; None makes up to 1000 of them, given K, the same every time.

        Examples
        --------
        >>> import os, tempfile
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(100, 8, 2, random_state=0).X
        >>> posterior = CuspFactorAnalysis().fit(X).posterior_
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     posterior.report(os.path.join(folder, "report.html"))
        ...     os.listdir(folder)
        ['report.html']
        """
        write_report(self, path, title=title, scores=scores, draws=draws)

    def to_frame(self) -> Any:
        """Loadings and communalities by variable, as a data frame of pandas or polars.

        Returns
        -------
        DataFrame
            Columns `variable`, `factor1`, `factor2`, ..., on the correlation scale and the axes of
            `rotation`, and `communality`.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(100, 8, 2, random_state=0).X
        >>> list(CuspFactorAnalysis().fit(X).posterior_.to_frame().columns)
        ['variable', 'factor1', 'factor2', 'communality']
        """
        loadings = self.rotated_solution.loadings
        factors = {f"factor{k}": column for k, column in enumerate(loadings.T, 1)}
        common = np.sum(self.standardized_loadings**2, axis=1)
        return data_frame({"variable": self.column_names, **factors, "communality": common})

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return repr_html(self)

    def align(
        self,
        rotation: Method | Rotation | Literal["own"] | None = "own",
        *,
        alignment: Literal["rotation", "procrustes"] | None = None,
        draws: Draws | None = None,
        n_draws: int = N_DRAWS,
        random_state: RandomState = 0,
    ) -> AlignedDraws:
        """Draws whose factors have the same names throughout, for intervals of single loadings.

        Each draw has its own axes, order and signs of factors, of which its covariance knows
        nothing. Here each is turned to the factors of `rotated_solution`.

        Parameters
        ----------
        rotation : "own", None, str or Rotation, default="own"
            The axes: those of the fit, principal axes, or others.
        alignment : {"rotation", "procrustes"} or None, default=None
            "rotation" turns each draw by the criterion itself, and then chooses the order and the
            signs that are nearest to the mean solution: intervals hold the uncertainty of the
            axes too. "procrustes" turns each draw to come nearest to the mean solution: intervals
            are given the axes. None means "rotation", and "procrustes" on principal axes, which
            change places where factors are equally strong.
        draws : Draws or None
            Draws to use, also `average_over_k` ones or those of several chains; None makes
            `n_draws` of them with `random_state`, the same every time.
        n_draws, random_state
            See `draw`.

        Returns
        -------
        AlignedDraws
            `table()` (means, intervals, local false sign rates), `top_items()`, `scores(X)`,
            `quality` and more.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> aligned = CuspFactorAnalysis().fit(X).posterior_.align("oblimin", n_draws=200)
        >>> aligned.table().lower.shape, bool(aligned.quality > 0.95)
        ((10, 2), True)
        """
        return align(self, rotation, alignment, draws, n_draws, random_state)

    def to_arviz(
        self,
        rotation: Method | Rotation | Literal["own"] | None = "own",
        *,
        observed: Any = None,
        columns: Any = None,
        draws: Draws | None = None,
        chains: int | None = None,
        n_draws: int = N_DRAWS,
        random_state: RandomState = 0,
    ) -> Any:
        """Draws for ArviZ, for its tables, diagnostics and plots.

        Needs the package arviz: `pip install 'cuspfa[arviz]'`. Everything in it either is aligned
        (`loadings`, `factor_correlations`, `explained_variance_ratio`) or does not depend on axes
        (`communality`, `noise_variance`, `n_factors`), so that R-hat means something.

        Parameters
        ----------
        rotation : "own", None, str or Rotation, default="own"
            As in `align`.
        observed : array or data frame (n, p) or None, default=None
            Rows of the data, to be included; without them nothing of any row is inside.
        columns : None, or names, indices, slice or mask of some columns
            Variables to include: loadings need n_draws × columns × factors numbers.
        draws : Draws or None
            Draws to use; None makes them, or takes all that a sampler kept.
        chains : int or None, default=None
            Into how many chains the draws are divided; None means as many as there were. Draws of
            a variational posterior are independent: any number is right.
        n_draws, random_state
            See `draw`.

        Returns
        -------
        arviz.InferenceData with ArviZ 0.x, xarray.DataTree with ArviZ 1.x
            Group `posterior`, dimensions chain, draw, feature and factor, with the names of the
            columns. Draws that lack a factor have NaN there, and `present` says which do.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(100, 8, 2, random_state=0).X
        >>> posterior = CuspFactorAnalysis().fit(X).posterior_
        >>> data = posterior.to_arviz("varimax", n_draws=200)
        >>> dict(data["posterior"]["loadings"].sizes)
        {'chain': 1, 'draw': 200, 'feature': 8, 'factor': 2}
        """
        if draws is None:
            draws = self._draws_of_chains(n_draws, random_state)
        aligned = self.align(rotation, draws=draws)
        return for_arviz(self, aligned, observed, columns, chains)

    def interval(
        self,
        quantity: Quantity,
        prob: float = 0.95,
        *,
        columns: Any = None,
        draws: Draws | None = None,
        n_draws: int = N_DRAWS,
        random_state: RandomState = 0,
    ) -> Interval:
        """Central credible interval of each entry of a quantity.

        Parameters
        ----------
        quantity : str
            "covariance" or "correlation", (p, p); "communality", "noise_variance" or "mean", the
            means of the columns, (p,); "explained_variance_ratio", (K,), the shares of the factors
            on principal axes of the correlation scale, strongest first.
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
        at, rng = tails(prob), generator(random_state)
        if draws is None:
            draws = self.draw(n_draws, random_state=rng)
        check_draws(draws, len(self.noise_variance))
        if quantity == "explained_variance_ratio":
            shares = draws.explained_variance_ratio[:, : self.n_shown(draws)]
            factors = [f"factor{k}" for k in range(1, shares.shape[1] + 1)]
            lower, upper = np.quantile(shares, at, axis=0)
            return Interval.named(lower, upper, factors)
        chosen = np.arange(len(self.noise_variance))
        if columns is not None:
            chosen = check_columns(columns, len(self.noise_variance), self.names)
        own = self.column_names
        names = [own[j] for j in chosen]
        some: Indices | slice = slice(None) if columns is None else chosen
        if quantity in MATRICES:
            lower, upper = _matrix_interval(draws.only(some), quantity == "correlation", at)
            return Interval.named(lower, upper, names)
        values = self.draw_means(draws, rng) if quantity == "mean" else getattr(draws, quantity)
        lower, upper = np.quantile(values[:, some], at, axis=0)
        return Interval.named(lower, upper, names)


WIDEST = 2000
"""Columns up to which a correlation matrix is made of rows that were kept."""


def correlation_of(statistics: Statistics | None, p: int) -> Array | None:
    """The sample correlations of p columns, where their statistics are kept."""
    if statistics is None or p > WIDEST:
        return None
    products = statistics.rows.T @ statistics.rows
    sd = np.sqrt(np.diag(products))
    return np.asarray(products / sd[:, None] / sd)


def _matrix_interval(draws: Draws, standardised: bool, at: list[float]) -> Array:
    """Lower and upper ends, (2, p, p)."""
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
        # To sort short contiguous rows is several times quicker than quantiles along an axis.
        ordered = np.sort(np.ascontiguousarray(block.reshape(size, -1).T), axis=1)
        ends = sorted_quantiles(ordered, at).reshape(2, last - first, p - first)
        found[:, first:last, first:] = ends
        found[:, first:, first:last] = ends.transpose(0, 2, 1)
        first = last
    if standardised:
        found[:, np.arange(p), np.arange(p)] = 1.0
    else:
        found *= unit[0][:, None] * unit[0]
    return found


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise must_be(name, "a number between 0 and 1", value)
    if not 0.0 <= value < 1.0:
        raise must_be(name, "between 0 and 1", value)
    return float(value)
