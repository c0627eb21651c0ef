"""The terminal's face of `cuspfa scores`."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning_text import terminal_text
from cuspfa._utils.optional import needed
from cuspfa.cli.block_output import write_by_blocks
from cuspfa.cli.console import Terminal
from cuspfa.cli.outputs import check_not_the_input, write_text
from cuspfa.cli.reading import as_option
from cuspfa.cli.saved_fits import load_fit
from cuspfa.cli.terminal import Page, count, show_doubts, show_warnings
from cuspfa.data.screening.missing_codes import SHOWN, find_codes
from cuspfa.data.tables.cells import check_finite, clean
from cuspfa.data.tables.column_names import made_up_names, not_a_formula
from cuspfa.data.tables.dialect import Reading
from cuspfa.data.tables.read_table import reads_by_blocks
from cuspfa.data.tables.reader import FileTable, read_file
from cuspfa.errors import DataError, InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.io.atomic import check_writable, replacing
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.sampled import SampledPosterior
from cuspfa.posterior.variational import VariationalPosterior

TABS, TEXTS, PARQUET = (".tsv", ".tab"), (".csv", ".txt", ".dat", ""), (".parquet", ".pq")


def write_scores(
    fit: Path,
    data: str,
    *,
    output: Path | None,
    id_column: str | None,
    how: Reading,
) -> None:
    """Scores of the rows of a table under a saved fit."""
    check_output(output, fit, data)
    posterior = load_fit(fit)
    if not posterior.n_active:
        raise InputError(f"{str(fit)!r} holds a fit of no factors, so there are no scores.")
    if reads_by_blocks(data, None, how):
        write_by_blocks(posterior, "transform", data, output, how, id=id_column)
        return
    table = read_file(data, id_column=id_column, how=how)
    rows = matched(posterior, table)
    n_missing, scores = np.isnan(rows), model_of(posterior).transform(rows)
    names = [f"factor{h}" for h in range(1, scores.shape[1] + 1)]
    write_values(names, [scores], table, output)
    page = Page(Terminal(stderr=True))
    show_doubts(page, table.notes)
    show_codes(page, posterior, rows)
    lacking, empty = int(n_missing.any(axis=1).sum()), int(n_missing.all(axis=1).sum())
    if lacking:
        said = f"{lacking} of {len(rows)} rows lack values; their scores come from what they have."
        if empty:
            said += f" {count(empty, 'row')} without any value: scores of zero."
        page.paragraph(said)
    if output is not None:
        page.console.print(
            f"Written {len(rows)} rows of {posterior.n_active} scores to {output}",
            soft_wrap=True,
            markup=False,
        )


def show_codes(page: Page, posterior: Posterior, rows: Array) -> None:
    """Numbers that look like codes for missing values, which would be taken as they are."""
    names = posterior.names or made_up_names(rows.shape[1])
    show_warnings(page, [terminal_text(one.warning()) for one in find_codes(names, rows)[:SHOWN]])


def check_output(output: Path | None, fit: Path, data: str) -> None:
    """A file that can be written and is none of those that are read."""
    if output is None:
        return
    check_writable("-o", output)
    for given in (str(fit), data):
        check_not_the_input("-o", output, given)
    if output.suffix.lower() not in TABS + TEXTS + PARQUET:
        raise InputError(
            f"-o: tables are written as CSV, TSV or Parquet, not as {output.suffix!r}. Choose a "
            "name that ends in .csv, .tsv or .parquet."
        )


def write_values(
    names: Sequence[str],
    tables: Iterable[Array],
    table: FileTable,
    output: Path | None,
    *,
    numbered: bool = False,
) -> None:
    """Columns of numbers, after the names of the rows if there are any.

    Several tables come one below the other, each `numbered` in a column before all.
    """
    twice = [
        name for name, times in Counter([*_heads(table, numbered), *names]).items() if times > 1
    ]
    if twice:
        raise InputError(
            f"two columns of what is to be written would be called {twice[0]!r}. Rename that of "
            f"{table.source}, or leave out the option that adds one."
        )
    if output is not None and output.suffix.lower() in PARQUET:
        _write_parquet(names, np.stack(list(tables)), table, output, numbered)
        return
    text = _as_text(names, tables, table, separator_of(output), numbered)
    if output is not None:
        write_text(output, text)
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # data, not words for a terminal
    sys.stdout.write(text)


def separator_of(output: Path | None) -> str:
    """By the file's name."""
    return "\t" if output and output.suffix.lower() in TABS else ","


