"""The tables of a fit for a paper, as text and as files in the format that their name says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cuspfa._utils.optional import needed
from cuspfa.errors import InputError
from cuspfa.io.atomic import as_path, check_writable, replacing
from cuspfa.reporting.tables.content import TableContent
from cuspfa.reporting.tables.office_formats import write_docx, write_xlsx
from cuspfa.reporting.tables.text_formats import as_html, as_html_sections, as_latex, as_markdown

MARKUP = {".md": as_markdown, ".tex": as_latex, ".html": as_html, ".htm": as_html}
DOCUMENTS = {".docx": write_docx, ".xlsx": write_xlsx}
_WRITING_PACKAGES = {
    ".docx": ("docx", "Writing a Word document"),
    ".xlsx": ("xlsxwriter", "Writing workbooks"),
}


def check_table_file(path: str | os.PathLike[str], option: str = "path") -> Path:
    """The file, or an error before any work where it cannot be written."""
    target = as_path(path)
    suffix = target.suffix.lower()
    if suffix not in (*MARKUP, *DOCUMENTS):
        raise InputError(
            f"{option} must end in .docx, .tex, .md, .html or .xlsx. Got {str(target)!r} instead."
        )
    if suffix in _WRITING_PACKAGES:
        package, what = _WRITING_PACKAGES[suffix]
        needed(package, what, "office")
    check_writable(option, target)
    return target


def write_tables(tables: TableContent, path: str | os.PathLike[str]) -> None:
    """Write all tables to one file: the whole file or nothing."""
    target = check_table_file(path)
    suffix = target.suffix.lower()
    with replacing(target) as temporary:
        if suffix in MARKUP:
            # Characters that UTF-8 does not have, such as lone surrogates, become question marks.
            temporary.write_bytes(MARKUP[suffix](tables).encode("utf-8", "replace"))
        else:
            DOCUMENTS[suffix](tables, temporary)


@dataclass(frozen=True, repr=False)
class ApaTables(TableContent):
    """Tables of a fit for a paper: `write` them to a file, or read their values.

    Attributes
    ----------
    items : tuple of ItemRow
        Variables with loadings and communalities, in the order of the table.
    factors : tuple of FactorRow
        Factors with shares of variance, determinacies and the reliability of their scales.
    explained : Estimate
        Share of the variance that all factors explain together.
    correlations : tuple of tuples of Estimate, or None
        Of the factors, (K, K), for oblique rotations.
    fit : FitMeasures or None
        Measures of fit, where the correlations of the data are kept.
    n_rows : int
        Rows of the data.
    rotation : str
        The axes.
    suppress : float
        Loadings that are smaller in absolute value are left out of what is written.
    intervals : bool
        Do intervals of loadings stand in what is written?
    sort : bool
        Are the variables grouped by factor?
    prob : float
        Probability of the intervals.
    scale : tuple of (float, str)
        Labels of the values, if all variables have the same.
    """

    def __repr__(self) -> str:
        return f"<ApaTables of {len(self.items)} variables, {len(self.factors)} factors>"

    def __str__(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        return as_html_sections(self)

    def to_markdown(self) -> str:
        """The tables in Markdown."""
        return as_markdown(self)

    def to_latex(self) -> str:
        r"""The tables in LaTeX, to be included by \input; they need the package booktabs."""
        return as_latex(self)

    def to_html(self) -> str:
        """The tables as an HTML page, which can be opened or pasted into a text processor."""
        return as_html(self)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write all tables to a file: the whole file or nothing.

        Parameters
        ----------
        path : str or os.PathLike
            A name that ends in .docx, .tex, .md, .html or .xlsx. Word and Excel need python-docx
            and xlsxwriter: `pip install 'cuspfa[office]'`.
        """
        write_tables(self, path)
