"""The axes that loadings are shown on."""

from __future__ import annotations

import numpy as np

from cuspfa._typing import Array
from cuspfa.rotation.gpa import RotatedLoadings, Rotation, rotate, signs

EMPTY_SHARE = 1e-8
"""A factor with a smaller share of the variance is empty: it has no loadings."""


def principal_axes(loadings: Array) -> Array:
    """Rotate so that ΛᵀΛ is diagonal, strongest column first, its largest entry positive."""
    u, s, _ = np.linalg.svd(loadings, full_matrices=False)
    turned: Array = u * s
    return np.asarray(turned * signs(turned))


def on_axes(loadings: Array, rotation: Rotation | None) -> RotatedLoadings:
    """Principal axes, or from there those of a rotation; loadings are on the correlation scale."""
    start = principal_axes(loadings)
    if rotation is not None:
        return rotate(start, rotation)
    same = np.eye(start.shape[1])
    return RotatedLoadings(start, same, same, np.nan, np.zeros(0), True)


def shares(rotated_solution: RotatedLoadings) -> Array:
    """(K,) each factor's part of the variables' variance; they add up to the communalities.

    diag(ΦΛᵀΛ)/p: what correlated factors explain together is divided between them.
    """
    pattern = rotated_solution.loadings
    return np.asarray(np.diag(rotated_solution.correlations @ (pattern.T @ pattern)) / len(pattern))
