"""Writing files: the whole file or nothing."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cuspfa._utils.arguments import must_be
from cuspfa.errors import InputError


def as_path(path: Any) -> Path:
    """The argument `path` as a Path, or an error."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise must_be("path", "a text or a path", path) from None
    if not text or "\0" in text:
        raise must_be("path", "the name of a file", path)
    return Path(text)


def not_a_file(path: Path) -> InputError:
    """The error for a path that must be a regular file and is not."""
    what = "the directory" if path.is_dir() else "the device or pipe"
    return InputError(f"path must be a file. Got {what} {str(path)!r} instead.")


def check_writable(option: str, path: Path) -> None:
    """Refuse a path that cannot be written to, before any work; `option` names it in messages."""
    if path.is_dir():
        raise InputError(f"{option} must be a file. Got the directory {str(path)!r} instead.")
    if path.exists():
        if not os.access(path, os.W_OK):
            raise InputError(f"{option}: no permission to write to {str(path)!r}.")
        if not path.is_file():
            return
    parent = path.resolve().parent
    if not parent.is_dir():
        raise InputError(
            f"{option}: there is no directory {str(parent)!r}. Create it, or choose another."
        )
    if not os.access(parent, os.W_OK):
        raise InputError(f"{option}: no permission to write in {str(parent)!r}.")


def check_not_read(option: str, output: Path, given: Path) -> None:
    """Refuse an output that would replace the input, or lie in a folder that is read."""
    if not given.exists():
        return
    if output.exists() and output.samefile(given):
        raise InputError(
            f"{option}: {str(given)!r} is the input and would be lost. Choose another name."
        )
    if given.is_dir() and output.resolve().is_relative_to(given.resolve()):
        raise InputError(
            f"{option}: {str(output)!r} would be one of the files of {str(given)!r}, which is the "
            "input. Choose another folder."
        )


def check_apart(outputs: Sequence[tuple[str, Path | None]]) -> None:
    """Refuse two outputs to one file, whatever the spelling: the second would replace the first."""
    given = [(option, path) for option, path in outputs if path is not None]
    for number, (option, path) in enumerate(given):
        for other, before in given[:number]:
            if _same_file(path, before):
                same = str(path) == str(before)
                got = "for both" if same else f"and {str(path)!r}, which are one"
                raise InputError(
                    f"{other} and {option} must be two files. Got {str(before)!r} {got}."
                )


def _same_file(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        # Pipes and devices accept several outputs in turn.
        return one.samefile(other) and one.is_file()
    return one.resolve() == other.resolve()


@contextmanager
def _error_names(path: Path) -> Iterator[None]:
    """Add the name of the file to an error without one, such as that of a full disk."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        own = error.filename is not None and not str(error.filename).endswith(".part")
        if own or str(path) in str(error):
            raise
        if error.errno is None:
            raise OSError(f"{str(path)!r} cannot be written: {error}") from error
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that replaces `path` when all is written.

    Links are followed, and the mode of an old file is kept. Pipes and devices are written to
    directly.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        with _error_names(path):
            yield target
        return
    kept = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    temporary = target.with_name(f".cuspfa-{secrets.token_hex(8)}.part")
    # The file that replaces a private one is private from the start.
    mode = 0o666 if kept is None else kept & 0o600
    try:  # before the file exists, since Ctrl-C may come between any two calls
        with _error_names(path):
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
            yield temporary
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            if kept is not None:
                temporary.chmod(kept)
            temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
