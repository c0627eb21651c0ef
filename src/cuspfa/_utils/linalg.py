"""Square roots and axes that depend on a matrix continuously.

The sign of an eigenvector is arbitrary, and so is its direction where eigenvalues are equal: which
one a library returns depends on the processor. Random numbers are therefore never multiplied by
eigenvectors, but by a symmetric square root or a polar factor. Rounding errors change these by
rounding errors only.

And the packed form of symmetric matrices: their entries on and above the diagonal, row by row.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.linalg.lapack import dtrtrs

from cuspfa._typing import Array, Indices


def polar_factor(matrix: Array) -> Array:
    """The matrix with orthonormal columns nearest to each `matrix` (..., n, k), n ≥ k."""
    u, _, vt = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(u @ vt)


def symmetric_root(matrix: Array) -> Array:
    """S = Sᵀ with SS = `matrix`, which is symmetric; eigenvalues that are rounding errors are 0."""
    values, vectors = np.linalg.eigh(matrix)
    if not len(values):
        return np.asarray(matrix)
    smallest = len(values) * np.finfo(float).eps * max(float(values[-1]), 0.0)
    root = np.where(values > smallest, np.sqrt(np.maximum(values, 0.0)), 0.0)
    return np.asarray((vectors * root) @ vectors.T)


def symmetrized(matrices: Array) -> Array:
    """Symmetric matrices (..., k, k), without asymmetric rounding errors."""
    return np.asarray((matrices + np.swapaxes(matrices, -1, -2)) / 2)


def solve_lower(root: Array, right: Array, *, transposed: bool = False) -> Array:
    """L⁻¹B of a lower triangular matrix L (k, k) and B (k, m), or L⁻ᵀB.

    LAPACK without SciPy's checks, which take longer than to solve a small system.
    """
    if not right.size:
        return right
    solved, info = dtrtrs(root.T, right, lower=0, trans=0 if transposed else 1)
    if info != 0:
        raise np.linalg.LinAlgError("Matrix is singular")
    return np.asarray(solved)


def rotated_rows(rows: Array, size: int) -> Array:
    """R (size, p) with RᵀR = YᵀY for `rows` Y of rank `size` or less.

    It does not depend on rotations, reflections or the order of the rows of Y: of all such R it is
    the one whose product with a fixed matrix (p, size) is symmetric and positive semidefinite.
    """
    fixed = np.random.default_rng(0).standard_normal((rows.shape[1], size))
    return np.asarray(polar_factor(rows @ fixed).T @ rows)


def packed(matrices: Array) -> Array:
    """(..., K, K) symmetric matrices as (..., K(K+1)/2)."""
    first, second = upper_half(matrices.shape[-1])
    return np.asarray(matrices[..., first, second])


def unpacked(numbers: Array, k: int) -> Array:
    """(..., K(K+1)/2) numbers as symmetric matrices (..., K, K)."""
    return np.asarray(numbers[..., pair_places(k)])


@lru_cache
def upper_half(k: int) -> tuple[Indices, Indices]:
    """Rows and columns of the entries that are packed, in their order; not to be changed."""
    return np.triu_indices(k)


@lru_cache
def pair_places(k: int) -> Indices:
    """(K, K) where each entry of a symmetric matrix is packed; not to be changed."""
    place = np.empty((k, k), dtype=np.intp)
    upper = upper_half(k)
    place[upper] = place[upper[::-1]] = np.arange(len(upper[0]))
    return place
