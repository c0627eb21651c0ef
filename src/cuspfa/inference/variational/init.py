"""Initial states of a run."""

from __future__ import annotations

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.protocols import DataSource
from cuspfa.inference.updates import Loadings
from cuspfa.inference.variational.compiled_run import scores_at
from cuspfa.inference.variational.steps import Tail, VariationalState
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.model.prior import CuspPrior
from cuspfa.model.process import (
    CumulativeShrinkage,
    Labels,
    Sticks,
    converge_labels,
    prior_sticks,
    rows_needed,
)


def state_at(
    mean: Array,
    noise_variance: Array,
    source: DataSource,
    prior: CuspPrior,
    n_terms: int,
    like: VariationalState | None = None,
) -> VariationalState:
    """The state with explicit loadings `mean` (p, K), without spread, and the given noise.

    Sticks and slab are taken from the state it should be `like`, if there is one. A point mass has
    no density, so the bound of this state is −∞ until the first iteration.
    """
    p, k = mean.shape
    shape = prior.noise_shape + source.counts / 2
    noise = Noise(shape, shape * noise_variance)
    loadings = Loadings(mean, np.eye(k), np.ones(p), np.full(k, np.inf), -np.inf)
    scores = scores_at(loadings, noise.precision, source)
    tail, labels, sticks = _start_labels(p, k, prior, n_terms, like)
    slab = prior.slab if like is None else like.slab
    return VariationalState(loadings, noise, scores, tail, labels, sticks, slab)


def _start_labels(
    p: int, k: int, prior: CuspPrior, n_terms: int, like: VariationalState | None
) -> tuple[Tail, Labels, Sticks]:
    """Labels of a start: explicit factors are active, whatever their size."""
    if prior.spike is None:
        labels = Labels(np.ones(k), np.zeros(k), np.zeros(k), 0.0)
        return Tail(0, np.zeros(p), 1.0), labels, Sticks(np.zeros(0), np.zeros(0))
    process = prior.process()
    rows = rows_needed(n_terms, k, process)
    last = n_terms - rows + 1
    active = np.repeat([1.0, 0.0], [k, rows - k])
    labels = Labels(active, 1.0 - active, np.zeros(rows), 0.0, last)
    if like is None:
        odds = np.where(active > 0, 1e6, -1e6)  # every label is certain
        labels, sticks = converge_labels(odds, prior_sticks(process, rows), process, last)
    else:
        sticks = _resized(like.sticks, rows - 1, process)
    return Tail(n_terms - k, np.full(p, prior.spike), 1.0), labels, sticks


def _resized(sticks: Sticks, size: int, process: CumulativeShrinkage) -> Sticks:
    """Sticks for more or fewer columns; further ones have their prior distribution."""
    extra = max(size - len(sticks.a), 0)
    a = np.append(sticks.a, np.full(extra, process.stick_shape))
    b = np.append(sticks.b, np.full(extra, process.alpha))
    return Sticks(a[:size], b[:size])


def draw_start(
    source: DataSource,
    prior: CuspPrior,
    n_terms: int,
    rng: np.random.Generator,
    n_factors: int | None = None,
    like: VariationalState | None = None,
    directions: Array | None = None,
) -> VariationalState:
    """A random start: loadings drawn from the prior itself.

    The number of active columns is drawn from the process (unless K is given), their loadings from
    the slab. So the starts differ in their number of factors, which matters more than their
    directions: the number seldom changes by much during a run. The noise starts at the sample
    variances.
    The random numbers belong to the orthonormal `directions` (p, m) if they are given, else to
    the columns.
    """
    if n_factors is None:
        n_factors = int(prior.process(n_terms).draw(1.0, 0.0, random_state=rng).active.sum())
    variances = np.asarray(source.squares / source.counts)
    theta = prior.slab.start_variances(n_factors, float(np.mean(variances)), rng)
    size = source.p if directions is None else directions.shape[1]
    mean = rng.standard_normal((size, n_factors)) * np.sqrt(theta * source.p / max(size, 1))
    mean = mean if directions is None else directions @ mean
    return state_at(mean, variances, source, prior, n_terms, like)


def principal_directions(source: DataSource, most: int) -> Array:
    """(p, m) leading directions of the data, the same whatever the order and signs of its columns.

    An eigendecomposition leaves the sign of each direction open. Here columns are reflected to
    agree with the first direction, and each other direction then has its third moment positive. A
    change of the first direction's sign changes the signs of all others, so that a start is only
    reflected.
    """
    variances = np.asarray(source.squares / source.counts)
    _, vectors = source.leading(min(most, source.p), variances)
    if not vectors.size:
        return np.asarray(vectors)
    reflected = np.where(vectors[:, :1] < 0, -1.0, 1.0) * vectors
    return np.asarray(vectors * np.where(np.sum(reflected**3, axis=0) < 0, -1.0, 1.0))
