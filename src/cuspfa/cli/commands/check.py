"""The command `cuspfa check`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cuspfa._typing import Array
from cuspfa._utils.warn import silent
from cuspfa._utils.wording import counted, listed
from cuspfa.cli.commands.scores import find_fit_codes, matched, other_doubts, show_options_of_fit
from cuspfa.cli.console import Terminal
from cuspfa.cli.data_input import (
    check_data,
    check_model,
    fitted_model,
    named_rows,
    needs_memory,
    read_rows,
    refuse_options,
    row_names,
    warnings_of,
)
from cuspfa.cli.options import ModelOptions
from cuspfa.cli.outputs import print_json
from cuspfa.cli.progress import progress
from cuspfa.cli.reading import as_in_fit
from cuspfa.cli.saved_fits import holds_fit, load_fit
from cuspfa.cli.terminal import (
    Page,
    counted_without,
    show_codes,
    show_doubts,
    show_warnings,
)
from cuspfa.data.tables.cells import clean
from cuspfa.data.tables.read_table import reads_by_blocks
from cuspfa.data.tables.reader import read_file
from cuspfa.diagnostics.assumptions import (
    MOST_NAMED,
    Finding,
    RowNames,
    findings_with_refits,
)
from cuspfa.errors import InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis

OF_A_TABLE = ("--id", "--missing", "--header", "--decimal", "--sheet", "--order")
"""Options that are about the table, also where the fit is a saved one."""
SHOWN_ROWS = 20
"""Rows that are named of a finding."""


class Checked(NamedTuple):
    """A fit, its rows, and what they are called."""

    model: CuspFactorAnalysis
    rows: Array
    row_names: RowNames
    n_empty: int
    """Rows without a value, which are left out: then the place of a row in the file is unknown."""
    warnings: list[str]


def run_check(fit: Path | None, options: ModelOptions) -> None:
    """Check the data of a fit, or fit the data first, and print what was found."""
    page = Page(Terminal(stderr=options.as_json or options.quiet))
    checked = _fitted(options, page) if fit is None else _saved(fit, options, page)
    model = checked.model
    with progress(options.quiet) as bar, silent():
        bar.say("the model without skewed items, outlying rows or doublets")
        found = findings_with_refits(model, checked.rows, checked.row_names)
    number = counted(int(model.n_factors_), "factor").capitalize()
    headline = f"{number}; {counted(len(found), 'finding')} on the data"
    if options.as_json:
        print_json(
            {
                "n_factors": int(model.n_factors_),
                "findings": [_as_dict(one, checked) for one in found],
                "warnings": checked.warnings,
            }
        )
    elif options.quiet:
        Terminal().print(headline, markup=False)
    else:
        page.line()
        page.line(headline)
        _show(page, found, checked)
    show_warnings(page, checked.warnings)


def _fitted(options: ModelOptions, page: Page) -> Checked:
    check_data(options)
    check_model(options)
    if options.data not in (None, "-") and holds_fit(Path(str(options.data))):
        words = shlex.join(["cuspfa", "check", str(options.data), "DATA"])
        raise InputError(f"{options.data} is a saved fit. Give its data too: {words}")
    table, rows = read_rows(options, page, "check", quiet=options.quiet)
    with progress(options.quiet) as bar:
        model = fitted_model(options, rows, table.names, callback=bar.on_iteration)
    return Checked(model, rows, row_names(table), table.n_empty, warnings_of(model))


def _saved(fit: Path, options: ModelOptions, page: Page) -> Checked:
    refuse_options(options, OF_A_TABLE, "with a saved fit")
    assert options.data is not None
    posterior = load_fit(fit)
    if posterior.fit_info is None:
        raise InputError(f"{str(fit)!r} is one of the alternatives of a fit. Give the fit itself.")
    how, id_column, told = as_in_fit(options.read, options.id_column, posterior, options.data)
    if reads_by_blocks(options.data, None, how):
        raise needs_memory(options.data, "check")
    id_needed = options.id_column is not None
    table = read_file(options.data, id_column=id_column, how=how, id_needed=id_needed)
    rows = matched(posterior, table)
    show_options_of_fit(page, told, table, options.id_column)
    show_doubts(page, other_doubts(table.notes, told))
    show_codes(page, find_fit_codes(posterior, rows))
    model = CuspFactorAnalysis.from_posterior(posterior)
    return Checked(model, rows, named_rows(table.ids, len(rows)), 0, [])


def _show(page: Page, found: Sequence[Finding], checked: Checked) -> None:
    if not found:
        page.line("No skewed items, outlying rows or doublets were found.")
    for one in found:
        page.line()
        page.paragraph(f"{one.kind.capitalize()}: {clean(one.message)}")
        if len(one.rows) > MOST_NAMED:
            names = [checked.row_names.names[i] for i in one.rows]
            page.paragraph(f"  These rows: {listed(names, SHOWN_ROWS)}")
        if one.rows and checked.n_empty:
            page.paragraph(f"  {counted_without(checked.n_empty)}")


def _as_dict(finding: Finding, checked: Checked) -> dict[str, object]:
    columns = checked.model.posterior_.column_names
    return {
        "kind": finding.kind,
        "message": finding.message,
        "columns": [columns[j] for j in finding.columns],
        "rows": None if checked.n_empty else [i + 1 for i in finding.rows],
        "n_factors_without": finding.n_factors_without,
    }
