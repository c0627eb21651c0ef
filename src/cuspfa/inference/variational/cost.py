"""The expected duration of a variational fit to data with missing values."""

from __future__ import annotations

from cuspfa._utils.fit_warning import LongFit

ANNOUNCED_SECONDS = 60.0
"""A fit that is expected to take longer is announced before it begins."""
MULTIPLICATIONS_PER_SECOND = 2e9
"""The speed that durations are reckoned by."""
EXPECTED_ITERATIONS = (40, 300)
"""Iterations of a fit with the number of factors given, and of a search over it."""
EXPECTED_FACTORS = 10
"""Factors of a fit where their number is not given."""


def cost_of_incomplete(
    rows: int, patterns: int, columns: int, n_factors: int | None
) -> LongFit | None:
    """The expected duration of a fit to incomplete rows as a warning; None if it is short."""
    k = EXPECTED_FACTORS if n_factors is None else n_factors
    multiplications = (rows * k + patterns * k**2 / 2) * columns + 3.0 * patterns * k**3
    each = multiplications / MULTIPLICATIONS_PER_SECOND
    total = each * EXPECTED_ITERATIONS[n_factors is None]
    if total < ANNOUNCED_SECONDS:
        return None
    return LongFit(columns, patterns, each, total, n_factors is not None)
