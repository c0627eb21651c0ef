"""Correlation and covariance matrices in files: `cuspfa.read_moments`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be, whole
from cuspfa.data.column_choice import ChooseColumns, chooser
from cuspfa.data.moments import Moments
from cuspfa.data.screening.matrix_input import find_matrix
from cuspfa.data.tables.dialect import Reading, as_reading
from cuspfa.data.tables.notes import Note
from cuspfa.data.tables.reader import FileTable, read_file
from cuspfa.errors import DataError, InputError

_EXTRA = {
    "n": ("n", "nobs", "n obs", "count"),
    "means": ("mean", "means", "m", "center"),
    "sds": ("sd", "sds", "std", "stddev", "std dev", "standard deviation", "st dev", "s d"),
}
"""Names of rows, or of columns, besides those of the matrix."""


class MatrixFile(NamedTuple):
    """A matrix that was read from a file."""

    source: str
    kind: str
    """"correlation matrix" or "covariance matrix"."""
    moments: Moments
    notes: list[Note]
    n_columns_read: int
    excluded: list[str]


def read_moments(
    path: Any,
    n: int | None = None,
    *,
    means: Any = None,
    sds: Any = None,
    columns: Any = None,
    exclude: Any = None,
    header: bool | None = None,
    decimal: str | None = None,
    sheet: str | int | None = None,
) -> Moments:
    r"""Read a correlation or covariance matrix from a file, for `fit_moments`.

    The whole matrix or a triangle of it, with or without its diagonal; correlations may be per cent
    (45 for .45). A first column may name the rows. Rows named "n", "mean" and "sd" are the number
    of observations, means and standard deviations.

    Parameters
    ----------
    path : str or os.PathLike
        A file of any format that `read_table` knows; cells of a text file may also be separated by
        spaces.
    n : int or None, default=None
        Number of observations behind the matrix. None: as the file says.
    means, sds : None or sequence of float
        Means and standard deviations of the variables in the order of the file, if the file does
        not have them. Without, means are 0, and variables of a correlation matrix have variance 1.
    columns, exclude : None, or names, indices, slice or mask
        Variables to analyse, or to leave out.
    header, decimal, sheet
        As in `read_table`.

    Returns
    -------
    Moments

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import cuspfa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "R.csv"
    ...     _ = path.write_text("a,b,c,d\n1\n.6,1\n.5,.55,1\n.4,.5,.45,1\n")
    ...     moments = cuspfa.read_moments(path, n=213)
    >>> moments.n, moments.names
    (213, ['a', 'b', 'c', 'd'])
    """
    if not isinstance(path, (str, Path)) and not hasattr(path, "__fspath__"):
        raise must_be("path", "a text or path", path)
    how = as_reading((), header, decimal, sheet)
    choose = chooser(columns, exclude, insists=True)
    return load_matrix(str(path), choose, how=how, n=n, means=means, sds=sds).moments


def load_matrix(
    path: str,
    choose: ChooseColumns,
    *,
    how: Reading,
    n: int | None = None,
    means: Any = None,
    sds: Any = None,
) -> MatrixFile:
    """The work of `read_moments`, with messages that spell arguments as the caller does."""
    file = read_file(path, how=how, is_matrix=True)
    names, table = _cells(file)
    extra, table = _extra_rows(file.ids or [""] * file.n_rows, table)
    kept = list(range(table.shape[1]))
    found = find_matrix(table)
    if found is None:  # counts, means and standard deviations may be columns
        of_columns, turned = _extra_rows(names, table.T)
        extra |= of_columns
        kept = [j for j, name in enumerate(names) if _extra_kind(name) is None]
        found = find_matrix(turned.T)
    names = [names[j] for j in kept]
    if found is None:
        raise DataError(
            f"{file.source} is not a correlation or covariance matrix: it has {table.shape[0]} "
            f"rows and {table.shape[1]} columns of numbers, and a matrix is square and symmetric, "
            "or a triangle."
        )
    p = len(found.matrix)
    sd = _vector(how.spell("sds"), extra.get("sds") if sds is None else sds, p)
    mean = _vector(how.spell("means"), extra.get("means") if means is None else means, p)
    if n is None and "n" in extra:
        n = int(np.nanmin(extra["n"]))
    if n is None:
        raise InputError(
            f"{file.source} is a {found.kind} matrix. Say of how many rows it was made: "
            f"{how.spell('n')}."
        )
    whole(how.spell("n"), n, 2)
    if sd is not None and np.any(sd <= 0):
        raise must_be(how.spell("sds"), "positive", sd.tolist())
    choice = choose(names)
    chosen = np.array(choice.kept, dtype=np.intp)
    every, names = names, [names[j] for j in chosen]
    matrix = found.matrix[np.ix_(chosen, chosen)]
    mean = None if mean is None else mean[chosen]
    if found.kind == "correlation" and (sd is not None or mean is not None):
        scale = np.ones(len(chosen)) if sd is None else sd[chosen]
        moments = Moments.from_covariance(
            matrix * np.outer(scale, scale), n, mean=mean, names=names
        )
    elif found.kind == "correlation":
        moments = Moments.from_correlation(matrix, n, names=names)
    else:
        moments = Moments.from_covariance(matrix, n, mean=mean, names=names)
    excluded = [every[j] for j in choice.excluded]
    return MatrixFile(file.source, f"{found.kind} matrix", moments, file.notes, p, excluded)


def _cells(file: FileTable) -> tuple[list[str], Array]:
    """The columns of numbers, and their names; a first column that counts the rows is left out."""
    names, columns = [], []
    for j, column in enumerate(file.columns):
        if j == file.id_position:
            continue
        if column.numbers is None and column.n_missing < column.n_rows:
            assert column.dropped is not None
            raise DataError(
                f"{file.source}: column {column.name!r} must be numbers: {column.dropped.reason}"
                f"{column.dropped.example}"
            )
        blank = np.full(file.n_rows, np.nan)
        columns.append(blank if column.numbers is None else column.numbers)
        names.append(column.name)
    counted = np.arange(file.n_rows)
    first = int(any(np.array_equal(columns[0], counted + start) for start in (0, 1)))
    return names[first:], np.column_stack(columns[first:])


def _extra_rows(labels: list[str], table: Array) -> tuple[dict[str, Array], Array]:
    """Rows of counts, means and standard deviations by their names, and the other rows."""
    found: dict[str, Array] = {}
    kept = []
    for j, label in enumerate(labels):
        kind = _extra_kind(label)
        if kind is not None:
            found[kind] = table[j]
        else:
            kept.append(j)
    rows = table[kept]
    # A triangle without its diagonal has an empty row; others are empty lines of the file.
    return found, rows if len(rows) == rows.shape[1] else rows[~np.isnan(rows).all(axis=1)]


def _extra_kind(label: str) -> str | None:
    """What a row or column with this name has besides the matrix: "n", "means" or "sds"."""
    word = " ".join(label.lower().replace(".", " ").replace("_", " ").split())
    return next((kind for kind, words in _EXTRA.items() if word in words), None)


def _vector(label: str, given: Any, p: int) -> Array | None:
    if given is None:
        return None
    values = np.asarray(given, dtype=float)
    if values.shape != (p,) or not np.all(np.isfinite(values)):
        raise must_be(label, f"{p} numbers, one for each variable", given)
    return values
