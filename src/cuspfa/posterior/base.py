"""What every posterior offers, whatever engine made it.

A subclass defines draws and expectations; everything else follows from these.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast, get_args

import numpy as np

from cuspfa._typing import Array, Indices, PosteriorKind, RandomState
from cuspfa._utils.arguments import between, generator, must_be, one_of, true_or_false
from cuspfa._utils.tables import data_frame
from cuspfa._utils.warn import warn
from cuspfa._utils.wording import counted
from cuspfa.data.column_choice import check_columns
from cuspfa.data.tables.labels import ColumnLabels
from cuspfa.data.tables.wording import read_wording
from cuspfa.errors import InputError
from cuspfa.inference.kernels import Statistics
from cuspfa.interop.arviz_ import for_arviz
from cuspfa.io import posterior_format
from cuspfa.missing.kernels import RowsInMemory
from cuspfa.missing.saturated import Effective
from cuspfa.model.likelihoods.kinds import (
    ColumnLikelihood,
    LikelihoodReason,
    LikelihoodTable,
)
from cuspfa.model.model_error import ModelError
from cuspfa.model.prior import CuspPrior
from cuspfa.model.row_tails import NORMAL_TAILS, RowTails
from cuspfa.posterior.category_tables import CategoryTable, CountTable, ThresholdTable
from cuspfa.posterior.draws import N_DRAWS, Draws, Interval, check_draws, refused_if_singular
from cuspfa.posterior.entries import PosteriorEntries
from cuspfa.posterior.error_curve import CurveGap, CurveMaker, ModelErrorCurve
from cuspfa.posterior.fit_info import FitInfo
from cuspfa.posterior.population import Population
from cuspfa.posterior.presentation import (
    PLAIN_PRESENTATION,
    Presentation,
    with_names,
    with_reversed,
    with_wording,
)
from cuspfa.posterior.provenance import Provenance
from cuspfa.posterior.quantiles import matrix_quantiles, tails
from cuspfa.reporting.headline import large_share
from cuspfa.reporting.html import write_report
from cuspfa.reporting.repr_html import repr_html
from cuspfa.reporting.summary import Summary, as_dict, summarise
from cuspfa.reporting.tables.content import gather_tables
from cuspfa.reporting.tables.files import ApaTables
from cuspfa.rotation.aligned import AlignedDraws, align
from cuspfa.rotation.axes import on_axes, shares
from cuspfa.rotation.gpa import RotatedLoadings, Rotation, RotationMethod

if TYPE_CHECKING:
    from cuspfa.posterior.sampled import Diagnostics

MIN_ROWS_PER_COLUMN = 3
"""Least effective rows per column of incomplete data for measures of fit."""
Quantity = Literal[
    "covariance",
    "correlation",
    "communality",
    "noise_variance",
    "mean",
    "explained_variance_ratio",
    "thresholds",
    "dispersion",
]
"""What `Posterior.interval` can be asked for."""
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
MATRICES = ("covariance", "correlation")
KEPT_RESULTS = ("model_error_curve", "population", "swept", "kept")
"""Cached results that do not depend on how a posterior is shown."""
WIDEST_CORRELATION = 2000
"""Columns up to which a correlation matrix is made of rows that were kept."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Posterior(ABC):
    """Draws, means and intervals in the user's units, the same for every engine.

    Loadings, noise variances, means and covariances are in the user's units; shares of variance,
    communalities and what `align` gives are on the correlation scale. Everything is given the
    chosen number of factors, K, unless draws are made with `average_over_k=True`.

    Seeds: `random_state=0` is the default of every method that draws, so that the same call gives
    the same answer. Another seed gives other draws; None gives others each time.
    """

    kind: ClassVar[PosteriorKind]
    """The engine that made it, or "latent" for the scale of latent responses."""
    layout: ClassVar[PosteriorEntries]
    """What a file of such a posterior holds."""
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
    names: list[str] | None = None
    """Column names, if the data had any."""
    fit_info: FitInfo | None = None
    """How the fit went."""
    rotation: Rotation | None = None
    """The axes that its factors are shown on; None for principal axes."""
    provenance: Provenance | None = None
    """Where the fit came from."""
    presentation: Presentation = PLAIN_PRESENTATION
    """Names and signs of the factors, and the wording of the variables, where they are shown."""
    correlation: Array | None = None
    """(p, p) correlations of incomplete data without a factor model, where these are known."""
    effective: Effective | None = None
    """Complete rows with as much information as incomplete data, where that is known."""
    model_error: float = 0.0
    """ε of the fit, a population RMSEA; 0 where the model is taken to be exact."""
    curve_maker: CurveMaker | None = None
    """The engine's function behind `model_error_curve`; None of an alternative."""
    tails: RowTails = NORMAL_TAILS
    """The distribution of the rows, normal or t; the latter of a robust fit."""
    row_weights: Array | None = None
    """(n,) weights of the rows of a robust fit; None without one, or if they were not saved."""
    n_chains: int = 1
    """Chains behind its draws, each with as many of them, one after the other."""
    rows: RowsInMemory | None = None
    """Rows with missing values, for exact draws; None if nothing is missing, and in a posterior
    that was loaded, pickled or copied."""

    def __repr__(self) -> str:
        """Short, without its arrays."""
        sizes = (self.n_active, "factor"), (self.n_rows, "row"), (len(self.center), "column")
        return f"<{type(self).__name__} of {', '.join(counted(*one) for one in sizes)}>"

    @property
    def mean(self) -> Array:
        """(p,) E of the columns' means; the sample means where nothing is missing."""
        return self.center

    @property
    def likelihoods(self) -> LikelihoodTable:
        """The likelihood of each column, and why it has it."""
        asked = self.provenance is None or self.provenance.settings.likelihood == "gaussian"
        reason: LikelihoodReason = "given" if asked else "rule"
        return LikelihoodTable(
            ColumnLikelihood(name, "gaussian", "", (), reason) for name in self.column_names
        )

    @property
    def thresholds(self) -> tuple[Array, ...]:
        """Thresholds of each column, for latent responses of variance one; empty if not ordinal."""
        return (np.zeros(0),) * len(self.center)

    def thresholds_of(self, columns: Indices) -> tuple[Indices, list[str]]:
        """Positions and names of the thresholds of some columns."""
        return np.zeros(0, dtype=np.intp), []

    def standardized_thresholds(self, draws: Draws) -> Array:
        """(n_draws, T) thresholds of draws, for latent responses of variance one."""
        return np.zeros((len(draws), 0))

    @property
    def dispersed(self) -> Indices:
        """(D,) positions of negative binomial columns."""
        return np.zeros(0, dtype=np.intp)

    def count_table(self, prob: float = 0.95, *, draws: Draws | None = None) -> CountTable:
        """Log rates and dispersions of columns of counts, with intervals; empty without counts."""
        return CountTable()

    def level_labels(self, j: int) -> list[str]:
        """Labels of the categories of a column; none of a column that is not ordinal."""
        return []

    @property
    def answers_omega(self) -> float:
        """ω of the sum of the answers, where all columns are ordinal with the probit link."""
        return math.nan

    def category_probabilities(
        self, prob: float = 0.95, *, draws: Draws | None = None
    ) -> CategoryTable:
        """Observed and predicted share of each category of ordinal columns; none of others."""
        return CategoryTable()

    def threshold_table(self, prob: float = 0.95, *, draws: Draws | None = None) -> ThresholdTable:
        """Thresholds of ordinal columns with intervals; none of others."""
        return ThresholdTable()

    def rare_categories(self, fewest: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Categories of ordinal columns with fewer rows than this, and those with none."""
        return (), ()

    @property
    def number_given(self) -> bool:
        """Was the number of factors given, not inferred?"""
        if self.provenance is not None:
            return self.provenance.settings.n_factors != "auto"
        fit_info = self.fit_info
        return fit_info is not None and fit_info.method != "gibbs" and len(fit_info.search) == 1

    @property
    def column_names(self) -> list[str]:
        """Names of the columns: those of the data, or x0, x1, ..."""
        p = len(self.center)
        return [f"x{j}" for j in range(p)] if self.names is None else list(self.names)

    @property
    def factor_names(self) -> list[str]:
        """Names of the factors on the axes of `rotation`, or Factor 1, Factor 2, ..."""
        return self.presentation.heads(self.n_active)

    @property
    def column_labels(self) -> list[str]:
        """The wording of each column, from `with_wording` or the data's file; else empty."""
        found = {one.name: one.label for one in self._labels} | dict(self.presentation.wording)
        return [found.get(name, "") for name in self.column_names]

    @property
    def value_labels(self) -> dict[str, dict[float, str]]:
        """Labels of values, such as 1 "never", by the columns that have any in the data's file."""
        return {one.name: dict(one.values) for one in self._labels if one.values}

    @property
    def _labels(self) -> tuple[ColumnLabels, ...]:
        data = None if self.provenance is None else self.provenance.data
        return () if data is None else data.labels

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
        """(K,) the probability that each factor of `loadings` is active, not of the spike."""

    @property
    @abstractmethod
    def expected_active_factors(self) -> float:
        """E[H*], the expected number of active factors."""

    @property
    @abstractmethod
    def noise_variance(self) -> Array:
        """(p,) the diagonal of E[Ω] − loadings loadingsᵀ."""

    @property
    def sample_correlation(self) -> Array | None:
        """(p, p) of the data; None where `statistics` is None or the matrix would be large."""
        if self.statistics is None or len(self.scale) > WIDEST_CORRELATION:
            return None
        products = self.statistics.rows.T @ self.statistics.rows
        sd = np.sqrt(np.diag(products))
        return np.asarray(products / sd[:, None] / sd)

    @property
    def correlation_rows(self) -> int | None:
        """The number of complete rows with as much information on the correlations as the data.

        The number of rows where nothing is missing; of a robust fit fewer. None where
        values are missing and that number is unknown, or too small for correlations without a
        model.
        """
        counts = np.asarray(self.column_counts)
        if np.all(counts >= self.n_rows):
            return round(self.tails.effective_rows(self.n_rows, len(counts)))
        if self.sample_correlation is None or self.effective is None:
            return None
        rows = round(self.effective.correlations)
        return rows if rows >= MIN_ROWS_PER_COLUMN * len(counts) else None

    @abstractmethod
    def draw(
        self,
        n_draws: int = N_DRAWS,
        *,
        random_state: RandomState = 0,
        average_over_k: bool = False,
        population: bool = False,
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
        population : bool, default=False
            Also draw the population covariance of each draw, with model error: p×p numbers each.
        """

    def draws_by_chain(self, n_draws: int = N_DRAWS, random_state: RandomState = 0) -> Draws:
        """Draws for diagnostics, chain after chain: all that a sampler kept, or new ones."""
        return self.draw(n_draws, random_state=random_state)

    @property
    def has_latent_responses(self) -> bool:
        """Are new rows read through latent responses, as columns are not all Gaussian?"""
        return False

    @property
    def has_exact_draws(self) -> bool:
        """Are there the data, or a sampler's draws, that draws without mean field need?"""
        return self.statistics is not None or self.rows is not None

    @property
    def chain_log_likelihood(self) -> Array | None:
        """(chains, draws) log-likelihood of a sampler's draws; None without a sampler."""
        return None

    @property
    def diagnostics(self) -> Diagnostics | None:
        """R-hat and effective sizes of a sampler's draws; None without a sampler."""
        return None

    def without_names(self) -> Self:
        """A posterior whose columns are known by their order alone."""
        copied: Self = replace(cast("Any", self), names=None)
        return copied

    def with_factor_names(self, names: Sequence[str] | None) -> Self:
        """A posterior with names for its factors.

        Tables, figures, reports and files have them. They belong to the axes of `rotation`; on
        other axes factors are numbered.

        Parameters
        ----------
        names : list of str or None
            One for each factor, in their order; None for numbers.

        Returns
        -------
        Posterior
            A new one; `CuspFactorAnalysis.from_posterior` makes a model of it, whose scores have
            these names.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> posterior = CuspFactorAnalysis(rotation="oblimin").fit(X).posterior_
        >>> posterior.with_factor_names(["Verbal", "Spatial"]).factor_names
        ['Verbal', 'Spatial']
        """
        return self._with_fields(presentation=with_names(self.presentation, names, self.n_active))

    def with_reversed_factors(self, factors: Any) -> Self:
        """A posterior with the signs of some factors changed.

        A factor and its negative describe the same data. Loadings, scores and correlations of
        these factors change their signs; a second reversal restores them.

        Parameters
        ----------
        factors : int, str, or list of these
            Numbers, from 1 on, or names of factors.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> posterior = CuspFactorAnalysis().fit(X).posterior_
        >>> other = posterior.with_reversed_factors(2)
        >>> (other.rotated_solution.loadings / posterior.rotated_solution.loadings)[0]
        array([ 1., -1.])
        """
        return self._with_fields(
            presentation=with_reversed(self.presentation, factors, self.n_active)
        )

    def with_wording(self, wording: Mapping[str, str] | str | os.PathLike[str]) -> Self:
        """A posterior with the wording of items beside the names of columns.

        Labels of SPSS and Stata files are there already; these replace them.

        Parameters
        ----------
        wording : mapping from str to str, or path
            The wording by the name of the column, or a file with these two in each row. Names in
            a file that are not columns of the fit are not used, with a warning.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.load_bfi(subset="paper", as_frame=True).data[["N1", "N2", "N3", "N4"]]
        >>> posterior = CuspFactorAnalysis().fit(X).posterior_
        >>> posterior.with_wording({"N1": "Get angry easily."}).column_labels
        ['Get angry easily.', '', '', '']
        """
        if isinstance(wording, (str, os.PathLike)):
            found = read_wording(os.fspath(wording), self.column_names)
            if found.unused:
                warn(found.unused)
            wording = found.texts
        return self._with_fields(
            presentation=with_wording(self.presentation, wording, self.column_names)
        )

    def _with_fields(self, **changed: Any) -> Self:
        """The posterior shown otherwise: results that do not depend on that are kept."""
        copied: Self = replace(cast("Any", self), **changed)
        for name in KEPT_RESULTS:
            if name in self.__dict__:
                copied.__dict__[name] = self.__dict__[name]
        return copied

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
        numbers of values. Rows of a robust fit count as fewer.
        """
        if draws.mean is not None:
            return draws.mean
        size, p, k = draws.loadings.shape
        shift = draws.loadings @ rng.standard_normal((size, k, 1))
        noise = np.sqrt(draws.noise_variance) * rng.standard_normal((size, p))
        counts = self.column_counts * self.tails.effective_rows(1.0, p)
        return np.asarray(self.mean + (shift[:, :, 0] + noise) / np.sqrt(counts))

    @cached_property
    def population(self) -> Population | None:
        """What is known of the population covariance Σ̃; None where it is Ω.

        That is so without model error, and where the cross-products of the data are not known.
        """
        if self.model_error == 0.0 or self.statistics is None:
            return None
        error = ModelError.of_size(self.model_error, len(self.scale))
        return Population(self.scale * self.statistics.rows, self.statistics.n, error)

    def with_population(self, draws: Draws, rng: np.random.Generator) -> Draws:
        """The draws with a population covariance for each, where that is not Ω."""
        if self.population is None:
            return draws
        with refused_if_singular():
            return replace(draws, population=self.population.draw(draws, rng))

    @cached_property
    def model_error_curve(self) -> ModelErrorCurve:
        """The number of factors by tolerated model error, from what is kept of the data.

        It is computed when it is first asked for, and takes a few times as long as the fit. The
        point of the fit's own error is that of the fit. Where there is no curve, `gap` says why. A
        sampled posterior has none: the curve is that of the variational engine.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> curve = CuspFactorAnalysis().fit(X).posterior_.model_error_curve
        >>> [point.n_factors for point in curve.points]
        [2, 2, 2, 2, 2, 2, 2]
        """
        if self.kind == "gibbs":
            return ModelErrorCurve((), CurveGap.SAMPLED)
        if self.curve_maker is None:
            return ModelErrorCurve((), CurveGap.NO_SEARCH)
        return self.curve_maker(self)

    @property
    def covariance(self) -> Array:
        """E[Ω], (p, p), of the model; `population` is about the covariance of the population."""
        mean = self.loadings
        omega: Array = mean @ mean.T
        omega[np.diag_indices_from(omega)] += self.noise_variance
        return omega

    @property
    def _sd(self) -> Array:
        """(p,) standard deviations of the columns under E[Ω]."""
        return np.asarray(np.sqrt(np.sum(self.loadings**2, axis=1) + self.noise_variance))

    @property
    def standardized_loadings(self) -> Array:
        """`loadings` on the correlation scale, (p, K), in no particular rotation."""
        return np.asarray(self.loadings / self._sd[:, None])

    @cached_property
    def rotated_solution(self) -> RotatedLoadings:
        """Mean loadings on the correlation scale and the axes of `rotation`.

        It also holds the correlations of the factors and the matrix of the rotation from principal
        axes. `CuspFactorAnalysis` has these three as `loadings_`, `factor_correlations_` and
        `rotation_matrix_`.
        """
        return self.presentation.reverse(on_axes(self.standardized_loadings, self.rotation))

    @property
    def components(self) -> Array:
        """(K, p) the loadings of `rotated_solution` in the user's units."""
        return np.asarray((self._sd[:, None] * self.rotated_solution.loadings).T)

    @property
    def explained_variance_ratio(self) -> Array:
        """(K,) each factor's share of the variables' variance, on the axes of `rotation`."""
        return shares(self.rotated_solution)

    def share_draws(self, draws: Draws, aligned: AlignedDraws | None = None) -> Array:
        """Shares of the variance of each draw, (n_draws, K), on the axes of `rotation`.

        `aligned` are the same draws on these axes, where they are known.
        """
        if self.rotation is None:
            return draws.explained_variance_ratio[:, : self.n_shown(draws)]
        return (aligned or self.align(draws=draws)).explained_variance_ratio

    def n_major_factors(
        self,
        min_share: float | None = None,
        *,
        n_draws: int = N_DRAWS,
        random_state: RandomState = 0,
    ) -> int:
        """The number of factors that explain more than `min_share` of the variance each.

        They are counted on the axes of `rotation`, as they are shown.

        Parameters
        ----------
        min_share : float or None, default=None
            Share of the variables' variance, compared with the median of draws of each share.
            None means 3 % or, of more than 100 columns, the share (1 + √(p/n))²/p that the leading
            component of pure noise would have.
        n_draws, random_state
            See `draw`.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> CuspFactorAnalysis().fit(X).posterior_.n_major_factors(min_share=0.03)
        2
        """
        if min_share is None:
            share = large_share(len(self.scale), self.n_rows).value
        else:
            share = between("min_share", min_share, 0.0, 1.0)
        drawn = self.share_draws(self.draw(n_draws, random_state=random_state))
        return int(np.sum(np.median(drawn, axis=0) > share))

    def with_curve_maker(self, maker: CurveMaker) -> Self:
        """The posterior with the engine's function behind `model_error_curve`."""
        return replace(self, curve_maker=maker)

    def summary(self, *, n_draws: int = N_DRAWS, random_state: RandomState = 0) -> Summary:
        """A page of text on the factors and the fit; `print` it.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> print(CuspFactorAnalysis().fit(X).posterior_.summary().headline)
        2 factors can be told from chance, also if the model may be off by RMSEA 0.07
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

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(100, 8, 2, random_state=0).X
        >>> CuspFactorAnalysis().fit(X).posterior_.to_dict()["n_factors"]
        2
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
            measures of fit. Leave them out before a fit is shared that must not reveal rows: where
            a single row of a column differs from all others, as in a rare category, cross-products
            reveal that row, and rotated rows reveal all differences between rows. Weights of rows
            are left out with them.
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
        content, arrays = self.layout.describe(
            self, statistics=true_or_false("statistics", statistics)
        )
        posterior_format.write_posterior(
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

        It begins with the number of factors. Figures, loadings with intervals on several axes,
        measures of fit, the methods and tables to download follow. Needs jinja2 and matplotlib:
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

    def apa_tables(
        self,
        *,
        suppress: float = 0.0,
        sort: bool = True,
        intervals: bool = False,
        prob: float = 0.95,
        draws: Draws | None = None,
    ) -> ApaTables:
        """Tables for a paper: loadings, factors, their correlations and measures of fit.

        Variables are grouped by the factor with their largest loading. The factors have shares of
        variance, and α and ω of the sum of their variables. All have credible intervals.

        Parameters
        ----------
        suppress : float, default=0.0
            Leave out loadings that are smaller in absolute value.
        sort : bool, default=True
            Group the variables by factor and sort them by size; False keeps the order of the data.
        intervals : bool, default=False
            Write the intervals of loadings and communalities too.
        prob : float, default=0.95
            Probability of the intervals.
        draws : Draws or None, default=None
            For the intervals; None makes up to 1000 of them, the same every time.

        Returns
        -------
        ApaTables
            `write(path)` writes .docx, .tex, .md, .html or .xlsx; `items`, `factors`,
            `correlations` and `fit` have the values.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.load_bfi(subset="paper", as_frame=True).data[["N1", "N2", "N3", "N4"]]
        >>> tables = CuspFactorAnalysis().fit(X).posterior_.apa_tables(suppress=0.3)
        >>> print(tables.to_markdown().splitlines()[2])
        *Factor Loadings and Communalities of 4 Items*
        """
        return gather_tables(
            ApaTables,
            self,
            suppress=suppress,
            sort=sort,
            intervals=intervals,
            prob=prob,
            draws=draws,
        )

    def to_frame(self) -> Any:
        """Loadings and communalities by variable, as a data frame of pandas or polars.

        Returns
        -------
        DataFrame
            Columns `variable`, `factor1`, `factor2`, ... or the names of the factors, on the
            correlation scale and the axes of `rotation`, and `communality`. `label` has the wording
            of the variables, if there is any.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(100, 8, 2, random_state=0).X
        >>> list(CuspFactorAnalysis().fit(X).posterior_.to_frame().columns)
        ['variable', 'factor1', 'factor2', 'communality']
        """
        loadings = self.rotated_solution.loadings
        heads = self.presentation.heads(loadings.shape[1], "factor{}")
        factors = dict(zip(heads, loadings.T, strict=True))
        labels = {"label": self.column_labels} if any(self.column_labels) else {}
        common = np.sum(self.standardized_loadings**2, axis=1)
        return data_frame(
            {"variable": self.column_names, **labels, **factors, "communality": common}
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return repr_html(self)

    def align(
        self,
        rotation: RotationMethod | Rotation | Literal["own"] | None = "own",
        *,
        alignment: Literal["rotation", "procrustes"] | None = None,
        draws: Draws | None = None,
        n_draws: int = N_DRAWS,
        random_state: RandomState = 0,
    ) -> AlignedDraws:
        """Rotate draws to common factors, for intervals of single loadings.

        The covariance of a draw determines neither the axes nor the order nor the signs of its
        factors. Here each draw is rotated to the factors of `rotated_solution`.

        Parameters
        ----------
        rotation : "own", None, str or Rotation, default="own"
            The axes: those of the fit, principal axes, or others.
        alignment : {"rotation", "procrustes"} or None, default=None
            "rotation" rotates each draw by the criterion itself, and then chooses the order and
            the signs that are nearest to the mean solution: intervals include the uncertainty of
            the axes. "procrustes" rotates each draw as near as possible to the mean solution:
            intervals are conditional on the axes. None means "rotation" and, on principal axes,
            "procrustes": principal axes change places where factors are equally strong.
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
        rotation: RotationMethod | Rotation | Literal["own"] | None = "own",
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
        (`communality`, `noise_variance`, `n_factors`, `thresholds`), so that R-hat means something.

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
            a variational posterior are nearly independent: any number is right.
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
            draws = self.draws_by_chain(n_draws, random_state)
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
            "covariance" or "correlation", (p, p), with model error those of the population;
            "communality", "noise_variance" or "mean", the
            means of the columns, (p,); "explained_variance_ratio", (K,), the shares of the factors
            of the correlation scale on the axes of `rotation`; "thresholds" of ordinal columns;
            "dispersion" of negative binomial ones.
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
        self._check_quantity(quantity)
        at, rng = tails(prob), generator(random_state)
        if draws is None:
            draws = self.draw(n_draws, random_state=rng)
        check_draws(draws, len(self.noise_variance))
        if quantity == "explained_variance_ratio":
            drawn = self.share_draws(draws)
            factors = self.presentation.heads(drawn.shape[1], "factor{}")
            lower, upper = np.quantile(drawn, at, axis=0)
            return Interval.named(lower, upper, factors)
        chosen, own = self._chosen(columns), self.column_names
        if quantity == "thresholds":
            kept, names = self.thresholds_of(chosen)
            lower, upper = np.quantile(self.standardized_thresholds(draws)[:, kept], at, axis=0)
            return Interval.named(lower, upper, names)
        if quantity == "dispersion":
            which = np.isin(self.dispersed, chosen)
            lower, upper = np.quantile(required_dispersion(draws)[:, which], at, axis=0)
            return Interval.named(lower, upper, [own[j] for j in self.dispersed[which]])
        names = [own[j] for j in chosen]
        some: Indices | slice = slice(None) if columns is None else chosen
        standardized = quantity == "correlation"
        if quantity in MATRICES and draws.population is not None:
            matrices = getattr(draws.only(some), quantity)
            lower, upper = np.quantile(matrices, at, axis=0)
            return Interval.named(lower, upper, names)
        if quantity in MATRICES and self.population is not None:
            lower, upper = self.population.matrix_quantiles(
                draws, at, rng, some, standardized=standardized
            )
            return Interval.named(lower, upper, names)
        if quantity in MATRICES:
            chosen_draws = draws.only(some)
            lower, upper = matrix_quantiles(
                chosen_draws.loadings,
                chosen_draws.noise_variance,
                at,
                standardized=standardized,
            )
            return Interval.named(lower, upper, names)
        values = self.draw_means(draws, rng) if quantity == "mean" else getattr(draws, quantity)
        lower, upper = np.quantile(values[:, some], at, axis=0)
        return Interval.named(lower, upper, names)

    def _check_quantity(self, quantity: Quantity) -> None:
        """Raise an InputError for a quantity that these columns do not have."""
        one_of("quantity", quantity, QUANTITIES)
        if quantity == "thresholds" and not any(map(len, self.thresholds)):
            raise InputError("Thresholds are those of ordinal columns. This fit has none.")
        if quantity == "dispersion" and not len(self.dispersed):
            raise InputError("Dispersions are those of negative binomial columns. Got none.")

    def _chosen(self, columns: Any) -> Indices:
        """Positions of columns, all for None."""
        p = len(self.noise_variance)
        return np.arange(p) if columns is None else check_columns(columns, p, self.names)


def required_dispersion(draws: Draws) -> Array:
    """(n_draws, D) dispersions of draws, or an InputError where they have none."""
    if draws.dispersion is None:
        raise must_be("draws", "draws of this posterior, with dispersions", "draws without")
    return draws.dispersion


def check_posterior(
    value: Any,
    name: str = "posterior",
    expected: str = "a posterior such as model.posterior_",
) -> Posterior:
    """The posterior, or an InputError if the argument is something else."""
    if not isinstance(value, Posterior):
        raise must_be(name, expected, type(value).__name__)
    return value
