"""The engine over single cells as the estimator uses it: a fit with its search, and draws."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.data.cells import CellTable
from cuspfa.data.out_of_core.memory import allowed_bytes, check_fits
from cuspfa.inference.cellwise.evidence import CellMode, ProposedDensity
from cuspfa.inference.cellwise.kernels import begin_at, sweep_cells
from cuspfa.inference.cellwise.prediction import FittedCells
from cuspfa.inference.cellwise.row_sums import RowBlocks, numbers_of_a_row
from cuspfa.inference.cellwise.search import (
    CellCandidate,
    fit_cells,
    search_cells,
    share_of_rows,
)
from cuspfa.inference.cellwise.state import CellState
from cuspfa.inference.kernels import flip
from cuspfa.missing.kernels import nothing
from cuspfa.model.likelihoods.base import ColumnParameters, Likelihood
from cuspfa.model.likelihoods.continuous import (
    ContinuousLikelihood,
)
from cuspfa.model.likelihoods.counts import CountLikelihood
from cuspfa.model.likelihoods.kinds import COUNT_KINDS, LikelihoodTable
from cuspfa.model.likelihoods.mixed import MixedLikelihood, Part
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.fit_info import SearchEntry
from cuspfa.posterior.latent import LatentDraws, LatentParameters

CHAINS, KEPT_OF_A_CHAIN = 100, 5
"""Chains, and draws of each. Draws of one chain resemble each other, and the quantiles of few
independent draws are too near together: 100 of them contain 93 % where 95 % is meant."""
BURN_IN, SWEEPS_BETWEEN = 16, 3
"""Sweeps before the first draw of a chain, which begins at the normal distribution around the mode,
and between two draws."""
FARTHEST_START = 2.0
"""Of a loading or a parameter, from the mode."""
FEWEST_CHAINS, FEWEST_DRAWS = 8, 160
"""Of large data."""
MOST_CELL_SWEEPS = 1e8
"""Most cells times sweeps of all chains, unless there are the fewest chains."""
CELLS_OF_CHAINS = 1_400_000
"""Most cells of the chains that run together."""
DRAWS_AT_THE_MODE = 500
"""Draws from the normal distribution at the mode, where there are no exact sweeps."""
NUMBERS_OF_A_CHAIN = 6
"""Numbers that a chain of the sampler has for each value of the data."""
FACTORS_EXPECTED = 8
"""Factors that the memory of a search is estimated for."""
CELLS_CONVERGED = "converged: the mode of the posterior was found"
CELLS_OUT_OF_TIME = "out of time: stopped at max_time, with the best of what was found by then"
CELLS_NOT_CONVERGED = "not converged: expectation propagation did not converge for some rows"
CELLS_NOT_FOUND = "not converged: the mode of the posterior was not found"


class CellFit(NamedTuple):
    """The chosen fit, and the search."""

    likelihood: MixedLikelihood
    values: Array | None
    """(n, p), as the likelihood has them; None where rows came by blocks."""
    state: CellState | None
    """None where rows came by blocks."""
    mode: CellMode
    entries: list[SearchEntry]
    limit: int | None
    """Most factors that were tried, where there are too few rows for more."""
    out_of_time: bool = False
    """Did the search, or the way to the mode, end at `max_time`?"""

    @property
    def n_factors(self) -> int:
        """K."""
        return int(self.mode.loadings.shape[1])

    @property
    def converged(self) -> bool:
        """Was the mode found, of all numbers of factors that were compared?"""
        return self.status == CELLS_CONVERGED

    @property
    def status(self) -> str:
        """How the fit ended."""
        if self.out_of_time:
            return CELLS_OUT_OF_TIME
        return CELLS_NOT_FOUND if self.not_found else _status(self.mode)

    @property
    def not_found(self) -> tuple[int, ...]:
        """Numbers of factors whose mode was not found, so that their score is too low."""
        return tuple(one.n_factors for one in self.entries if one.status == CELLS_NOT_FOUND)

    @property
    def is_exact(self) -> bool:
        """Are there exact sweeps: does each row count once, and are all rows held?"""
        return self.mode.share == 1.0 and self.state is not None


def infer_cells(
    table: CellTable,
    prior: CuspPrior,
    *,
    n_factors: int | None = None,
    max_factors: int | None = None,
    bridge: bool = True,
    model_error: float = 0.0,
    seconds: float | None = None,
    allowed: int | None = None,
) -> CellFit:
    """Fit to rows (n, p) with NaN for missing values.

    `n_factors` None means a search. With `bridge` the numbers of factors that are near the best are
    scored by bridge sampling, otherwise by Laplace's method alone. With model error, a population
    RMSEA, rows count as fewer. After `seconds` the best of what was found is the fit. Rows whose
    weights do not fit into `allowed` bytes, or the free memory, are worked through by blocks.
    """
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    likelihood = likelihood_of(table)
    k = FACTORS_EXPECTED if n_factors is None else n_factors
    values: Array | RowBlocks
    if fits_at_once(table.rows, likelihood, k, allowed):
        values = likelihood.check(table.given)
    else:
        values = RowBlocks(table.given, likelihood)
    if n_factors is not None:
        share = share_of_rows(len(table.rows), model_error)
        one = fit_cells(values, likelihood, prior, n_factors, share=share, deadline=deadline)
        entries, limit, late = [_entry(one, weight=1.0, tied=False)], None, not one.mode.reached
    else:
        found = search_cells(
            values,
            likelihood,
            prior,
            largest=max_factors,
            bridge=bridge,
            model_error=model_error,
            deadline=deadline,
        )
        one, tied, limit, late = found.best, found.tied, found.limit, found.out_of_time
        pairs = zip(found.candidates, found.weights, strict=True)
        entries = [_entry(two, float(weight), two.n_factors in tied) for two, weight in pairs]
        entries += [_entry(two, 0.0, tied=False)._replace(evidence=np.nan) for two in found.behind]
        entries.sort(key=lambda entry: entry.n_factors)
    held = None if isinstance(values, RowBlocks) else values
    return CellFit(likelihood, held, one.state, one.mode, entries, limit, late)


def draw_cells(
    fit: CellFit, columns: LikelihoodTable, n_draws: int, rng: np.random.Generator
) -> LatentDraws:
    """Draws given the number of factors, chain after chain.

    They are exact: chains from the normal distribution at the mode. With model error, and of rows
    by blocks, they are those of this distribution, without chains.
    """
    if not fit.is_exact or fit.values is None:
        loadings, packed = ProposedDensity(fit.mode).draw(n_draws, rng)
        return _as_draws(loadings, packed, fit.likelihood, columns, 1)
    size = _n_chains(fit.values.size)
    each = -(-n_draws // size)
    together = max(CELLS_OF_CHAINS // fit.values.size, 1)
    batches = [min(together, size - first) for first in range(0, size, together)]
    parts = [_draws_of_chains(fit, batch, each, rng) for batch in batches]
    loadings, packed = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _as_draws(loadings, packed, fit.likelihood, columns, size)


def _draws_of_chains(
    fit: CellFit, size: int, each: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Loadings and packed parameters, chain after chain."""
    assert fit.state is not None
    assert fit.values is not None
    slab, likelihood = fit.state.slab.with_fixed_hyperparameters(), fit.likelihood
    first, parameters = ProposedDensity(fit.mode).draw(size, rng)
    # With few rows the distribution may be wide where nothing is known.
    first = _near(fit.mode.loadings, first)
    parameters = _near(fit.mode.packed, parameters)
    chains = begin_at(first, parameters, fit.state.scores, likelihood, slab, rng)
    loadings = np.empty((size, each, *fit.mode.loadings.shape))
    packed = np.empty((size, each, likelihood.n_packed))
    for number in range(each):
        for _ in range(SWEEPS_BETWEEN if number else BURN_IN):
            chains = sweep_cells(chains, fit.values, likelihood, slab, rng)
        loadings[:, number] = flip(chains.loadings)
        packed[:, number] = likelihood.pack(chains.parameters)
    return loadings.reshape(size * each, *loadings.shape[2:]), packed.reshape(size * each, -1)


