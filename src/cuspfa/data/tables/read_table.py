"""Tables in files: one way in for the program and for `fit(path)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be
from cuspfa._utils.fit_warning import NearConstant
from cuspfa.data.moments import Moments
from cuspfa.data.out_of_core.block import Choice, Choose
from cuspfa.data.out_of_core.mapped import Mapped
from cuspfa.data.out_of_core.memory import allowed_bytes
from cuspfa.data.out_of_core.readers import kind_of
from cuspfa.data.out_of_core.screened import read_screened
from cuspfa.data.out_of_core.stream import (
    Plan,
    Progress,
    RowStream,
    as_reading,
    chooser,
    table_stream,
)
from cuspfa.data.screening.columns import screen
from cuspfa.data.tables.column_names import find_column
from cuspfa.data.tables.dialect import Reading
from cuspfa.data.tables.notes import DroppedColumn, Note
from cuspfa.data.tables.reader import COPIES, FileTable, read_file
from cuspfa.errors import InputError

ARRAYS = (".npy", ".zarr", ".h5ad")
"""Kinds of files that are read by blocks whatever their size."""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of numbers from a file, ready for `fit`.

    Attributes
    ----------
    source, kind : str
        The file's name, and what it is: CSV, TSV, Parquet, Feather or "by blocks".
    names : list of str
        Of the columns that are analysed.
    data : ndarray (n, p), Moments or RowStream
        The rows, NaN where a value is missing; of a table read by blocks, sums of complete rows,
        or a stream of rows that stay in their file.
    dropped : list of DroppedColumn
        Columns that are not analysed, each with a `name`, a `code` and a `reason` in words.
    excluded : list of str
        Columns left out because the user said so.
    notes : list of Note
        What was found out or assumed of how the file is written; `str(note)` is a sentence.
    ids : list of str or None
        Names of the rows, if an `id_column` was given.
    n_missing : dict
        By column, of those analysed, where values are missing.
    n_empty : int
        Rows without any value in these columns: they are left out.
    """

    source: str
    kind: str
    names: list[str]
    data: Array | Moments | RowStream
    dropped: list[DroppedColumn]
    excluded: list[str]
    notes: list[Note]
    n_columns_read: int
    n_missing_read: int = 0
    """Missing values in all columns that were read."""
    n_missing: dict[str, int] = field(default_factory=dict)
    n_incomplete: int = 0
    """Rows with a missing value."""
    n_empty: int = 0
    n_rows: int = 0
    """Rows that are analysed."""
    ids: list[str] | None = None
    sample: Array = field(default_factory=lambda: np.empty((0, 0)))
    """The first rows of the columns that are analysed, or all."""
    near_constant: NearConstant | None = None

    @property
    def rows(self) -> Array:
        """(n, p) the rows of a table in memory."""
        if not isinstance(self.data, np.ndarray):
            raise InputError(
                f"{self.source} was read by blocks, so that its rows are not in memory. Pass the "
                "table itself to fit, or raise memory_limit."
            )
        return self.data

    @property
    def n_columns(self) -> int:
        """Columns that are analysed."""
        return len(self.names)

    @property
    def n_rows_read(self) -> int:
        """Rows of the file."""
        return self.n_rows + self.n_empty


def read_table(
    path: Any,
    *,
    columns: Any = None,
    exclude: Any = None,
    id_column: str | None = None,
    missing: Any = (),
    header: bool | None = None,
    decimal: str | None = None,
    memory_limit: int | str | None = None,
) -> Table:
    r"""Read the columns of numbers of a file, as `fit(path)` and the program do.

    Encoding, separator, decimal sign and header of text files are found. Text, ID and constant
    columns are dropped, each with a reason. A file that does not fit into memory, a folder, or any
    file for which a `memory_limit` is given is read by blocks.

    Parameters
    ----------
    path : str or os.PathLike
        A CSV, TSV, Parquet or Feather file, an array (npy, Zarr, h5ad), or a folder of such files.
        Needs `cuspfa[files]`.
    columns : None, or names, indices, slice or mask
        Columns to analyse. None means all that hold numbers and do not merely name the rows.
    exclude : None, or names, indices, slice or mask
        Columns to leave out.
    id_column : str or None, default=None
        A column that names the rows. It is not analysed.
    missing : sequence of numbers and words, default=()
        What stands for a missing value besides empty cells, NA, N/A, NaN, null, "." and "-".
    header : bool or None, default=None
        Does the first row name the columns? None means: found from the file.
    decimal : "." or "," or None, default=None
        The decimal sign. None means: found from the file.
    memory_limit : None, int or str, default=None
        What may be taken, in bytes or as text such as "4GB".

    Returns
    -------
    Table
        With `names`, `rows`, `dropped`, `notes` and `ids`; `fit` takes it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import cuspfa
    >>> X = cuspfa.datasets.simulate(200, 3, 1, random_state=1).X.round(2)
    >>> lines = ["id;a;b;c"] + [f"{i};{row[0]};{row[1]};{row[2]}" for i, row in enumerate(X)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "answers.csv"
    ...     _ = path.write_text("\n".join(lines).replace(".", ","))
    ...     table = cuspfa.read_table(path)
    >>> table.names, table.rows.shape
    (['a', 'b', 'c'], (200, 3))
    >>> [(one.name, one.reason) for one in table.dropped]
    [('id', 'counts the rows from 0 on')]
    >>> str(table.notes[0])
    'Cells separated by semicolons and with decimal commas.'
    """
    if not isinstance(path, (str, Path)) and not hasattr(path, "__fspath__"):
        raise must_be("path", "a text or path", path)
    how = as_reading(missing, header, decimal)
    choose = chooser(columns, exclude, insists=False)
    return load_table(str(path), choose, id_column=id_column, how=how, memory_limit=memory_limit)


