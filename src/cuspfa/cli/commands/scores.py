"""The command `cuspfa scores`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import PossibleMissingCode
from cuspfa._utils.spelling import as_option
from cuspfa._utils.wording import counted, listed
from cuspfa.cli.block_output import write_by_blocks
from cuspfa.cli.console import Terminal
from cuspfa.cli.count_data import (
    is_sparse,
    sparse_as_file,
    sparse_exposure,
    table_exposure,
)
from cuspfa.cli.options import ReadingOptions
from cuspfa.cli.reading import as_in_fit
from cuspfa.cli.saved_fits import load_any_fit, of_counts
from cuspfa.cli.terminal import Page, show_codes, show_doubts
from cuspfa.cli.written_tables import check_output, write_values
from cuspfa.data.screening.missing_codes import find_codes
from cuspfa.data.tables.cells import check_finite, clean
from cuspfa.data.tables.column_names import made_up_names
from cuspfa.data.tables.notes import Note
from cuspfa.data.tables.read_table import reads_by_blocks
from cuspfa.data.tables.reader import FileTable, read_file
from cuspfa.data.tables.sparse_files import SparseTable, read_sparse, sparse_suffix
from cuspfa.errors import DataError, InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.estimator.poisson_factorization import CuspPoissonFactorization
from cuspfa.model.likelihoods.kinds import GIVEN_OFFSET, LIBRARY_SIZE
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.factorization import FactorizationPosterior


class CountRows(NamedTuple):
    """Options of rows of counts."""

    exposure: str | None = None
    layer: str | None = None
    transpose: bool = False


NO_COUNT_ROWS = CountRows()


def write_scores(
    fit: Path,
    data: str,
    *,
    output: Path | None,
    id_column: str | None,
    read: ReadingOptions,
    counts: CountRows = NO_COUNT_ROWS,
) -> None:
    """Write the factor scores of the rows of a table, by a saved fit."""
    check_output(output, fit, data)
    found = load_any_fit(fit)
    of_fit = of_counts(found)
    if of_fit is not None:
        if not of_fit.n_active:
            raise InputError(f"{str(fit)!r} holds a fit of no factors, so there are no scores.")
        write_count_scores(of_fit, data, output, id_column, read, counts)
        return
    if counts != NO_COUNT_ROWS:
        raise InputError("--exposure, --layer and --transpose are for fits to counts.")
    posterior = cast("Posterior", found)
    if not posterior.n_active:
        raise InputError(f"{str(fit)!r} holds a fit of no factors, so there are no scores.")
    how, row_names, told = as_in_fit(read, id_column, posterior, data)
    offset_column = column_of_offsets(posterior)
    if offset_column is None and reads_by_blocks(data, None, how):
        write_by_blocks(posterior, "transform", data, output, how, id=id_column)
        return
    table = read_file(data, id_column=row_names, how=how, id_needed=id_column is not None)
    rows = matched(posterior, table)
    offset = offsets_of(offset_column, table)
    n_missing, scores = np.isnan(rows), model_of(posterior).transform(rows, offset=offset)
    names = posterior.presentation.heads(scores.shape[1], "factor{}")
    write_values(names, [scores], table, output)
    page = Page(Terminal(stderr=True))
    show_options_of_fit(page, told, table, id_column)
    show_doubts(page, other_doubts(table.notes, told))
    show_codes(page, find_fit_codes(posterior, rows))
    lacking, empty = int(n_missing.any(axis=1).sum()), int(n_missing.all(axis=1).sum())
    if lacking:
        said = f"{lacking} of {len(rows)} rows have missing values. Their scores use the others."
        if empty:
            said += f" {counted(empty, 'row')} without any value: their scores are zero."
        page.paragraph(said)
    if output is not None:
        page.console.say_written(output, f"{len(rows)} rows of {posterior.n_active} scores")


def write_count_scores(
    posterior: FactorizationPosterior,
    data: str,
    output: Path | None,
    id_column: str | None,
    read: ReadingOptions,
    given: CountRows,
) -> None:
    """The scores of rows of counts."""
    known = posterior.provenance
    if given.exposure is None and known is not None and known.settings.exposure:
        column = known.settings.exposure_column
        if not column:
            raise InputError("The fit had exposures. Give those of these rows: --exposure COLUMN.")
        given = given._replace(exposure=column)
    about, layer = None if known is None else known.data, given.layer
    if layer is None and data != "-" and sparse_suffix(data) == ".h5ad":
        layer = None if about is None else about.layer
    page = Page(Terminal(stderr=True))
    if data != "-" and is_sparse(data):
        table = read_sparse(data, layer=layer, transpose=given.transpose, spell=as_option)
        rows, file = _sparse_columns(posterior, table), sparse_as_file(table)
        exposure = None if given.exposure is None else sparse_exposure(table, given.exposure)
    else:
        how, row_names, told = as_in_fit(read, id_column, posterior, data)
        file = read_file(data, id_column=row_names, how=how, id_needed=id_column is not None)
        rows = matched(posterior, file)
        exposure = None if given.exposure is None else table_exposure(given.exposure, file)
        show_options_of_fit(page, told, file, id_column)
    model = CuspPoissonFactorization.from_posterior(replace(posterior, names=None))
    scores = model.transform(rows, exposure=exposure)
    write_values(posterior.presentation.heads(scores.shape[1], "factor{}"), [scores], file, output)
    show_doubts(page, file.notes)
    if output is not None:
        n, k = scores.shape
        page.console.say_written(output, f"{n} rows of {k} scores")


def _sparse_columns(posterior: FactorizationPosterior, table: SparseTable) -> Any:
    """The fit's columns of a sparse matrix, in the order of the fit."""
    if posterior.names is None or table.names is None:
        p = posterior.n_columns
        if table.x.shape[1] != p:
            raise DataError(f"{table.source} has {table.x.shape[1]} columns, and the fit has {p}.")
        return table.x
    places = {name: j for j, name in enumerate(table.names)}
    missing = [name for name in posterior.names if name not in places]
    if missing:
        names = listed([repr(name) for name in missing], 5)
        raise DataError(f"{table.source} has no column {names}, which the fit needs.")
    return table.x[:, [places[name] for name in posterior.names]]


