"""Table 1 of Legramanti (2020): the personality data with the published settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import whole
from cuspfa._utils.warn import silent
from cuspfa.datasets import load_bfi
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.posterior.draws import correlation_mse
from cuspfa.posterior.provenance import versions

if TYPE_CHECKING:
    from cuspfa.posterior.variational import VariationalPosterior

FORMAT_VERSION = 1


@dataclass(frozen=True)
class ReproducedRow:
    """One line of Table 1, as computed here."""

    method: str
    mse: float
    expected_active_factors: float
    seconds: float
    lower_bound: float | None
    n_draws: int
    expected_active_error: float | None = None
    """Standard error of E[H*], from several chains."""


@dataclass(frozen=True)
class PaperRow:
    """One line of the paper's Table 1, as printed."""

    method: str
    mse: float
    expected_active_factors: float
    seconds: float


PAPER = (
    PaperRow("adaptive-gibbs", 0.01, 2.7, 340.0),
    PaperRow("variational", 0.01, 3.0, 63.0),
)

PAPER_CHAINS = 4
"""Chains of the sampler, for a standard error of E[H*]."""
Stage = Callable[[str], Callable[[Any], None] | None]
"""Called with the name of a method before it runs; may return a callback for its progress."""


@dataclass(frozen=True)
class Reproduction:
    """The rows of cuspfa and of the paper, and how they were made."""

    rows: tuple[ReproducedRow, ...]
    seed: int
    quick: bool
    paper: tuple[PaperRow, ...] = PAPER

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, ready for JSON."""
        return {
            "format_version": FORMAT_VERSION,
            "rows": [asdict(row) for row in self.rows],
            "paper": [asdict(row) for row in self.paper],
            "seed": self.seed,
            "quick": self.quick,
            "versions": dict(versions()),
        }


def reproduce_table(
    *, seed: int = 0, quick: bool = False, on_stage: Stage | None = None
) -> Reproduction:
    """Run §4 of the paper.

    Parameters
    ----------
    seed : int, default=0
        Seed of starts and draws.
    quick : bool, default=False
        200 draws instead of 2000 and one short chain instead of four, for a first look.
    on_stage : callable or None
        Called with the name of each method before it runs; may return a callback for its
        progress.

    Returns
    -------
    Reproduction

    Examples
    --------
    >>> result = reproduce_table(seed=0, quick=True)
    >>> result.rows[0].method
    'variational-random-starts'
    """
    whole("seed", seed, 0)
    data = load_bfi(subset="paper").data
    n_draws = 200 if quick else 2000
    rows = tuple(
        _variational(data, method, seed, n_draws, on_stage)
        for method in ("variational-random-starts", "variational-search")
    )
    return Reproduction((*rows, _gibbs(data, seed, quick, on_stage)), seed, quick)


def _gibbs(data: Array, seed: int, quick: bool, on_stage: Stage | None) -> ReproducedRow:
    """The adaptive sampler: 15 000 sweeps, the first 5000 not used, of four chains."""
    callback = on_stage("adaptive-gibbs") if on_stage is not None else None
    begin = time.perf_counter()
    model = CuspFactorAnalysis.as_published("gibbs", random_state=seed, callback=callback)
    model.set_params(method__n_chains=1 if quick else PAPER_CHAINS)
    if quick:
        model.set_params(method__n_draws=200, method__burn_in=500)
    with silent():  # chains as long as the paper's, converged or not
        posterior = model.fit(data).posterior_
    draws = posterior.draws_by_chain()
    mse = correlation_mse(draws, np.asarray(np.corrcoef(data, rowvar=False)))
    n_factors = np.count_nonzero(draws.factors, axis=1)
    by_chain = n_factors.reshape(posterior.n_chains, -1).mean(axis=1)
    error = None if quick else float(by_chain.std(ddof=1) / np.sqrt(len(by_chain)))
    return ReproducedRow(
        method="adaptive-gibbs",
        mse=mse,
        expected_active_factors=model.expected_active_factors_,
        seconds=time.perf_counter() - begin,
        lower_bound=None,
        n_draws=len(draws),
        expected_active_error=error,
    )


def _variational(
    data: Array, method: str, seed: int, n_draws: int, on_stage: Stage | None
) -> ReproducedRow:
    callback = on_stage(method) if on_stage is not None else None
    begin = time.perf_counter()
    model = CuspFactorAnalysis.as_published(
        "variational",
        search=method == "variational-search",
        random_state=seed,
        callback=callback,
    ).fit(data)
    posterior = cast("VariationalPosterior", model.posterior_)
    draws = posterior.draw(n_draws, random_state=np.random.default_rng([seed, 1]), mean_field=True)
    mse = correlation_mse(draws, np.asarray(np.corrcoef(data, rowvar=False)))
    seconds = time.perf_counter() - begin
    return ReproducedRow(
        method=method,
        mse=mse,
        expected_active_factors=model.expected_active_factors_,
        seconds=seconds,
        lower_bound=model.lower_bound_,
        n_draws=n_draws,
    )
