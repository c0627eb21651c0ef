"""Tables on the command line: how options are spelt, and columns by name or number."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cuspfa.data.out_of_core.stream import RowStream
from cuspfa.data.tables.column_names import no_such_column
from cuspfa.data.tables.read_table import Table
from cuspfa.errors import InputError
from cuspfa.missing.kernels import RowsInMemory
from cuspfa.posterior.base import Posterior

_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_OPTIONS = {"id_column": "--id", "memory_limit": "--memory-limit"}


def as_option(name: str, value: Any = None) -> str:
    """An argument of the library as an option of the program."""
    option = _OPTIONS.get(name, f"--{name}")
    if name == "header":
        return "--no-header" if value is False else option
    if value is None:
        return option
    if name == "decimal":
        value = {".": "point", ",": "comma"}[value]
    return f"{option} {','.join(value) if isinstance(value, tuple) else value}"


def parse_columns(option: str, given: Sequence[str], names: list[str]) -> list[int]:
    """Positions of columns by name or, where no column is called so, by number from 1."""
    found: set[int] = set()
    for text in given:
        for word in [text] if text in names else _words(option, text):
            found |= _positions(option, word, names)
    return sorted(found)


def _words(option: str, text: str) -> list[str]:
    try:
        row = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error:
        raise InputError(
            f"{option}: the quotes in {text!r} do not match. A name with commas goes into double "
            "quotes."
        ) from None
    return [word.strip() for word in row if word.strip()]


def _positions(option: str, word: str, names: list[str]) -> set[int]:
    if word in names:
        return {names.index(word)}
    ends = _RANGE.fullmatch(word)
    if ends is None:
        raise InputError(f"{option}: {no_such_column(word, names)}")
    first, last = int(ends[1]), int(ends[2] or ends[1])
    if not 1 <= first <= last <= len(names):
        raise InputError(
            f"{option}: {word!r} is no column's name, and columns are numbered from 1 to "
            f"{len(names)}."
        )
    return set(range(first - 1, last))


def after_fit(table: Table, posterior: Posterior) -> Table:
    """With the rows and missing values of rows that stay in their file, known after a fit."""
    assert isinstance(table.data, RowStream)
    n = posterior.n_rows
    lacking = (n - np.asarray(posterior.column_counts)).round().astype(int)
    n_missing = {name: int(k) for name, k in zip(table.names, lacking, strict=True) if k}
    n_empty = (table.data.n_rows or n) - n
    return replace(
        table,
        n_rows=n,
        n_missing=n_missing,
        n_missing_read=sum(n_missing.values()) + n_empty * len(table.names),
        n_incomplete=_n_incomplete_rows(table.data, posterior) if n_missing else 0,
        n_empty=n_empty,
    )


def _n_incomplete_rows(stream: RowStream, posterior: Posterior) -> int:
    """As the fit knows them; if it keeps no rows, in one more pass."""
    kept = getattr(posterior, "rows", None)
    if isinstance(kept, RowsInMemory):
        return len(np.unique(kept.missing[0]))
    lacking = (np.isnan(block.rows) for block in stream.blocks(allow_missing=True))
    return sum(int(np.sum(one.any(axis=1) & ~one.all(axis=1))) for one in lacking)
