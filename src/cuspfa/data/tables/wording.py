"""The wording of items from a file with two columns: names and texts."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from cuspfa.data.tables.cells import clean
from cuspfa.data.tables.dialect import decode_text
from cuspfa.data.tables.office import office_kind, read_office
from cuspfa.data.tables.source_bytes import source_bytes
from cuspfa.errors import DataError

WORDING_SEPARATORS = ("\t", ";", ",")
"""Signs between a name and its text, the first that most lines have."""


def read_wording(path: str, columns: Sequence[str]) -> dict[str, str]:
    """Texts by the names of columns, of those columns that are in the file.

    The file has a name and a text in each row, and may have a header. It may also be a workbook.
    Further names, such as those of items that were not analysed, are ignored.
    """
    raw = source_bytes(path)
    kind = office_kind(raw)
    if kind is not None:
        table = read_office(raw, kind, path, None)
        if table.text is None:
            raise DataError(f"{path} has no two columns of text. Save them as CSV.")
        raw = table.text
    text = decode_text(raw)[0]
    known, found = set(columns), dict[str, str]()
    first = ""
    for row in _rows(text, path):
        if len(row) < 2:
            continue
        name, words = clean(row[0]), clean(row[1])
        first = first or name
        if name not in known or not words:
            continue
        if found.get(name, words) != words:
            raise DataError(f"{path} has two texts for {name!r}. Give one.")
        found[name] = words
    if not found:
        seen = f" Its first row is for {first!r}." if first else ""
        raise DataError(
            f"{path} has a text for none of the columns {', '.join(columns[:4])}, …: it must have "
            f"the name of a column and its wording in each row, such as {columns[0]},I worry a "
            f"lot.{seen}"
        )
    return found


def _rows(text: str, path: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.strip()]
    separator = max(WORDING_SEPARATORS, key=lambda sign: sum(sign in line for line in lines))
    parsed = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    try:
        rows = [row for row in parsed if row]
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as a table ({error}).") from None
    if len({len(row) for row in rows}) == 1:
        return rows
    # Texts with the separator in them and without quotes are in several cells.
    return [[row[0], f"{separator} ".join(row[1:])] for row in rows if len(row) > 1]