def model_of(posterior: Posterior) -> CuspFactorAnalysis:
    """The fitted model, for rows whose columns are in their places."""
    assert isinstance(posterior, (VariationalPosterior, SampledPosterior))
    return CuspFactorAnalysis.from_posterior(replace(posterior, names=None))


def matched(posterior: Posterior, table: FileTable) -> Array:
    """The fit's columns from a table, in the order of the fit, NaN where a value is missing."""
    if posterior.names is None:
        return _by_position(posterior, table)
    places = {name: j for j, name in enumerate(table.names)}
    wanted = [clean(name) for name in posterior.names]
    missing = [name for name in wanted if name not in places]
    if missing:
        shown = ", ".join(repr(name) for name in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise DataError(
            f"{table.source} has no column {shown}{more}, which the fit needs: it must have all "
            f"{len(wanted)} columns of the fit, by name."
        )
    return _numbers(table, [places[name] for name in wanted])


def _by_position(posterior: Posterior, table: FileTable) -> Array:
    p = len(posterior.noise_variance)
    chosen = [j for j in range(len(table.columns)) if j != table.id_position]
    if len(chosen) != p:
        raise DataError(
            f"{table.source} has {len(chosen)} columns, and the fit, which knows no names, has "
            f"{p}. Give these alone, in their order."
        )
    return _numbers(table, chosen)


def _numbers(table: FileTable, places: list[int]) -> Array:
    columns = []
    for j in places:
        column = table.columns[j]
        check_finite(column, table.source, as_option)
        if column.numbers is not None:
            columns.append(column.numbers)
        elif column.n_missing == column.n_rows:
            columns.append(np.full(column.n_rows, np.nan))
        else:
            assert column.dropped is not None
            raise DataError(
                f"{table.source}: column {column.name!r} must be numbers: "
                f"{column.dropped.reason}{column.dropped.example}"
            )
    return np.column_stack(columns)


def _as_text(
    names: Sequence[str], tables: Iterable[Array], table: FileTable, separator: str, numbered: bool
) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, lineterminator="\n")
    writer.writerow(map(not_a_formula, [*_heads(table, numbered), *names]))
    ids = None if table.ids is None else [not_a_formula(one) for one in table.ids]
    for number, values in enumerate(tables, start=1):
        before = [number] if numbered else []
        for place, row in enumerate(values.tolist()):
            cells = ["" if value != value else repr(value) for value in row]
            writer.writerow([*before, *([] if ids is None else [ids[place]]), *cells])
    return stream.getvalue()


def _write_parquet(
    names: Sequence[str], tables: Array, table: FileTable, output: Path, numbered: bool
) -> None:
    parquet = needed("pyarrow.parquet", "Writing Parquet", "files")
    pyarrow = needed("pyarrow", "Writing Parquet", "files")
    times, rows, _ = tables.shape
    before: list[object] = [np.repeat(np.arange(1, times + 1), rows)] if numbered else []
    before += [] if table.ids is None else [_typed(table.ids) * times]
    columns = [*before, *np.ascontiguousarray(tables.reshape(times * rows, -1).T)]
    with replacing(output) as target:
        heads = [*_heads(table, numbered), *names]
        parquet.write_table(
            pyarrow.Table.from_arrays(list(map(pyarrow.array, columns)), heads), target
        )


def _typed(ids: list[str]) -> list[Any]:
    """Whole numbers, if all are and lose nothing by it; otherwise text, and none if empty."""
    if all(re.fullmatch(r"0|-?[1-9]\d{0,17}", one) for one in ids):
        return [int(one) for one in ids]
    return [one or None for one in ids]


def _heads(table: FileTable, numbered: bool) -> list[str]:
    own = [] if table.id_position is None else [table.names[table.id_position]]
    return [*(["draw"] if numbered else []), *own]
