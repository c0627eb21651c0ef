"""The table of loadings with intervals that --loadings writes."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from cuspfa.cli.commands.scores import TABS, TEXTS, separator_of
from cuspfa.cli.outputs import check_file, check_not_the_input, write_text
from cuspfa.data.tables.column_names import not_a_formula
from cuspfa.errors import InputError
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.draws import Draws


def check_loadings(path: Path, data: str) -> None:
    """Refuse a file that cannot be written, is read, or has the suffix of another format."""
    check_file("--loadings", path)
    check_not_the_input("--loadings", path, data)
    if path.suffix.lower() not in TABS + TEXTS:
        raise InputError(
            f"--loadings: the table is written as CSV or TSV, not as {path.suffix!r}. Choose a "
            "name that ends in .csv or .tsv."
        )


def write_loadings(path: Path, posterior: Posterior, draws: Draws) -> None:
    """Write one row a variable: loadings and communality, each with its interval."""
    table = posterior.align(draws=draws).table()
    common = np.median(draws.communality, axis=0)
    ends = posterior.interval("communality", draws=draws)
    loadings = posterior.rotated_solution.loadings
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator_of(path), lineterminator="\n")
    what = [*(f"factor{h}" for h in range(1, loadings.shape[1] + 1)), "communality"]
    ends_of = ("", "_lower", "_upper")
    writer.writerow(["variable", *(f"{one}{end}" for one in what for end in ends_of)])
    for j, name in enumerate(posterior.column_names):
        cells = np.column_stack([loadings[j], table.lower[j], table.upper[j]]).ravel().tolist()
        cells += [common[j], ends.lower[j], ends.upper[j]]
        writer.writerow([not_a_formula(name), *(f"{value:.6f}" for value in cells)])
    write_text(path, stream.getvalue())
