"""Writing tables to files, in the format that the name of the file says."""

from __future__ import annotations

import os
from pathlib import Path

from cuspfa._utils.optional import needed
from cuspfa.errors import InputError
from cuspfa.io.atomic import as_path, check_writable, replacing
from cuspfa.reporting.tables.content import ApaTables
from cuspfa.reporting.tables.office_formats import write_docx, write_xlsx
from cuspfa.reporting.tables.text_formats import as_html, as_latex, as_markdown

TEXTS = {".md": as_markdown, ".tex": as_latex, ".html": as_html, ".htm": as_html}
DOCUMENTS = {".docx": write_docx, ".xlsx": write_xlsx}
_WRITING_PACKAGES = {
    ".docx": ("docx", "Writing a Word document"),
    ".xlsx": ("xlsxwriter", "Writing workbooks"),
}


def check_table_file(path: str | os.PathLike[str], option: str = "path") -> Path:
    """The file, or an error before any work where it cannot be written."""
    target = as_path(path)
    suffix = target.suffix.lower()
    if suffix not in (*TEXTS, *DOCUMENTS):
        raise InputError(
            f"{option} must end in .docx, .tex, .md, .html or .xlsx. Got {str(target)!r} instead."
        )
    if suffix in _WRITING_PACKAGES:
        package, what = _WRITING_PACKAGES[suffix]
        needed(package, what, "office")
    check_writable(option, target)
    return target


def write_tables(tables: ApaTables, path: str | os.PathLike[str]) -> None:
    """Write all tables to one file: the whole file or nothing."""
    target = check_table_file(path)
    suffix = target.suffix.lower()
    with replacing(target) as temporary:
        if suffix in TEXTS:
            # Characters that UTF-8 does not have, such as lone surrogates, become question marks.
            temporary.write_bytes(TEXTS[suffix](tables).encode("utf-8", "replace"))
        else:
            DOCUMENTS[suffix](tables, temporary)