def _near(mode: Array, drawn: Array) -> Array:
    return np.asarray(np.clip(drawn, mode - FARTHEST_START, mode + FARTHEST_START))


def _n_chains(cells: int) -> int:
    """Chains for so many values."""
    sweeps = BURN_IN + (KEPT_OF_A_CHAIN - 1) * SWEEPS_BETWEEN
    return int(np.clip(MOST_CELL_SWEEPS / (cells * sweeps), FEWEST_CHAINS, CHAINS))


class FittedSweeps:
    """The cells of a fit for draws, in its process; pickled or copied it becomes None."""

    def __init__(self, fit: CellFit, table: CellTable) -> None:
        self.rows, self.is_exact = table.rows, fit.is_exact
        self._fit, self._columns = fit, table.columns

    def draw(self) -> LatentDraws:
        """Up to 500 draws, fewer of large data, the same every time."""
        size = max(_n_chains(self.rows.size) * KEPT_OF_A_CHAIN, FEWEST_DRAWS)
        size = size if self.is_exact else DRAWS_AT_THE_MODE
        return draw_cells(self._fit, self._columns, size, np.random.default_rng(0))

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return nothing, ()


# --- likelihoods and parameters, by column ---


def likelihood_of(table: CellTable) -> MixedLikelihood:
    """The likelihood of the rows of a fit."""
    given = table.given

    def center_of(at: Indices) -> tuple[float, ...]:
        values = given[:, np.append(at, -1)]
        own = tuple(table.columns[j].column for j in at)
        return CountLikelihood.of(values, own).center

    return _likelihood_of(table.columns, table.center, table.scale, center_of)


