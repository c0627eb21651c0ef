"""Results to files; what is written is whole (`_whole_file.py`)."""

from __future__ import annotations

from pathlib import Path

from cuspfa._whole_file import replacing
from cuspfa.errors import InputError


def check_not_the_input(option: str, output: Path, given: str) -> None:
    """Nobody means to replace the data by what comes of them."""
    if given != "-" and output.exists() and Path(given).exists() and output.samefile(given):
        raise InputError(f"{option}: {given!r} is read, and would be lost. Choose another name.")


def write_text(path: Path, text: str) -> None:
    """UTF-8, at once."""
    with replacing(path) as target:
        target.write_text(text, encoding="utf-8")
