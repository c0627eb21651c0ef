"""Tables in files: the one reader for the program, for `read_table` and for `fit(path)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be
from cuspfa._utils.fit_warning import NearConstant
from cuspfa._utils.wording import counted
from cuspfa.data.column_choice import ChooseColumns, ColumnChoice, chooser
from cuspfa.data.moments import Moments
from cuspfa.data.out_of_core.mapped import Mapped
from cuspfa.data.out_of_core.memory import allowed_bytes, check_fits
from cuspfa.data.out_of_core.readers import file_format
from cuspfa.data.out_of_core.screened import ScreenedRows, read_screened, stream_passes
from cuspfa.data.out_of_core.stream import (
    Plan,
    ReadingProgress,
    RowStream,
    table_stream,
)
from cuspfa.data.out_of_core.whole_files import WHOLE_SUFFIXES
from cuspfa.data.robust_moments import Passes
from cuspfa.data.screening.column_kinds import KindGroup
from cuspfa.data.screening.columns import screen
from cuspfa.data.sums import Sums
from cuspfa.data.tables.answers import Answers, with_value_labels
from cuspfa.data.tables.column_names import find_column
from cuspfa.data.tables.dialect import Reading, as_reading
from cuspfa.data.tables.labels import ColumnLabels, labels_of
from cuspfa.data.tables.notes import DroppedColumn, Note
from cuspfa.data.tables.read_options import ReadOptions
from cuspfa.data.tables.reader import FileTable, read_file
from cuspfa.data.tables.source_bytes import COPIES_IN_MEMORY
from cuspfa.errors import DataError, InputError

BY_BLOCKS = "by blocks"
"""The kind of a table that was read by blocks."""
ARRAY_SUFFIXES = (".npy", ".zarr", ".h5ad")
"""Files that are read by blocks whatever their size."""


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Columns of numbers from a file, ready for `fit`.

    Attributes
    ----------
    source, kind : str
        The file's name, and what it is: CSV, TSV, Parquet, Feather, spreadsheet, SPSS, Stata, R
        or "by blocks".
    names : list of str
        Names of the columns that are analysed.
    data : ndarray (n, p), Moments or RowStream
        The rows, NaN where a value is missing. A table read by blocks has sums of complete rows, or
        a stream of rows that stay in their file.
    dropped : list of DroppedColumn
        Columns that are not analysed, each with a `name`, a `code` and a `reason` in words.
    excluded : list of str
        Columns left out at the request of the user.
    notes : list of Note
        What was found out or assumed about the format; `str(note)` is a sentence.
    ids : list of str or None
        Names of the rows, if an `id_column` was given.
    n_missing : dict
        Missing values by column, of the analysed columns that have any.
    n_empty : int
        Rows without any value in these columns. They are left out.
    labels : tuple of ColumnLabels
        Labels that the file has for the columns that are analysed, and for their values.
    sheet : str or None
        The sheet of a workbook that was read.
    answers : tuple of Answers
        Columns of words, such as "strongly agree", that were read as numbers, and how.
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
    kinds: tuple[KindGroup, ...] = ()
    """Columns by kind, of rows that were summed up; empty if unknown."""
    labels: tuple[ColumnLabels, ...] = ()
    sheet: str | None = None
    answers: tuple[Answers, ...] = ()
    options: ReadOptions = field(default_factory=ReadOptions)
    """What the user said of the table."""
    passes: Passes | None = None
    """Further passes over rows that were summed up."""
    allowed: int | None = None
    """Bytes that a fit may use, where rows that were read by blocks are held."""

    def __repr__(self) -> str:
        size = f"{counted(self.n_rows, 'row')}, {counted(self.n_columns, 'column')}"
        return f"<Table {self.source} ({self.kind}): {size}, {len(self.dropped)} dropped>"

    @property
    def rows(self) -> Array:
        """(n, p) the rows of a table in memory."""
        if not isinstance(self.data, np.ndarray):
            raise InputError(
                f"{self.source} was read by blocks: its rows are not in memory. Pass the table "
                "itself to fit, or raise memory_limit."
            )
        return self.data

    @property
    def by_blocks(self) -> bool:
        """Was the table read by blocks?"""
        return self.kind == BY_BLOCKS

    @property
    def stream(self) -> RowStream | None:
        """The rows of a table that stay in their file; None for others."""
        return self.data if isinstance(self.data, RowStream) else None

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
    sheet: str | int | None = None,
    order: Any = None,
    memory_limit: int | str | None = None,
) -> Table:
    r"""Read the columns of numbers of a file, as `fit(path)` and the program do.

    Encoding, separator, decimal sign and header of text files are found. Text, ID and constant
    columns are dropped, each with a reason. A file that does not fit into memory, a folder, or any
    file for which a `memory_limit` is given is read by blocks.

    Parameters
    ----------
    path : str or os.PathLike
        A CSV, TSV, Parquet or Feather file (needs `cuspfa[files]`), a workbook (.xlsx, .xls, .ods)
        or a file of SPSS (.sav), Stata (.dta) or R (.rds) (needs `cuspfa[office]`), an array (npy,
        Zarr, h5ad), or a folder of such files. Text may be compressed (.gz), and a .zip file may
        hold one table.
    columns : None, or names, indices, slice or mask
        Columns to analyse. None means all that hold numbers and do not merely name the rows.
    exclude : None, or names, indices, slice or mask
        Columns to leave out.
    id_column : str or None, default=None
        A column that names the rows. It is not analysed.
    missing : sequence of numbers and words, default=()
        Codes for missing values, besides empty cells, NA, N/A, NaN, null, "." and "-".
    header : bool or None, default=None
        Does the first row name the columns? None: found from the file.
    decimal : "." or "," or None, default=None
        The decimal sign. None: found from the file.
    sheet : str, int or None, default=None
        The sheet of a workbook, by name or by number from 1 on. None: the first with cells.
    order : str, sequence of str, or several of them, default=None
        Words of answers from low to high, such as "never,sometimes,often": columns of these words
        become numbers from 1 on. Known scales of agreement, frequency and the like, and words with
        numbers in front, become numbers without it, with a note.
    memory_limit : None, int or str, default=None
        Memory that may be used, in bytes or as text such as "4GB".

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
    how = as_reading(missing, header, decimal, sheet, order)
    choose = chooser(columns, exclude, insists=False)
    table = load_table(str(path), choose, id_column=id_column, how=how, memory_limit=memory_limit)
    named = () if columns is None else table.names
    options = how.options(memory_limit, named, table.excluded, id_column)
    return replace(table, options=options)


