"""Tables of scores and imputed rows as text, workbook or Parquet.

Text is written as the input was: with its separator and decimal sign. Values that were computed
have six significant digits and no trailing zeros; digits before the decimal sign are never dropped
but may be zeros. Observed values are written as they are, and so are all values of workbooks and
Parquet files.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.optional import needed
from cuspfa.cli.outputs import check_not_the_input, write_text
from cuspfa.data.tables.column_names import not_a_formula
from cuspfa.data.tables.reader import FileTable
from cuspfa.errors import InputError
from cuspfa.io.atomic import check_writable, replacing

TABS, COMMAS, PARQUET = (".tsv", ".tab"), (".csv", ".txt", ".dat", ""), (".parquet", ".pq")
WORKBOOK = ".xlsx"
SIGNIFICANT_DIGITS = 6
"""Significant digits of computed values in text."""
MOST_SHEET_ROWS = 1_048_576


def check_output(output: Path | None, fit: Path, data: str) -> None:
    """Refuse a file that is read, cannot be written or has the suffix of another format."""
    if output is None:
        return
    check_writable("-o", output)
    for given in (str(fit), data):
        check_not_the_input("-o", output, given)
    suffix = output.suffix.lower()
    if suffix not in (*TABS, *COMMAS, *PARQUET, WORKBOOK):
        raise InputError(
            f"-o: tables are written as CSV, TSV, Excel or Parquet, not as {output.suffix!r}. "
            "Choose a name that ends in .csv, .tsv, .xlsx or .parquet."
        )
    if suffix == WORKBOOK:
        needed("xlsxwriter", "Writing workbooks", "office")


def write_values(
    names: Sequence[str],
    tables: Iterable[Array],
    table: FileTable,
    output: Path | None,
    *,
    numbered: bool = False,
    observed: BoolArray | None = None,
) -> None:
    """Write columns of numbers, after the names of the rows if there are any.

    Several tables are written one below the other. With `numbered`, the first column has the number
    of the table. `observed` says which values are those of the input.
    """
    heads = [*_heads(table, numbered), *names]
    twice = [name for name, times in Counter(heads).items() if times > 1]
    if twice:
        raise InputError(
            f"two columns of the output would be called {twice[0]!r}. Rename the column of "
            f"{table.source}, or leave out the option that adds one."
        )
    suffix = "" if output is None else output.suffix.lower()
    if output is not None and suffix in PARQUET:
        _write_parquet(heads, np.stack(list(tables)), table, output, numbered)
        return
    if output is not None and suffix == WORKBOOK:
        _write_workbook(heads, tables, table, output, numbered, observed)
        return
    separator = _separator(suffix, table)
    text = _as_text(heads, tables, table, separator, numbered, observed)
    if output is not None:
        write_text(output, text)
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # data are UTF-8 in every terminal
    sys.stdout.write(text)


def _separator(suffix: str, table: FileTable) -> str:
    """The separator that the suffix of a file means; without one, that of the input."""
    if suffix in TABS:
        return "\t"
    if suffix == ".csv":
        return ";" if table.separator == ";" or table.decimal == "," else ","
    return table.separator


def field_text(value: float, *, observed: bool = False, decimal: str = ".") -> str:
    """A number in text; nothing for a missing value."""
    if value != value:
        return ""
    shown = repr(value if observed else _rounded(value)).removesuffix(".0")
    shown = "0" if shown == "-0" else shown
    return shown if decimal == "." else shown.replace(".", decimal)


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def _as_text(
    heads: Sequence[str],
    tables: Iterable[Array],
    table: FileTable,
    separator: str,
    numbered: bool,
    observed: BoolArray | None,
) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, lineterminator="\n")
    writer.writerow(map(not_a_formula, heads))
    ids = None if table.ids is None else [not_a_formula(one) for one in table.ids]
    for number, values in enumerate(tables, start=1):
        known = np.zeros(values.shape, dtype=bool) if observed is None else observed
        before = [number] if numbered else []
        for place, (row, own) in enumerate(zip(values.tolist(), known.tolist(), strict=True)):
            cells = [
                field_text(value, observed=seen, decimal=table.decimal)
                for value, seen in zip(row, own, strict=True)
            ]
            writer.writerow([*before, *([] if ids is None else [ids[place]]), *cells])
    return stream.getvalue()


def _write_workbook(
    heads: Sequence[str],
    tables: Iterable[Array],
    table: FileTable,
    output: Path,
    numbered: bool,
    observed: BoolArray | None,
) -> None:
    """One sheet. Names are text cells, which are never formulas."""
    writer = needed("xlsxwriter", "Writing workbooks", "office")
    with replacing(output) as target:
        book = writer.Workbook(str(target), {"constant_memory": True})
        sheet = book.add_worksheet("cuspfa")
        for j, head in enumerate(heads):
            sheet.write_string(0, j, head)
        ids, place = None if table.ids is None else _typed(table.ids), 0
        for number, values in enumerate(tables, start=1):
            if place + len(values) >= MOST_SHEET_ROWS:
                raise InputError("-o: a sheet has too few rows for this table. Write a .csv file.")
            known = np.zeros(values.shape, dtype=bool) if observed is None else observed
            shown = np.where(known, values, np.vectorize(_rounded, otypes=[float])(values))
            for i, row in enumerate(shown.tolist()):
                place += 1
                before = [*([number] if numbered else []), *([] if ids is None else [ids[i]])]
                for j, cell in enumerate([*before, *row]):
                    if isinstance(cell, str):
                        sheet.write_string(place, j, cell)
                    elif cell is not None and cell == cell:
                        sheet.write_number(place, j, cell)
        book.close()


def _write_parquet(
    heads: Sequence[str], tables: Array, table: FileTable, output: Path, numbered: bool
) -> None:
    parquet = needed("pyarrow.parquet", "Writing Parquet", "files")
    pyarrow = needed("pyarrow", "Writing Parquet", "files")
    times, rows, _ = tables.shape
    before: list[object] = [np.repeat(np.arange(1, times + 1), rows)] if numbered else []
    before += [] if table.ids is None else [_typed(table.ids) * times]
    columns = [*before, *np.ascontiguousarray(tables.reshape(times * rows, -1).T)]
    with replacing(output) as target:
        arrays = list(map(pyarrow.array, columns))
        parquet.write_table(pyarrow.Table.from_arrays(arrays, list(heads)), target)


def _typed(ids: list[str]) -> list[Any]:
    """Integers if all are integers without leading zeros, otherwise text; None for empty cells."""
    if all(re.fullmatch(r"0|-?[1-9]\d{0,14}", one) for one in ids):
        return [int(one) for one in ids]
    return [one or None for one in ids]


def _heads(table: FileTable, numbered: bool) -> list[str]:
    own = [] if table.id_position is None else [table.names[table.id_position]]
    return [*(["draw"] if numbered else []), *own]
