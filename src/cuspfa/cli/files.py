"""Writing results: the whole file or nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cuspfa.errors import InputError


def check_writable(option: str, path: Path) -> None:
    """Refuse before the work is done, not after."""
    if path.is_dir():
        raise InputError(f"{option} must be a file. Got the directory {str(path)!r} instead.")
    if path.exists():
        if not os.access(path, os.W_OK):
            raise InputError(f"{option}: no permission to write to {str(path)!r}.")
        return
    parent = path.resolve().parent
    if not parent.is_dir():
        raise InputError(
            f"{option}: there is no directory {str(parent)!r}. Create it, or choose another."
        )
    if not os.access(parent, os.W_OK):
        raise InputError(f"{option}: no permission to write in {str(parent)!r}.")


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
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
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
