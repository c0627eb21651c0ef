"""Messages for errors on the command line, in place of those of cyclopts."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from pathlib import Path

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

TABLE_SUFFIXES = (
    *(".csv", ".tsv", ".txt", ".dat", ".gz", ".zip", ".parquet", ".feather", ".arrow"),
    *(".xlsx", ".xls", ".ods", ".sav", ".zsav", ".dta", ".rds", ".npy"),
)
"""Suffixes of words that are taken for tables."""
NEAR = 0.7
"""How alike a word must be to one that is suggested in its place, from 0 to 1."""
FIT_SUFFIX = ".cusp"
"""Suffix of a saved fit."""


def usage_text(error: CycloptsError, app: App, words: Sequence[str]) -> str:
    """The message for an error: what is wrong, and what to do."""
    chain = error.command_chain or ()
    command = " ".join(("cuspfa", *chain))
    known = [name for name in _option_names(app, chain) if name.startswith("-")]
    strange = next((word for word in words if _unknown(word, known)), None)
    if strange is not None and isinstance(error, UnknownOptionError | UnusedCliTokensError):
        name = _name(strange)
        return f"there is no option {name}.{_near(name, known)} See {command} --help."
    if isinstance(error, UnusedCliTokensError):
        extra = (error.unused_tokens or [""])[0]
        return (
            f"{extra!r} is one word too many. A name with spaces needs quotes. See {command} "
            "--help."
        )
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        if error.keyword is not None:
            return f"{error.keyword} needs a value. See {command} --help."
        return f"{error.argument.names[-1]} is missing. See {command} --help."
    if isinstance(error, UnknownCommandError):
        tried = (error.unused_tokens or [""])[0]
        commands = [name for name in app if not name.startswith("-")]
        if Path(tried).suffix.lower() == FIT_SUFFIX:
            return f"to show a saved fit: {shlex.join(['cuspfa', 'info', *words])}"
        if Path(tried).suffix.lower() in TABLE_SUFFIXES or Path(tried).exists():
            return f"to fit a model to a table: {shlex.join(['cuspfa', 'fit', *words])}"
        near = _near(tried, commands)
        return f"there is no command {tried!r}.{near or ' There are ' + ', '.join(commands) + '.'}"
    if isinstance(error, CoercionError) and error.msg and error.argument is not None:
        given = None if error.token is None else error.token.keyword
        return f"{given or error.argument.names[-1]} {error.msg}"
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} is given twice. Give it once."
    return " ".join(str(error).split())


def _option_names(app: App, chain: Sequence[str]) -> list[str]:
    for name in chain:
        app = app[name]
    found = ["--help", "-h", "--version"]
    if chain:
        for one in app.assemble_argument_collection():
            if one.parameter.parse is not False:
                found += [*one.names, *one.negatives]
    return found


def _name(word: str) -> str:
    return word.partition("=")[0]


def _unknown(word: str, known: Sequence[str]) -> bool:
    dashed = word.startswith("-") and not word.lstrip("-")[:1].isdigit() and len(word) > 1
    joined = word[:2] in known and word[:2] != "--"  # -oFILE
    return dashed and _name(word) not in known and not joined


def _near(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=NEAR)
    return f" Did you mean {near[0]}?" if near else ""
