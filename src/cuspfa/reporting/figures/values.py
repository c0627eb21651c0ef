"""Values behind figures of variables."""

from __future__ import annotations

import numpy as np

from cuspfa._typing import Array, Indices


def grouped_order(loadings: Array) -> tuple[Indices, Indices]:
    """Variables sorted by the factor they load on most, then by loading; and these factors.

    Within a factor from the largest to the most negative loading.
    """
    p, k = loadings.shape
    if k == 0:
        return np.arange(p), np.zeros(p, dtype=np.intp)
    factor = np.argmax(np.abs(loadings), axis=1)
    order = np.lexsort((-loadings[np.arange(p), factor], factor))
    return order, factor[order]


def fitted_correlation(loadings: Array) -> Array:
    """The model's correlations, of standardised loadings on uncorrelated factors."""
    found: Array = loadings @ loadings.T
    np.fill_diagonal(found, 1.0)
    return found