def load_table(
    path: str,
    choose: ChooseColumns,
    *,
    id_column: str | None,
    how: Reading,
    memory_limit: int | str | None = None,
    progress: Callable[[ReadingProgress], None] | None = None,
    on_plan: Callable[[Plan], None] = lambda plan: None,
    every_row: bool = False,
) -> Table:
    """The work of `read_table`, with messages that spell arguments as the caller does.

    `on_plan` is called with the plan of reading by blocks, before a row is read. With `every_row`
    the rows are held in memory, not summed up.
    """
    if not reads_by_blocks(path, memory_limit, how):
        return screened(read_file(path, id_column=id_column, how=how, check=choose), choose, how)

    def choose_numbers(names: list[str]) -> ColumnChoice:
        choice = choose(names)
        if id_column is None:
            return choice
        position = find_column(how.spell("id_column"), id_column, names)
        return choice._replace(columns=[j for j in choice.columns if j != position])

    stream = table_stream(path, choose_numbers, how, memory_limit, progress)
    if id_column is not None:
        stream.reader.dropped.insert(0, DroppedColumn(id_column, "id_column"))
    plan = stream.plan(every_row=every_row)
    on_plan(plan)
    if every_row:
        found = stream_table(stream, read_screened(stream, every_row=True))
        return replace(found, allowed=stream.allowed)
    return _by_blocks(stream, plan)


