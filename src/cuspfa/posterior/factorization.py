"""The posterior of a Poisson factorization: its mean-field part, and exact draws on request."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

import numpy as np

from cuspfa._typing import Array, Indices, PosteriorKind, RandomState
from cuspfa._utils.arguments import generator, must_be, one_of, whole
from cuspfa._utils.spelling import EngineSettings
from cuspfa._utils.tables import data_frame
from cuspfa._utils.wording import counted
from cuspfa.data.column_choice import check_columns
from cuspfa.errors import InputError
from cuspfa.io import posterior_format
from cuspfa.model.poisson_factorization import Hyperparameters, PoissonFactorizationPrior
from cuspfa.posterior.draws import Interval
from cuspfa.posterior.error_curve import CurveMaker
from cuspfa.posterior.factorization_entries import FactorizationEntries
from cuspfa.posterior.factorization_results import (
    CountFitInfo,
    CountProvenance,
    CountTotals,
    FactorItem,
    FactorItems,
    FactorizationDraws,
    RawDraws,
    Sampler,
    matched_draws,
)
from cuspfa.posterior.presentation import PLAIN_PRESENTATION, Presentation, with_names
from cuspfa.posterior.quantiles import tails
from cuspfa.reporting.factorization_summary import (
    CountSummary,
    counts_as_dict,
    summarise_counts,
)
from cuspfa.reporting.html import write_count_report
from cuspfa.reporting.repr_html import count_repr_html

N_COUNT_DRAWS = 200
"""The default number of draws."""
FEWEST_KEPT, MOST_KEPT_NUMBERS = 50, 8e6
"""Draws that a summary and a file are made of: as many as by default, or with many loadings fewer,
for memory and the size of a file."""
COUNT_WARM_UP = 50
"""Draws that are left out before the first one is kept."""
MOST_KEPT_WORK = 5e9
"""Most counts × factors × sweeps for the draws that are kept; beyond it there are fewer draws, and
where even these are too many, draws from the mean-field distribution."""
CountQuantity = Literal["rates", "loadings", "column_shares", "shares"]
"""What `FactorizationPosterior.interval` can be asked for."""
COUNT_QUANTITIES: tuple[CountQuantity, ...] = get_args(CountQuantity)


class FittedRows(NamedTuple):
    """q(θ_ih) = Ga(shape, rate) of the rows of the fit, and their exposures."""

    shape: Array
    rate: Array
    exposure: Array


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FactorizationPosterior:
    """The posterior of x_ij ~ Po(s_i Σ_h θ_ih β_jh) after a fit.

    q(θ_ih) and q(β_jh) = Ga(loading_shape, loading_rate) are gamma distributions, largest factor
    first. Mean field leaves out that scores and loadings depend on each other, so intervals are
    those of exact draws.

    Seeds: `random_state=0` is the default of every method that draws, so that the same call gives
    the same answer.

    Examples
    --------
    >>> import numpy as np
    >>> from cuspfa import CuspPoissonFactorization
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(0.5, 2, (60, 2)) @ rng.gamma(0.5, 2, (2, 20)))
    >>> posterior = CuspPoissonFactorization(n_factors=2, random_state=0).fit(X).posterior_
    >>> interval = posterior.interval("rates", rows=[0], columns=[0, 1])
    >>> interval.lower.shape
    (1, 2)
    """

    kind: ClassVar[PosteriorKind] = "poisson_factorization"
    layout: ClassVar[FactorizationEntries] = FactorizationEntries()
    n_rows: int
    """Rows of the data."""
    loading_shape: Array
    """(p, K)"""
    loading_rate: Array
    """(p, K)"""
    score_totals: Array
    """(K,) Σ_i s_i E θ_ih"""
    hyperparameters: Hyperparameters
    """a, c, e and f, as learned or given."""
    prior: PoissonFactorizationPrior
    totals: CountTotals
    """Sums over the data, and residual dispersion."""
    names: tuple[str, ...] | None = None
    rows: FittedRows | None = None
    """Of the rows of the fit; None in a posterior that was loaded."""
    sampler: Sampler | None = field(default=None)
    """Exact sweeps; None of a loaded posterior, and of values that are not whole numbers."""
    stored: FactorizationDraws | None = None
    """The draws of a file."""
    exact: bool = True
    """Are the draws of a file exact?"""
    fit_info: CountFitInfo | None = None
    """How the fit went."""
    provenance: CountProvenance | None = None
    """Where the fit came from."""
    presentation: Presentation = PLAIN_PRESENTATION
    """Names of the factors."""
    n_chains: int = 0
    """Chains of a sampler; 0 of a variational fit."""
    engine: EngineSettings | None = None
    """Settings of a sampler; None of a variational fit."""

    @property
    def n_active(self) -> int:
        """K, the number of factors."""
        return int(self.loading_shape.shape[1])

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return len(self.loading_shape)

    @property
    def number_given(self) -> bool:
        """Was the number of factors given, not inferred?"""
        return self.provenance is not None and self.provenance.settings.n_factors != "auto"

    @property
    def count_probabilities(self) -> Array | None:
        """P(K = 0), P(K = 1), ... by the draws of a sampler; None without one."""
        return None

    @property
    def column_names(self) -> list[str]:
        """Names of the columns: those of the data, or x0, x1, ..."""
        return [f"x{j}" for j in range(self.n_columns)] if self.names is None else list(self.names)

    @property
    def factor_names(self) -> list[str]:
        """Names of the factors, or Factor 1, Factor 2, ..."""
        return self.presentation.heads(self.n_active)

    @property
    def scores(self) -> Array:
        """(n, K) E θ of the rows of the fit."""
        if self.rows is None:
            raise InputError(
                "A saved fit holds no row, so it has no scores of the rows of the fit. Use "
                "transform of CuspPoissonFactorization.from_posterior, or load_scores if they were "
                "saved with it."
            )
        return np.asarray(self.rows.shape / self.rows.rate)

    @property
    def loadings(self) -> Array:
        """(p, K) E β"""
        return np.asarray(self.loading_shape / self.loading_rate)

    @property
    def components(self) -> Array:
        """(K, p) E β, as scikit-learn has loadings."""
        return self.loadings.T

    @property
    def shares(self) -> Array:
        """(K,) the part of all expected counts that each factor has."""
        sizes = self.score_totals * self.loadings.sum(axis=0)
        return np.asarray(sizes / sizes.sum()) if self.n_active else np.zeros(0)

    @property
    def column_shares(self) -> Array:
        """(p, K) β_jh / Σ_j β_jh, the part of a factor's events that each column has."""
        return np.asarray(self.loadings / self.loadings.sum(axis=0))

    @property
    def factor_shares(self) -> Array:
        """(p, K) the part of a column's expected events that belongs to each factor."""
        sizes = self.score_totals * self.loadings
        least = np.finfo(float).tiny
        return np.asarray(sizes / np.maximum(sizes.sum(axis=1, keepdims=True), least))

    def __repr__(self) -> str:
        sizes = (self.n_active, "factor"), (self.n_rows, "row"), (self.n_columns, "column")
        return f"<{type(self).__name__} of {', '.join(counted(*one) for one in sizes)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return count_repr_html(self)

    # --- draws ---

    @property
    def has_exact_draws(self) -> bool:
        """Are the draws of summaries and files those of exact sweeps?"""
        if self.stored is not None:
            return self.exact
        return self.sampler is not None and self._kept_number()[1] > 0

    def draw(
        self, n_draws: int = N_COUNT_DRAWS, *, thin: int = 2, random_state: RandomState = 0
    ) -> FactorizationDraws:
        """Draws by exact sweeps, which begin at the fit.

        Parameters
        ----------
        n_draws : int, default=200
            Number of draws. Of a loaded posterior they are some of those in the file, all of them
            if it has fewer.
        thin : int, default=2
            Sweeps for each draw; as many as for 50 draws come before the first.
        random_state : None, int, numpy.random.Generator or RandomState, default=0
            Seed of the draws; None gives others each time.

        Returns
        -------
        FactorizationDraws
        """
        asked, thin = whole("n_draws", n_draws, 1), whole("thin", thin, 1)
        rng = generator(random_state)
        if self.stored is not None:
            if asked >= len(self.stored):
                return self.stored
            return self.stored.some(np.sort(rng.choice(len(self.stored), asked, replace=False)))
        if self.sampler is None:
            raise InputError(
                "This posterior has no counts to draw with: the fit had fractions=True. "
                "`posterior.kept` has draws from the mean-field distribution."
            )
        return matched_draws(self.sampler.draw(asked, thin, rng, True), self.components)

    def _drawn(self, n_draws: int | None, random_state: RandomState) -> FactorizationDraws:
        """The draws that are kept, or as many as asked for."""
        if n_draws is None:
            return self.kept
        return self.draw(n_draws, random_state=random_state)

    @cached_property
    def kept(self) -> FactorizationDraws:
        """The draws that summaries, reports and files are made of, without scores.

        They are made once. Where exact sweeps would take long, or are not possible, they are those
        of the mean-field distribution, and `has_exact_draws` is False.
        """
        if self.stored is not None:
            return self.stored
        rng = np.random.default_rng(0)
        number, thin = self._kept_number()
        if self.sampler is not None and thin:
            raw = self.sampler.draw(number, thin, rng, False)
            return matched_draws(raw, self.components)
        shape = (number, *self.loading_shape.shape)
        loadings = rng.standard_gamma(self.loading_shape, shape) / self.loading_rate
        sizes = self.score_totals * loadings.sum(axis=1)
        shares = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        hyper = [self.hyperparameters] * number
        return matched_draws(RawDraws(loadings, shares, hyper, None), self.components)

    def _kept_number(self) -> tuple[int, int]:
        """Draws that are kept, and sweeps for each; none where sweeps would take long."""
        size = max(self.loading_shape.size, 1)
        number = int(np.clip(MOST_KEPT_NUMBERS // size, FEWEST_KEPT, N_COUNT_DRAWS))
        if self.sampler is None:
            return number, 0
        for draws, thin in ((number, 2), (number, 1), (FEWEST_KEPT, 1)):
            if self.sampler.work * (draws + COUNT_WARM_UP) * thin <= MOST_KEPT_WORK:
                return draws, thin
        return number, 0

    def interval(
        self,
        quantity: CountQuantity,
        prob: float = 0.95,
        *,
        rows: Any = None,
        columns: Any = None,
        draws: FactorizationDraws | None = None,
        n_draws: int = N_COUNT_DRAWS,
        random_state: RandomState = 0,
    ) -> Interval:
        """Central credible interval of each entry of a quantity, by exact draws.

        Parameters
        ----------
        quantity : str
            "rates", (rows, columns), Σ_h θ_ih β_jh of the rows of the fit for an exposure of 1;
            "loadings", (columns, K); "column_shares", (columns, K), the part of a factor's events
            that each column has; "shares", (K,), the part of all expected counts that each factor
            has. Rates are always identified. Loadings are not, unless the prior is near the truth:
            other loadings may give the same rates.
        prob : float, default=0.95
            Probability of the interval.
        rows : None or indices
            Rows of "rates".
        columns : None, or names, indices, slice or mask of some columns
            The entries of these alone; of no effect on "shares".
        draws : FactorizationDraws or None
            Draws to use; None makes `n_draws` of them with `random_state`, the same every time.
        n_draws, random_state
            See `draw`.

        Returns
        -------
        Interval
        """
        one_of("quantity", quantity, COUNT_QUANTITIES)
        at = tails(prob)
        if draws is None:
            draws = self.draw(n_draws, random_state=random_state)
        names, factors = self.column_names, self.presentation.heads(self.n_active, "factor{}")
        if quantity == "shares":
            lower, upper = np.quantile(draws.shares, at, axis=0)
            return Interval.named(lower, upper, factors)
        some = np.arange(self.n_columns)
        if columns is not None:
            some = check_columns(columns, self.n_columns, None if self.names is None else names)
        names = [names[j] for j in some]
        if quantity == "rates":
            which: Indices = np.arange(self.n_rows) if rows is None else np.asarray(rows)
            lower, upper = np.quantile(draws.rates(which, some), at, axis=0)
            return Interval.named(lower, upper, [f"row {i}" for i in which], names)
        values = draws.loadings if quantity == "loadings" else draws.column_shares
        lower, upper = np.quantile(values[:, some], at, axis=0)
        return Interval.named(lower, upper, names, factors)

    # --- results ---

    def top_items(
        self,
        n_items: int = 10,
        prob: float = 0.95,
        *,
        draws: FactorizationDraws | None = None,
    ) -> FactorItems:
        """The columns with the largest loadings of each factor: its words, genes or species.

        Parameters
        ----------
        n_items : int, default=10
            Columns of each factor.
        prob : float, default=0.95
            Probability of the intervals.
        draws : FactorizationDraws or None, default=None
            Draws to use; None takes those of `kept`.

        Returns
        -------
        FactorItems
            Each with the part of the factor's events that the column has, its interval, and the
            part of the column's events that belongs to the factor.
        """
        number, at = min(whole("n_items", n_items, 1), self.n_columns), tails(prob)
        items, names, of_column = FactorItems(), self.column_names, self.factor_shares
        drawn = (draws or self.kept).column_shares
        for h in range(self.n_active):
            best = np.argsort(-np.median(drawn[:, :, h], axis=0), kind="stable")[:number]
            lower, middle, upper = np.quantile(drawn[:, best, h], [at[0], 0.5, at[1]], axis=0)
            items += [
                FactorItem(
                    h + 1,
                    names[j],
                    float(middle[k]),
                    float(lower[k]),
                    float(upper[k]),
                    float(of_column[j, h]),
                )
                for k, j in enumerate(best)
            ]
        return items

    def summary(self, *, n_draws: int | None = None, random_state: RandomState = 0) -> CountSummary:
        """The number of factors, their sizes and columns with intervals, and residual dispersion.

        Parameters
        ----------
        n_draws : int or None, default=None
            Number of draws for the intervals; None takes those of `kept`.
        random_state
            See `draw`.

        Returns
        -------
        CountSummary
            `print` it, or read its fields.

        Examples
        --------
        >>> import numpy as np
        >>> from cuspfa import CuspPoissonFactorization
        >>> X = np.random.default_rng(0).poisson(2.0, (50, 8))
        >>> posterior = CuspPoissonFactorization(n_factors=1, random_state=0).fit(X).posterior_
        >>> print(posterior.summary().size_text)
        50 rows, 8 columns, 832 events; 13 % of the cells are zero.
        """
        return summarise_counts(self, self._drawn(n_draws, random_state))

    def to_dict(
        self, *, scores: Any = None, n_draws: int | None = None, random_state: RandomState = 0
    ) -> dict[str, Any]:
        """The summary and more as plain values, ready for `json.dumps`.

        Parameters
        ----------
        scores : ndarray (n, K) or None, default=None
            Scores to include, as `transform` gives them.
        n_draws, random_state
            See `summary`.
        """
        return counts_as_dict(self, self._drawn(n_draws, random_state), scores)

    def to_frame(self) -> Any:
        """Loadings by column, as a data frame of pandas or polars.

        Returns
        -------
        DataFrame
            Columns `variable`, `factor1`, `factor2`, ... or the names of the factors, and
            `dispersion`, the residual dispersion.
        """
        heads = self.presentation.heads(self.n_active, "factor{}")
        factors = {name: one.tolist() for name, one in zip(heads, self.components, strict=True)}
        return data_frame(
            {
                "variable": self.column_names,
                **factors,
                "dispersion": self.totals.dispersion.tolist(),
            }
        )

    def with_curve_maker(self, maker: CurveMaker) -> Self:
        """The posterior as it is: a model of counts has no curve by model error."""
        return self

    def with_factor_names(self, names: Sequence[str] | None) -> Self:
        """A posterior with names for its factors, in their order; None for numbers."""
        shown = with_names(self.presentation, names, self.n_active)
        named = replace(self, presentation=shown)
        if "kept" in self.__dict__:
            named.__dict__["kept"] = self.kept
        return named

    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> None:
        """Write one HTML page on the fit, which opens in any browser and needs nothing else.

        Needs jinja2 and matplotlib: `pip install 'cuspfa[cli]'`.

        Parameters
        ----------
        path : str or os.PathLike
            The file; an old one is replaced, by the whole page or not at all.
        title : str or None, default=None
            Name of the page; None for "Poisson factorization".
        """
        write_count_report(self, path, title=title)

    # --- files ---

    def save(self, path: str | os.PathLike[str], *, scores: Any = None) -> None:
        """Write the posterior to a file, which `cuspfa.load` reads.

        It holds loadings, draws of loadings and shares, and sums over all rows; nothing of a single
        row, unless `scores` are given. So a loaded posterior has no rates of the rows of the fit.
        Where sums of a column could reveal a row, do not share it.

        Parameters
        ----------
        path : str or os.PathLike
            The file; an old one is replaced, by the whole file or not at all.
        scores : ndarray (n, K) or None, default=None
            Scores to include, as `transform` gives them; `cuspfa.posterior.load_scores` reads them.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> import cuspfa
        >>> X = np.random.default_rng(0).poisson(2.0, (50, 8))
        >>> model = cuspfa.CuspPoissonFactorization(n_factors=1, random_state=0).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "fit.cusp")
        ...     model.posterior_.save(path)
        ...     cuspfa.load(path)
        <FactorizationPosterior of 1 factor, 50 rows, 8 columns>
        """
        target = posterior_format.check_target(path)
        content, arrays = self.layout.describe(self)
        posterior_format.write_posterior(
            type(self), content, arrays, target, scores=scores, n_factors=self.n_active
        )

    @classmethod
    def from_entries(cls, content: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The posterior of a file, from checked entries and arrays of the right shapes."""
        return cls(**cls.layout.values(content, arrays))


def check_factorization(value: Any) -> FactorizationPosterior:
    """The posterior of a fit to counts, or an InputError if the argument is something else."""
    if not isinstance(value, FactorizationPosterior):
        what = "a FactorizationPosterior; CuspFactorAnalysis.from_posterior takes others"
        raise must_be("posterior", what, type(value).__name__)
    if value.fit_info is None:
        raise must_be("posterior", "of a fit, with its fit_info", "one without")
    return value
