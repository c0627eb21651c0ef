"""What a saved fit says of tables larger than memory: read and written block by block."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from cuspfa.cli.console import Terminal
from cuspfa.cli.progress import progress
from cuspfa.cli.terminal import Page, show_warnings
from cuspfa.data.out_of_core.readers import names_columns
from cuspfa.data.out_of_core.stream import chooser, table_stream
from cuspfa.data.tables.dialect import Reading
from cuspfa.errors import InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.estimator.predict_to_file import SUFFIXES, What, write_blocks
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.sampled import SampledPosterior
from cuspfa.posterior.variational import VariationalPosterior


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
            f"{data} is read and written by blocks, in which {' and '.join(given)} cannot be "
            "heeded. Leave that out; rows come in the order of the files' names, and as they are "
            "in each."
        )
    if output is None or output.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"-o: {data} is read and written by blocks. Name a file that ends in .parquet, .csv "
            "or .tsv."
        )
    assert isinstance(posterior, (VariationalPosterior, SampledPosterior))
    named = names_columns(data) and posterior.names is not None
    if not named:  # columns by their places
        posterior = replace(posterior, names=None)
    model = CuspFactorAnalysis.from_posterior(posterior)
    page = Page(Terminal(stderr=True))
    with progress() as bar, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        choose = chooser(posterior.names, None, insists=True)
        stream = table_stream(data, choose, how, None, bar.on_rows)
        written = write_blocks(model, what, stream, output)
    about_names = "X has feature names"  # which is just what was meant, where the fit has none
    show_warnings(
        page, sorted({str(one.message) for one in caught if about_names not in str(one.message)})
    )
    if written.lacking:
        said = f"{written.lacking} of {written.rows} rows lack values"
        said += f", {written.empty} of them all." if written.empty else "."
        page.paragraph(said)
    page.console.print(f"Written {written.rows} rows to {output}", soft_wrap=True, markup=False)
