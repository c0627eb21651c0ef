"""The simulations of Legramanti, Durante & Dunson (2020) by both engines, beside the paper.

n = 100 rows, Λ of standard normal entries, unit noise. The error is the expected squared difference
of Ω and the truth, a mean over the upper triangle; of several data sets the median counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import whole
from cuspfa._utils.warn import silent
from cuspfa.datasets import simulate
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.inference.gibbs.settings import Gibbs
from cuspfa.inference.variational.settings import Variational
from cuspfa.model.prior import CuspPrior
from cuspfa.papers.variational import FORMAT_VERSION
from cuspfa.posterior.draws import Draws
from cuspfa.posterior.provenance import versions


@dataclass(frozen=True)
class SimulationRow:
    """Medians over data sets of one design."""

    method: str
    p: int
    n_factors: int
    error: float
    """Mean squared error of Ω."""
    expected_active_factors: float
    seconds: float
    """Seconds for one data set."""


PUBLISHED = (
    SimulationRow("paper", 20, 5, 0.75, 5.0, 311.0),
    SimulationRow("paper", 50, 10, 2.25, 10.0, 716.0),
    SimulationRow("paper", 100, 15, 3.76, 15.0, 2285.0),
)
"""Medians of 25 data sets as printed, with the time of the authors' R code."""


@dataclass(frozen=True)
class Simulations:
    """The rows of cuspfa and of the paper, and how they were made."""

    rows: tuple[SimulationRow, ...]
    n_sets: int
    seed: int
    published: tuple[SimulationRow, ...] = PUBLISHED

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, ready for JSON."""
        return {
            "format_version": FORMAT_VERSION,
            "rows": [asdict(row) for row in self.rows],
            "published": [asdict(row) for row in self.published],
            "n_sets": self.n_sets,
            "seed": self.seed,
            "versions": dict(versions()),
        }


SetCallback = Callable[[str], object]


def reproduce_simulations(
    *, n_sets: int = 25, seed: int = 0, largest: int = 100, on_set: SetCallback | None = None
) -> Simulations:
    """Fit both engines, with the paper's prior for each, to data sets of three designs.

    Parameters
    ----------
    n_sets : int, default=25
        Data sets of each design.
    seed : int, default=0
        Seed of data and draws.
    largest : int, default=100
        Leave out designs with more columns.
    on_set : callable or None
        Called with a text before each data set.

    Returns
    -------
    Simulations

    Examples
    --------
    >>> found = reproduce_simulations(n_sets=1, largest=20)
    >>> [(row.method, row.p) for row in found.rows]
    [('adaptive-gibbs', 20), ('variational-search', 20)]
    """
    whole("n_sets", n_sets, 1)
    whole("seed", seed, 0)
    rows = []
    for design in PUBLISHED:
        if design.p > largest:
            continue
        found: dict[str, list[tuple[float, float, float]]] = {}
        for number in range(n_sets):
            if on_set is not None:
                on_set(f"p = {design.p}, data set {number + 1} of {n_sets}")
            data_seed = np.random.default_rng([seed, design.p, number])
            data = simulate(100, design.p, design.n_factors, noise=1.0, random_state=data_seed)
            for method, model in _models(data_seed).items():
                figures = _figures(model, data.X, data.covariance, data_seed)
                found.setdefault(method, []).append(figures)
        for method, figures_of_sets in found.items():
            middle = np.median(figures_of_sets, axis=0)
            rows.append(SimulationRow(method, design.p, design.n_factors, *map(float, middle)))
    return Simulations(tuple(rows), n_sets, seed)


def _models(rng: np.random.Generator) -> dict[str, CuspFactorAnalysis]:
    sampler = Gibbs(
        n_draws=600,
        n_chains=1,
        burn_in=2000,
        init="random",
        scale_rotation_every=0,
        mean="plug-in",
    )
    return {
        "adaptive-gibbs": CuspFactorAnalysis(
            method=sampler, prior=CuspPrior.gibbs_paper(), standardize=False, random_state=rng
        ),
        "variational-search": CuspFactorAnalysis(
            method=Variational(criterion="bound", mean="plug-in"),
            prior=CuspPrior.variational_paper(),
            standardize=False,
            random_state=rng,
        ),
    }


def _figures(
    model: CuspFactorAnalysis, rows: Array, truth: Array, rng: np.random.Generator
) -> tuple[float, float, float]:
    begin = time.perf_counter()
    with silent():
        posterior = model.fit(rows).posterior_
    seconds = time.perf_counter() - begin
    averaged = posterior.kind == "gibbs"  # as in each paper
    draws = posterior.draw(600, random_state=rng, average_over_k=averaged)
    return covariance_error(draws, truth), model.expected_active_factors_, seconds


def covariance_error(draws: Draws, truth: Array) -> float:
    """Σ_{j≤q} E(Ω_jq − truth_jq)² / {p(p+1)/2}."""
    upper = np.triu_indices(len(truth))
    total = sum(
        float(np.sum((part.covariance[:, upper[0], upper[1]] - truth[upper]) ** 2))
        for part in draws.batches()
    )
    return total / (len(draws) * len(upper[0]))
