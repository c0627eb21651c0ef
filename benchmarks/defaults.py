"""Which slab should be the default: error of the covariance and coverage, by design."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.record import row, save
from cuspfa import CuspPrior, EmpiricalBayesSlab, GaussianSlab, InverseGammaSlab
from cuspfa.data.complete import prepare_rows
from cuspfa.datasets import Simulation, simulate
from cuspfa.inference.variational.collapsed_bound import Widened
from cuspfa.inference.variational.model_selection import score_by_collapsed_bound
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_over_k import search_over_k
from cuspfa.model.prior import default_slab

DESIGNS: dict[str, dict[str, Any]] = {
    "(100, 20, 5) dense": {"n": 100, "p": 20, "n_factors": 5},
    "(300, 60, 4) Laplace": {"n": 300, "p": 60, "n_factors": 4, "design": "laplace"},
    "(150, 300, 5) falling": {"n": 150, "p": 300, "n_factors": 5, "design": "falling"},
    "(50, 500, 4) dense": {"n": 50, "p": 500, "n_factors": 4},
    "(100, 100, 15) dense": {"n": 100, "p": 100, "n_factors": 15},
    "(1000, 500, 20) dense": {"n": 1000, "p": 500, "n_factors": 20},
    "(1000, 1000, 10) dense, variance 1/8": {
        "n": 1000,
        "p": 1000,
        "n_factors": 10,
        "strength": 8**-0.5,
    },
    "(500, 1000, 10) dense, variance 1/8": {
        "n": 500,
        "p": 1000,
        "n_factors": 10,
        "strength": 8**-0.5,
    },
    "(1000, 1000, 10) sparse": {"n": 1000, "p": 1000, "n_factors": 10, "design": "sparse"},
}
SLABS = {
    "GaussianSlab(1)": GaussianSlab(1.0),
    "InverseGammaSlab(2, 2)": InverseGammaSlab(2.0, 2.0),
    "InverseGammaSlab(1, 0.1)": InverseGammaSlab(1.0, 0.1),
    "EmpiricalBayesSlab()": EmpiricalBayesSlab(),
    "EmpiricalBayesSlab(shared)": EmpiricalBayesSlab(shared=True),
    "pooled (default)": default_slab(),
}
DRAWS, ENTRIES = 400, 1500


def one(sim: Simulation, slab: Any, seed: int) -> tuple[float, float, int]:
    """Squared error of E[Ω], coverage of 95 % intervals of its entries, K found."""
    p = sim.X.shape[1]
    prepared = prepare_rows(sim.X, scaling="columns", flat_mean=True)
    rng = np.random.default_rng(seed)
    prior = CuspPrior(slab=slab)
    search = Search(prepared.source, prior, tol=0.05, max_iter=2000, max_factors=p)
    search_over_k(search, score_by_collapsed_bound)
    state, scale = search.candidates.chosen.state, prepared.scale
    mean = scale[:, None] * state.loadings.mean
    omega = mean @ mean.T
    own = scale**2 * (state.noise.variance + state.loadings.row_variance)
    omega[np.diag_indices_from(omega)] += own
    error = float(np.mean((omega - sim.covariance) ** 2))
    left, right = rng.integers(0, p, size=(2, ENTRIES))
    widened = Widened(state)
    draws = np.empty((DRAWS, ENTRIES))
    for i in range(DRAWS):
        loadings = scale[:, None] * (widened.mean + widened.draw(1, rng)[0][0])
        noise = scale**2 * state.noise.rate / rng.standard_gamma(state.noise.shape)
        draws[i] = np.einsum("ek,ek->e", loadings[left], loadings[right])
        draws[i] += np.where(left == right, noise[left], 0.0)
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    truth = sim.covariance[left, right]
    inside = float(np.mean((low <= truth) & (truth <= high)))
    return error, inside, state.n_factors


def defaults() -> list[dict[str, Any]]:
    began = time.perf_counter()
    rows, details = [], []
    for name, design in DESIGNS.items():
        sets = 10 if design["p"] <= 100 else 3
        sims = [simulate(**design, random_state=seed) for seed in range(sets)]
        sample = float(
            np.mean([np.mean((np.cov(s.X, rowvar=False) - s.covariance) ** 2) for s in sims])
        )
        for slab_name, slab in SLABS.items():
            found = [one(sim, slab, seed) for seed, sim in enumerate(sims)]
            error, inside = np.mean([f[0] for f in found]), np.mean([f[1] for f in found])
            right = sum(f[2] == design["n_factors"] for f in found)
            rows.append(
                row(
                    f"{name}: {slab_name}",
                    f"error {error / sample:.2f}, coverage {100 * inside:.1f} %, "
                    f"K right in {right} of {sets}",
                    "sample covariance: error 1",
                )
            )
            details.append(
                {
                    "design": name,
                    "slab": slab_name,
                    "error": float(error),
                    "sample_error": sample,
                    "coverage": float(inside),
                    "right": right,
                    "sets": sets,
                }
            )
        print(f"  {name}", flush=True)
    return save(
        "defaults",
        "The default slab: error of the covariance and coverage",
        rows,
        notes=[
            "Error: mean squared error of E[Ω], divided by that of the sample covariance. "
            f"Coverage: of 95 % intervals of {ENTRIES} entries of Ω from {DRAWS} draws of q̃, "
            "the widened variational distribution. Columns are standardised, K is found by the "
            "search, and the spike is at zero.",
        ],
        began=began,
        details=details,
    )
