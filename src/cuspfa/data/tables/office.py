"""Spreadsheets and files of SPSS, Stata and R, parsed in a process with limits of its own."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cuspfa._utils.optional import needed
from cuspfa.data.out_of_core.memory import format_bytes
from cuspfa.data.tables import office_child
from cuspfa.data.tables.cells import clean
from cuspfa.data.tables.labels import ColumnLabels, ValueLabel
from cuspfa.data.tables.source_bytes import (
    COPIES_IN_MEMORY,
    check_expanded_size,
    is_workbook,
    read_limit,
)
from cuspfa.errors import DataError, InputError

OfficeKind = Literal["workbook", "SPSS", "Stata", "R"]
SHEET_SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
"""Suffixes of workbooks."""
OFFICE_SUFFIXES = (*SHEET_SUFFIXES, ".sav", ".zsav", ".dta", ".rds", ".rda", ".rdata")
"""Suffixes of files that are parsed as a whole. What a file is, is found from its content."""
CHILD_BYTES = 1 << 31
"""Addresses that the process of a parser may take beside the table: its libraries."""
CHILD_SECONDS = 600
"""Time after which the process of a parser is ended."""
_READING_PACKAGES: dict[OfficeKind, tuple[str, str]] = {
    "workbook": ("python_calamine", "Reading spreadsheets"),
    "SPSS": ("pyreadstat", "Reading SPSS files"),
    "Stata": ("pyreadstat", "Reading Stata files"),
    "R": ("rdata", "Reading R files"),
}
_AS_CSV = "Save the table as CSV from the program that made it."
_R_AS_TEXT = re.compile(rb"(RDA[23]\n)?A\n[23]\n\d+\n\d+\n")
"""First lines of a file of R that was saved as text."""
_OLD_STATA = (105, 108, *range(110, 116))
"""First bytes of Stata files before version 13."""


class OfficeTable(NamedTuple):
    """The cells of a file: text, or columns of Arrow with their names."""

    kind: str
    text: bytes | None
    columns: list[Any]
    names: list[str]
    labels: list[ColumnLabels]
    """In the order of the columns."""
    n_user_missing: int
    """Cells with values that the file declares as missing."""
    sheet: str | None
    other_sheets: list[str]
    """Sheets that are not read, if none was asked for."""
    empty_formulas: dict[int, int] = {}  # noqa: RUF012 (it is not changed)
    """Cells with a formula and no stored value, by the position of their column."""


def office_kind(raw: bytes) -> OfficeKind | None:
    """The kind of a file by its first bytes."""
    if raw[:4] in (b"$FL2", b"$FL3"):
        return "SPSS"
    if raw.startswith(b"<stata_dta>"):
        return "Stata"
    if len(raw) > 3 and raw[0] in _OLD_STATA and raw[1] in (1, 2) and raw[2] == 1:
        return "Stata"
    if raw[:3] in (b"X\n\0", b"B\n\2", b"B\n\3") or raw[:5] in (b"RDX2\n", b"RDX3\n", b"RDA2\n"):
        return "R"
    if _R_AS_TEXT.match(raw):
        return "R"
    return "workbook" if is_workbook(raw) else None


def read_office(raw: bytes, kind: OfficeKind, source: str, sheet: str | int | None) -> OfficeTable:
    """The cells of a file of this kind."""
    package, what = _READING_PACKAGES[kind]
    for module in (package, "pyarrow"):
        if importlib.util.find_spec(module) is None:
            raise InputError(f"{what} needs {module}: pip install 'cuspfa[office]'.")
    check_expanded_size(raw, source)
    about, payload = _parsed_by_child(raw, kind, source, sheet)
    if about["form"] == "text":
        others = [name for name in about["sheets"] if name != about["sheet"]]
        sheet_name = str(about["sheet"])
        shown = [] if about["chosen"] else others
        formulas = {int(column): int(number) for column, number in about["formulas"]}
        return OfficeTable("spreadsheet", payload, [], [], [], 0, sheet_name, shown, formulas)
    arrow = needed("pyarrow", what, "office")
    table = arrow.ipc.open_stream(arrow.BufferReader(payload)).read_all()
    labels = [
        ColumnLabels(
            name,
            clean(label),
            tuple(ValueLabel(value, clean(word)) for value, word in values if math.isfinite(value)),
        )
        for name, label, values in zip(
            about["names"], about["labels"], about["values"], strict=True
        )
    ]
    n_missing = sum(about["user_missing"])
    columns = list(table.columns)
    return OfficeTable(kind, None, columns, about["names"], labels, n_missing, None, [])


def _parsed_by_child(
    raw: bytes, kind: OfficeKind, source: str, sheet: str | int | None
) -> tuple[dict[str, Any], bytes]:
    """What a process with limits on memory and time makes of the bytes."""
    most = read_limit()
    words = [str(Path(office_child.__file__)), kind, json.dumps(sheet)]
    words.append(str(COPIES_IN_MEMORY * most + CHILD_BYTES))
    # -P: modules are not looked for in the folder of the script.
    command = [sys.executable, "-P", *words]
    try:
        done = subprocess.run(command, input=raw, capture_output=True, timeout=CHILD_SECONDS)
    except subprocess.TimeoutExpired:
        raise DataError(
            f"{source} was not read within {CHILD_SECONDS // 60} minutes. {_AS_CSV}"
        ) from None
    line, _, payload = done.stdout.partition(b"\n")
    if done.returncode != 0 or not line:
        raise DataError(
            f"{source} is damaged, or larger than can be read: its parser ended with code "
            f"{done.returncode}. {_AS_CSV}"
        )
    about: dict[str, Any] = json.loads(line)
    error = about.get("error")
    if error == "memory":
        raise DataError(
            f"{source} needs more than {format_bytes(COPIES_IN_MEMORY * most)} of memory. {_AS_CSV}"
        )
    if error == "import":
        raise InputError(
            f"{_READING_PACKAGES[kind][1]} needs {about['detail']}: pip install 'cuspfa[office]'."
        )
    if error == "told":
        raise DataError(f"{source}: {about['detail']}")
    if error is not None:
        raise DataError(f"{source} cannot be read, or is damaged ({about['detail']}). {_AS_CSV}")
    return about, payload
