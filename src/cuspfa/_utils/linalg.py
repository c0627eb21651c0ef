"""Square roots and axes that depend on a matrix continuously.

Eigenvectors have no sign of their own, and where eigenvalues are equal no direction either: which
ones a library returns depends on the processor. Random numbers are therefore never attached to
eigenvectors. They go through a symmetric square root or a polar factor, which rounding errors
change by rounding errors.
"""

from __future__ import annotations

import numpy as np

from cuspfa._typing import Array


def polar_factor(matrix: Array) -> Array:
    """The matrix with orthonormal columns nearest to `matrix` (n, k), n ≥ k."""
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


def rotated_rows(rows: Array, size: int) -> Array:
    """R (size, p) with RᵀR = YᵀY for `rows` Y of rank `size` or less.

    The same whatever rotation, reflection or order of the rows Y came in: of all such R it is the
    one whose product with a fixed matrix (p, size) is symmetric and positive semidefinite.
    """
    fixed = np.random.default_rng(0).standard_normal((rows.shape[1], size))
    return np.asarray(polar_factor(rows @ fixed).T @ rows)
