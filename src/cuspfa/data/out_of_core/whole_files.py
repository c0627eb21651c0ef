"""Files that are parsed as a whole, such as workbooks, and given block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cuspfa.data.column_choice import ChooseColumns
from cuspfa.data.names import check_same_columns
from cuspfa.data.out_of_core.block import Block
from cuspfa.data.tables.dialect import Reading
from cuspfa.data.tables.notes import DroppedColumn
from cuspfa.data.tables.office import OFFICE_SUFFIXES
from cuspfa.data.tables.reader import FileTable, read_file
from cuspfa.errors import DataError

WHOLE_SUFFIXES = (*OFFICE_SUFFIXES, ".zip")
"""Suffixes of files that cannot be read by blocks."""


class WholeFiles:
    """Files with the same column names, in any order, held in memory."""

    again = True

    def __init__(self, files: list[Path], choose: ChooseColumns, how: Reading) -> None:
        first = read_file(str(files[0]), how=how, check=choose)
        alike = replace(how, answers=tuple(first.answers))
        self.tables = [first, *(read_file(str(one), how=alike, check=choose) for one in files[1:])]
        self.all_names, self.notes = first.names, list(first.notes)
        self.answers = first.answers
        self.choice = choose(first.names)
        self.names: list[str] | None = [first.names[j] for j in self.choice.kept]
        self.dropped: list[DroppedColumn] = []
        self.n_rows: int | None = sum(table.n_rows for table in self.tables)
        self.coded = 0
        """Missing values in the last pass that are codes of the user."""
        for table in self.tables:
            self._check_columns(table)

    @property
    def n_columns(self) -> int:
        """Number of columns that are read."""
        return len(self.names or [])

    def _check_columns(self, table: FileTable) -> None:
        """Check that a file has all columns, and drop those that do not hold numbers."""
        assert self.names is not None
        known = {column.name: column for column in table.columns}
        check_same_columns(table.source, known, self.tables[0].source, self.names)
        for name in list(self.names):
            why = known[name].dropped
            if why is None or why.code == "empty":
                continue
            if self.choice.insists:
                raise DataError(
                    f"{table.source}: column {name!r} must be numbers. Got {why.reason}"
                    f"{why.example}. Leave the column out, or turn it into numbers."
                )
            self.names.remove(name)
            self.dropped.append(why)

    def drop(self, error: Any) -> None:
        """Raise the error: all columns are known."""
        raise error

    def blocks(self, size: int, dtype: Any) -> Iterator[Block]:
        """Slices of the tables."""
        self.coded = 0
        for table in self.tables:
            known = {column.name: column for column in table.columns}
            columns = [known[name] for name in self.names or []]
            self.coded += sum(column.coded for column in columns)
            for first in range(0, table.n_rows, size):
                rows = np.full((min(size, table.n_rows - first), len(columns)), np.nan, dtype)
                with np.errstate(over="ignore"):  # infinite values are refused later
                    for j, column in enumerate(columns):
                        if column.numbers is not None:
                            rows[:, j] = column.numbers[first : first + size]
                yield Block(rows, table.source, first)
