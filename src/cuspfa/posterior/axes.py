"""The axes that loadings are shown on when nothing else is asked for."""

from __future__ import annotations

import numpy as np

from cuspfa._types import Array

TIED = 1e-6
"""Loadings that differ by no more than this part of the largest are as large as it."""


def principal_axes(loadings: Array) -> Array:
    """Rotate so that ΛᵀΛ is diagonal, strongest column first, its largest entry positive.

    Of entries that are equally large the first counts: rounding error should choose no sign.
    """
    u, s, _ = np.linalg.svd(loadings, full_matrices=False)
    turned: Array = u * s
    if turned.size:
        size = np.abs(turned)
        largest = np.argmax(size >= (1 - TIED) * size.max(axis=0), axis=0)
        turned *= np.where(turned[largest, np.arange(turned.shape[1])] < 0, -1.0, 1.0)
    return turned
