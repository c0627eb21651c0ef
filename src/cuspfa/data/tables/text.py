"""Cells of a text table, parsed by Arrow: the whole table, or batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cuspfa._utils.optional import needed
from cuspfa._utils.wording import counted
from cuspfa.data.tables.cells import MISSING_SPELLINGS
from cuspfa.data.tables.dialect import (
    LOOK_CHARACTERS,
    Dialect,
    Reading,
    find_dialect,
)
from cuspfa.errors import DataError

TEXT_BLOCK_BYTES = 1 << 22
"""Bytes of a block of text. No row may be longer."""


class Parser:
    """Arrow's CSV reader with the options of a dialect; its errors become DataErrors."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.arrow = needed("pyarrow", "Reading CSV files", "files")
        self.csv = needed("pyarrow.csv", "Reading CSV files", "files")
        self._uneven: list[Any] = []

    def options(self, types: dict[str, Any], block: int, chosen: bool = False) -> dict[str, Any]:
        """Options of `read_csv` and `open_csv`; the names of columns are their positions."""

        def on_uneven_row(row: Any) -> str:
            self._uneven.append(row)
            return "error"

        dialect = self.dialect
        return {
            # One thread, so that an error can name the row.
            "read_options": self.csv.ReadOptions(
                column_names=[str(j) for j in range(dialect.width)],
                use_threads=False,
                block_size=block,
                encoding="utf8" if dialect.encoding == "utf-8" else dialect.encoding,
            ),
            "parse_options": self.csv.ParseOptions(
                delimiter=dialect.separator,
                newlines_in_values=True,
                invalid_row_handler=on_uneven_row,
            ),
            "convert_options": self.csv.ConvertOptions(
                null_values=MISSING_SPELLINGS,
                strings_can_be_null=True,
                decimal_point=dialect.decimal,
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
                column_types=types,
                include_columns=list(types) if chosen else [],
            ),
        }

    def whole(self, raw: bytes, as_text: int | None) -> Any:
        """An Arrow table of all rows; the column at `as_text` stays text."""
        body = self.arrow.py_buffer(raw).slice(self.dialect.start)
        types = {} if as_text is None else {str(as_text): self.arrow.string()}
        block = max(1 << 20, min(body.size + 1, 1 << 26))
        try:
            return self.csv.read_csv(self.arrow.BufferReader(body), **self.options(types, block))
        except self.arrow.ArrowInvalid as error:
            raise self.explained(error) from None

    def batches(self, file: Path, types: dict[str, Any]) -> Iterator[Any]:
        """Batches of rows, of the columns at the positions in `types` or of all columns."""
        with self.arrow.input_stream(str(file), compression="detect") as stream:
            stream.read(self.dialect.start)
            yield from self.csv.open_csv(
                stream, **self.options(types, TEXT_BLOCK_BYTES, chosen=bool(types))
            )

    @property
    def found_uneven_row(self) -> bool:
        """Did a row have another number of cells than the rest?"""
        return bool(self._uneven)

    def explained(self, error: Exception) -> DataError:
        """A DataError for an error of Arrow."""
        if self._uneven:
            return self._uneven_row(self._uneven[0].number, self._uneven[0].actual_columns)
        if "straddling" in str(error):
            return DataError("a row is longer than 4 MB. Look for a quote that is not closed.")
        return DataError(f"the file cannot be read ({error}).")

    def _uneven_row(self, row: int | None, cells: int) -> DataError:
        where = "a row" if row is None else self.dialect.place(row)
        expected = len(self.dialect.names)
        if expected == 1:
            return DataError(
                f"{where} has {cells} cells, and the header one. The first line must hold the "
                "names of the columns: remove lines above it."
            )
        return DataError(
            f"{where} has {counted(cells, 'cell')} where {expected} are expected. Look for a "
            "missing or extra separator there, or for one inside a text without quotes."
        )


def start_of(file: Path, how: Reading) -> Dialect:
    """The dialect of a file, found from its first rows."""
    arrow = needed("pyarrow", "Reading CSV files by blocks", "files")
    with arrow.input_stream(str(file), compression="detect") as stream:
        head = stream.read(4 * LOOK_CHARACTERS)
        return find_dialect(head, how, whole=not stream.read(1))


def whole_text(raw: bytes, dialect: Dialect, as_text: int | None) -> list[Any]:
    """All columns of a table in memory; the column at `as_text` stays text."""
    table = Parser(dialect).whole(raw, as_text)
    columns = [table.column(j) for j in range(len(dialect.names))]
    last = [str(column[-1].as_py()) for column in columns if len(column)]
    if raw.count(b'"') % 2 and any("\n" in cell for cell in last):
        raise DataError(
            f"{dialect.place(table.num_rows)} opens a quote that is not closed. Close it."
        )
    return columns
