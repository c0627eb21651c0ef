"""The command to run after a fit."""

from __future__ import annotations

import shlex
from dataclasses import fields
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import NamedTuple

from cuspfa.cli.options import FitOptions, ModelOptions, SelectOptions
from cuspfa.cli.provenance import command_of
from cuspfa.cli.usage_errors import FIT_SUFFIX, TABLE_SUFFIXES

PACKED_SUFFIXES = (".bz2", ".xz", ".rda", ".pq", ".xlsb", ".h5ad", ".zarr", ".mtx", ".npz")
"""Suffixes that are not part of the name of a table, besides those of tables."""


class NextCommand(NamedTuple):
    """A complete command, and what it is for."""

    purpose: str
    command: str


def command_after(options: FitOptions, *, looked_in_vain: bool = False) -> NextCommand:
    """Save the fit; of a saved one write the report, then the tables, then the methods.

    Where factors were looked for in rows in memory and none was found: other rules.
    """
    if looked_in_vain:
        shared = {one.name: getattr(options, one.name) for one in fields(ModelOptions)}
        command = command_of(SelectOptions(**shared), "select-n-factors")
        return NextCommand("The number of factors by other rules:", command)
    if options.output is None:
        stem = options.example or _stem(options.data)
        words = ["-o", str(_unused(stem, ".cusp"))]
        return NextCommand("Save the fit:", f"{command_of(options)} {shlex.join(words)}")
    saved = str(options.output)
    if options.report is None:
        words = ["cuspfa", "report", saved, "-o", str(_unused(_stem(saved), ".html"))]
        return NextCommand("The report, as a page for a browser:", shlex.join(words))
    if options.model == "poisson-factorization":
        scores = str(_unused(f"{_stem(saved)}-scores", ".csv"))
        words = ["cuspfa", "scores", saved, str(options.data), "-o", scores]
        return NextCommand("Scores of the rows:", shlex.join(words))
    if options.tables is not None:
        return NextCommand("The methods, for a paper:", shlex.join(["cuspfa", "describe", saved]))
    suffix = ".docx" if find_spec("docx") is not None else ".html"
    tables = str(_unused(f"{_stem(saved)}-tables", suffix))
    words = ["cuspfa", "table", saved, "-o", tables]
    return NextCommand("Tables for a paper:", shlex.join(words))


def _stem(path: str | None) -> str:
    """The name of a file without its suffixes, to call another file by."""
    name = "" if path in (None, "-") else Path(str(path)).resolve().name
    while Path(name).suffix.lower() in (*TABLE_SUFFIXES, *PACKED_SUFFIXES, FIT_SUFFIX):
        name = Path(name).stem
    return name or "fit"


def _unused(stem: str, suffix: str) -> Path:
    """A file in this folder that does not exist yet."""
    path = Path(f"{stem}{suffix}")
    for number in count(2):
        if not path.exists():
            break
        path = Path(f"{stem}{number}{suffix}")
    return path
