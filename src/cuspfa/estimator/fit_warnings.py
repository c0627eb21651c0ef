"""Warnings of a fit, as Python's."""

from __future__ import annotations

from collections.abc import Sequence

from cuspfa._utils.fit_warning import EngineSettings, FitWarning, LongFit
from cuspfa._utils.fit_warning_text import python_text
from cuspfa._utils.warn import warn
from cuspfa.data.protocols import DataSource
from cuspfa.errors import ConvergenceWarning, CuspWarning

LONG, SPEED = 60.0, 2e9
"""Seconds from which on a fit to incomplete data is announced before it begins, and the
multiplications a second that they are reckoned by."""
ITERATIONS = (40, 300)
"""Iterations of a fit, with the number of factors given and not."""
USUAL_FACTORS = 10
"""Factors that are reckoned with where their number is not given."""


def warn_once(warnings: Sequence[FitWarning], engine: EngineSettings) -> None:
    """Issue one warning for all of them, if there are any."""
    if not warnings:
        return
    unfinished = any(one.not_converged for one in warnings)
    text = " ".join(python_text(one, engine) for one in warnings)
    warn(text, ConvergenceWarning if unfinished else CuspWarning)


def announce_long_fit(source: DataSource, n_factors: int | None) -> None:
    """Warn before a variational fit to incomplete data that will take long."""
    rows = source.incomplete_rows
    if rows is None:
        return
    cost = cost_of_incomplete(rows.n, len(rows.patterns), source.p, n_factors)
    if cost is not None:
        warn_once([cost], EngineSettings("variational"))


def cost_of_incomplete(
    rows: int, patterns: int, columns: int, n_factors: int | None
) -> LongFit | None:
    """What a variational fit to incomplete data will take, if that is long."""
    k = USUAL_FACTORS if n_factors is None else n_factors
    each = ((rows * k + patterns * k**2 / 2) * columns + 3.0 * patterns * k**3) / SPEED
    total = each * ITERATIONS[n_factors is None]
    if total < LONG:
        return None
    return LongFit(columns, patterns, each, total, n_factors is not None)
