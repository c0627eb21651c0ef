"""Notes of a reader of tables and the columns it drops, as values that are put into words once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Spell = Callable[..., str]
"""Name of an argument, and its value if one is advised, as the caller's user would write it."""

SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
"""In the order of preference where several would do: commas may be decimal ones."""
_REASONS = {
    "text": "text",
    "dates": "dates or times",
    "thousands": "numbers with thousands signs (save them without)",
    "per_cent": "numbers with per cent signs (save them without)",
    "mixed": "correct, or leave empty, {count} of {of} values that are no numbers",
    "strays": "some values are no numbers: correct them, or leave them empty",
    "empty": "empty",
    "type": "values of type {detail}, not numbers",
    "constant": "constant",
    "narrow": "varies too little for its size: subtract a constant first",
    "few": "only {count} of {of} rows have a value",
    "counter": "counts the rows from {count} on",
    "id": "names of rows: whole numbers, all different, and called so",
    "id_column": "names of rows, as asked",
}
_NOTES = {
    "format": "Cells {detail}.",
    "encoding": "Not encoded in UTF-8; read as {detail}.",
    "row_names": "The rows have one cell more than the header: taken as names of rows.",
    "renamed": "Column {count} is called {detail} again; here it is {columns}.",
    "nameless": "Without a name in the header, and called so here: {columns}.",
    "header": "The first row holds whole numbers, all different, above other numbers: taken as "
    "names of the columns.",
    "no_header": "The first row holds numbers only: taken as data, and the columns called x1 to "
    "x{count}.",
    "empty_first_row": "The first row holds no values: taken as data, and the columns called x1 to "
    "x{count}.",
    "truth": "True and false are read as 1 and 0: {columns}.",
}
_DOUBTS = {
    "header": ("If it is data", False),
    "no_header": ("If it names the columns", True),
    "empty_first_row": ("If it names the columns", True),
}


def as_argument(name: str, value: Any = None) -> str:
    """An argument of a Python function."""
    return name if value is None else f"{name}={value!r}"


@dataclass(frozen=True)
class DroppedColumn:
    """A column that is not analysed, and why.

    Parameters
    ----------
    name : str
        Of the column.
    code : str
        The reason: text, dates, thousands, per_cent, mixed, strays, empty, type, constant,
        narrow, few, counter, id or id_column.
    count, of : int
        Numbers in the reason, such as values that are no numbers, of those there are.
    detail : str
        A type in the reason.
    example : str
        What the column holds, for the person at the terminal: it is not written into files.

    Examples
    --------
    >>> from cuspfa.data.tables.notes import DroppedColumn
    >>> DroppedColumn("age", "few", count=3, of=60).reason
    'only 3 of 60 rows have a value'
    """

    name: str
    code: str
    count: int = 0
    of: int = 0
    detail: str = ""
    example: str = ""

    @property
    def reason(self) -> str:
        """In words, without any cell of the data."""
        return _REASONS[self.code].format(count=self.count, of=self.of, detail=self.detail)

    def told(self, spell: Spell = as_argument) -> str:
        """The reason, with the argument by which it is changed."""
        if self.code == "id_column":
            return f"names of rows, as {spell('id_column')} says"
        keep = self.code in ("counter", "id")
        return f"{self.reason}; to keep it, name it in {spell('columns')}" if keep else self.reason


@dataclass(frozen=True)
class Note:
    """Something that was found out or assumed of how a table is written.

    Parameters
    ----------
    code : str
        What: format, encoding, row_names, renamed, nameless, header, no_header, empty_first_row,
        truth or missing.
    columns : tuple of str
        The columns it is about.
    count : int
        A number in it.
    detail : str
        A word in it.
    """

    code: str
    columns: tuple[str, ...] = ()
    count: int = 0
    detail: str = ""

    @property
    def is_doubt(self) -> bool:
        """May it be wrong, or have had no effect, so that it is told in any case?"""
        return self.code in _DOUBTS or (self.code == "missing" and not self.count)

    def told(self, spell: Spell = as_argument) -> str:
        """In words, with the argument by which it is changed."""
        if self.code == "missing":
            cells = f"{self.count or 'no'} cell{'' if self.count == 1 else 's'}"
            return f"{spell('missing')} made {cells} missing."
        shown = ", ".join(self.columns[:4]) + (", …" if len(self.columns) > 4 else "")
        said = _NOTES[self.code].format(columns=shown, count=self.count, detail=self.detail)
        if self.code not in _DOUBTS:
            return said
        doubt, header = _DOUBTS[self.code]
        return f"{said} {doubt}: {spell('header', header)}"

    def __str__(self) -> str:
        return self.told()


def told_dropped(dropped: Sequence[DroppedColumn], most: int = 5) -> str | None:
    """Columns and reasons in one sentence, for a warning."""
    if not dropped:
        return None
    shown = "; ".join(f"{one.name!r}: {one.told()}" for one in dropped[:most])
    more = f"; and {len(dropped) - most} more" if len(dropped) > most else ""
    return f"{len(dropped)} column(s) are dropped ({shown}{more})."