def show_options_of_fit(
    page: Page, told: list[str], table: FileTable, id_column: str | None
) -> None:
    """Say which options were taken from the fit; `id_column` is that of the command line."""
    if id_column is None and table.id_position is not None:
        told = [*told, as_option("id_column", table.names[table.id_position])]
    if told:
        page.paragraph(f"Read as the data of the fit: {', '.join(told)}.")


def other_doubts(notes: Sequence[Note], told: Sequence[str]) -> list[Note]:
    """The notes apart from that on codes of the fit, which new rows need not have."""
    from_fit = any(word.startswith(as_option("missing")) for word in told)
    return [one for one in notes if one.code != "missing" or not from_fit]


def find_fit_codes(posterior: Posterior, rows: Array) -> list[PossibleMissingCode]:
    """Numbers among these rows of the columns of the fit that may be codes for missing values."""
    return find_codes(posterior.names or made_up_names(rows.shape[1]), rows)


def column_of_offsets(posterior: Posterior) -> str | None:
    """The column of the offsets of log rates, or None; an InputError if they were given."""
    provenance = posterior.provenance
    rule = None if provenance is None else provenance.settings.offset
    if rule == GIVEN_OFFSET:
        raise InputError(
            "The fit had numbers as offsets, which a file of rows has no place for. Use "
            "model.transform(X, offset=...) in Python, or fit with --offset COLUMN."
        )
    return None if rule == LIBRARY_SIZE else rule


def offsets_of(column: str | None, table: FileTable) -> Array | None:
    """(n,) offsets of the rows of a table in this column."""
    if column is None:
        return None
    if column not in table.names:
        raise DataError(
            f"{table.source} has no column {column!r}, which the fit took offsets of log rates "
            "from."
        )
    numbers = table.columns[table.names.index(column)].numbers
    if numbers is None:
        raise DataError(f"Column {column!r} of {table.source} does not hold numbers.")
    return np.asarray(numbers, dtype=float)


def model_of(posterior: Posterior) -> CuspFactorAnalysis:
    """The fitted model, for rows whose columns are in the order of the fit."""
    return CuspFactorAnalysis.from_posterior(posterior.without_names())


def matched(posterior: Posterior | FactorizationPosterior, table: FileTable) -> Array:
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


def _by_position(posterior: Posterior | FactorizationPosterior, table: FileTable) -> Array:
    p = len(posterior.column_names)
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
