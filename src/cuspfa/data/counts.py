"""Counts as an engine needs them: sparse rows, exposures, and which cells are missing.

Zeros are never stored. A missing cell is stored once, in a sparse matrix of ones, and costs as much
as a count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be
from cuspfa.data.names import column_label
from cuspfa.data.validate import CheckedRows, check_rows
from cuspfa.errors import DataError

MOST_EVENTS_OF_A_CELL = 1e9
"""Larger counts are refused: sums of them would lose digits."""
BLOCK = 1 << 17
"""Counts that NumPy code works on at a time."""


class Counts(NamedTuple):
    """x_ij with exposures s_i."""

    x: Any
    """(n, p) CSR of float64, without explicit zeros; a missing cell holds nothing."""
    exposure: Array
    """(n,) s_i"""
    missing: Any = None
    """(n, p) CSR of ones, or None."""
    on_disk: bool = False
    """Are the counts in a file, mapped into memory?"""

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.x.shape[0])

    @property
    def p(self) -> int:
        """Columns."""
        return int(self.x.shape[1])

    @property
    def constant(self) -> float:
        """Σ_ij {x_ij log s_i − log x_ij!}"""
        by_row = np.asarray(self.x.sum(axis=1)).ravel()
        exposed = float(by_row[by_row > 0] @ np.log(self.exposure[by_row > 0]))
        blocks = range(0, self.x.nnz, BLOCK)
        factorials = sum(float(np.sum(gammaln(self.x.data[i : i + BLOCK] + 1))) for i in blocks)
        return exposed - factorials

    @property
    def mean_rate(self) -> float:
        """Σ x / Σ s over the cells that are not missing."""
        cells = self.p * float(self.exposure.sum())
        if self.missing is not None:
            cells -= float(np.sum(self.missing.T @ self.exposure))
        return float(self.x.sum()) / cells if cells > 0 else 0.0

    @property
    def rows_alike(self) -> bool:
        """Are all exposures equal, and no cells missing?"""
        return self.missing is None and bool(np.all(self.exposure == self.exposure[:1]))

    def loading_totals(self, loadings: Array) -> Array:
        """s_i Σ_j β_jh over the cells of row i that are not missing, (n, K)."""
        totals = loadings.sum(axis=0)[None, :]
        if self.missing is not None:
            totals = totals - self.missing @ loadings
        return np.asarray(self.exposure[:, None] * totals)

    def score_totals(self, scores: Array) -> Array:
        """Σ_i s_i θ_ih over the cells of column j that are not missing, (p, K) or (1, K)."""
        return self.observed_totals(self.exposure[:, None] * scores)

    def observed_totals(self, values: Array) -> Array:
        """Sums (p, K) or (1, K) of values (n, K) over the rows whose cell is not missing."""
        totals = values.sum(axis=0)[None, :]
        if self.missing is not None:
            totals = totals - self.missing.T @ values
        return np.asarray(totals)

    def rows(self, which: Any) -> Counts:
        """Some of the rows."""
        missing = None if self.missing is None else self.missing[which]
        return Counts(self.x[which], self.exposure[which], missing)

    def rates(self, scores: Array, loadings: Array, out: Array | None = None) -> Array:
        """Σ_h θ_ih β_jh of the cells with counts, in their order."""
        out = np.empty(self.x.nnz) if out is None else out
        size = max(BLOCK // max(scores.shape[1], 1), 1)  # each count takes K numbers
        for start in range(0, len(out), size):
            block = slice(start, min(start + size, len(out)))
            cells = np.arange(block.start, block.stop)
            rows = np.searchsorted(self.x.indptr, cells, side="right") - 1
            columns = self.x.indices[block]
            out[block] = np.einsum("ck,ck->c", scores[rows], loadings[columns])
        return out


def row_of(x: Any) -> Any:
    """The row of each stored cell."""
    return np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))


def check_counts(
    X: Any, exposure: Any = None, missing: Any = None, *, fractions: bool = False
) -> tuple[Counts, CheckedRows]:
    """Checked counts, and the table that they came from, with its names.

    NaN in dense data is a missing cell; `missing` marks further ones, or those of sparse data.
    """
    table = check_rows(X, allow_missing=not sparse.issparse(X))
    counts = check_matrix(table.rows, table.labels, exposure, missing, fractions=fractions)
    return counts, table


def check_matrix(
    rows: Any, labels: list[Any] | None, exposure: Any, missing: Any, *, fractions: bool = False
) -> Counts:
    """Checked counts of a table of finite numbers, or NaN in dense ones."""
    n, p = rows.shape
    if not (n and p):
        what = "sample(s)" if p else "feature(s)"
        raise DataError(
            f"Found array with 0 {what} (shape={(n, p)}) while a minimum of 1 is required."
        )
    absent = None
    if not sparse.issparse(rows) and np.isnan(rows).any():
        absent = sparse.csr_matrix(np.isnan(rows).astype(float))
        rows = np.where(np.isnan(rows), 0.0, rows)
    x = sparse.csr_matrix(rows, dtype=float)
    if missing is not None:
        given = _mask(missing, (n, p))
        absent = given if absent is None else ((absent + given) > 0).astype(float)
    if absent is not None and absent.nnz:
        x = x - x.multiply(absent)
    x = sparse.csr_matrix(x, copy=x.nnz > 0 and bool(np.any(x.data == 0)))
    x.sum_duplicates()
    x.eliminate_zeros()
    if not np.all(np.isfinite(x.data)):
        raise DataError("Counts must be finite. Got NaN or infinity in sparse data.")
    check_values(x, labels, fractions)
    if absent is not None and not absent.nnz:
        absent = None
    return Counts(x, exposures_of(exposure, n), absent)


def _mask(missing: Any, shape: tuple[int, int]) -> Any:
    mask = sparse.csr_matrix(missing)
    if mask.shape != shape or not np.isin(mask.data, (0, 1)).all():
        raise must_be("missing", f"a mask of shape {shape}, of True and False", missing)
    mask = mask.astype(float)
    mask.eliminate_zeros()
    return mask


def check_values(x: Any, labels: list[Any] | None, fractions: bool, *, first: int = 0) -> None:
    """Refuse what is no count; `first` is the number of the first row."""
    for wrong, what in (
        (x.data < 0, "Negative values in data passed to CuspPoissonFactorization"),
        (x.data > MOST_EVENTS_OF_A_CELL, f"Counts above {MOST_EVENTS_OF_A_CELL:g}"),
        ((x.data != np.floor(x.data)) & (not fractions), "Values that are not whole numbers"),
    ):
        if wrong.any():
            cell = int(np.flatnonzero(wrong)[0])
            row = int(np.searchsorted(x.indptr, cell, side="right")) - 1
            column = column_label(int(x.indices[cell]), labels)
            advice = "Poisson factorization needs counts."
            if what.startswith("Values"):
                advice += " Give raw counts; in Python, fractions=True accepts others."
            raise DataError(
                f"{what}: {x.data[cell]:g} in row {first + row} of {column}, and "
                f"{int(wrong.sum()) - 1} more. {advice}"
            )


def exposures_of(exposure: Any, n: int) -> Array:
    """Checked exposures of n rows; all 1 for None."""
    if exposure is None:
        return np.ones(n)
    given = np.asarray(exposure, dtype=float)
    if given.shape != (n,) or not np.all(np.isfinite(given) & (given > 0)):
        raise must_be("exposure", f"{n} positive numbers, one a row", exposure)
    return given
