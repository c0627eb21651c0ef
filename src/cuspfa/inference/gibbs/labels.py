"""Which columns of Λ are active: labels, sticks, and the number of columns that are held.

Given a column's squared norm E_h = ‖λ_·h‖², and with θ_h integrated out,

    pr(z_h = l) ∝ ω_l × (spike density if l ≤ h, slab density if l > h),
    v_l ~ Beta(s + #{z = l}, α + #{z > l}),  v_H = 1.

Everything is in the logarithms of the survivors S_h = Π_{m≤h} (1 − v_m) = 1 − π_h, which vanish
like exp(−h/α): a label is the first l with S_l below a number that is uniform between 0 and S_h
(slab), or between S_h and 1 (spike). That is O(H log H), without an H×H matrix.

Chains with fewer columns than others are padded at the end, with S = 0, as at their own last
column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa.inference.kernels import Chains, Scales
from cuspfa.model.prior import CuspPrior


class ProcessColumns(NamedTuple):
    """The process of B chains, up to H columns."""

    active: BoolArray
    """(B, H) z_h > h: the slab."""
    log_survivors: Array
    """(B, H) log S_h; −∞ from a chain's last column on."""
    terms: Indices
    """(B,) columns of each chain."""


def log_odds(squared_norm: Array, scales: Scales, prior: CuspPrior, spike: float, p: int) -> Array:
    """Log of slab over spike density of columns of these squared norms, (B, H)."""
    inactive = -0.5 * (p * np.log(spike) + squared_norm / spike)
    hyper = tuple(part[:, None] for part in scales.hyperparameters or ())
    slab = prior.slab.log_normalizer(hyper, p) + prior.slab.log_kernel(squared_norm, hyper, p)
    return np.asarray(slab - inactive)


def draw_labels(
    odds: Array, columns: ProcessColumns, rng: np.random.Generator
) -> tuple[BoolArray, list[Indices]]:
    """Which columns are active, (B, H); and for each chain how many labels equal each l."""
    log_s = columns.log_survivors
    inactive = -np.expm1(log_s)  # π_h
    with np.errstate(divide="ignore"):
        logit = odds + log_s - np.log(inactive)
    active = rng.logistic(size=odds.shape) < logit
    exponential, uniform = rng.standard_exponential(odds.shape), rng.random(odds.shape)
    target = np.where(active, log_s - exponential, np.log1p(-uniform * inactive))
    counts = []
    for row, own, wanted, terms in zip(log_s, active, target, columns.terms, strict=True):
        h = np.arange(terms)
        label = np.searchsorted(-row[:terms], -wanted[:terms])
        # Rounding must not move a label past its column.
        label = np.where(own[:terms], np.maximum(label, h + 1), np.minimum(label, h))
        counts.append(np.bincount(label, minlength=terms))
    return active, counts


def draw_sticks(
    counts: list[Indices], width: int, prior: CuspPrior, rng: np.random.Generator
) -> Array:
    """Log survivors, (B, width), given for each chain how many labels equal each l."""
    log_s = np.full((len(counts), width), -np.inf)
    for row, found in zip(log_s, counts, strict=True):
        beyond = np.cumsum(found[:0:-1])[::-1]
        row[: len(beyond)] = np.cumsum(_log_rest(found[:-1], beyond, prior, rng))
    return log_s


def _log_rest(
    at: Indices | Array, beyond: Indices | Array, prior: CuspPrior, rng: np.random.Generator
) -> Array:
    """log(1 − v), v ~ Beta(s + at, α + beyond): 1 − v is drawn, which is accurate for v near 1."""
    rest = rng.beta(prior.alpha + beyond, prior.stick_shape + at)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(rest))


def first_columns(active: BoolArray, prior: CuspPrior, rng: np.random.Generator) -> ProcessColumns:
    """The process at the start, for columns (B, H) of which these are active."""
    size, width = active.shape
    none = np.zeros(width - 1)
    log_s = np.full((size, width), -np.inf)
    for row in log_s:
        row[:-1] = np.cumsum(_log_rest(none, none, prior, rng))
    return ProcessColumns(active, log_s, np.full(size, width))


def adapt(
    chains: Chains,
    columns: ProcessColumns,
    chosen: BoolArray,
    spike: float,
    most: int,
    prior: CuspPrior,
    rng: np.random.Generator,
) -> tuple[Chains, ProcessColumns]:
    """Change how many columns the chosen chains (B,) hold.

    Where more than one column is inactive, keep the active ones and one drawn from the spike; else
    add one drawn from the spike. The next sweep begins with the scores, so those of a new column
    need not be drawn here.
    """
    if not chosen.any():
        return chains, columns
    p, size, _ = chains.loadings.shape
    active = columns.active.sum(axis=1)
    shrinks = chosen & (active < columns.terms - 1)
    grows = chosen & ~shrinks & (columns.terms < most)
    if not (shrinks.any() or grows.any()):
        return chains, columns
    terms = np.where(shrinks, active + 1, columns.terms + grows)
    width = int(terms.max())
    loadings = np.zeros((p, size, width))
    variances = np.zeros((size, width))
    kept_active = np.zeros((size, width), dtype=bool)
    log_s = np.full((size, width), -np.inf)
    for i in range(size):
        old, last = int(columns.terms[i]), int(terms[i]) - 1
        if shrinks[i]:
            kept = np.flatnonzero(columns.active[i])
            survivors = np.exp(columns.log_survivors[i, :old])
            weights = -np.diff(survivors, prepend=1.0)[kept]
            with np.errstate(divide="ignore"):
                log_s[i, :last] = np.log(np.maximum(1.0 - np.cumsum(weights), 0.0))
        else:
            kept = np.arange(old)
            log_s[i, :old] = columns.log_survivors[i, :old]
            if grows[i]:
                zero = np.zeros(1)
                before = log_s[i, old - 2] if old > 1 else 0.0
                log_s[i, old - 1] = before + _log_rest(zero, zero, prior, rng)[0]
        number = len(kept)
        loadings[:, i, :number] = chains.loadings[:, i, kept]
        variances[i, :number] = chains.scales.variances[i, kept]
        kept_active[i, :number] = columns.active[i, kept]
        if shrinks[i] or grows[i]:
            loadings[:, i, last] = np.sqrt(spike) * rng.standard_normal(p)
            variances[i, last] = spike
    scales = chains.scales._replace(variances=variances, free=kept_active)
    return Chains(loadings, chains.noise, scales), ProcessColumns(kept_active, log_s, terms)
