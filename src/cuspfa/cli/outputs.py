"""Checks of output files before a fit; writing text and JSON."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from cuspfa._utils.arguments import must_be
from cuspfa.data.out_of_core.readers import FILE_SUFFIXES, file_format
from cuspfa.io.atomic import check_not_read, check_writable, replacing


def check_file(option: str, path: Path, *read: str) -> None:
    """Refuse what is no regular file, is read, or cannot be written, before the work is done."""
    check_writable(option, path)
    if path.exists() and (not path.is_file() or _is_standard_output(path)):
        raise must_be(option, "a file", str(path))
    for given in read:
        check_not_the_input(option, path, given)


def _is_standard_output(path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:  # standard output is closed
        return False


def check_not_the_input(option: str, output: Path, given: str) -> None:
    """Refuse a file that is read, or one among the files of a folder that is read."""
    place = Path(given)
    if given != "-" and (not place.is_dir() or file_format(output) in FILE_SUFFIXES):
        check_not_read(option, output, place)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8: the whole file or nothing."""
    with replacing(path) as target:
        target.write_text(text, encoding="utf-8")


def print_json(found: dict[str, Any]) -> None:
    """Print a result as one JSON document on standard output."""
    sys.stdout.write(json.dumps(without_nan(found), indent=2, allow_nan=False) + "\n")


def without_nan(value: Any) -> Any:
    """The value with None in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: without_nan(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
