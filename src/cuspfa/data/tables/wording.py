"""The wording of items from a file with two columns: names and texts."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import NamedTuple

from cuspfa._utils.wording import listed
from cuspfa.data.tables.cells import clean
from cuspfa.data.tables.dialect import decode_text
from cuspfa.data.tables.office import office_kind, read_office
from cuspfa.data.tables.source_bytes import source_bytes
from cuspfa.errors import DataError

WORDING_SEPARATORS = ("\t", ";", ",")
"""Signs between a name and its text, the first that most lines have."""


HEADER_WORDS = ("name", "names", "item", "items", "variable", "column", "code", "question", "id")
"""First cells of a header."""


class WordingFile(NamedTuple):
    """What a file says of columns."""

    texts: dict[str, str]
    """By the names of columns."""
    unused: str
    """A sentence on names that are no columns; empty if there are none."""


def read_wording(path: str, columns: Sequence[str]) -> WordingFile:
    """Texts by the names of columns, of those columns that are in the file.

    The file has a name and a text in each row, and may have a header. It may also be a workbook.
    Further names, such as those of items that were not analysed, are not used.
    """
    raw = source_bytes(path)
    kind = office_kind(raw)
    if kind is not None:
        table = read_office(raw, kind, path, None)
        if table.text is None:
            raise DataError(f"{path} has no two columns of text. Save them as CSV.")
        raw = table.text.partition(b"\n")[2]  # without the line that names the separator
    text = decode_text(raw)[0]
    known, found = set(columns), dict[str, str]()
    names = []
    for row in _rows(text, path):
        name, words = clean(row[0]), clean(row[1]) if len(row) > 1 else ""
        names.append(name)
        if name not in known or not words:
            continue
        if found.get(name, words) != words:
            raise DataError(f"{path} has two texts for {name!r}. Give one.")
        found[name] = words
    if not found:
        seen = f" Its first row is for {names[0]!r}." if names else ""
        raise DataError(
            f"{path} has a text for none of the columns {', '.join(columns[:4])}, …: it must have "
            f"the name of a column and its wording in each row, such as {columns[0]},I worry a "
            f"lot.{seen}"
        )
    has_header = names[0].lower() in HEADER_WORDS
    strange = [repr(one) for one in dict.fromkeys(names[has_header:]) if one not in known]
    unused = f"{path} has texts for names that are not columns of the fit: {listed(strange, 5)}."
    return WordingFile(found, unused if strange else "")


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
    return [[row[0], f"{separator} ".join(row[1:])] for row in rows]
