"""Scores and imputed rows of tables larger than memory, read and written block by block."""

from __future__ import annotations

import warnings
from pathlib import Path

from cuspfa._utils.wording import counted
from cuspfa.cli.console import Terminal
from cuspfa.cli.progress import progress
from cuspfa.cli.terminal import Page, show_warnings
from cuspfa.data.column_choice import chooser
from cuspfa.data.out_of_core.readers import names_columns
from cuspfa.data.out_of_core.stream import table_stream
from cuspfa.data.tables.dialect import Reading
from cuspfa.errors import InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.estimator.predict_to_file import WRITTEN_SUFFIXES, What, write_blocks
from cuspfa.posterior.base import Posterior


def write_by_blocks(
    posterior: Posterior,
    what: What,
    data: str,
    output: Path | None,
    how: Reading,
    **options: object,
) -> None:
    """`what` as in `predict_to_file`; `options` are those of the command that it does not know."""
    given = [f"--{name}" for name, value in options.items() if value not in (None, False)]
    if given:
        raise InputError(
            f"{data} is read and written by blocks, where {' and '.join(given)} cannot be used. "
            "Leave it out. Rows are in the order of the file names, and in each file as they are."
        )
    if output is None or output.suffix.lower() not in WRITTEN_SUFFIXES:
        raise InputError(
            f"-o: {data} is read and written by blocks. Give a file that ends in .parquet, .csv "
            "or .tsv."
        )
    named = names_columns(data) and posterior.names is not None
    if not named:
        posterior = posterior.without_names()
    model = CuspFactorAnalysis.from_posterior(posterior)
    page = Page(Terminal(stderr=True))
    with progress() as bar, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        choose = chooser(posterior.names, None, insists=True)
        stream = table_stream(data, choose, how, None, bar.on_rows)
        written = write_blocks(model, what, stream, output, by_position=not named)
    show_warnings(page, sorted({str(one.message) for one in caught}))
    if written.lacking:
        said = f"{written.lacking} of {written.rows} rows have missing values"
        said += f", {written.empty} of them no value at all." if written.empty else "."
        page.paragraph(said)
    page.console.say_written(output, counted(written.rows, "row"))