def load_table(
    path: str,
    choose: Choose,
    *,
    id_column: str | None,
    how: Reading,
    memory_limit: int | str | None = None,
    progress: Callable[[Progress], None] | None = None,
    on_plan: Callable[[Plan], None] = lambda plan: None,
) -> Table:
    """What `read_table` does, with arguments as the caller spells them.

    `on_plan` is told what reading by blocks takes, before a row is read.
    """
    if not reads_by_blocks(path, memory_limit, how):
        return screened(read_file(path, id_column=id_column, how=how, check=choose), choose, how)

    def choose_numbers(names: list[str]) -> Choice:
        choice = choose(names)
        if id_column is None:
            return choice
        position = find_column(how.spell("id_column"), id_column, names)
        return choice._replace(columns=[j for j in choice.columns if j != position])

    stream = table_stream(path, choose_numbers, how, memory_limit, progress)
    if id_column is not None:
        stream.reader.dropped.insert(0, DroppedColumn(id_column, "id_column"))
    plan = stream.plan()
    on_plan(plan)
    return _by_blocks(path, stream, plan, how)


def reads_by_blocks(path: str, memory_limit: int | str | None, how: Reading) -> bool:
    """A folder, a file that does not fit or is an array, or one for which a limit is given."""
    label = how.spell("memory_limit")
    if path == "-":
        if memory_limit is not None:
            raise InputError(f"{label} is for a file or a folder. Give one.")
        return False
    allowed = allowed_bytes(memory_limit, label)
    place = Path(path)
    if memory_limit is not None or place.is_dir() or kind_of(place) in ARRAYS:
        return place.exists()
    return place.is_file() and allowed is not None and COPIES * place.stat().st_size > allowed


def screened(file: FileTable, choose: Choose, how: Reading) -> Table:
    """The columns of a table in memory that are analysed."""
    choice = choose(file.names)
    found = screen(file.source, file.columns, choice, file.id_position, how.spell)
    return Table(
        source=file.source,
        kind=file.kind,
        names=found.names,
        data=found.rows,
        dropped=found.dropped,
        excluded=[file.names[j] for j in choice.excluded],
        notes=file.notes,
        n_columns_read=len(file.columns),
        n_missing_read=file.n_missing,
        n_missing=found.n_missing,
        n_incomplete=int(np.isnan(found.rows).any(axis=1).sum()),
        n_empty=found.n_empty,
        n_rows=len(found.rows),
        ids=file.ids,
        sample=found.rows,
    )


def _by_blocks(path: str, stream: RowStream, plan: Plan, how: Reading) -> Table:
    reader = stream.reader
    table = Table(
        source=path,
        kind="by blocks",
        names=stream.names or [reader.all_names[j] for j in reader.choice.kept],
        data=stream,
        dropped=reader.dropped,
        excluded=[reader.all_names[j] for j in reader.choice.excluded],
        notes=reader.notes,
        n_columns_read=len(reader.all_names),
    )
    if plan.how == "map":
        return replace(table, sample=_first_rows(stream))
    found = read_screened(stream)
    assert not isinstance(found.data, Mapped)
    names = stream.names or table.names  # without those that turned out to be no numbers
    rows = found.data if isinstance(found.data, np.ndarray) else None
    coded = [Note("missing", count=reader.coded)] if how.missing else []
    return replace(
        table,
        names=[names[j] for j in found.kept],
        data=found.data,
        dropped=found.dropped,
        notes=[*reader.notes, *coded],
        n_missing_read=sum(found.n_missing.values()) + found.n_empty * stream.n_columns,
        n_missing=found.n_missing,
        n_incomplete=0 if rows is None else int(np.isnan(rows).any(axis=1).sum()),
        n_empty=found.n_empty,
        n_rows=found.data.n if isinstance(found.data, Moments) else len(found.data),
        sample=_first_rows(stream)[:, found.kept] if rows is None else rows,
        near_constant=found.near_constant,
    )


def _first_rows(stream: RowStream) -> Array:
    """The first block of rows."""
    blocks = stream.blocks(allow_missing=True)
    try:
        return next((np.asarray(one.rows) for one in blocks), np.empty((0, stream.n_columns)))
    finally:
        blocks.close()  # type: ignore[attr-defined]
