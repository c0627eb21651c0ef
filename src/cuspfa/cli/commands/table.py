"""The command `cuspfa table`."""

from __future__ import annotations

from pathlib import Path

from cuspfa._utils.arguments import between
from cuspfa.cli.console import Terminal
from cuspfa.cli.options import ShowOptions
from cuspfa.cli.outputs import check_file
from cuspfa.cli.saved_fits import load_fit, shown_as
from cuspfa.reporting.tables.files import check_table_file, write_tables


def write_table(
    fit: Path,
    output: Path,
    *,
    suppress: float,
    intervals: bool,
    sort: bool,
    show: ShowOptions,
) -> None:
    """Write the tables of a saved fit."""
    check_file("-o", output, str(fit))
    check_table_file(output, "-o")
    between("--suppress", suppress, 0.0, 1.0)
    posterior = shown_as(load_fit(fit), show)
    write_tables(posterior.apa_tables(suppress=suppress, intervals=intervals, sort=sort), output)
    Terminal().say_written(output)
