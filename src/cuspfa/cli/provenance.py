"""Where a fit of the program came from, and how to come there again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuspfa.cli.terminal import rows_without_values
from cuspfa.data.screening.columns import Chosen
from cuspfa.data.tables.cells import clean
from cuspfa.data.tables.reader import USUAL, Reading, Table
from cuspfa.posterior.provenance import FACTORS, SEED, STANDARDISED, Provenance, versions

if TYPE_CHECKING:
    from cuspfa.cli.commands.fit import Request

MOST = 20
"""Columns left out that are named."""


def provenance_of(
    request: Request,
    table: Table,
    chosen: Chosen,
    messages: Sequence[str],
    python: str,
    *,
    streamed: bool,
) -> Provenance:
    """All that is known of a fit besides its posterior; `python` makes the unfitted model."""
    size = f"{table.n_rows} rows, {len(table.columns)} columns, {table.n_missing} missing values"
    if streamed and len(chosen.names) < len(table.columns):
        size += " in those analysed"  # no others were read
    factors = "found" if request.factors is None else str(request.factors)
    return Provenance(
        data=f"Read {clean(table.source)} ({table.kind}): {size}.",
        remarks=[*(clean(note) for note in table.notes), *_left_out(chosen)],
        settings=[
            (FACTORS, factors),
            (STANDARDISED, "yes" if request.standardize else "no"),
            ("rotation", request.rotation or "none (principal axes)"),
            (SEED, str(request.seed)),
        ],
        command=command_of(request),
        python=_python(request, chosen, python, streamed=streamed),
        warnings=list(messages),
        versions=versions(),
    )


def _left_out(chosen: Chosen) -> list[str]:
    said = [f"{clean(one.name)} is left out: {one.reason}." for one in chosen.left_out[:MOST]]
    if len(chosen.left_out) > MOST:
        said.append(f"{len(chosen.left_out) - MOST} more columns are left out.")
    if chosen.empty:
        said.append(f"Left out {rows_without_values(chosen)}.")
    if chosen.excluded:
        said.append(f"Left out as asked: {', '.join(clean(name) for name in chosen.excluded)}.")
    return said


def command_of(request: Request) -> str:
    """The command line, without what is the default anyhow."""
    words = ["cuspfa", "fit"]
    if request.data is not None:
        words.append(request.data)
    if request.example is not None:
        words += ["--example", request.example]
    for name, values in (("--columns", request.columns), ("--exclude", request.exclude)):
        for value in values:
            words += [name, value]
    options = (
        ("--id", request.id_column),
        ("--factors", request.factors),
        ("--max-factors", request.max_factors),
        ("--max-time", request.max_time),
        ("--rotation", request.rotation),
        ("--seed", request.seed or None),
        ("-o", request.output),
        ("--loadings", request.loadings),
        ("--report", request.report),
        ("--memory-limit", request.memory_limit),
    )
    words += ["--method", request.method] if request.method != "variational" else []
    words += [] if request.standardize else ["--no-standardize"]
    words += [] if request.statistics else ["--no-statistics"]
    words += _reading_options(request.how)
    for name, given in options:
        words += [] if given is None else [name, str(given)]
    return shlex.join(words)


def _reading_options(how: Reading) -> list[str]:
    words = []
    if how.header is not None:
        words.append("--header" if how.header else "--no-header")
    if how.decimal is not None:
        words += ["--decimal", {".": "point", ",": "comma"}[how.decimal]]
    for codes in how.missing:
        words.append(f"--missing={codes}")  # they may begin with a minus sign
    return words


def _python(request: Request, chosen: Chosen, model: str, *, streamed: bool) -> str:
    lines = ["import pandas as pd"] if request.data is not None and not streamed else []
    engine = [name for name in ("Gibbs", "Variational") if f"{name}(" in model]
    if streamed:
        lines += [_import("CuspFactorAnalysis", "Stream", *engine), ""]
        limit = "" if request.memory_limit is None else f", memory_limit={request.memory_limit!r}"
        lines.append(f"X = RowStream({request.data!r}, columns={chosen.names!r}{limit})")
    elif request.data is None:
        lines += [_import("CuspFactorAnalysis", *engine, "datasets"), ""]
        lines.append('X = datasets.load_bfi(subset="items", as_frame=True).data')
        if request.columns or request.exclude:
            lines.append(f"X = X[{chosen.names!r}]")
    else:
        known = "" if request.id_column is None else f", id_column={request.id_column!r}"
        known += "" if request.how == USUAL else f", how={request.how!r}"
        asked = [f"read_table({request.data!r}{known})"]
        asked += [f"columns={list(request.columns)!r}"] if request.columns else []
        asked += [f"exclude={list(request.exclude)!r}"] if request.exclude else []
        lines += [
            _import("CuspFactorAnalysis", *engine),
            "from cuspfa.data.screening.columns import choose",
        ]
        names = "read_table" if request.how == USUAL else "Reading, read_table"
        lines += [f"from cuspfa.data.tables.reader import {names}  # reads as the program does", ""]
        lines.append(f"chosen = choose({', '.join(asked)})")
        lines.append("X = pd.DataFrame(chosen.rows, columns=chosen.names)")
    lines += [f"model = {model}.fit(X)", 'model.posterior_.report("report.html")']
    return "\n".join(lines)


def _import(*names: str) -> str:
    return f"from cuspfa import {', '.join(names)}"
