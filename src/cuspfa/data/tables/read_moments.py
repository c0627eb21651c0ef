"""Correlation and covariance matrices in files: `cuspfa.read_moments`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, NoReturn, get_args

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be, one_of, whole
from cuspfa._utils.warn import warn
from cuspfa.data.column_choice import ChooseColumns, chooser
from cuspfa.data.moments import Moments, rank_of, repaired
from cuspfa.data.screening.matrix_input import (
    CORRELATION_TOLERANCE,
    COVARIANCE_TOLERANCE,
    FoundMatrix,
    find_matrix,
)
from cuspfa.data.tables.dialect import Reading, as_reading
from cuspfa.data.tables.notes import Note
from cuspfa.data.tables.reader import FileTable, read_file
from cuspfa.data.tables.triangles import MatrixKind, extra_kind
from cuspfa.errors import DataError, InputError

LARGEST_REPAIR = 0.1
"""Change of a correlation, by the repair of its matrix, from which on the matrix is refused."""


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
    kind: MatrixKind | None = None,
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
    kind : {"correlation", "covariance"} or None, default=None
        What the matrix is. None: correlations if the diagonal is 1, 100 or empty, and covariances
        if an entry is above 1. Otherwise the file is ambiguous (variances below 1, reliabilities in
        the diagonal, or a triangle without it), and an error.
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
    if kind is not None:
        one_of("kind", kind, get_args(MatrixKind))
    choose = chooser(columns, exclude, insists=True)
    found = load_matrix(str(path), choose, how=how, n=n, kind=kind, means=means, sds=sds)
    for note in found.notes:
        if note.code in ("repaired", "other_n"):
            warn(note.message())
    return found.moments


def load_matrix(
    path: str,
    choose: ChooseColumns,
    *,
    how: Reading,
    n: int | None = None,
    kind: MatrixKind | None = None,
    means: Any = None,
    sds: Any = None,
) -> MatrixFile:
    """The work of `read_moments`, with messages that spell arguments as the caller does."""
    file = read_file(path, how=how, is_matrix=True, matrix_kind=kind)
    names, table = _cells(file)
    extra, table = _extra_rows(file.ids or [""] * file.n_rows, table)
    if table.shape[0] != table.shape[1]:  # counts, means and standard deviations may be columns
        of_columns, turned = _extra_rows(names, table.T)
        extra |= of_columns
        table = turned.T
        names = [name for name in names if extra_kind(name) is None]
    found = _matrix(file.source, table, names, kind, how)
    p = len(found.matrix)
    sd = _vector(how.spell("sds"), extra.get("sds") if sds is None else sds, p)
    mean = _vector(how.spell("means"), extra.get("means") if means is None else means, p)
    of_file = int(np.nanmin(extra["n"])) if "n" in extra else None
    n = of_file if n is None else n
    if n is None:
        raise InputError(
            f"{file.source} is a {found.kind} matrix. Say of how many rows it was made: "
            f"{how.spell('n')}."
        )
    whole(how.spell("n"), n, 2)
    if sd is not None and np.any(sd <= 0):
        raise must_be(how.spell("sds"), "positive", sd.tolist())
    found, changed = _positive(file.source, found, names)
    _check_rank(found, n, how)
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
    other = [] if of_file in (None, n) else [Note("other_n", count=of_file or 0, detail=str(n))]
    notes = [*file.notes, *other, *changed]
    return MatrixFile(file.source, f"{found.kind} matrix", moments, notes, p, excluded)


# --- is it a matrix? ---


def _matrix(
    source: str, table: Array, names: list[str], kind: MatrixKind | None, how: Reading
) -> FoundMatrix:
    """The matrix in a table, of this kind if one is given; a DataError names what is wrong."""
    if table.shape[0] != table.shape[1] or len(table) < 2:
        raise DataError(
            f"{source} is not a correlation or covariance matrix: it has {table.shape[0]} rows and "
            f"{table.shape[1]} columns of numbers, and a matrix is square and symmetric, or a "
            "triangle."
        )
    table = np.where(np.isnan(table), table.T, table)
    if kind == "covariance":
        return _covariances(source, table, names)
    found = find_matrix(table)
    if found is None:
        _refuse(source, table, names, kind, how)
    if found.kind == "covariance":
        if kind == "correlation":
            _refuse_diagonal(source, table, names, how)
        if np.abs(table).max() <= 1.0:
            _refuse_diagonal(source, table, names, how, ambiguous=True)
    return found


def _covariances(source: str, table: Array, names: list[str]) -> FoundMatrix:
    _check_filled(source, table, names, diagonal=True)
    diagonal = np.diag(table)
    if np.any(diagonal <= 0):
        j = int(np.argmin(diagonal))
        raise DataError(
            f"{source}: the variance of {names[j]!r} must be positive. Got {diagonal[j]:g} instead."
        )
    root = np.sqrt(diagonal)
    scale = np.outer(root, root)
    _check_symmetric(source, table, names, COVARIANCE_TOLERANCE * scale)
    _check_size(source, table, names, scale)
    return FoundMatrix("covariance", (table + table.T) / 2)


def _refuse(
    source: str, table: Array, names: list[str], kind: MatrixKind | None, how: Reading
) -> NoReturn:
    """The error for a table that is no matrix: its first fault."""
    diagonal = np.diag(table)
    _check_filled(source, table, names, diagonal=not np.all(np.isnan(diagonal)))
    unit = 100.0 if np.all(diagonal == 100) else 1.0
    _check_symmetric(source, table, names, np.full(table.shape, CORRELATION_TOLERANCE * unit))
    if np.any(np.abs(diagonal - unit) > CORRELATION_TOLERANCE):
        _refuse_diagonal(source, table, names, how, ambiguous=kind is None)
    _check_size(source, table, names, np.full(table.shape, unit))
    raise DataError(
        f"{source} is not a correlation or covariance matrix: its {len(table)} rows hardly vary."
    )


def _check_filled(source: str, table: Array, names: list[str], *, diagonal: bool) -> None:
    empty = np.isnan(table) | np.isinf(table)
    if not diagonal:
        np.fill_diagonal(empty, False)
    if empty.any():
        i, j = _pair(np.argmax(empty), table)
        more = int(np.triu(empty).sum()) - 1
        others = f", and {more} more are missing" if more else ""
        raise DataError(
            f"{source}: row {names[i]!r}, column {names[j]!r} of the matrix must be a number. Got "
            f"{'an infinite one' if np.isinf(table[i, j]) else 'no value'} instead{others}. Fill "
            "it in, or leave the variable out of the file."
        )


def _check_symmetric(source: str, table: Array, names: list[str], near: Array) -> None:
    apart = np.nan_to_num(np.abs(table - table.T)) / near
    if apart.max() > 1.0:
        i, j = _pair(np.argmax(apart), table)
        raise DataError(
            f"{source}: a matrix must be symmetric. Got {table[i, j]:g} in row {names[i]!r}, "
            f"column {names[j]!r}, and {table[j, i]:g} in row {names[j]!r}, column {names[i]!r}. "
            "Correct one of them."
        )


def _check_size(source: str, table: Array, names: list[str], scale: Array) -> None:
    size = np.nan_to_num(np.abs(table) / scale)
    np.fill_diagonal(size, 0.0)
    if size.max() > 1.0 + CORRELATION_TOLERANCE:
        i, j = _pair(np.argmax(size), table)
        raise DataError(
            f"{source}: a correlation must be between -1 and 1. Got {table[i, j] / scale[i, j]:g} "
            f"in row {names[i]!r}, column {names[j]!r} instead. Correct it."
        )


def _refuse_diagonal(
    source: str, table: Array, names: list[str], how: Reading, *, ambiguous: bool = False
) -> NoReturn:
    diagonal = np.diag(table)
    j = int(np.argmax(np.abs(diagonal - 1.0)))
    said = f"If it is a covariance matrix: {how.spell('kind', 'covariance')}."
    if ambiguous:
        said += f" If it has correlations: {how.spell('kind', 'correlation')}, and 1 in the"
        said += " diagonal in place of reliabilities or communalities."
    else:
        said += " If these are reliabilities or communalities, write 1 in their place."
    raise DataError(
        f"{source}: the diagonal of a correlation matrix must be 1, 100 or empty. Got "
        f"{diagonal[j]:g} for {names[j]!r} instead. {said}"
    )


def _pair(place: Any, table: Array) -> tuple[int, int]:
    """Row and column of a place in the flattened table."""
    return divmod(int(place), len(table))


# --- can it be a matrix of n rows? ---


def _positive(source: str, found: FoundMatrix, names: list[str]) -> tuple[FoundMatrix, list[Note]]:
    """The matrix without negative eigenvalues, and a note on what changed."""
    repair = repaired(found.matrix)
    if repair is None:
        return found, []
    i, j = _pair(np.argmax(repair.change), repair.change)
    entry = f"row {names[i]!r}, column {names[j]!r}"
    scale = np.sqrt(found.matrix[i, i] * found.matrix[j, j])
    before, after = found.matrix[i, j] / scale, repair.matrix[i, j] / scale
    if repair.change[i, j] > LARGEST_REPAIR:
        raise DataError(
            f"{source}: no data have these correlations: the matrix is not positive semi-definite "
            f"(smallest eigenvalue {repair.lowest:.2g}). The nearest possible one has "
            f"{after:.2f} in {entry}, where the file has {before:.2f}. Look for a wrong sign or "
            "digit, or for correlations that come from different rows."
        )
    detail = f"correlations by up to {repair.change[i, j]:.2g} ({entry})"
    return FoundMatrix(found.kind, repair.matrix), [Note("repaired", detail=detail)]


def _check_rank(found: FoundMatrix, n: int, how: Reading) -> None:
    """Refuse a number of rows that is too small: n rows have a matrix of rank n - 1 at most."""
    p = len(found.matrix)
    if n > p:
        return
    root = np.sqrt(np.diag(found.matrix))
    rank = rank_of(np.linalg.eigvalsh(found.matrix / np.outer(root, root)))
    if rank >= n:
        raise InputError(
            f"{how.spell('n')} must be the number of rows that the matrix was made of, at least "
            f"{rank + 1}: a matrix of {p} variables and rank {rank} cannot come from fewer rows. "
            f"Got {n} instead."
        )


# --- cells ---


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
        kind = extra_kind(label)
        if kind is not None:
            found[kind] = table[j]
        else:
            kept.append(j)
    rows = table[kept]
    # A triangle without its diagonal has an empty row; others are empty lines of the file.
    return found, rows if len(rows) == rows.shape[1] else rows[~np.isnan(rows).all(axis=1)]


def _vector(label: str, given: Any, p: int) -> Array | None:
    if given is None:
        return None
    values = np.asarray(given, dtype=float)
    if values.shape != (p,) or not np.all(np.isfinite(values)):
        raise must_be(label, f"{p} numbers, one for each variable", given)
    return values
