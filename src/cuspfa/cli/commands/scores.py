"""The command `cuspfa scores`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning_text import terminal_text
from cuspfa._utils.spelling import as_option
from cuspfa._utils.wording import counted, listed
from cuspfa.cli.block_output import write_by_blocks
from cuspfa.cli.console import Terminal
from cuspfa.cli.options import ReadingOptions
from cuspfa.cli.reading import as_in_fit
from cuspfa.cli.saved_fits import load_fit
from cuspfa.cli.terminal import Page, show_doubts, show_warnings
from cuspfa.cli.written_tables import check_output, write_values
from cuspfa.data.screening.missing_codes import find_codes
from cuspfa.data.tables.cells import check_finite, clean
from cuspfa.data.tables.column_names import made_up_names
from cuspfa.data.tables.read_table import reads_by_blocks
from cuspfa.data.tables.reader import FileTable, read_file
from cuspfa.errors import DataError, InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.posterior.base import Posterior


def write_scores(
    fit: Path,
    data: str,
    *,
    output: Path | None,
    id_column: str | None,
    read: ReadingOptions,
) -> None:
    """Write the factor scores of the rows of a table, by a saved fit."""
    check_output(output, fit, data)
    posterior = load_fit(fit)
    if not posterior.n_active:
        raise InputError(f"{str(fit)!r} holds a fit of no factors, so there are no scores.")
    how, row_names, told = as_in_fit(read, id_column, posterior, data)
    if reads_by_blocks(data, None, how):
        write_by_blocks(posterior, "transform", data, output, how, id=id_column)
        return
    table = read_file(data, id_column=row_names, how=how, id_needed=id_column is not None)
    rows = matched(posterior, table)
    n_missing, scores = np.isnan(rows), model_of(posterior).transform(rows)
    names = posterior.presentation.heads(scores.shape[1], "factor{}")
    write_values(names, [scores], table, output)
    page = Page(Terminal(stderr=True))
    show_told(page, told, table, id_column)
    show_doubts(page, table.notes)
    show_codes(page, posterior, rows)
    lacking, empty = int(n_missing.any(axis=1).sum()), int(n_missing.all(axis=1).sum())
    if lacking:
        said = f"{lacking} of {len(rows)} rows have missing values. Their scores use the others."
        if empty:
            said += f" {counted(empty, 'row')} without any value: their scores are zero."
        page.paragraph(said)
    if output is not None:
        page.console.say_written(output, f"{len(rows)} rows of {posterior.n_active} scores")


def show_told(page: Page, told: list[str], table: FileTable, id_column: str | None) -> None:
    """Say which options were taken from the fit; `id_column` is that of the command line."""
    if id_column is None and table.id_position is not None:
        told = [*told, as_option("id_column", table.names[table.id_position])]
    if told:
        page.paragraph(f"Read as the data of the fit: {', '.join(told)}.")


def show_codes(page: Page, posterior: Posterior, rows: Array) -> None:
    """Warn of numbers that may be codes for missing values."""
    names = posterior.names or made_up_names(rows.shape[1])
    show_warnings(page, [terminal_text(one) for one in find_codes(names, rows)])


def model_of(posterior: Posterior) -> CuspFactorAnalysis:
    """The fitted model, for rows whose columns are in the order of the fit."""
    return CuspFactorAnalysis.from_posterior(posterior.without_names())


def matched(posterior: Posterior, table: FileTable) -> Array:
    """The fit's columns from a table, in the order of the fit, NaN where a value is missing."""
    if posterior.names is None:
        return _by_position(posterior, table)
    places = {name: j for j, name in enumerate(table.names)}
    wanted = [clean(name) for name in posterior.names]
    missing = [name for name in wanted if name not in places]
    if missing:
        names = listed([repr(name) for name in missing], 5)
        raise DataError(
            f"{table.source} has no column {names}, which the fit needs: it must have all "
            f"{len(wanted)} columns of the fit, by name."
        )
    return _columns_of_numbers(table, [places[name] for name in wanted])


def _by_position(posterior: Posterior, table: FileTable) -> Array:
    p = len(posterior.noise_variance)
    chosen = [j for j in range(len(table.columns)) if j != table.id_position]
    if len(chosen) != p:
        raise DataError(
            f"{table.source} has {len(chosen)} columns, and the fit, which lacks column names, has "
            f"{p}. Give these columns only, in their order."
        )
    return _columns_of_numbers(table, chosen)


def _columns_of_numbers(table: FileTable, places: list[int]) -> Array:
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
