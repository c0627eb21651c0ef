"""Tables on the command line: columns by name or number, and what a fit adds to a table."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cuspfa._utils.spelling import as_option
from cuspfa.cli.options import MomentsOptions, ReadingOptions
from cuspfa.data.column_choice import ChooseColumns, means_no_column, names_of_word
from cuspfa.data.out_of_core.readers import file_format
from cuspfa.data.out_of_core.stream import RowStream
from cuspfa.data.tables.dialect import Reading
from cuspfa.data.tables.office import SHEET_SUFFIXES
from cuspfa.data.tables.read_moments import load_matrix
from cuspfa.data.tables.read_table import Table
from cuspfa.errors import InputError
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.factorization import FactorizationPosterior

_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


def parse_columns(option: str, given: Sequence[str], names: list[str]) -> list[int]:
    """Positions of columns by name, range or pattern, or else by number from 1."""
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
            f"{option}: the quotes in {text!r} do not match. A name with commas needs double "
            "quotes."
        ) from None
    return [word.strip() for word in row if word.strip()]


def _positions(option: str, word: str, names: list[str]) -> set[int]:
    found = names_of_word(word, names)
    if found:
        return {names.index(name) for name in found}
    ends = _RANGE.fullmatch(word)
    if ends is None:
        raise InputError(f"{option}: {means_no_column(word, names)}")
    first, last = int(ends[1]), int(ends[2] or ends[1])
    if not 1 <= first <= last <= len(names):
        raise InputError(
            f"{option}: {word!r} is no column's name, and columns are numbered from 1 to "
            f"{len(names)}."
        )
    return set(range(first - 1, last))


def after_fit(table: Table, posterior: Posterior) -> Table:
    """The table with the counts that a fit has made of rows that stay in their file."""
    stream = table.stream
    assert stream is not None
    n = posterior.n_rows
    lacking = (n - np.asarray(posterior.column_counts)).round().astype(int)
    n_missing = {name: int(k) for name, k in zip(table.names, lacking, strict=True) if k}
    n_empty = (stream.n_rows or n) - n
    return replace(
        table,
        n_rows=n,
        n_missing=n_missing,
        n_missing_read=sum(n_missing.values()) + n_empty * len(table.names),
        n_incomplete=_n_incomplete_rows(stream, posterior) if n_missing else 0,
        n_empty=n_empty,
    )


def _n_incomplete_rows(stream: RowStream, posterior: Posterior) -> int:
    """Rows with some missing values: from the rows that the fit keeps, or by one more pass."""
    if posterior.rows is not None:
        return len(np.unique(posterior.rows.missing[0]))
    lacking = (np.isnan(block.rows) for block in stream.blocks(allow_missing=True))
    return sum(int(np.sum(one.any(axis=1) & ~one.all(axis=1))) for one in lacking)


# --- matrices ---


def check_matrix_options(options: MomentsOptions) -> None:
    """Refuse options of a matrix without one, and options of rows with one."""
    of_matrix = {"--n": options.n, "--means": options.means, "--sds": options.sds}
    given = [name for name, value in of_matrix.items() if value is not None]
    kind = options.matrix_kind
    if given and kind is None:
        raise InputError(f"{given[0]} is for a matrix. Give --correlation or --covariance too.")
    if kind is None:
        return
    if options.correlation and options.covariance:
        raise InputError("give --correlation or --covariance, not both.")
    if options.data is None:
        raise InputError(f"--{kind} is for a file with a matrix. Give one.")
    of_rows = {
        "--id": options.id_column,
        "--missing": options.read.missing,
        "--order": options.read.order,
        "--memory-limit": options.memory_limit,
    }
    wrong = [name for name, value in of_rows.items() if value is not None]
    if wrong:
        raise InputError(f"{wrong[0]} is for rows, and --{kind} for a matrix. Give one.")


def read_matrix(options: MomentsOptions, choose: ChooseColumns) -> Table:
    """The table that stands for the rows of a matrix."""
    assert options.data is not None
    found = load_matrix(
        options.data,
        choose,
        how=options.read.reading(),
        n=options.n,
        kind=options.matrix_kind,
        means=_numbers("--means", options.means),
        sds=_numbers("--sds", options.sds),
    )
    moments = found.moments
    return Table(
        source=found.source,
        kind=found.kind,
        names=list(moments.names or []),
        data=moments,
        dropped=[],
        excluded=found.excluded,
        notes=found.notes,
        n_columns_read=found.n_columns_read,
        n_rows=moments.n,
        sample=np.empty((0, len(moments.mean))),
    )


def _numbers(option: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} must be numbers with commas between them, got {text!r}."
        ) from None


# --- what a fit was told ---


class CompletedOptions(NamedTuple):
    """How new rows are read: as the command line says, and otherwise as the data of the fit."""

    how: Reading
    id_column: str | None
    told: list[str]
    """What was taken from the fit, as options, apart from the names of the rows."""


def as_in_fit(
    read: ReadingOptions, id_column: str | None, fit: Posterior | FactorizationPosterior, path: str
) -> CompletedOptions:
    """Options of reading new rows, completed by those of the fit.

    An option with an empty value, such as --missing=, is not completed. A column that the fit left
    out because it identifies the rows has their names.
    """
    how = read.reading()
    data = None if fit.provenance is None else fit.provenance.data
    if data is None:
        return CompletedOptions(how, id_column, [])
    known, told = data.options, []
    if read.missing is None and known.missing:
        how = replace(how, missing=known.missing)
        told.append(as_option("missing", known.missing))
    if read.sheet is None and known.sheet is not None and file_format(Path(path)) in SHEET_SUFFIXES:
        how = replace(how, sheet=known.sheet)
        told.append(as_option("sheet", known.sheet))
    if read.order is None:
        how = replace(how, answers=data.answers)
    if id_column is None:
        counters = [one.name for one in data.dropped if one.code in ("id", "counter")]
        id_column = known.id_column or (counters[0] if len(counters) == 1 else None)
    return CompletedOptions(how, id_column or None, told)
