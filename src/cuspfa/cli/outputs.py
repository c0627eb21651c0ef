"""Results to files; what is written is whole (`_whole_file.py`)."""

from __future__ import annotations

from pathlib import Path

from cuspfa.data.out_of_core.readers import SUFFIXES, kind_of
from cuspfa.io.atomic import check_not_read, replacing


def check_not_the_input(option: str, output: Path, given: str) -> None:
    """Is it a file of its own? Other kinds of files than data may lie beside these."""
    place = Path(given)
    if given != "-" and (not place.is_dir() or kind_of(output) in SUFFIXES):
        check_not_read(option, output, place)


def write_text(path: Path, text: str) -> None:
    """UTF-8, at once."""
    with replacing(path) as target:
        target.write_text(text, encoding="utf-8")
