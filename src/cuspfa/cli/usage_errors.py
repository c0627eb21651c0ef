"""Messages for errors on the command line, in place of those of cyclopts."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from cyclopts import (
    App,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)


def in_our_words(error: CycloptsError, app: App, words: Sequence[str]) -> str:
    """The message for an error: what is wrong, and what to do."""
    chain = error.command_chain or ()
    command = " ".join(("cuspfa", *chain))
    known = [name for name in _options(app, chain) if name.startswith("-")]
    strange = next((word for word in words if _unknown(word, known)), None)
    if strange is not None and isinstance(error, UnknownOptionError | UnusedCliTokensError):
        name = _name(strange)
        return f"there is no option {name}.{_near(name, known)} See {command} --help."
    if isinstance(error, UnusedCliTokensError):
        extra = (error.unused_tokens or [""])[0]
        return (
            f"{extra!r} is one word too many. A name with spaces goes into quotes. See {command} "
            "--help."
        )
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        if error.keyword is not None:
            return f"{error.keyword} needs a value behind it. See {command} --help."
        return f"{error.argument.names[-1]} is missing. See {command} --help."
    if isinstance(error, UnknownCommandError):
        tried = (error.unused_tokens or [""])[0]
        commands = [name for name in app if not name.startswith("-")]
        near = _near(tried, commands)
        return f"there is no command {tried!r}.{near or ' There are ' + ', '.join(commands) + '.'}"
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} is given twice. Give it once."
    return " ".join(str(error).split())


def _options(app: App, chain: Sequence[str]) -> list[str]:
    for name in chain:
        app = app[name]
    found = ["--help", "-h", "--version"]
    if chain:
        found += [name for one in app.assemble_argument_collection() for name in one.names]
        found += [name for one in app.assemble_argument_collection() for name in one.negatives]
    return found


def _name(word: str) -> str:
    return word.partition("=")[0]


def _unknown(word: str, known: Sequence[str]) -> bool:
    dashed = word.startswith("-") and not word.lstrip("-")[:1].isdigit() and len(word) > 1
    joined = word[:2] in known and word[:2] != "--"  # -oFILE
    return dashed and _name(word) not in known and not joined


def _near(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f" Did you mean {near[0]}?" if near else ""
