"""From a user's data to checked cells: for likelihoods that need each value of each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import ndtri

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import FitWarning
from cuspfa.data.categories import Categories, with_numbers
from cuspfa.data.moments import Moments
from cuspfa.data.out_of_core.load import empty_rows, find_out_of_core, load_data
from cuspfa.data.out_of_core.stream import RowStream
from cuspfa.data.provenance import DataProvenance
from cuspfa.data.screening.co_observed import never_co_observed_in
from cuspfa.data.screening.column_kinds import KindGroup, column_kinds
from cuspfa.data.screening.columns import notes_on_columns
from cuspfa.data.screening.dependent import dependent_in_rows
from cuspfa.data.screening.determined import determined_columns
from cuspfa.data.screening.near_constant import near_constant
from cuspfa.data.tables.read_table import Table
from cuspfa.data.validate import check_table
from cuspfa.errors import DataError
from cuspfa.model.likelihoods.kinds import COUNT_KINDS, LikelihoodTable

MOST_KNOTS = 65
"""Most knots of the function to normal scores."""
VALUES_OF_A_KNOT = 5
"""Fewest values whose mean is a knot."""


@dataclass(frozen=True)
class NormalScores:
    """A monotone function from the values of a column to normal scores, by its quantiles.

    Linear between knots, and beyond them with the slope of the outermost ones.
    """

    values: Array
    """Increasing."""
    scores: Array
    """Increasing."""

    @classmethod
    def of(cls, column: Array) -> NormalScores:
        """Normal scores of a column with NaN for missing values; ties have their mean rank.

        Knots are means of neighbouring values, and the two ends: no file has all values.
        """
        observed = np.sort(column[~np.isnan(column)])
        _, first, place, counts = np.unique(
            observed, return_index=True, return_inverse=True, return_counts=True
        )
        scores = ndtri((first + counts / 2.0) / len(observed))[place]
        grid = np.searchsorted(scores, np.linspace(scores[0], scores[-1], MOST_KNOTS - 1)[1:-1])
        starts = [0]
        for start in grid:
            if min(start - starts[-1], len(scores) - start) >= VALUES_OF_A_KNOT:
                starts.append(int(start))
        sizes = np.diff([*starts, len(scores)])
        values, own = (np.add.reduceat(one, starts) / sizes for one in (observed, scores))
        ends = [0, -1]
        x = np.concatenate([observed[ends[:1]], values, observed[ends[1:]]])
        z = np.concatenate([scores[ends[:1]], own, scores[ends[1:]]])
        # Groups of equal values are one knot.
        kept, where = np.unique(x, return_inverse=True)
        means = np.bincount(where, z) / np.bincount(where)
        return cls(kept, means)

    def transform(self, column: Array) -> Array:
        """Normal scores of values."""
        return _interpolated(column, self.values, self.scores)

    def inverse(self, scores: Array) -> Array:
        """Values of normal scores."""
        return _interpolated(scores, self.scores, self.values)


def _interpolated(at: Array, x: Array, y: Array) -> Array:
    found = np.interp(at, x, y)
    low, high = at < x[0], at > x[-1]
    found = np.where(low, y[0] + (at - x[0]) * (y[1] - y[0]) / (x[1] - x[0]), found)
    beyond = y[-1] + (at - x[-1]) * (y[-1] - y[-2]) / (x[-1] - x[-2])
    return np.where(np.isnan(at), np.nan, np.where(high, beyond, found))


def with_offset(rows: Array, offset: Array | None) -> Array:
    """Rows (n, p), and beside them the offsets of log rates where there are counts."""
    return rows if offset is None else np.column_stack([rows, offset])


class CellTable(NamedTuple):
    """What a fit to single cells is made to."""

    rows: Array
    """(n, p) in the user's units, or normal scores; NaN where missing."""
    columns: LikelihoodTable
    center: Array
    """(p,) of Gaussian columns their mean; 0 for others."""
    scale: Array
    """(p,) of Gaussian columns their standard deviation; 1 for others."""
    transforms: dict[str, NormalScores]
    """Of the columns that are normal scores."""
    offset: Array | None = None
    """(n,) of the log rates of counts; None without counts."""

    @property
    def given(self) -> Array:
        """What a likelihood checks: the rows and, with counts, a last column of offsets."""
        return with_offset(self.rows, self.offset)

    @classmethod
    def of(cls, rows: Array, columns: LikelihoodTable, offset: Array | None = None) -> CellTable:
        """The table of rows in the user's units."""
        rows, p = np.array(rows), rows.shape[1]
        center, scale, transforms = np.zeros(p), np.ones(p), {}
        for j, one in enumerate(columns):
            if one.kind == "gaussian":
                center[j], scale[j] = np.nanmean(rows[:, j]), np.nanstd(rows[:, j])
            elif one.kind == "normal_scores":
                transforms[one.column] = NormalScores.of(rows[:, j])
                rows[:, j] = transforms[one.column].transform(rows[:, j])
        if offset is None and any(one.kind in COUNT_KINDS for one in columns):
            offset = np.zeros(len(rows))
        return cls(rows, columns, center, scale, transforms, offset)


