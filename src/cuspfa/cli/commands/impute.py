"""The command `cuspfa impute`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cuspfa._utils.arguments import must_be, whole
from cuspfa._utils.wording import counted
from cuspfa.cli.block_output import write_by_blocks
from cuspfa.cli.commands.scores import (
    column_of_offsets,
    find_fit_codes,
    matched,
    model_of,
    offsets_of,
    other_doubts,
    show_options_of_fit,
)
from cuspfa.cli.console import Terminal
from cuspfa.cli.options import ReadingOptions
from cuspfa.cli.reading import as_in_fit
from cuspfa.cli.saved_fits import load_fit
from cuspfa.cli.terminal import Page, show_codes, show_doubts
from cuspfa.cli.written_tables import check_output, write_values
from cuspfa.data.tables.column_names import made_up_names
from cuspfa.data.tables.read_table import reads_by_blocks
from cuspfa.data.tables.reader import read_file
from cuspfa.errors import InputError

MOST_TABLES = 1000


def write_imputed(
    fit: Path,
    data: str,
    *,
    output: Path | None,
    id_column: str | None,
    draws: int | None,
    std: bool,
    seed: int,
    read: ReadingOptions,
) -> None:
    """Write the columns of the fit with their missing values filled in."""
    check_output(output, fit, data)
    if draws is not None and not 1 <= draws <= MOST_TABLES:
        raise must_be("--draws", f"between 1 and {MOST_TABLES}", draws)
    if draws is not None and std:
        raise InputError(
            "--std is for expected values. With --draws the tables show the uncertainty."
        )
    whole("--seed", seed, 0)
    posterior = load_fit(fit)
    if std and any(one.kind != "gaussian" for one in posterior.likelihoods):
        raise InputError(
            "--std is for fits whose columns are all Gaussian. Here the tables of --draws show the "
            "uncertainty."
        )
    how, row_names, told = as_in_fit(read, id_column, posterior, data)
    offset_column = column_of_offsets(posterior)
    if offset_column is None and reads_by_blocks(data, None, how):
        write_by_blocks(posterior, "impute", data, output, how, id=id_column, draws=draws, std=std)
        return
    table = read_file(data, id_column=row_names, how=how, id_needed=id_column is not None)
    rows = matched(posterior, table)
    names = posterior.names or made_up_names(rows.shape[1])
    offset = offsets_of(offset_column, table)
    model, observed = model_of(posterior), ~np.isnan(rows)
    if draws is not None:
        drawn = model.impute(rows, n_draws=draws, random_state=seed, offset=offset)
        write_values(names, drawn, table, output, numbered=True, observed=observed)
    elif std:
        both = np.hstack(model.impute(rows, return_std=True))
        known = np.hstack([observed, observed])
        of_std = [f"{name}_std" for name in names]
        write_values([*names, *of_std], [both], table, output, observed=known)
    else:
        write_values(names, [model.impute(rows, offset=offset)], table, output, observed=observed)
    page = Page(Terminal(stderr=True))
    show_options_of_fit(page, told, table, id_column)
    show_doubts(page, other_doubts(table.notes, told))
    show_codes(page, find_fit_codes(posterior, rows))
    n_missing = int(np.isnan(rows).sum())
    lacking = int(np.isnan(rows).any(axis=1).sum())
    filled = f"{counted(n_missing, 'missing value')} in {counted(lacking, 'row')} filled"
    empty = int(np.isnan(rows).all(axis=1).sum())
    if empty:
        filled += f"; {counted(empty, 'row')} without any value, filled by the means of the fit"
    page.paragraph(f"{filled[0].upper()}{filled[1:]}." if n_missing else "No value is missing.")
    if draws is not None and not posterior.has_exact_draws:
        page.paragraph(
            "Loadings, noise and means were drawn from the variational posterior, without exact "
            "sweeps: this saved fit has no statistics of the data. Their variance is approximate."
        )
    if output is not None:
        what = f"{len(rows)} rows" if draws is None else f"{draws} tables of {len(rows)} rows"
        page.console.say_written(output, what)
