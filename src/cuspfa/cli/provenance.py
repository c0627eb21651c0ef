"""Provenance of a fit of the program: the data, and the command that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any, Literal, cast, get_type_hints

from cuspfa.cli.options import DataOptions, FitOptions, ReadingOptions, ShowOptions
from cuspfa.data.provenance import DataProvenance, table_provenance
from cuspfa.data.tables.read_options import ReadOptions
from cuspfa.data.tables.read_table import Table

NOT_REPEATED = ("data", "as_json", "quiet")
"""Fields of the command line that its provenance does not repeat as options."""


def data_provenance(options: FitOptions, table: Table) -> DataProvenance:
    """What was read and dropped. Missing values of rows on disk are counted by the fit."""
    form: Literal["file", "example", "stream"] = "file"
    if options.data in (None, "-"):
        form = "example" if options.data is None else "stream"
    source = table.source if form != "file" else str(options.data)
    told = reading_options(options)
    return replace(table_provenance(table), source=source, form=form, options=told)


def reading_options(options: FitOptions) -> ReadOptions:
    """What the command line says of the table."""
    how = options.read.reading()
    return ReadOptions(
        columns=tuple(options.columns or ()),
        exclude=tuple(options.exclude or ()),
        id_column=options.id_column,
        missing=tuple(map(str, how.missing)),
        header=how.header,
        decimal=how.decimal,
        memory_limit=options.memory_limit,
        sheet=options.read.sheet,
        order=how.order,
        n=options.n,
        means=options.means,
        sds=options.sds,
    )


def command_of(options: DataOptions, command: str = "fit") -> str:
    """The command line, without options that have their defaults or say what is shown."""
    words = ["cuspfa", command, *([] if options.data is None else [options.data])]
    return shlex.join([*words, *_given(options)])


def _given(options: DataOptions) -> Iterator[str]:
    """Options with another value than the default, and their values."""
    for name, value in given_options(options):
        yield from _option_words(name, value)


def given_options(
    options: DataOptions | ReadingOptions | ShowOptions,
) -> Iterator[tuple[str, Any]]:
    """Names of the options with another value than the default, and these values."""
    annotated = _type_hints(cast("Any", type(options)))
    for one in fields(options):
        value = getattr(options, one.name)
        if isinstance(value, (ReadingOptions, ShowOptions)):
            yield from given_options(value)
        elif value != one.default and one.name not in NOT_REPEATED:
            names = annotated[one.name].__metadata__[0].name
            yield min(names or [f"--{one.name.replace('_', '-')}"], key=len), value


@cache
def _type_hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _option_words(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [name if value else name.replace("--", "--no-", 1)]
    if name == "--missing":
        return [f"{name}={','.join(value)}"]  # codes may begin with a minus
    values = value if isinstance(value, list) else [value]
    return [word for each in values for word in (name, str(each))]
