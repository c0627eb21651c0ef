"""Rotations of draws to common factors.

The covariance of a draw determines neither the axes nor the order nor the signs of its factors, and
a draw may have more or fewer of them than the mean. Each is rotated to the factors of a reference.
The matrix of the rotation is kept, K×K for each draw, and not the rotated loadings, so that
thousands of variables fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa._utils.linalg import polar_factor
from cuspfa.posterior.draws import Draws
from cuspfa.rotation.gpa import RotatedLoadings, Rotation, rotate_stack

ALIGNED_TOGETHER = 1 << 20
"""Loadings that are rotated together: 8 MB."""
ALIGNMENT_TOLERANCE = 3e-4
"""Tolerance of the rotation of a draw, which need not be exact beyond the error of the draw."""


class Alignment(NamedTuple):
    """What `AlignedDraws` holds of each draw."""

    rotations: Array
    axes: Array
    factor_correlations: Array
    present: BoolArray
    congruence: Array


def align_draws(
    draws: Draws, reference: RotatedLoadings, rotation: Rotation | None, way: str
) -> Alignment:
    """Rotate draws to the factors of a reference.

    A draw with fewer factors than the reference is rotated to those of the reference that are
    nearest to it. Of a draw with more, the directions nearest to the reference are taken.
    """
    n, p, h = draws.loadings.shape
    k = reference.loadings.shape[1]
    found = Alignment(
        np.zeros((n, h, k)),
        np.zeros((n, h, k)),
        np.full((n, k, k), np.nan),
        np.zeros((n, k), dtype=bool),
        np.full((n, k), np.nan),
    )
    if not k:
        return found
    factors = draws.factors
    live = np.count_nonzero(factors, axis=1)
    step = max(1, ALIGNED_TOGETHER // max(p * max(h, k), 1))
    for first in range(0, n, step):
        numbers = np.arange(first, min(first + step, n))
        standard = draws.some(numbers).standardized_loadings * factors[numbers, None, :]
        for some, members in _by_factors(standard, live[numbers], reference):
            chosen = numbers[some]
            part = _align_complete(standard[some], _only(reference, members), rotation, way)
            at = np.ix_(chosen, np.arange(h), members)
            own = factors[chosen][:, :, None]  # columns of the spike are no part of a factor
            found.rotations[at], found.axes[at] = part.rotations * own, part.axes * own
            found.factor_correlations[np.ix_(chosen, members, members)] = part.factor_correlations
            found.present[np.ix_(chosen, members)] = True
            found.congruence[np.ix_(chosen, members)] = part.congruence
    return found


def _by_factors(
    standard: Array, live: Indices, reference: RotatedLoadings
) -> Iterator[tuple[Indices, Indices]]:
    """Draws that have the same factors of the reference, with these."""
    k = reference.loadings.shape[1]
    whole = np.flatnonzero(live >= k)
    if len(whole):
        yield whole, np.arange(k)
    groups: dict[tuple[int, ...], list[int]] = {}
    for one in np.flatnonzero((live < k) & (live > 0)):
        u, s, _ = np.linalg.svd(standard[one], full_matrices=False)
        basis = u[:, : int(np.sum(s > 1e-9 * s[0]))]
        pattern = reference.loadings
        size = np.maximum(np.sum(pattern**2, axis=0), 1e-300)
        inside = np.sum((basis.T @ pattern) ** 2, axis=0) / size
        members = np.sort(np.argsort(-inside, kind="stable")[: basis.shape[1]])
        groups.setdefault(tuple(members.tolist()), []).append(int(one))
    for members_of, group in groups.items():
        yield np.array(group), np.array(members_of)


def _only(reference: RotatedLoadings, members: Indices) -> RotatedLoadings:
    """Some of the factors, with T = Φ^{1/2}: any T with TᵀT = Φ will do."""
    phi = reference.correlations[np.ix_(members, members)]
    values, vectors = np.linalg.eigh(phi)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return reference._replace(
        loadings=reference.loadings[:, members], matrix=root, correlations=phi
    )


def _align_complete(
    standard: Array, reference: RotatedLoadings, rotation: Rotation | None, way: str
) -> Alignment:
    """Rotations (B, H, K) of draws that have all K factors of this reference."""
    pattern, matrix = reference.loadings, reference.matrix
    b, k = len(standard), pattern.shape[1]
    flat = pattern @ matrix.T  # the reference with uncorrelated factors
    h = standard.shape[2]
    cross = np.pad(standard.transpose(0, 2, 1) @ flat, ((0, 0), (0, max(k - h, 0)), (0, 0)))
    nearest = polar_factor(cross)[:, :h]  # orthogonal Procrustes: (B, H, K), orthonormal columns
    axes = np.broadcast_to(matrix, (b, k, k))
    if way == "rotation":
        there = standard @ nearest
        if rotation is None:
            axes = np.linalg.eigh(there.transpose(0, 2, 1) @ there)[1][:, :, ::-1]
        else:
            axes = rotate_stack(there, rotation, axes, ALIGNMENT_TOLERANCE).matrices
    back = np.linalg.inv(axes).transpose(0, 2, 1)
    cosines = _congruences(standard, nearest @ back, pattern)
    order, sign = _matched(cosines)
    rows = np.arange(b)[:, None, None]
    axes = axes[rows, np.arange(k)[:, None], order[:, None, :]] * sign[:, None, :]
    back = back[rows, np.arange(k)[:, None], order[:, None, :]] * sign[:, None, :]
    agreed = np.take_along_axis(cosines, order[:, :, None], 1)[:, np.arange(k), np.arange(k)]
    return Alignment(
        nearest @ back,
        nearest @ axes,
        axes.transpose(0, 2, 1) @ axes,
        np.ones((b, k), dtype=bool),
        agreed * sign,
    )


def _congruences(standard: Array, rotations: Array, pattern: Array) -> Array:
    """(B, K, K) congruence of each factor of a draw with each of the reference."""
    inner = standard.transpose(0, 2, 1) @ standard
    length = np.sqrt(np.maximum(np.einsum("bhk,bhg,bgk->bk", rotations, inner, rotations), 1e-300))
    cross = rotations.transpose(0, 2, 1) @ (standard.transpose(0, 2, 1) @ pattern)
    return np.asarray(cross / length[:, :, None] / np.maximum(_lengths(pattern), 1e-300))


def _lengths(pattern: Array) -> Array:
    return np.asarray(np.sqrt(np.sum(pattern**2, axis=0)))


def _matched(cosines: Array) -> tuple[Indices, Array]:
    """For each factor of the reference, the number of the draw's factor and its sign."""
    size = np.abs(cosines)
    b, k = size.shape[:2]
    order = np.broadcast_to(np.arange(k), (b, k)).copy()
    # Where each factor is nearest to that of its own number, nothing has to be assigned.
    clear = np.all(np.argmax(size, axis=1) == np.arange(k), axis=1)
    for one in np.flatnonzero(~clear):
        _, order[one] = linear_sum_assignment(-size[one].T)
    found = np.take_along_axis(cosines, order[:, :, None], 1)[:, np.arange(k), np.arange(k)]
    return order, np.where(found < 0, -1.0, 1.0)
