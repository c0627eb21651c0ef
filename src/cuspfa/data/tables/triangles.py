"""The text of a matrix: short rows of a triangle, placed as a square of cells.

Rows of 1, 2, 3, … cells are the lower triangle, and rows of …, 3, 2, 1 cells the upper one. With as
many names of variables as rows they have their diagonal, with one name more they have none. Without
names, they have it if it is 1, or 100, in every row, or if the matrix has covariances. A triangle
of correlations has none otherwise. What is left is ambiguous, and an error.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Literal, NamedTuple

from cuspfa._utils.spelling import Spell
from cuspfa.data.tables.cells import is_missing, parse_number
from cuspfa.data.tables.dialect import decode_text, records
from cuspfa.data.tables.notes import SEPARATOR_NAMES, Note
from cuspfa.errors import DataError

MatrixKind = Literal["correlation", "covariance"]
MATRIX_FILES: dict[str, MatrixKind] = {
    "correlation matrix": "correlation",
    "covariance matrix": "covariance",
}
"""The kind of matrix, by what the provenance of a fit calls its file."""
UNIT_TOLERANCE = 0.0051
"""Rounding error of a printed diagonal of 1."""
ROW_NAMES = "row names"
"""Name of the column with the names of rows."""
_EXTRA = {
    "n": ("n", "nobs", "n obs", "count"),
    "means": ("mean", "means", "m", "center"),
    "sds": ("sd", "sds", "std", "stddev", "std dev", "standard deviation", "st dev", "s d"),
}
"""Names of rows, or of columns, besides those of the matrix."""

Cells = list[list[str]]


class SquareText(NamedTuple):
    """The text of a matrix with as many cells in each row."""

    raw: bytes
    notes: list[Note]
    is_triangle: bool
    """Were the rows short ones of a triangle?"""


class _Triangle(NamedTuple):
    """Rows of a triangle, without names."""

    rows: Cells
    is_upper: bool
    has_diagonal: bool

    @property
    def size(self) -> int:
        """Number of variables."""
        # Without a diagonal, the row of one variable is empty, or left out.
        left_out = not self.has_diagonal and min(map(len, self.rows)) > 0
        return len(self.rows) + int(left_out)


def extra_kind(label: str) -> str | None:
    """What a row or column with this name has besides the matrix: "n", "means" or "sds"."""
    word = " ".join(label.lower().replace(".", " ").replace("_", " ").split())
    return next((kind for kind, words in _EXTRA.items() if word in words), None)


def square_text(
    raw: bytes, kind: MatrixKind | None, spell: Spell, header: bool | None = None
) -> SquareText:
    """The text with empty cells at the end of short rows, and a triangle as a whole matrix.

    Cells of a file without separators are separated by spaces. `header` is what the user says.
    """
    text = decode_text(raw)[0]
    separator = next((one for one in SEPARATOR_NAMES if one in text), None)
    if separator is None:
        rows = [line.split() for line in text.splitlines()]
    else:
        rows = list(records(csv.reader(io.StringIO(text, newline=""), delimiter=separator)))
    rows = [_without_end(row) for row in rows if len(row) > 1 or any(map(str.strip, row))]
    width = max(map(len, rows), default=0)
    named = len(rows) > 1 and all(row and _is_word(row[0]) for row in rows[1:])
    has_header = _has_header(rows, named) if header is None else header
    head, body = (rows[0], rows[1:]) if has_header and rows else ([], rows)
    extra = [row for row in body if named and extra_kind(row[0]) is not None]
    body = [row for row in body if row not in extra]
    labels = [row[0] for row in body] if named else []
    if named and head and _has_corner(head, labels, width):
        head = head[1:]
    names = _variables(head, labels)
    values = [row[1:] for row in body] if named else body
    triangle = _triangle(values, len(names) if head else None, bool(named), kind, spell)
    notes: list[Note] = []
    if triangle is not None:
        if kind == "covariance" and not triangle.has_diagonal:
            raise DataError(
                "a covariance matrix must have its diagonal, the variances. Got a triangle "
                f"without it instead. Write it, or give {spell('kind', 'correlation')}."
            )
        values, p = _filled(triangle), triangle.size
        if p > len(triangle.rows):
            notes.append(Note("no_diagonal", count=p))
        labels = names if named else []
    elif head:
        names = head
    out: Cells = []
    if names and header is not False:
        out.append([ROW_NAMES, *names] if named else names)
    out += [[label, *row] for label, row in zip(labels, values, strict=True)] if named else values
    out += extra
    return SquareText(_written(out, separator or ","), notes, triangle is not None)


def _written(rows: Cells, separator: str) -> bytes:
    width = max(map(len, rows), default=0)
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=separator, lineterminator="\n").writerows(
        [*row, *[""] * (width - len(row))] for row in rows
    )
    return out.getvalue().encode()


def _without_end(row: Sequence[str]) -> list[str]:
    """The cells up to the last one with a value."""
    filled = [j for j, cell in enumerate(row) if not is_missing(cell)]
    return list(row[: filled[-1] + 1]) if filled else []


def _number(cell: str) -> float | None:
    return parse_number(cell.replace(",", "."))


def _is_word(cell: str) -> bool:
    return not is_missing(cell) and _number(cell) is None


def _has_header(rows: Cells, named: bool) -> bool:
    """Is the first row one of names? One word before other names of rows is the first of them."""
    filled = [cell for cell in rows[0] if not is_missing(cell)] if rows else []
    return all(map(_is_word, filled)) and len(filled) > int(named) and bool(filled)


def _has_corner(head: list[str], labels: list[str], width: int) -> bool:
    """Is the first cell of the header above the names of rows?"""
    if is_missing(head[0]) or head[1:] == labels:
        return True
    return head != labels and len(head) == width


def _variables(head: list[str], labels: list[str]) -> list[str]:
    """Names of the variables; columns or rows of a triangle without diagonal may lack one."""
    if not head or not labels:
        return head or labels
    if labels[0] in head:
        return list(dict.fromkeys([*head, *labels]))
    if head[0] in labels:
        return list(dict.fromkeys([*labels, *head]))
    return labels if len(labels) >= len(head) else head


def _triangle(
    rows: Cells, names: int | None, named: bool, kind: MatrixKind | None, spell: Spell
) -> _Triangle | None:
    """The triangle that the rows are, if they are one. `names` is the number of variables."""
    m = len(rows)
    lengths = [len(row) for row in rows]
    if m < 2 or any(_number(cell) is None for row in rows for cell in row):
        return None
    for is_upper in (False, True):
        rising = lengths[::-1] if is_upper else lengths
        if rising == list(range(m)) and m > 2:
            return _Triangle(rows, is_upper, has_diagonal=False)
        if rising == list(range(1, m + 1)):
            if names is None:
                return _Triangle(rows, is_upper, _has_diagonal(rows, is_upper, named, kind, spell))
            return _Triangle(rows, is_upper, names == m) if names in (m, m + 1) else None
    return None


def _has_diagonal(
    rows: Cells, is_upper: bool, named: bool, kind: MatrixKind | None, spell: Spell
) -> bool:
    """Have rows of 1, 2, 3, … cells without a header their diagonal?"""
    numbers = [_number(cell) or 0.0 for row in rows for cell in row]
    ends = [_number(row[0 if is_upper else -1]) or 0.0 for row in rows]
    if all(abs(one - 1) <= UNIT_TOLERANCE for one in ends) or all(one == 100 for one in ends):
        return True
    largest = max(map(abs, numbers))
    are_correlations = largest <= 1 or (largest < 100 and all(one.is_integer() for one in numbers))
    if kind == "covariance" or not are_correlations:
        return True
    if kind == "correlation" and not named:
        return False
    m = len(rows)
    said = (
        "Write the diagonal, or a row of names with one for each variable."
        if kind == "correlation"
        else f"Say {spell('kind', 'correlation')} or {spell('kind', 'covariance')}, or write the "
        "diagonal."
    )
    raise DataError(
        f"the rows have from 1 to {m} numbers, and the diagonal is not 1. They may be correlations "
        f"of {m + 1} variables without the diagonal, or a matrix of {m} variables with another "
        f"diagonal, such as variances or reliabilities. {said}"
    )


def _filled(triangle: _Triangle) -> Cells:
    """All cells of the matrix; correlations without a diagonal get one."""
    p, shift = triangle.size, int(not triangle.has_diagonal)
    numbers = [_number(cell) or 0.0 for row in triangle.rows for cell in row]
    per_cent = max(map(abs, numbers)) > 1 and all(one.is_integer() for one in numbers)
    cells = [["100" if per_cent else "1"] * p for _ in range(p)]
    first = 0 if triangle.is_upper else p - len(triangle.rows)
    for i, row in enumerate(triangle.rows, first):
        for k, cell in enumerate(row):
            j = i + shift + k if triangle.is_upper else k
            cells[i][j] = cells[j][i] = cell
    return cells
