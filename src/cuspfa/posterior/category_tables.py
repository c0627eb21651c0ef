"""Tables about single columns: thresholds and shares of categories; log rates and dispersions."""

from __future__ import annotations

from typing import Any

from cuspfa._utils.tables import Columns, TabularResult


class _Rows(TabularResult, list[dict[str, Any]]):
    """Rows of named values."""

    def _columns(self) -> Columns:
        return {name: [row[name] for row in self] for name in (self[0] if self else ())}


class CategoryTable(_Rows):
    """Observed and predicted share of each category: a list of mappings.

    Each has column, category, label, count, observed, predicted, lower and upper.
    """


class ThresholdTable(_Rows):
    """Thresholds of ordinal columns with intervals: a list of mappings.

    Each has column, below and above (the categories next to it), threshold, lower and upper.
    """


class CountTable(_Rows):
    """Log rates and dispersions of columns of counts with intervals: a list of mappings.

    Each has column, log_rate, log_rate_lower, log_rate_upper, dispersion, lower and upper. Poisson
    columns have an infinite dispersion.
    """