def _likelihood_of(
    columns: LikelihoodTable,
    center: Array,
    scale: Array,
    center_of: Callable[[Indices], tuple[float, ...]],
) -> MixedLikelihood:
    """Columns of the same kind and link together.

    `center_of` gives the centres of the prior of locations of columns of counts.
    """
    parts = []
    groups = [one.kind if one.kind in COUNT_KINDS else one.link for one in columns]
    for group in sorted(set(groups)):
        at = np.flatnonzero([one == group for one in groups])
        own = [columns[j] for j in at]
        names = tuple(one.column for one in own)
        made: Likelihood
        if group in COUNT_KINDS:
            made = CountLikelihood(names, group, center_of(at))  # type: ignore[arg-type]
        elif group:
            made = OrdinalLikelihood(tuple(one.levels for one in own), names, group)  # type: ignore[arg-type]
        else:
            made = ContinuousLikelihood(
                names, center=tuple(center[at].tolist()), scale=tuple(scale[at].tolist())
            )
        parts.append(Part(made, at))
    return MixedLikelihood(tuple(parts))


def parameters_by_column(
    likelihood: MixedLikelihood, parameters: tuple[Any, ...]
) -> LatentParameters:
    """Locations and noise variances (…, p), and in the order of columns thresholds (…, T) and
    dispersions (…, D) of negative binomial ones.
    """
    found = likelihood.by_column(parameters)
    lead = found.location.shape[:-1]
    dispersed = np.any(np.isfinite(found.dispersion), axis=tuple(range(len(lead))))
    cuts = np.concatenate([np.zeros((*lead, 0)), *found.thresholds], axis=-1)
    return LatentParameters(
        found.location, found.noise_variance, cuts, found.dispersion[..., dispersed]
    )


def fitted_cells(
    columns: LikelihoodTable,
    center: Array,
    scale: Array,
    loadings: Array,
    parameters: LatentParameters,
) -> FittedCells:
    """What prediction needs, from loadings (p, K) and parameters by column."""
    # The prior of parameters has no effect here.
    likelihood = _likelihood_of(columns, center, scale, lambda at: (0.0,) * len(at))
    dispersion = np.full(len(columns), np.inf)
    dispersion[[one.kind == "negative_binomial" for one in columns]] = parameters.dispersion
    ends = np.cumsum([max(len(one.levels) - 1, 0) for one in columns])
    thresholds = np.split(parameters.thresholds, ends[:-1])
    known = ColumnParameters(parameters.mean, parameters.noise_variance, thresholds, dispersion)
    return FittedCells(likelihood, loadings, likelihood.from_columns(known))


def _as_draws(
    loadings: Array,
    packed: Array,
    likelihood: MixedLikelihood,
    columns: LikelihoodTable,
    n_chains: int,
) -> LatentDraws:
    found = parameters_by_column(likelihood, likelihood.unpack(packed))
    return LatentDraws(loadings, found, n_chains)


def fits_at_once(rows: Array, likelihood: MixedLikelihood, k: int, allowed: int | None) -> bool:
    """Do the weights of all cells, and the gradients of all rows, fit into memory?"""
    n, p = rows.shape
    room = allowed_bytes(None) if allowed is None else allowed
    return room is None or 8 * n * numbers_of_a_row(likelihood, p, k) <= room


def check_chains_fit(
    rows: Array, likelihood: MixedLikelihood, k: int, chains: int, allowed: int | None
) -> None:
    """Refuse data whose weights, gradients and pseudo-data do not fit into memory."""
    n, p = rows.shape
    room = allowed_bytes(None) if allowed is None else allowed
    needed = 8 * n * (numbers_of_a_row(likelihood, p, k) + NUMBERS_OF_A_CHAIN * p * chains)
    what = f"Sampling given {n} × {p} values, not all Gaussian,"
    advice = "Use method='variational', which works by blocks, or a sample of the rows."
    check_fits(needed, room, what, advice)


# --- the search as the posterior keeps it ---


def _status(mode: CellMode) -> str:
    if not mode.found:
        return CELLS_NOT_FOUND
    return CELLS_CONVERGED if mode.at.converged else CELLS_NOT_CONVERGED


def _entry(one: CellCandidate, weight: float, tied: bool) -> SearchEntry:
    bridged = one.bridged is not None and one.score == one.bridged.value
    return SearchEntry(
        one.n_factors,
        lower_bound=np.nan,
        evidence=float(one.score),
        evidence_error=float(one.bridged.error) if bridged and one.bridged else np.nan,
        tied=tied,
        weight=weight,
        n_iter=0,
        status=_status(one.mode),
    )
