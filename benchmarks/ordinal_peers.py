"""Ordinal columns beside other programs: psych and lavaan of R, and the Python port of mirt.

A program that is not there is left out, and the section says so: `Rscript` with the packages psych
and lavaan (Debian: r-cran-psych, r-cran-lavaan, r-cran-gparotation), and `pip install mirt`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.peers import mirt_, r_lavaan, r_psych
from benchmarks.peers.common import LoadingsFit, NotHere
from benchmarks.record import row, save
from cuspfa import CuspFactorAnalysis, Ordinal
from cuspfa._utils.warn import silent
from cuspfa.datasets import load_bfi

FACTORS = 5
SHOWN = ("N1", "E2", "C2", "A2", "O3")
"""Items whose loadings are in the table."""


class Own(NamedTuple):
    loadings: np.ndarray
    seconds: float
    model: CuspFactorAnalysis


def own(rows: np.ndarray, k: int, likelihood: Any = "ordinal", **settings: Any) -> Own:
    began = time.process_time()
    with silent():
        model = CuspFactorAnalysis(likelihood=likelihood, n_factors=k, **settings).fit(rows)
    return Own(model.loadings_, time.process_time() - began, model)


def matched(loadings: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Columns in the order and with the signs of a target."""
    products = loadings.T @ target
    order, columns = linear_sum_assignment(-np.abs(products))
    own = order[np.argsort(columns)]
    return np.asarray(loadings[:, own] * np.sign(products[own, np.arange(len(own))]))


def turned(loadings: np.ndarray, target: np.ndarray) -> np.ndarray:
    """In the axes that are nearest to a target."""
    u, _, v = np.linalg.svd(loadings.T @ target)
    return np.asarray(loadings @ (u @ v))


def beside(
    what: str, mine: Own, peer: LoadingsFit, others: np.ndarray, name: str
) -> dict[str, Any]:
    loadings, seconds, _ = mine
    off = loadings - others
    congruence = np.sum(loadings * others, axis=0) / np.sqrt(
        np.sum(loadings**2, axis=0) * np.sum(others**2, axis=0)
    )
    return row(
        what,
        f"{seconds:.1f} s; loadings differ by {np.sqrt(np.mean(off**2)):.3f} (root mean square), "
        f"{np.max(np.abs(off)):.3f} at most; smallest congruence {congruence.min():.4f}",
        f"{name} {peer.version}: {peer.seconds:.1f} s",
    )


def ordinal_peers() -> list[dict[str, Any]]:
    began = time.perf_counter()
    bunch = load_bfi(subset="items")
    every = np.asarray(bunch.data, dtype=float)
    names = [str(name) for name in bunch.feature_names]
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    found: dict[str, np.ndarray] = {}
    complete = every[~np.isnan(every).any(axis=1)]
    mine = own(complete, FACTORS, rotation="oblimin")
    for program in (r_psych, r_lavaan):
        try:
            peer = program.ordinal(complete, FACTORS)
        except NotHere as reason:
            missing.append(f"{program.PACKAGE} ({reason})")
            continue
        theirs = matched(peer.loadings, mine.loadings)
        text = f"bfi, {len(complete)} complete rows × 25, {FACTORS} factors, oblimin"
        rows.append(beside(text, mine, peer, theirs, f"{program.PACKAGE}, {program.HOW_ORDINAL},"))
        found[program.PACKAGE] = theirs
    if found:
        rows.append(side_by_side(names, mine.loadings, found))
    chosen: dict[int, Callable[[str], bool]] = {
        1: lambda name: name[0] == "N",
        2: lambda name: name[0] in "EN",
    }
    for k, take in chosen.items():
        at = [j for j, name in enumerate(names) if take(name)]
        some = every[:, at]
        some = some[~np.isnan(some).any(axis=1)]
        # The port bounds slopes at 0.1 from below: items are turned so that none is negative.
        first = own(some, 1, Ordinal(link="logit")).loadings[:, 0]
        some = np.where(first * first[0] < 0, 7 - some, some)
        try:
            peer = mirt_.ordinal(some, k)
        except NotHere as reason:
            missing.append(f"mirt with {k} factor{'s' * (k > 1)} ({reason})")
            continue
        ours = own(some, k, Ordinal(link="logit"))
        text = f"bfi, {len(some)} complete rows × {len(at)}, {k} factor{'s' * (k > 1)}, logit"
        theirs = turned(peer.loadings, ours.loadings)
        line = beside(text, ours, peer, theirs, f"{mirt_.NAME}, EM,")
        line["measured"] += f"; log-likelihood {ours.model.score_samples(some).sum():.1f}"
        line["against"] += f"; {peer.log_likelihood:.1f}"
        rows.append(line)
    notes = [
        "Standardised loadings of latent responses, with factors in the order of ours; with mirt, "
        "which does not rotate, in the nearest axes. Times are processor seconds of a fit with K "
        "given; ours has the posterior with its draws to come, those of R have standard errors.",
    ]
    if missing:
        notes.append(f"Not installed where this was run, and left out: {', '.join(missing)}.")
    return save(
        "ordinal_peers",
        "Ordinal columns beside psych, lavaan and mirt",
        rows,
        notes=notes,
        began=began,
    )


def side_by_side(
    names: list[str], mine: np.ndarray, others: dict[str, np.ndarray]
) -> dict[str, Any]:
    """The largest loading of some items by each program."""
    at = [(j, int(np.argmax(np.abs(mine[j])))) for j in map(names.index, SHOWN)]

    def listed(loadings: np.ndarray) -> str:
        return ", ".join(f"{loadings[j, h]:.2f}" for j, h in at)

    return row(
        f"the same: loadings of {', '.join(SHOWN)}",
        listed(mine),
        "; ".join(f"{name}: {listed(one)}" for name, one in others.items()),
    )
