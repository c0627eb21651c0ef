"""An analysis as one file: the settings of the page with the table, or with the fit alone.

The file is a zip of members that are not compressed: `analysis.json`, and either `table`, the file
as it was given, or `fit.cusp`, as `cuspfa.load` reads it. It may come from anyone: no name in it is
used as a path, and sizes are compared with that of the file before a member is read.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from cuspfa.app.page_settings import PageSettings, checked_settings
from cuspfa.errors import FileError, InputError
from cuspfa.io.atomic import replacing

ABOUT, TABLE, FIT = "analysis.json", "table", "fit.cusp"
ANALYSIS_FORMAT, ANALYSIS_VERSION = "cuspfa-analysis", 1
LARGEST_ABOUT = 1 << 22
"""Bytes of the settings."""
_STARTED = b"PK\x03\x04"


class SavedAnalysis(NamedTuple):
    """What a file of an analysis holds."""

    name: str
    """The name of the table; empty for the example."""
    missing: str
    """Codes for missing values."""
    settings: PageSettings
    table: bytes | None
    fit: bytes | None


def is_analysis(first: bytes) -> bool:
    """Do these first bytes of a file begin an analysis?"""
    return first.startswith(_STARTED) and first[30 : 30 + len(ABOUT)] == ABOUT.encode()


def write_analysis(saved: SavedAnalysis, path: Path) -> None:
    """Write the file: whole or not at all."""
    about = {
        "format": ANALYSIS_FORMAT,
        "version": ANALYSIS_VERSION,
        "name": saved.name,
        "missing": saved.missing,
        "settings": saved.settings.as_json(),
    }
    members = {ABOUT: json.dumps(about, indent=1).encode(), TABLE: saved.table, FIT: saved.fit}
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, content in members.items():
            if content is not None:
                # Without the time at which it was written.
                archive.writestr(zipfile.ZipInfo(name), content)


def read_analysis(path: Path) -> SavedAnalysis:
    """Read the file, or raise a `FileError` that says what is wrong with it."""
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            members = {one.filename: one for one in archive.infolist()}
            if (
                len(archive.infolist()) > 3
                or ABOUT not in members
                or members.keys() - {ABOUT, TABLE, FIT}
            ):
                raise FileError("The file is no analysis of cuspfa app: it has other members.")
            for one in members.values():
                limit = LARGEST_ABOUT if one.filename == ABOUT else size
                if one.compress_type != zipfile.ZIP_STORED or one.file_size > limit:
                    raise FileError(f"The analysis is damaged or manipulated: {one.filename}.")
            found = {name: archive.read(name) for name in members}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise FileError(f"The analysis is damaged ({error}).") from None
    about = _about(found[ABOUT])
    if about["version"] > ANALYSIS_VERSION:
        raise FileError("The analysis was saved by a newer version of cuspfa. Update cuspfa.")
    if TABLE in found and FIT in found:
        raise FileError("The analysis has both a table and a fit. It is damaged or manipulated.")
    try:
        settings = checked_settings(about["settings"])
    except InputError as error:
        raise FileError(f"The settings of the analysis are wrong: {error}") from None
    return SavedAnalysis(
        about["name"], about["missing"], settings, found.get(TABLE), found.get(FIT)
    )


def _about(raw: bytes) -> dict[str, Any]:
    try:
        about = json.loads(raw)
    except (ValueError, RecursionError):
        raise FileError("The analysis is damaged: its settings are no JSON.") from None
    kinds = {"format": str, "version": int, "name": str, "missing": str, "settings": dict}
    right = isinstance(about, dict) and about.keys() == kinds.keys()
    if not right or not all(type(about[key]) is kind for key, kind in kinds.items()):
        raise FileError("The analysis is damaged: its settings have other entries.")
    if about["format"] != ANALYSIS_FORMAT or about["version"] < 1:
        raise FileError("The file is no analysis of cuspfa app.")
    return dict(about)
