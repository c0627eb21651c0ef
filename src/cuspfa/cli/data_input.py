"""Data and models on the command line: their options checked, the table read and described."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cuspfa import datasets
from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be, positive, whole
from cuspfa._utils.fit_warning import ColumnsDropped, EmptyRows, ReadingNote
from cuspfa._utils.fit_warning_text import CLASSES, terminal_text
from cuspfa._utils.spelling import as_option
from cuspfa._utils.warn import silent
from cuspfa._utils.wording import counted
from cuspfa.cli.options import DataOptions, FitOptions, ModelOptions, MomentsOptions
from cuspfa.cli.progress import progress
from cuspfa.cli.provenance import given_options
from cuspfa.cli.reading import check_matrix_options, parse_columns, read_matrix
from cuspfa.cli.terminal import (
    Page,
    show_codes,
    show_doubts,
    show_left_out,
    show_missing,
    show_reading,
)
from cuspfa.data.column_choice import ColumnChoice
from cuspfa.data.out_of_core.stream import Plan
from cuspfa.data.screening.missing_codes import find_codes
from cuspfa.data.tables.cells import clean, column_of_numbers
from cuspfa.data.tables.column_names import find_column
from cuspfa.data.tables.read_table import Table, load_table, reads_by_blocks, screened
from cuspfa.data.tables.reader import FileTable
from cuspfa.diagnostics.assumptions import RowNames
from cuspfa.errors import DataError, InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.inference.gibbs.settings import Gibbs
from cuspfa.inference.variational.settings import Variational
from cuspfa.model.likelihoods.kinds import Ordinal
from cuspfa.model.model_error import LARGEST_MODEL_ERROR
from cuspfa.rotation.gpa import RotationMethod

SHOWN_BY_READING = (EmptyRows, ReadingNote, ColumnsDropped)
"""Warnings of a fit that were printed when the table was read."""


def check_data(options: DataOptions) -> None:
    """Refuse no data, two sources of data, and options that do not go together."""
    if options.data is None and options.example is None:
        raise InputError("give a file with data, - for standard input, or --example bfi.")
    if options.data is not None and options.example is not None:
        raise InputError("give a file or --example, not both.")
    if isinstance(options, MomentsOptions):
        check_matrix_options(options)


def check_model(options: ModelOptions) -> None:
    """Refuse values of options that no model has."""
    if options.method not in CLASSES:
        raise must_be("--method", "variational or gibbs", options.method)
    whole("--seed", options.seed, 0)
    if options.max_time is not None:
        positive("--max-time", options.max_time)
    if options.model_error != "auto" and not 0 <= options.model_error <= LARGEST_MODEL_ERROR:
        most = f"auto or a number from 0 to {LARGEST_MODEL_ERROR}"
        raise must_be("--model-error", most, options.model_error)
    if options.model_error == "auto" and options.method == "gibbs":
        raise InputError(
            "--model-error must be a number with --method gibbs, which does not learn it. Fit with "
            "--method variational first and give the error that it prints."
        )
    if options.max_factors is not None:
        whole("--max-factors", options.max_factors, 0)
        if options.method == "gibbs":
            raise InputError("--max-factors is for --method variational. Leave it out.")


def check_number(factors: int | None, max_factors: int | None) -> None:
    """Refuse a number of factors below 0, and one that is both given and searched for."""
    if factors is not None:
        whole("--factors", factors, 0)
    if factors is not None and max_factors is not None:
        raise InputError(
            "--factors gives the number of factors, and --max-factors limits the search for it. "
            "Give one of them."
        )


def estimator_of(
    options: ModelOptions,
    *,
    n_factors: int | None = None,
    rotation: RotationMethod | None = None,
    callback: Callable[[Any], None] | None = None,
    likelihood: Any = "gaussian",
) -> CuspFactorAnalysis:
    """The model of the options."""
    method: Variational | Gibbs
    if options.method == "gibbs":
        method = Gibbs(max_time=options.max_time, callback=callback)
    else:
        method = Variational(
            max_factors=options.max_factors, max_time=options.max_time, callback=callback
        )
    return CuspFactorAnalysis(
        n_factors="auto" if n_factors is None else n_factors,
        method=method,
        standardize=options.standardize,
        model_error=options.model_error,
        likelihood=likelihood,
        offset=getattr(options, "offset", None),
        robust=options.robust,
        rotation=rotation,
        random_state=options.seed,
    )


def has_likelihood(options: FitOptions) -> bool:
    """Do the options say that columns may not be Gaussian?"""
    return options.likelihood != "gaussian" or bool(options.ordinal)


def chosen_likelihood(options: FitOptions, names: list[str]) -> Any:
    """The argument `likelihood` of the options, for columns with these names."""
    ordinal = Ordinal(link=options.link)

    def as_given(word: str) -> Any:
        return ordinal if word == "ordinal" else word

    if options.link != "probit" and options.likelihood != "ordinal" and not options.ordinal:
        raise InputError("--link is for ordinal columns. Give --likelihood ordinal or --ordinal.")
    if not options.ordinal:
        return as_given(options.likelihood)
    chosen = set(parse_columns("--ordinal", options.ordinal, names))
    return {
        name: ordinal if j in chosen else as_given(options.likelihood)
        for j, name in enumerate(names)
    }


def fitted_model(
    options: ModelOptions,
    data: Any,
    names: list[str],
    *,
    n_factors: int | None = None,
    rotation: RotationMethod | None = None,
    callback: Callable[[Any], None] | None = None,
) -> CuspFactorAnalysis:
    """The model fitted to rows with these names. Its warnings are those of `warnings_of`."""
    model = estimator_of(options, n_factors=n_factors, rotation=rotation, callback=callback)
    with silent():
        model._fit(data, names)
    return model


def warnings_of(model: CuspFactorAnalysis) -> list[str]:
    """The warnings of a fit, with advice as options, apart from those that reading has printed."""
    provenance = model.posterior_.provenance
    assert provenance is not None
    engine = provenance.settings.engine
    told = (one for one in provenance.warnings if not isinstance(one, SHOWN_BY_READING))
    return [terminal_text(one, engine) for one in told]


def refuse_options(options: DataOptions, allowed: Sequence[str], where: str) -> None:
    """Refuse options other than these, which would have no effect."""
    wrong = [name for name, _ in given_options(options) if name not in allowed]
    if wrong:
        raise InputError(f"{wrong[0]} has no effect {where}. Leave it out.")


# --- tables ---


def read_data(
    options: DataOptions, page: Page, *, factors: int | None = None, quiet: bool = False
) -> Table:
    """Read the table, and print what was read, left out and missing.

    A number of `factors` above that of the columns is an error, before the cells are read if the
    names of the columns are known by then.
    """
    table = _table(options, page, factors, quiet)
    check_enough_columns(factors, len(table.names))
    if isinstance(options, ModelOptions):
        check_sampled_error(options, table)
    show_table(page, table, quiet=quiet)
    return table


def check_sampled_error(options: ModelOptions, table: Table) -> None:
    """Refuse data for which a model error cannot be sampled, as far as is known before the fit."""
    if options.method != "gibbs" or options.model_error == 0:
        return
    n_missing, got = sum(table.n_missing.values()), ""
    if n_missing:
        got = f"data without missing values. Got {n_missing} that are missing."
    elif table.stream is None and table.n_rows <= len(table.names):
        got = f"more rows than columns. Got {table.n_rows} rows and {len(table.names)} columns."
    if got:
        raise DataError(
            f"--model-error {options.model_error:g} with --method gibbs needs {got} Use --method "
            "variational, or leave out --model-error."
        )


def show_table(page: Page, table: Table, *, quiet: bool) -> None:
    """Print what was read, left out and missing."""
    if quiet or table.by_blocks:
        show_doubts(page, table.notes)
    else:
        show_reading(page, table)
    show_left_out(page, table)
    show_missing(page, table)


def read_rows(
    options: DataOptions, page: Page, command: str, *, quiet: bool = False
) -> tuple[Table, Array]:
    """As `read_data`, for a command that needs all rows in memory: the table, and its rows."""
    if options.data is not None and reads_by_blocks(options.data, None, options.read.reading()):
        raise needs_memory(options.data, command)
    table = read_data(options, page, quiet=quiet)
    show_codes(page, find_codes(table.names, table.rows))
    return table, table.rows


def row_names(table: Table) -> RowNames:
    """What the rows of a table are called: by the column of --id, or by their number from 1 on.

    Where rows without a value are left out, by their number among the others.
    """
    return named_rows(None if table.n_empty else table.ids, table.n_rows)


def named_rows(ids: Sequence[str] | None, n_rows: int) -> RowNames:
    """The names of rows; their numbers where there are none."""
    if ids is None:
        return RowNames([str(row) for row in range(1, n_rows + 1)], "counted from 1")
    return RowNames([clean(one) for one in ids])


def needs_memory(path: str, command: str) -> InputError:
    """The error for data that can be read by blocks only."""
    return InputError(
        f"{path} is a folder, an array or a file that does not fit into memory, and cuspfa "
        f"{command} needs all rows in memory. Give a file with a sample of the rows."
    )


def read_as_json(table: Table, n_missing: int) -> dict[str, Any]:
    """What was read and left out, for the JSON; no cell of the data."""
    return {
        "read": {
            "source": table.source,
            "kind": table.kind,
            "n_rows": table.n_rows_read,
            "n_columns": table.n_columns_read,
            "n_missing": n_missing,
            "notes": [note.message(as_option) for note in table.notes],
            "sheet": table.sheet,
            "labels": {one.name: one.label for one in table.labels if one.label},
            "value_labels": {
                one.name: {f"{value:g}": label for value, label in one.values}
                for one in table.labels
                if one.values
            },
        },
        "left_out": {
            "columns": [
                {"name": one.name, "reason": one.message(as_option)} for one in table.dropped
            ],
            "excluded": table.excluded,
            "rows": table.n_empty,
        },
    }


def table_as_json(table: Table) -> dict[str, Any]:
    """What was read, left out and missing, for the JSON; no cell of the data."""
    return {
        **read_as_json(table, table.n_missing_read),
        "missing": {
            "n": sum(table.n_missing.values()),
            "n_rows": table.n_incomplete,
            "by_column": table.n_missing,
        },
    }


def choose_columns(
    options: DataOptions, names: list[str], factors: int | None = None
) -> ColumnChoice:
    """Columns by name or number. Mistakes raise an error before the cells are read."""
    asked = parse_columns("--columns", options.columns or (), names)
    unwanted = parse_columns("--exclude", options.exclude or (), names)
    included = parse_columns("--include", options.include or (), names)
    check_enough_columns(factors, len(names))
    chosen = sorted({*asked, *included}) if options.columns else range(len(names))
    return ColumnChoice(
        chosen, unwanted, bool(options.columns), included=included, drops_covariates=True
    )


def _table(options: DataOptions, page: Page, factors: int | None, quiet: bool) -> Table:
    def choose(names: list[str]) -> ColumnChoice:
        return choose_columns(options, names, factors)

    if isinstance(options, MomentsOptions) and options.matrix_kind is not None:
        return read_matrix(options, choose)
    if options.data is None:
        file = example_file(options.id_column)
        return screened(file, choose, options.read.reading())

    def on_plan(plan: Plan) -> None:
        check_enough_columns(factors, plan.n_columns)
        if not quiet:
            page.paragraph(f"Reading {options.data} by blocks: {plan} of memory.")

    with progress(quiet) as bar:
        return load_table(
            options.data,
            choose,
            id_column=options.id_column,
            how=options.read.reading(),
            memory_limit=options.memory_limit if isinstance(options, MomentsOptions) else None,
            progress=bar.on_rows,
            on_plan=on_plan,
            every_row=isinstance(options, FitOptions) and has_likelihood(options),
        )


def check_enough_columns(factors: int | None, columns: int) -> None:
    """Refuse more factors than columns."""
    if factors is not None and factors > columns:
        raise must_be("--factors", f"at most the {counted(columns, 'column')} analysed", factors)


def example_file(id_column: str | None) -> FileTable:
    """The data that come with the package, as if they were read from a file."""
    bunch = datasets.load_bfi(subset="items")
    names = list(bunch.feature_names)
    columns = [
        column_of_numbers(name, values) for name, values in zip(names, bunch.data.T, strict=True)
    ]
    position = None if id_column is None else find_column("--id", id_column, names)
    return FileTable("example bfi", "25 personality items", columns, len(bunch.data), [], position)
