"""Where a fit of the program came from, and the command that makes it again."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Literal

from cuspfa.cli.reading import as_option
from cuspfa.data.tables.dialect import Reading
from cuspfa.data.tables.read_table import Table
from cuspfa.posterior.provenance import DataProvenance, DroppedColumn, ReadOptions

if TYPE_CHECKING:
    from cuspfa.cli.commands.fit import Request


def data_provenance(
    request: Request, table: Table, *, by_blocks: bool, counted: bool
) -> DataProvenance:
    """What was read and dropped; `counted` if missing values are known before the fit."""
    form: Literal["file", "example", "stream"] = "file"
    if request.data in (None, "-"):
        form = "example" if request.data is None else "stream"
    return DataProvenance(
        source=table.source if form != "file" else str(request.data),
        form=form,
        kind=table.kind,
        n_rows=table.n_rows_read,
        n_columns=table.n_columns_read,
        n_missing=table.n_missing_read if counted else None,
        by_blocks=by_blocks,
        names=tuple(table.names),
        options=ReadOptions(
            columns=tuple(request.columns),
            exclude=tuple(request.exclude),
            id_column=request.id_column,
            missing=tuple(map(str, request.how.missing)),
            header=request.how.header,
            decimal=request.how.decimal,
            memory_limit=request.memory_limit,
        ),
        notes=tuple(note.told(as_option) for note in table.notes),
        dropped=tuple(DroppedColumn(one.name, one.told(as_option)) for one in table.dropped),
        excluded=tuple(table.excluded),
        n_empty_rows=table.n_empty,
    )


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
    if how.missing:
        words.append(f"--missing={','.join(map(str, how.missing))}")  # it may begin with a minus
    return words