class PreparedCells(NamedTuple):
    """Rows in memory, in the user's units, with NaN for missing values."""

    rows: Array
    names: list[str] | None
    labels: list[Any] | None
    """Labels of columns of any type, for messages."""
    categories: dict[str, Categories]
    """Labels of the categories of a data frame, by column."""
    warnings: tuple[FitWarning, ...]
    provenance: DataProvenance | None
    kinds: tuple[KindGroup, ...]
    empty: tuple[int, ...] = ()
    """Positions of rows of the data that are left out, as they have no value."""
    allowed: int | None = None
    """Bytes that a fit may use, of rows that were read by blocks; None for the free memory."""

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, or x0, x1, ..."""
        return self.names or [f"x{j}" for j in range(self.rows.shape[1])]

    @property
    def labelled(self) -> set[str]:
        """Columns with labels for their values, by the data frame or by the file."""
        known = () if self.provenance is None else self.provenance.labels
        return set(self.categories) | {one.name for one in known if len(one.values) > 1}


def prepare_cells(
    data: Any, names: list[str] | None, *, check_width: Callable[[int], None]
) -> PreparedCells:
    """Read and check data of which every value is needed.

    `names` are for data that have none of their own. `check_width` is called with the number of
    columns before rows are read.
    """
    advice = "Use likelihood='gaussian' for them, or pass the rows."
    if isinstance(data, Moments):
        raise DataError(
            "likelihood must be 'gaussian' for Moments, which have no values of rows. For ordinal "
            "columns pass the rows, or fit cuspfa.polychoric(X).moments() with the default."
        )
    told: tuple[FitWarning, ...] = ()
    view, n_empty, provenance, allowed = find_out_of_core(data), 0, None, None
    if view is not None:
        check_width(view.n_columns)
        loaded = load_data(view, every_row=True)
        names = loaded.names or names
        if not isinstance(loaded.data, np.ndarray):
            raise DataError(
                "This table was summed up when it was read, and likelihoods other than 'gaussian' "
                "need its rows. Pass the path to fit, or a RowStream."
            )
        data, told, n_empty = loaded.data, loaded.warnings, loaded.n_empty
        provenance = loaded.provenance
        allowed = view.allowed if isinstance(view, (RowStream, Table)) else None
    coded = with_numbers(data)
    table = check_table(coded.data, names, allow_missing=True)
    if issparse(table.rows):
        raise DataError(
            f"X must be dense for likelihoods other than 'gaussian'. Got a sparse matrix. {advice}"
            " X.toarray() makes it dense."
        )
    check_width(table.rows.shape[1])
    rows = np.asarray(table.rows, dtype=float)
    if names is None and view is None:
        told += notes_on_columns(table, copies=False)  # `follow` has copies
    told += empty_rows(n_empty + len(table.empty), len(rows))
    follow = determined_columns(rows, table.labels) or dependent_in_rows(rows, table.labels)
    if names is None and view is None:
        told += notes_on_columns(table, copies=table.has_missing and follow is None)
    found = near_constant(table), follow, never_co_observed_in(rows, table.labels)
    told += tuple(one for one in found if one is not None)
    kinds = column_kinds(rows)
    return PreparedCells(
        rows, table.names, table.labels, coded.labels, told, provenance, kinds, table.empty, allowed
    )
