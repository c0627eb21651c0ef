"""Names of files: what an upload is stored as, and what a download is called."""

from __future__ import annotations

KEPT_SUFFIXES = (
    *(".csv", ".tsv", ".tab", ".txt", ".dat", ".gz", ".bz2", ".xz", ".zip"),
    *(".parquet", ".pq", ".feather", ".arrow", ".xlsx", ".xls", ".xlsb", ".ods"),
    *(".sav", ".zsav", ".por", ".dta", ".rds", ".rda", ".rdata"),
)
"""Suffixes that an upload keeps. The rest of its name is never part of a path."""
FOLDER_PREFIX = "cuspfa-app-"
"""Beginning of the name of the private folder of a server."""
LONGEST_SHOWN = 200
"""Letters of a name that are kept for messages."""


def stored_as(name: str) -> str:
    """What an upload is stored as: always the same name, with a suffix that readers know."""
    suffix = f".{name.rpartition('.')[2].lower()}" if "." in name else ""
    return f"upload{suffix if suffix in KEPT_SUFFIXES else ''}"


def shown_name(name: str) -> str:
    r"""The last part of a name, without what cannot be printed; it is shown and never opened.

    Examples
    --------
    >>> shown_name("../../etc/passwd.csv"), shown_name("C:\\data\\a.csv"), shown_name("..")
    ('passwd.csv', 'a.csv', 'data')
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(one for one in last if one.isprintable())[-LONGEST_SHOWN:].strip()
    return kept.lstrip("-") if kept.strip(".- ") else "data"


def stem_of(name: str) -> str:
    """What files about a table are called: letters, digits and a few signs of its name."""
    stem = shown_name(name).lstrip(".").partition(".")[0] if name else "bfi"
    return "".join(one if one.isalnum() or one in "-_" else "_" for one in stem)[:80] or "fit"
