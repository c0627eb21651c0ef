"""The terminal's face of `cuspfa impute`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cuspfa.cli.block_output import write_by_blocks
from cuspfa.cli.commands.scores import check_output, matched, model_of, show_codes, write_values
from cuspfa.cli.console import Terminal
from cuspfa.cli.saved_fits import load_fit
from cuspfa.cli.terminal import Page, count, show_doubts
from cuspfa.data.tables.column_names import made_up_names
from cuspfa.data.tables.dialect import Reading
from cuspfa.data.tables.read_table import reads_by_blocks
from cuspfa.data.tables.reader import read_file
from cuspfa.errors import InputError
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.variational import VariationalPosterior

MOST_DRAWS = 1000


def write_imputed(
    fit: Path,
    data: str,
    *,
    output: Path | None,
    id_column: str | None,
    draws: int | None,
    std: bool,
    seed: int,
    how: Reading,
) -> None:
    """The fit's columns of a table with their missing values filled."""
    check_output(output, fit, data)
    if draws is not None and not 1 <= draws <= MOST_DRAWS:
        raise InputError(f"--draws must be between 1 and {MOST_DRAWS}. Got {draws} instead.")
    if draws is not None and std:
        raise InputError("--std is for expected values: with --draws the tables tell the spread.")
    if seed < 0:
        raise InputError(f"--seed must be a whole number not below 0. Got {seed} instead.")
    posterior = load_fit(fit)
    if reads_by_blocks(data, None, how):
        write_by_blocks(posterior, "impute", data, output, how, id=id_column, draws=draws, std=std)
        return
    table = read_file(data, id_column=id_column, how=how)
    rows = matched(posterior, table)
    names = posterior.names or made_up_names(rows.shape[1])
    model = model_of(posterior)
    if draws is not None:
        drawn = model.impute(rows, n_draws=draws, random_state=seed)
        write_values(names, drawn, table, output, numbered=True)
    elif std:
        both = np.hstack(model.impute(rows, return_std=True))
        write_values([*names, *(f"{name}_std" for name in names)], [both], table, output)
    else:
        write_values(names, [model.impute(rows)], table, output)
    page = Page(Terminal(stderr=True))
    show_doubts(page, table.notes)
    show_codes(page, posterior, rows)
    n_missing = int(np.isnan(rows).sum())
    lacking = int(np.isnan(rows).any(axis=1).sum())
    filled = f"{count(n_missing, 'missing value')} in {count(lacking, 'row')} filled"
    empty = int(np.isnan(rows).all(axis=1).sum())
    if empty:
        filled += f"; {count(empty, 'row')} without any value, by the means of the fit alone"
    page.paragraph(f"{filled[0].upper()}{filled[1:]}." if n_missing else "No value is missing.")
    if draws is not None and not _exact(posterior):
        page.paragraph(
            "Loadings, noise and means were drawn without exact sweeps, for which a saved fit to "
            "data with missing values, or to large ones, has no rows: their spread is approximate."
        )
    if output is not None:
        what = f"{len(rows)} rows" if draws is None else f"{draws} tables of {len(rows)} rows"
        page.console.print(f"Written {what} to {output}", soft_wrap=True, markup=False)


def _exact(posterior: Posterior) -> bool:
    return not isinstance(posterior, VariationalPosterior) or posterior.statistics is not None
