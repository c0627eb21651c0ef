"""The table of loadings with intervals that --loadings writes."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from cuspfa.cli.outputs import check_file, write_text
from cuspfa.cli.written_tables import COMMAS, TABS
from cuspfa.data.tables.column_names import not_a_formula
from cuspfa.errors import InputError
from cuspfa.posterior.base import Posterior
from cuspfa.rotation.aligned import AlignedDraws


def check_loadings(path: Path, data: str) -> None:
    """Refuse a file that cannot be written, is read, or has the suffix of another format."""
    check_file("--loadings", path, data)
    if path.suffix.lower() not in TABS + COMMAS:
        raise InputError(
            f"--loadings: the table is written as CSV or TSV, not as {path.suffix!r}. Choose a "
            "name that ends in .csv or .tsv."
        )


def write_loadings(path: Path, posterior: Posterior, aligned: AlignedDraws) -> None:
    """Write one row for each variable: loadings and communality, each with its interval."""
    table, draws = aligned.table(), aligned.draws
    common = np.median(draws.communality, axis=0)
    ends = posterior.interval("communality", draws=draws)
    loadings = posterior.rotated_solution.loadings
    what = [*posterior.presentation.heads(loadings.shape[1], "factor{}"), "communality"]
    labels = posterior.column_labels
    worded = ["label"] if any(labels) else []
    ends_of = ("", "_lower", "_upper")
    heads = [not_a_formula(f"{one}{end}") for one in what for end in ends_of]
    rows = [["variable", *worded, *heads]]
    for j, name in enumerate(posterior.column_names):
        cells = np.column_stack([loadings[j], table.lower[j], table.upper[j]]).ravel().tolist()
        cells += [common[j], ends.lower[j], ends.upper[j]]
        words = [not_a_formula(one) for one in (name, *([labels[j]] if worded else []))]
        rows.append([*words, *(f"{value:.6f}" for value in cells)])
    write_separated(path, rows)


def write_separated(path: Path, rows: list[list[str]]) -> None:
    """Write rows of cells with the separator that the name of the file means."""
    stream = io.StringIO()
    separator = "\t" if path.suffix.lower() in TABS else ","
    csv.writer(stream, delimiter=separator, lineterminator="\n").writerows(rows)
    write_text(path, stream.getvalue())
