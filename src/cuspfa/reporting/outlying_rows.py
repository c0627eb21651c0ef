"""Rows of a robust fit that count less than others: their numbers and weights, in words too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cuspfa._utils.wording import counted
from cuspfa.data.robust_moments import STRAYING, lowest_weights

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior

NAMED_ROWS = 8
"""Rows in the text, of more."""


class RowWeight(NamedTuple):
    """A row and its weight."""

    row: int
    """Its position, from 0."""
    weight: float


@dataclass(frozen=True)
class OutlyingRows:
    """The distribution of the rows of a robust fit, and those of small weight."""

    degrees_of_freedom: float
    effective_rows: int
    """Normal rows with as much information on the correlations."""
    n_rows: int
    rows: tuple[RowWeight, ...] | None
    """Rows with weights below 0.3, the smallest first; None if weights were not saved."""

    def __str__(self) -> str:
        if math.isinf(self.degrees_of_freedom):
            return "Robust fit: no row is further out than normal rows are, and all weights are 1."
        text = (
            f"Robust fit: rows have a t distribution with {self.degrees_of_freedom:.1f} degrees of "
            f"freedom, and count as {self.effective_rows} normal ones."
        )
        if self.rows is None:
            return f"{text} Their weights were not saved."
        if not self.rows:
            return f"{text} No row has a weight below {STRAYING}."
        named = ", ".join(f"{row} ({weight:.2f})" for row, weight in self.rows[:NAMED_ROWS])
        more = ", …" if len(self.rows) > NAMED_ROWS else ""
        verb = "has a weight" if len(self.rows) == 1 else "have weights"
        return (
            f"{text} {counted(len(self.rows), 'row')} of {self.n_rows} {verb} below {STRAYING}: "
            f"{named}{more} (counted from 0; the smallest first)."
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values; None for infinitely many degrees of freedom."""
        normal = math.isinf(self.degrees_of_freedom)
        return {
            "degrees_of_freedom": None if normal else self.degrees_of_freedom,
            "effective_rows": self.effective_rows,
            "outlying": None if self.rows is None else [one._asdict() for one in self.rows],
        }


def rows_of_small_weight(posterior: Posterior) -> OutlyingRows | None:
    """Rows of small weight; None of a fit that is not robust."""
    weights, tails = posterior.row_weights, posterior.tails
    provenance = posterior.provenance
    if tails.are_normal and (provenance is None or not provenance.settings.robust):
        return None
    rows = None
    if weights is not None:
        found = lowest_weights(np.asarray(weights))
        rows = tuple(RowWeight(int(one), float(weights[one])) for one in found)
    effective = tails.effective_rows(posterior.n_rows, len(posterior.scale))
    return OutlyingRows(tails.degrees_of_freedom, round(effective), posterior.n_rows, rows)