def reads_by_blocks(path: str, memory_limit: int | str | None, how: Reading) -> bool:
    """Is a path read by blocks?

    So are folders, arrays, files that do not fit into memory, and files with a memory limit.
    """
    label = how.spell("memory_limit")
    if path == "-":
        if memory_limit is not None:
            raise InputError(f"{label} is for a file or a folder. Give one.")
        return False
    allowed = allowed_bytes(memory_limit, label)
    place = Path(path)
    if file_format(place) in WHOLE_SUFFIXES and place.is_file():
        needs = COPIES_IN_MEMORY * place.stat().st_size
        advice = "Save it as CSV or Parquet: these are read by blocks."
        check_fits(needs, allowed, f"{path}, which is read as a whole,", advice)
        return False
    if memory_limit is not None or place.is_dir() or file_format(place) in ARRAY_SUFFIXES:
        return place.exists()
    return (
        place.is_file()
        and allowed is not None
        and COPIES_IN_MEMORY * place.stat().st_size > allowed
    )


def screened(file: FileTable, choose: ChooseColumns, how: Reading) -> Table:
    """The columns of a table in memory that are analysed."""
    choice = choose(file.names)
    try:
        labels = {one.name: one.label for one in file.labels}
        found = screen(
            file.source, file.columns, choice, file.id_position, how.spell, labels=labels
        )
    except DataError as error:
        sheet = "".join(
            f" {note.message(how.spell)}" for note in file.notes if note.code == "sheet"
        )
        raise DataError(f"{error}{sheet}") from error
    return Table(
        source=file.source,
        kind=file.kind,
        names=found.names,
        dropped=found.dropped,
        excluded=[file.names[j] for j in choice.excluded],
        notes=[*file.notes, *found.notes],
        n_columns_read=len(file.columns),
        n_missing_read=file.n_missing,
        n_missing=found.n_missing,
        n_empty=found.n_empty,
        ids=file.ids,
        labels=labels_of(found.names, file.labels),
        sheet=file.sheet,
        answers=tuple(file.answers),
        **_rows_in_memory(found.rows),
    )


def _by_blocks(stream: RowStream, plan: Plan) -> Table:
    if plan.how == "map":
        return replace(stream_table(stream), sample=_first_rows(stream))
    found = read_screened(stream)
    table = stream_table(stream, found)
    if table.sample.size:
        return table
    return replace(table, sample=_first_rows(stream)[:, found.kept])


def stream_table(stream: RowStream, found: ScreenedRows | None = None) -> Table:
    """The table of a path that is read by blocks, after a pass over its rows if there was one."""
    reader = stream.reader
    table = Table(
        source=stream.source,
        kind=BY_BLOCKS,
        names=stream.kept_names,
        data=stream,
        dropped=reader.dropped,
        excluded=stream.excluded,
        notes=reader.notes,
        n_columns_read=len(reader.all_names),
        n_rows=stream.n_rows or 0,
        labels=labels_of(reader.all_names, with_value_labels((), reader.answers)),
        answers=tuple(reader.answers),
        options=stream.options,
    )
    if found is None or isinstance(found.data, Mapped):
        return table
    names = stream.kept_names  # without those that turned out to be no numbers
    coded = [Note("missing", count=reader.coded)] if stream.how.missing else []
    table = replace(
        table,
        names=[names[j] for j in found.kept],
        dropped=found.dropped,
        notes=[*reader.notes, *coded, *found.notes],
        n_missing_read=sum(found.n_missing.values()) + found.n_empty * stream.n_columns,
        n_missing=found.n_missing,
        n_empty=found.n_empty,
        near_constant=found.near_constant,
        kinds=found.kinds,
    )
    if isinstance(found.data, Sums):
        moments = Moments.from_sums(found.data, found.names)
        passes = partial(stream_passes, stream, found.kept) if reader.again else None
        return replace(table, data=moments, n_rows=moments.n, passes=passes)
    return replace(table, **_rows_in_memory(found.data))


def _rows_in_memory(rows: Array) -> dict[str, Any]:
    """Fields of a table whose rows are in memory."""
    n_incomplete = int(np.isnan(rows).any(axis=1).sum())
    return {"data": rows, "sample": rows, "n_rows": len(rows), "n_incomplete": n_incomplete}


def _first_rows(stream: RowStream) -> Array:
    """The first block of rows."""
    blocks = stream.blocks(allow_missing=True)
    try:
        return next((np.asarray(one.rows) for one in blocks), np.empty((0, stream.n_columns)))
    finally:
        blocks.close()  # type: ignore[attr-defined]
