"""Where data came from: the file, how it was read, and what was dropped; nothing of any row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cuspfa.data.tables.answers import Answers
from cuspfa.data.tables.labels import ColumnLabels
from cuspfa.data.tables.notes import DroppedColumn, Note
from cuspfa.data.tables.read_options import ReadOptions
from cuspfa.data.tables.read_table import Table


@dataclass(frozen=True)
class DataProvenance:
    """What was read, and what was dropped of it."""

    source: str
    """The path, or what stands for it in messages."""
    form: Literal["file", "example", "stream"]
    """A file or folder, a data set of the package, or standard input."""
    kind: str
    """How the file was read, such as "CSV, comma"."""
    n_rows: int
    n_columns: int
    n_missing: int | None
    """None where it was not counted before the fit."""
    by_blocks: bool = False
    """Was the file too large to be read as a whole?"""
    names: tuple[str, ...] = ()
    """Columns that are analysed."""
    options: ReadOptions = field(default_factory=ReadOptions)
    notes: tuple[Note, ...] = ()
    """What the reader found out or assumed."""
    dropped: tuple[DroppedColumn, ...] = ()
    """Columns that are not analysed, without examples of their cells."""
    excluded: tuple[str, ...] = ()
    """Columns that were left out on request."""
    n_empty_rows: int = 0
    """Rows without any value, which were dropped before the fit."""
    labels: tuple[ColumnLabels, ...] = ()
    """Labels of columns and of their values, of the analysed columns that have any."""
    answers: tuple[Answers, ...] = ()
    """Columns of words that were read as numbers."""
    layer: str | None = None
    """The layer of h5ad that the data were; None is X, or another format."""


def table_provenance(table: Table) -> DataProvenance:
    """What is known of a table that was read. Missing values of rows on disk are not counted."""
    return DataProvenance(
        source=table.source,
        form="stream" if table.source == "standard input" else "file",
        kind=table.kind,
        n_rows=table.n_rows_read,
        n_columns=table.n_columns_read,
        n_missing=table.n_missing_read if table.stream is None else None,
        by_blocks=table.by_blocks,
        names=tuple(table.names),
        options=table.options,
        notes=tuple(table.notes),
        dropped=tuple(one.without_example() for one in table.dropped),
        excluded=tuple(table.excluded),
        n_empty_rows=table.n_empty,
        labels=table.labels,
        answers=table.answers,
    )
