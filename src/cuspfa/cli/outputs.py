"""Checks of output files, before the work is done, and text to a file."""

from __future__ import annotations

import os
from pathlib import Path

from cuspfa.data.out_of_core.readers import SUFFIXES, kind_of
from cuspfa.errors import InputError
from cuspfa.io.atomic import check_not_read, check_writable, replacing


def check_file(option: str, path: Path) -> None:
    """Refuse what is no regular file, or cannot be written, before the work is done."""
    check_writable(option, path)
    if path.exists() and (not path.is_file() or _is_standard_output(path)):
        raise InputError(f"{option} must be a file. Got {str(path)!r} instead.")


def _is_standard_output(path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:  # it was closed
        return False


def check_not_the_input(option: str, output: Path, given: str) -> None:
    """Refuse a file that is read, or one among the files of a folder that is read."""
    place = Path(given)
    if given != "-" and (not place.is_dir() or kind_of(output) in SUFFIXES):
        check_not_read(option, output, place)


def write_text(path: Path, text: str) -> None:
    """Write the whole text as UTF-8, or nothing."""
    with replacing(path) as target:
        target.write_text(text, encoding="utf-8")
