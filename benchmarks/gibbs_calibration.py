"""Simulation-based calibration and a joint test of the sampler, with steps broken on purpose."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import stats

from benchmarks.record import row, save
from cuspfa.inference.gibbs import chain, labels
from cuspfa.inference.kernels import Chains, Scales

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from inference.gibbs import test_chain as distribution
from joint_draws import SLABS

SETS, DRAWS, SWEEPS, BINS = 150, 19, 120, 5
JOINT, STEPS, BROKEN = 8000, 4, 2000
"""Draws from the joint distribution, sweeps of each, and draws where a step is broken."""


def break_step(name: str | None) -> None:
    """In a process of its own: a step of the sampler is replaced by a wrong one."""
    if name is not None:
        step, broken = distribution.BREAKS[name]
        setattr(chain, step, broken(getattr(labels, step)))


def ranks(slab: str, scale_rotation_every: int, seed: int, broken: str | None) -> np.ndarray:
    """Ranks of the truth among draws from its posterior, one for each feature; ties at random."""
    rng = np.random.default_rng([seed, 7])
    truth = distribution.from_prior(SLABS[slab], 4, rng)
    y = distribution.rows_given(truth, 8, rng)
    model = distribution.model_of(y, SLABS[slab], scale_rotation_every)
    # Chains that begin at draws from the prior and end at one draw each: independent ones.
    starts = [distribution.from_prior(SLABS[slab], 4, rng) for _ in range(DRAWS)]
    state = side_by_side(starts)
    for at in range(1, SWEEPS + 1):
        state = chain.sweep(state, at, model, rng)
    found = np.array([distribution.features(one_of(state, b), y) for b in range(DRAWS)])
    ties = 1e-12 * rng.standard_normal((DRAWS + 1, found.shape[1]))
    at_truth = np.array(distribution.features(truth, y)) + ties[0]
    ranks: np.ndarray = np.sum(found + ties[1:] < at_truth, axis=0)
    return ranks


def side_by_side(states: list[chain.GibbsState]) -> chain.GibbsState:
    """One state of many chains."""
    scales = [state.chains.scales for state in states]
    process = [state.columns for state in states]
    hyper = None
    if scales[0].hyperparameters is not None:
        parts = zip(*(one.hyperparameters for one in scales), strict=True)
        hyper = tuple(np.concatenate(part) for part in parts)
    active = np.concatenate([one.active for one in process])
    return chain.GibbsState(
        Chains(
            np.concatenate([state.chains.loadings for state in states], axis=1),
            np.concatenate([state.chains.noise for state in states], axis=1),
            Scales(np.concatenate([one.variances for one in scales]), hyper, active),
        ),
        labels.ProcessColumns(
            active,
            np.concatenate([one.log_survivors for one in process]),
            np.concatenate([one.terms for one in process]),
        ),
    )


def one_of(state: chain.GibbsState, b: int) -> chain.GibbsState:
    """The state of one chain, as far as its features go."""
    part, process = slice(b, b + 1), state.columns
    scales = state.chains.scales._replace(variances=state.chains.scales.variances[part])
    chains = Chains(state.chains.loadings[:, part], state.chains.noise[:, part], scales)
    return chain.GibbsState(
        chains,
        labels.ProcessColumns(
            process.active[part], process.log_survivors[part], process.terms[part]
        ),
    )


def calibrated(slab: str, scale_rotation_every: int, broken: str | None = None) -> float:
    break_step(broken)
    try:
        table = np.array([ranks(slab, scale_rotation_every, seed, broken) for seed in range(SETS)])
    finally:
        for step in ("draw_labels", "draw_sticks", "log_odds"):
            setattr(chain, step, getattr(labels, step))
    chances = []
    for one in table.T:
        counts = np.bincount(one * BINS // (DRAWS + 1), minlength=BINS)
        chances.append(stats.chisquare(counts).pvalue)
    return float(min(1.0, min(chances) * len(chances)))


def joint(slab: str, part: float, broken: str | None = None) -> float:
    break_step(broken)
    n, p = (7, 4) if part else (6, 3)
    sets = JOINT if broken is None else BROKEN
    try:
        largest = distribution.paired(
            SLABS[slab], n, p, 2, steps=STEPS, sets=sets, seed=5, part=part
        )
        return float(largest)
    finally:
        for step in ("draw_labels", "draw_sticks", "log_odds"):
            setattr(chain, step, getattr(labels, step))


def gibbs_calibration() -> list[dict[str, Any]]:
    began = time.perf_counter()
    plans: list[tuple[Any, ...]] = []
    for slab in SLABS:
        plans += [
            (calibrated, slab, 0, None),
            (calibrated, slab, 3, None),
            (joint, slab, 0.0, None),
        ]
    plans.append((joint, "inverse gamma", 0.3, None))
    for broken in distribution.BREAKS:
        plans += [
            (calibrated, "inverse gamma", 0, broken),
            (joint, "inverse gamma", 0.0, broken),
        ]
    tasks = (delayed(plan[0])(*plan[1:]) for plan in plans)
    found = []
    for plan, value in zip(
        plans, Parallel(n_jobs=2, batch_size=1, return_as="generator")(tasks), strict=True
    ):
        found.append(value)
        print(f"  {plan[1:]}: {value:.3g}", flush=True)
    rows = []
    for plan, value in zip(plans, found, strict=True):
        broken = plan[-1]
        sbc = plan[0] is calibrated
        caught = value < 1e-3 if sbc else value > 4.5
        kind = "ranks" if sbc else "joint test"
        moves = f", moves every {plan[2]}" if sbc and plan[2] else ""
        missing = "" if sbc or not plan[2] else f", {plan[2]:.0%} missing"
        what = f"{kind}, {plan[1]} slab{moves}{missing}" + (f", broken: {broken}" if broken else "")
        measured = f"p = {value:.2g}" if sbc else f"largest |z| {value:.1f}"
        needed = ("p < 0.001" if sbc else "> 4.5") if broken else ("p ≥ 0.001" if sbc else "≤ 4.5")
        rows.append(row(what, measured, "", needed, caught if broken else not caught))
    return save(
        "gibbs_calibration",
        "Calibration of the Gibbs sampler",
        rows,
        notes=[
            f"Ranks: {SETS} data sets are drawn from the prior (n = 8, p = 4, H = 4). For each, "
            f"{DRAWS} chains start at the prior, and their states after {SWEEPS} sweeps are the "
            f"draws. The ranks of the true values in {BINS} bins are tested by χ²; the smallest "
            "p of 14 features is multiplied by 14. Each draw is from another chain, because "
            "ranks among dependent draws of one chain are not uniform.",
            f"Joint test: {JOINT} independent draws of parameters and data (n = 6, p = 3), and "
            f"the change of 14 features after {STEPS} sweeps, whose mean must be zero. This is "
            "Geweke's joint test with independent draws, so that its standard errors need no "
            "correction for autocorrelation.",
            "Broken steps must be rejected: labels that assign a column itself to the slab, "
            "sticks with one count too many, and labels drawn given θ where θ is drawn after "
            "them.",
        ],
        began=began,
    )
