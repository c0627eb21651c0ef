"""The information of rows on loadings and packed parameters where outer products are no estimate.

Σ_i g_i g_iᵀ, with the gradients g_i of the rows, has at most rank n: it needs more rows than
numbers that are learned. Tables of counts often have more columns than rows. Their information is
that of known scores, which is exact column by column, less what is lost because the scores are not
known (Louis, 1982): the covariance of the gradient with known scores under their distribution,

    I = Σ_i E[−∂²ℓ_i] − cov(∂ℓ_i).

With η_i = m_i + δ, δ ~ N(0, V_i), the gradient by λ_j is (e1 − w λ_jᵀδ)(m_i + δ), e1 and −w the
expected derivatives of the log density by f, and by a packed parameter ψ_s linear in λ_jᵀδ. The
covariance of its linear and quadratic parts is in closed form; for continuous columns it is exact.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.inference.cellwise.state import RowScores, flat, outer
from cuspfa.model.likelihoods.base import LEAST_TILTED_VARIANCE, Likelihood, hermite_nodes

INFORMATION_NODES, INFORMATION_STEP = 3, 1e-4
"""Nodes of quadrature for expectations by f, and the difference that gives a derivative."""
LEAST_EIGENVALUE = 1e-6
"""Of a block that was not positive, as a part of its largest one."""
NUMBERS_OF_INFORMATION = 4_000_000
"""Of the arrays of a block of rows."""


InformationWay = Literal["products", "louis", "known scores"]
"""Σ_i g_i g_iᵀ; I; and its first part, blocks of columns."""


class _CellDerivatives(NamedTuple):
    """Expectations over f of the log density of the cells."""

    slope: Array
    """(n, p) by f."""
    weight: Array
    """(n, p) the negative second derivative by f."""
    across: Array
    """(n, m) derivative by f and a packed parameter of its column."""
    curvature: Array
    """(m, m) Σ_i of the negative second derivatives by packed parameters, block by column."""


def louis_information(
    values: Array,
    counts: Array,
    likelihood: Likelihood,
    parameters: Any,
    loadings: Array,
    scores: RowScores,
    *,
    known_scores: bool = False,
) -> Array:
    """(d, d) for loadings, row by row of Λ, and packed parameters.

    `counts` (n,) are how often a row occurs. With `known_scores` nothing is lost: it has blocks of
    columns.
    """
    (p, k), m = loadings.shape, likelihood.n_packed
    found = np.zeros((p * k + m, p * k + m))
    step = max(NUMBERS_OF_INFORMATION // max(len(found) * (k + 1) ** 2, 1), 1)
    for first in range(0, len(values), step):
        at = slice(first, first + step)
        own = RowScores(*(part[at] for part in scores))
        cells = _cells(values[at], counts[at], likelihood, parameters, loadings, own)
        _add_known(found, cells, counts[at], loadings, own, likelihood.packed_owner)
        if not known_scores and k:
            _add_lost(found, cells, counts[at], loadings, own, likelihood.packed_owner)
    return found


def _cells(
    values: Array,
    counts: Array,
    likelihood: Likelihood,
    parameters: Any,
    loadings: Array,
    scores: RowScores,
) -> _CellDerivatives:
    mean = scores.mean @ loadings.T
    sd = np.sqrt(np.maximum(flat(scores.covariance) @ flat(outer(loadings)).T, 0.0))
    owner, packed = likelihood.packed_owner, likelihood.pack(parameters)
    certain = np.full(mean.shape, LEAST_TILTED_VARIANCE)
    slope, weight = np.zeros((2, *mean.shape))
    across, curvature = np.zeros((len(mean), len(packed))), np.zeros((len(packed), len(packed)))
    # Parameters of different columns are moved at once: each has an effect on its own column.
    order = np.array([int(np.sum(owner[:s] == owner[s])) for s in range(len(owner))], dtype=int)

    def gradient(f: Array, moved: Array) -> Array:
        return likelihood.tilted_gradient(values, f, certain, likelihood.unpack(moved))

    h = INFORMATION_STEP
    for node, share in zip(*hermite_nodes(INFORMATION_NODES), strict=True):
        f = mean + node * sd
        cells = likelihood.expectations(values, f, np.zeros(f.shape), parameters)
        slope += share * cells.slope
        weight -= share * cells.curvature
        across += share * (gradient(f + h, packed) - gradient(f - h, packed)) / (2 * h)
        for place in range(int(order.max(initial=-1)) + 1):
            moved = np.where(order == place, h, 0.0)
            change = gradient(f, packed + moved) - gradient(f, packed - moved)
            own = -share * (counts @ change) / (2 * h)
            s = np.flatnonzero(order == place)
            column_of = {int(owner[one]): one for one in s}
            for row, j in enumerate(owner):
                if int(j) in column_of:
                    curvature[row, column_of[int(j)]] += own[row]
    return _CellDerivatives(slope, weight, across, 0.5 * (curvature + curvature.T))


def _add_known(
    found: Array,
    cells: _CellDerivatives,
    counts: Array,
    loadings: Array,
    scores: RowScores,
    owner: Indices,
) -> None:
    """Σ_i E[−∂²ℓ_i]."""
    (p, k), m = loadings.shape, len(owner)
    size = p * k
    weighted = (counts[:, None] * cells.weight).T
    own = (weighted @ flat(outer(scores.mean) + scores.covariance)).reshape(p, k, k)
    rows = np.arange(size).reshape(p, k)
    found[rows[:, :, None], rows[:, None, :]] += own
    beside = -(counts[:, None] * cells.across).T @ scores.mean  # (m, K)
    packed = size + np.arange(m)
    found[rows[owner], packed[:, None]] += beside
    found[packed[:, None], rows[owner]] += beside
    found[size:, size:] += cells.curvature


def _add_lost(
    found: Array,
    cells: _CellDerivatives,
    counts: Array,
    loadings: Array,
    scores: RowScores,
    owner: Indices,
) -> None:
    """Less cov(∂ℓ_i)."""
    (p, k), m, n = loadings.shape, len(owner), len(counts)
    size = p * k
    root = np.linalg.cholesky(scores.covariance)
    often = np.sqrt(counts)[:, None]
    slope, weight, across = often * cells.slope, often * cells.weight, often * cells.across
    along = loadings @ root  # (n, p, K) of λ_jᵀδ
    linear = np.empty((n, k, size + m))
    own = slope[:, None, :, None] * root.transpose(0, 2, 1)[:, :, None, :]
    own = (
        own
        - (weight[:, :, None] * along).transpose(0, 2, 1)[..., None] * scores.mean[:, None, None, :]
    )
    linear[:, :, :size] = own.reshape(n, k, size)
    linear[:, :, size:] = (across[:, :, None] * along[:, owner]).transpose(0, 2, 1)
    every = linear.reshape(n * k, size + m)
    found -= every.T @ every
    # w (λᵀδ) δ_h = Σ_kl w B_jk L_hl z_k z_l of standard normal z: its symmetric part counts twice.
    product = (weight[:, :, None] * along)[:, :, :, None, None] * root.transpose(0, 2, 1)[
        :, None, None, :, :
    ]  # (n, p, k, l, h)
    product = 0.5 * (product + product.transpose(0, 1, 3, 2, 4))
    upper, lower = np.triu_indices(k)
    factor = np.where(upper == lower, np.sqrt(2.0), 2.0)
    pairs = product[:, :, upper, lower, :] * factor[:, None]
    quadratic = pairs.transpose(0, 2, 1, 3).reshape(-1, size)
    found[:size, :size] -= quadratic.T @ quadratic


def with_positive_blocks(matrix: Array, owner: Indices) -> Array:
    """The same blocks, with the absolute values of their eigenvalues.

    The density of a count is not concave in log r. Far from the mode a block of known scores may be
    negative in a direction, and a Newton step would go down there.
    """
    found = matrix.copy()
    for j in np.unique(owner):
        at = np.ix_(*2 * [np.flatnonzero(owner == j)])
        values, vectors = np.linalg.eigh(matrix[at])
        if values[0] <= 0.0:
            raised = np.maximum(np.abs(values), LEAST_EIGENVALUE * values[-1])
            found[at] = (vectors * raised) @ vectors.T
    return found


class Precision:
    """A precision matrix (d, d)."""

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix

    def solve(self, vector: Array) -> Array:
        """P⁻¹v."""
        return np.asarray(np.linalg.solve(self.matrix, vector), dtype=float)

    def inverse_diagonal(self) -> Array:
        """Of P⁻¹."""
        return np.asarray(np.diag(np.linalg.inv(self.matrix)))


class BlockPrecision(Precision):
    """One in blocks: its rows and columns belong to the columns of a table."""

    def __init__(self, matrix: Array, owner: Indices) -> None:
        super().__init__(matrix)
        sizes = np.bincount(owner)
        order, ends = np.argsort(owner, kind="stable"), np.cumsum(sizes)
        self._groups: list[tuple[Indices, Array]] = []
        for size in np.unique(sizes[sizes > 0]):
            places = np.array(
                [order[ends[j] - size : ends[j]] for j in np.flatnonzero(sizes == size)]
            )
            blocks = matrix[places[:, :, None], places[:, None, :]]
            self._groups.append((places, np.linalg.inv(blocks)))

    def solve(self, vector: Array) -> Array:
        """P⁻¹v."""
        found = np.empty(len(vector))
        for places, inverse in self._groups:
            found[places] = (inverse @ vector[places][:, :, None])[:, :, 0]
        return found

    def inverse_diagonal(self) -> Array:
        """Of P⁻¹."""
        found = np.empty(len(self.matrix))
        for places, inverse in self._groups:
            found[places] = np.diagonal(inverse, axis1=1, axis2=2)
        return found
