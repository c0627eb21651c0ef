"""Data thinning: a second opinion on K.

Each event is kept with a probability, or held out. By the thinning of a Poisson process the two
tables are independent, with rates in proportion, whatever the rates are. So a factor that was found
in the one must predict the other, or it is noise.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.kernels import CountDraw, sweep
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior


def thinned(data: Counts, part: float, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """The events kept, each with probability `part`, and those held out."""
    kept, held = data.x.copy(), data.x.copy()
    kept.data = rng.binomial(data.x.data.astype(np.int64), part).astype(float)
    held.data = data.x.data - kept.data
    kept.eliminate_zeros()
    held.eliminate_zeros()
    return (
        Counts(kept, part * data.exposure, data.missing),
        Counts(held, (1 - part) * data.exposure, data.missing),
    )


def held_out_gains(
    at: CountDraw,
    train: Counts,
    held: Counts,
    prior: PoissonFactorizationPrior,
    rng: np.random.Generator,
    n_sweeps: int,
    n_gains: int = 2,
) -> list[float]:
    """What columns add to log p(held out): the smallest of a draw, then the smallest of the others.

    Sweeps over the events kept come before each part.
    """
    values: list[float] = []
    for number in range(n_gains + 1):
        if number:
            at = at.without(int(np.argmin(at.sizes)))
        for _ in range(n_sweeps // 2):
            at = sweep(at, train, prior, rng)
        value, at = predicted(at, train, held, prior, rng, n_sweeps)
        values.append(value)
    return [one - other for one, other in pairwise(values)]


def predicted(
    at: CountDraw,
    train: Counts,
    held: Counts,
    prior: PoissonFactorizationPrior,
    rng: np.random.Generator,
    n_sweeps: int,
) -> tuple[float, CountDraw]:
    """Log p(held out | mean rates), without what is equal for all K; and the last draw.

    The mean of S draws is too low by about b/S, so that twice the value of all less the mean of the
    values of the two halves is nearly that of infinitely many.
    """
    halves: list[Array] = []
    expected = []
    for _ in range(2):
        rates, total, number = np.zeros(held.x.nnz), 0.0, max(n_sweeps // 2, 1)
        for _ in range(number):
            at = sweep(at, train, prior, rng)
            rates += held.rates(at.scores, at.loadings) / number
            total += expected_total(at, held) / number
        halves.append(rates)
        expected.append(total)
    x = held.x.data
    whole = float(x @ np.log((halves[0] + halves[1]) / 2))
    parts = [float(x @ np.log(rates)) for rates in halves]
    return 2 * whole - sum(parts) / 2 - sum(expected) / 2, at


def expected_total(at: CountDraw, data: Counts) -> float:
    """Σ_ij s_i Σ_h θ_ih β_jh over the cells that are not missing."""
    totals: Array = data.loading_totals(at.loadings)
    return float(np.sum(totals * at.scores))
