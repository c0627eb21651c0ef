"""The competitor for the paper's data: Algorithm 1 as printed, from random starts."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from cuspfa.data.complete import prepare_rows
from cuspfa.inference.variational.init import draw_start
from cuspfa.model.prior import CuspPrior

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from oracles import algorithm1 as oracle

PAPER = oracle.Hyper(alpha=5.0, theta_0=1.0, theta_inf=1e-6, a_sigma=1.0, b_sigma=0.3)


def start(y: np.ndarray, rng: np.random.Generator) -> oracle.State:
    """The package's random start with all H = p + 1 columns: inactive ones from the spike."""
    n, p = y.shape
    h = p + 1
    source = prepare_rows(y, scaling="none", flat_mean=False).source
    active = draw_start(source, CuspPrior.variational_paper(), h, rng).loadings.mean
    spike = np.sqrt(PAPER.theta_inf) * rng.standard_normal((p, h - active.shape[1]))
    a_sigma = PAPER.a_sigma + n / 2
    state = oracle.State(
        mu_eta=np.zeros((n, h)),
        V_eta=np.eye(h),
        mu_lambda=np.hstack([active, spike]),
        V_lambda=np.zeros((p, h, h)),
        A_sigma=a_sigma,
        B_sigma=a_sigma * (y**2).mean(axis=0),
        kappa=np.full((h, h), 1.0 / h),
        A_v=np.ones(h - 1),
        B_v=np.full(h - 1, PAPER.alpha),
    )
    for step in (oracle.step3_scores, oracle.step4_labels, oracle.step5_sticks):
        state = step(y, state, PAPER)
    return state


def one_start(y: np.ndarray, rng: np.random.Generator, tol: float = 0.05) -> tuple[float, int]:
    """Iterate until the bound grows by less than `tol`; the bound and the number of iterations."""
    state, before, growth, iterations = start(y, rng), -np.inf, np.inf, 0
    while growth >= tol and iterations < 5000:
        state = oracle.iteration(y, state, PAPER)
        bound = oracle.bound(y, state, PAPER)
        growth, before, iterations = bound - before, bound, iterations + 1
    return before, iterations


def many_starts(y: np.ndarray, n_init: int = 20, seed: int = 0) -> list[tuple[float, int]]:
    return [one_start(y, rng) for rng in np.random.default_rng(seed).spawn(n_init)]
