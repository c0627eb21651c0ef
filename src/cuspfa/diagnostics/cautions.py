"""What to know before a result is used, from the result itself and the kinds of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import FewRows, FitWarning, HeywoodCases, SkewedItems

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior

RELIABLE_ROWS, RELIABLE_ROWS_A_FACTOR = 10, 4
"""Rows, and rows for each factor, below which the number of factors is not reliable."""
HEYWOOD = 0.98
"""A communality above this is a Heywood case, or nearly one."""
MIN_SKEWED_ITEMS = 2
"""A single skewed item makes no factor of its own."""


def cautions(posterior: Posterior, communality: Array) -> tuple[FitWarning, ...]:
    """Too few rows, Heywood cases and skewed items; `communality` (p,) are medians of draws."""
    names, n, k = posterior.column_names, posterior.n_rows, posterior.n_active
    found: list[FitWarning] = []
    if n < RELIABLE_ROWS or n < RELIABLE_ROWS_A_FACTOR * k:
        found.append(FewRows(int(n), k))
    full = np.flatnonzero(communality > HEYWOOD)
    if len(full):
        found.append(HeywoodCases(tuple(names[j] for j in full)))
    kinds = () if posterior.provenance is None else posterior.provenance.kinds
    skewed = sorted(j for group in kinds for j in group.skewed)
    if len(skewed) >= MIN_SKEWED_ITEMS and k:
        found.append(SkewedItems(tuple(names[j] for j in skewed), len(names)))
    return tuple(found)
