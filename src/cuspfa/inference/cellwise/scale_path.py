"""What one more factor adds to log p(x, K), by a path: for tables with many columns and few rows.

Where a column of counts has about as many values as numbers that are learned of it, the posterior
of the loadings is no normal distribution: Laplace's method misses 30 nats for each factor of 225
columns with 50 rows, and a bridge from a normal distribution finds no way.

Let the loadings of factor h have the variance θ_h, and those of the last one cθ_K. With c → 0 it
has no effect, and with c = 1 it is one of K. So, given these variances,

    log p(x | K) − log p(x | K − 1) = ∫ ½ {E‖λ_K‖²/(cθ_K) − p} d log c,

with the expectation under the posterior with this c, by exact sweeps (thermodynamic integration,
Gelman & Meng, 1998). The chains go down from the mode at c = 1 and back up; what the two ways
differ by is part of the error, as is what the chains differ by.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.inference.cellwise.direct import draw_directly
from cuspfa.inference.cellwise.kernels import begin_cells, rescale_columns, shift_scores
from cuspfa.inference.cellwise.state import CellChains, CellState
from cuspfa.inference.kernels import Scales, flip, gram
from cuspfa.inference.variational.collapsed_bound import Evidence
from cuspfa.model.likelihoods.base import Likelihood
from cuspfa.model.slabs import GaussianSlab, Slab

VARIANCE_UPDATES, SWEEPS_OF_AN_UPDATE = 12, 6
"""Of the variances, before a path."""
PATH_BURN_IN, PATH_SWEEPS, PATH_UNSETTLED = 20, 12, 4
"""Sweeps before the first point of a path; at each point; and those of them that do not count."""
PATH_STEP, FEWEST_PATH_POINTS, MOST_PATH_POINTS = 0.5, 9, 25
"""Between points of log c, and points of one way. As θ_K suits the factor the slope is small near
c = 1 too."""
FLAT_SLOPE, FLAT_POINTS = 1.0, 2
"""Slope in nats below which the factor has no effect, and points in a row with one at which the way
down ends."""
MOST_PATH_CHAINS, FEWEST_PATH_CHAINS = 6, 3
USUAL_PATH_POINTS = 11
"""Of one way, by which the work is estimated before."""
MOST_PATH_CELLS = 1e8
"""Most cells times sweeps of all chains, a minute or two. Larger tables have no path."""


def n_path_chains(cells: int) -> int:
    """Chains of a path for a table of so many cells; 0 where it would take too long."""
    affordable = int(
        MOST_PATH_CELLS
        / (cells * (VARIANCE_UPDATES * SWEEPS_OF_AN_UPDATE + 2 * USUAL_PATH_POINTS * PATH_SWEEPS))
    )
    return min(affordable, MOST_PATH_CHAINS) if affordable >= FEWEST_PATH_CHAINS else 0


class PathScore(NamedTuple):
    """What the last factor adds to log p(x), and the variances with which it does."""

    gain: Evidence
    slab: Slab
    """With its hyperparameters updated."""
    squared_norm: Array
    """(K,) expected, of the columns of Λ on principal axes."""


def path_of_last_factor(
    state: CellState,
    values: Array,
    likelihood: Likelihood,
    rng: np.random.Generator,
    n_chains: int = MOST_PATH_CHAINS,
    longer: int = 1,
) -> PathScore:
    """Log p(x | K) − log p(x | K − 1) at the best variances, by chains that begin at `state`.

    The variances of the mode are too small where the posterior is far from normal. So they are
    updated by what the chains find, as in an EM algorithm with draws. A path may be `longer`: so
    many times as many sweeps at each point.
    """
    slab, k, p = state.slab, state.n_factors, len(state.loadings.mean)
    given = GaussianSlab()  # its own variance has no effect where variances are given
    chains = begin_cells(state, likelihood, given, n_chains, rng)
    squared_norm = state.loadings.column_squared_norm

    def swept(variances: Array) -> None:
        nonlocal chains
        chains = chains._replace(scales=Scales(np.tile(variances, (n_chains, 1))))
        chains = _swept(chains, values, likelihood, given, rng)

    late = []
    for number in range(VARIANCE_UPDATES):
        variances = 1.0 / slab.precision(squared_norm, p)
        found = []
        for sweep in range(SWEEPS_OF_AN_UPDATE):
            swept(variances)
            if 2 * sweep >= SWEEPS_OF_AN_UPDATE:
                found.append(np.linalg.eigvalsh(gram(chains.loadings))[:, ::-1].mean(axis=0))
        squared_norm = np.mean(found, axis=0)
        if 2 * number >= VARIANCE_UPDATES:
            late.append(squared_norm)
        slab = slab.update_hyperparameters(squared_norm, p)
    squared_norm = np.mean(late, axis=0)
    slab = slab.update_hyperparameters(squared_norm, p)
    variances = 1.0 / slab.precision(squared_norm, p)

    def slope_at(log_c: float, sweeps: int) -> Array:
        """½ {‖λ_K‖²/(cθ_K) − p} of each chain."""
        own = variances * np.append(np.ones(k - 1), math.exp(log_c))
        found = []
        for number in range(sweeps):
            swept(own)
            if number >= PATH_UNSETTLED:
                found.append(np.sum(chains.loadings[:, :, -1] ** 2, axis=0))
        return np.asarray(0.5 * (np.mean(found, axis=0) / own[-1] - p))

    slope_at(0.0, PATH_BURN_IN)
    down: list[Array] = []
    while len(down) < MOST_PATH_POINTS:
        down.append(slope_at(-PATH_STEP * len(down), longer * PATH_SWEEPS))
        last = [abs(float(one.mean())) < FLAT_SLOPE for one in down[-FLAT_POINTS:]]
        if len(down) >= FEWEST_PATH_POINTS and all(last):
            break
    up = [
        slope_at(-PATH_STEP * point, longer * PATH_SWEEPS) for point in reversed(range(len(down)))
    ][::-1]
    gains = np.array([_integral(np.array(way)) for way in (down, up)])  # (2, chains)
    of_chain = gains.mean(axis=0)
    spread = float(np.std(of_chain, ddof=1)) / math.sqrt(n_chains)
    ways = 0.5 * abs(float(gains[0].mean() - gains[1].mean()))
    gain = Evidence(float(of_chain.mean()), math.hypot(spread, ways), n_chains)
    return PathScore(gain, slab, squared_norm)


def _integral(slopes: Array) -> Array:
    """Of slopes (points, chains) from c = 1 down; below the last point they fall as c does."""
    inner = PATH_STEP * (slopes.sum(axis=0) - 0.5 * (slopes[0] + slopes[-1]))
    return np.asarray(inner + slopes[-1])


def _swept(
    at: CellChains,
    values: Array,
    likelihood: Likelihood,
    slab: GaussianSlab,
    rng: np.random.Generator,
) -> CellChains:
    """One draw of all unknowns but the variances of the loadings, which are given."""
    linear = at.scores @ flip(at.loadings).transpose(0, 2, 1)
    parameters, pseudo = likelihood.draw(values, linear, at.parameters, rng)
    at = at._replace(parameters=parameters)
    at, pseudo = rescale_columns(at, pseudo, linear, likelihood, rng)
    at, pseudo = shift_scores(at, pseudo, likelihood, rng)
    every = np.arange(at.loadings.shape[2])
    return draw_directly(at, pseudo, values, likelihood, every, slab, rng)
