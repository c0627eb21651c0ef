"""What a saved fit says of tables larger than memory: read and written block by block."""

from __future__ import annotations

from pathlib import Path

from cuspfa.cli.console import Terminal
from cuspfa.cli.progress import progress
from cuspfa.cli.read import USUAL, Reading
from cuspfa.data.batches import names_columns
from cuspfa.data.streams import Stream
from cuspfa.errors import InputError
from cuspfa.estimator import CuspFactorAnalysis
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.sampled import SampledPosterior
from cuspfa.posterior.variational import VariationalPosterior
from cuspfa.row_files import SUFFIXES, write_rows


def write_by_blocks(
    posterior: Posterior, what: str, data: str, output: Path | None, how: Reading, **options: object
) -> None:
    """`what` is one of `write_rows`; `options` are those of the command that it does not know."""
    given = [f"--{name}" for name, value in options.items() if value not in (None, False)]
    given += ["--missing, --header or --decimal"] if how != USUAL else []
    if given:
        raise InputError(
            f"{data} is read and written by blocks, in which {' and '.join(given)} cannot be "
            "heeded. Leave that out: rows stay in their order."
        )
    if output is None or output.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"-o: {data} is read and written by blocks. Name a file that ends in .parquet or .csv."
        )
    assert isinstance(posterior, (VariationalPosterior, SampledPosterior))
    model = CuspFactorAnalysis.from_posterior(posterior)
    with progress() as bar:
        columns = posterior.names if names_columns(data) else None
        rows = write_rows(model, what, Stream(data, columns=columns, progress=bar.on_rows), output)
    Terminal(stderr=True).print(f"Written {rows} rows to {output}", soft_wrap=True, markup=False)
