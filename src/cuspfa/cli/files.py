"""Writing results: the whole file or nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cuspfa.errors import InputError


def check_writable(option: str, path: Path) -> None:
    """Refuse before the work is done, not after."""
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


def check_not_the_input(option: str, output: Path, given: str) -> None:
    """Nobody means to replace the data by what comes of them."""
    if given != "-" and output.exists() and Path(given).exists() and output.samefile(given):
        raise InputError(f"{option}: {given!r} is read, and would be lost. Choose another name.")


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.part")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write to, which takes the place of `path` when all is written."""
    target = path.resolve()
    if target.exists() and not target.is_file():
        yield target
        return
    temporary = _beside(target)
    try:
        yield temporary
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Replace a regular file at once, keeping its mode; write straight into anything else."""
    target = path.resolve()
    mode = 0o666
    if target.exists():
        status = target.stat()
        if not stat.S_ISREG(status.st_mode):
            target.write_text(text, encoding="utf-8")
            return
        mode = stat.S_IMODE(status.st_mode)
    temporary = _beside(target)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
