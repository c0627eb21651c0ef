"""What to know before a result is used, from the result itself and the kinds of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import (
    CorrelationsUnexplained,
    FewRows,
    FitWarning,
    HeywoodCases,
    LowKmo,
    RareCategories,
    SkewedItems,
    UncertainAxes,
)
from cuspfa.diagnostics.fit_measures import FitMeasures

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior

RELIABLE_ROWS, RELIABLE_ROWS_A_FACTOR = 10, 4
"""Rows, and rows for each factor, below which the number of factors is not reliable."""
HEYWOOD = 0.98
"""A communality above this is a Heywood case, or nearly one."""
RARE_BELOW = 5
"""Rows of a category below which it is called rare."""
MIN_SKEWED_ITEMS = 2
"""A single skewed item makes no factor of its own."""
UNLIKELY, LOWEST_KMO = 0.01, 0.5
"""A predictive p-value, and a KMO, below which the result says so."""
LOWEST_AGREEMENT = 0.9
"""Congruence of draws below which the axes are not well determined."""


def cautions(
    posterior: Posterior,
    communality: Array,
    fit: FitMeasures | None = None,
    agreement: float = 1.0,
) -> tuple[FitWarning, ...]:
    """Too few rows, Heywood cases, skewed items, rare categories, poor fit and uncertain axes.

    `communality` (p,) are medians of draws, and `agreement` is that of draws on rotated axes.
    """
    names, n, k = posterior.column_names, posterior.n_rows, posterior.n_active
    found: list[FitWarning] = []
    if n < RELIABLE_ROWS or n < RELIABLE_ROWS_A_FACTOR * k:
        found.append(FewRows(int(n), k))
    full = np.flatnonzero(communality > HEYWOOD)
    if len(full):
        found.append(HeywoodCases(tuple(names[j] for j in full)))
    kinds = () if posterior.provenance is None else posterior.provenance.kinds
    gaussian = [one.kind == "gaussian" for one in posterior.likelihoods]
    skewed = sorted(j for group in kinds for j in group.skewed if gaussian[j])
    if len(skewed) >= MIN_SKEWED_ITEMS and k:
        found.append(SkewedItems(tuple(names[j] for j in skewed), len(names)))
    rare, empty = posterior.rare_categories(RARE_BELOW)
    if rare or empty:
        found.append(RareCategories(rare, empty, RARE_BELOW))
    if fit is not None and fit.predictive_p < UNLIKELY:
        found.append(CorrelationsUnexplained(fit.predictive_p))
    if fit is not None and fit.kmo < LOWEST_KMO:
        found.append(LowKmo(fit.kmo))
    if posterior.rotation is not None and k and agreement < LOWEST_AGREEMENT:
        found.append(UncertainAxes(posterior.rotation.method, agreement))
    return tuple(found)
