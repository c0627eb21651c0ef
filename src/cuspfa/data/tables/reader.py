"""Whole tables from a file or standard input, whatever their format."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from cuspfa._utils.optional import needed
from cuspfa._utils.spelling import Spell, fitting_matrix, showing_fit
from cuspfa.data.tables.answers import (
    Answers,
    FoundAnswers,
    as_numbers,
    different_cells,
    find_answers,
    with_value_labels,
)
from cuspfa.data.tables.cells import (
    MissingCodes,
    ParsedColumn,
    column_of_arrow,
    missing_codes,
    words_undecided,
)
from cuspfa.data.tables.column_names import find_column, unique_names
from cuspfa.data.tables.dialect import DEFAULT_READING, Reading, find_dialect
from cuspfa.data.tables.labels import ColumnLabels, is_missing_label
from cuspfa.data.tables.notes import DroppedColumn, Note
from cuspfa.data.tables.office import OfficeTable, office_kind, read_office
from cuspfa.data.tables.source_bytes import ZIP_START, is_workbook, source_bytes, unzipped
from cuspfa.data.tables.summary_rows import check_no_summaries
from cuspfa.data.tables.text import whole_text
from cuspfa.data.tables.triangles import MatrixKind, SquareText, square_text
from cuspfa.errors import DataError, InputError

ARROW_STARTS = (b"PAR1", b"ARROW1", b"FEA1")
"""First bytes of Parquet and of Feather files."""
OTHER_FILE_STARTS = {
    b"\x89HDF": "an HDF5 file",
    b"%PDF": "a PDF file",
    b"{\\rtf": "a document in rich text",
    b"<!doctype html": "a web page",
    b"<html": "a web page",
    b"<table": "a web page",
    b"<?xml": "an XML file",
}
"""First bytes of common files that cannot be read as tables."""

GENE_NAMES = ("gene", "genes", "gene_id", "gene_name", "symbol", "gene_symbol", "probe", "id_ref")
"""Names of a column that names genes."""
GENE_SHARE, FEWEST_GENES = 0.8, 50
"""Share of identifiers of genes in such a column, and the number of rows from which on it is."""
_GENE = re.compile(r"ENS[A-Z]*[GTP]\d{6,}(\.\d+)?|\d+(_[a-z])*_at|ILMN_\d+")
_SAMPLE = re.compile(r"(?i)(GSM|[SED]RR|SAM[NED]A?)\d{3,}.*|TCGA-.+|samples?[\W_]*\d+")
FEWEST_SAMPLES = 3
"""Names of samples, or accession numbers of them, from which on columns are taken for samples."""


@dataclass(frozen=True, eq=False)
class FileTable:
    """All columns of a file."""

    source: str
    """The file's name, or standard input."""
    kind: str
    columns: list[ParsedColumn]
    n_rows: int
    notes: list[Note]
    """What was found out or assumed about the format."""
    id_position: int | None = None
    ids: list[str] | None = None
    """Names of the rows, if an ID column was given."""
    labels: list[ColumnLabels] = field(default_factory=list)
    """Labels of columns and of their values, of those that have any."""
    sheet: str | None = None
    """The sheet of a workbook that was read."""
    answers: list[Answers] = field(default_factory=list)
    """Columns of words that became numbers."""
    separator: str = ","
    decimal: str = "."
    """Signs of a text file, in which tables made of it are written."""

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        return [column.name for column in self.columns]

    @property
    def n_missing(self) -> int:
        """Missing values in all columns."""
        return sum(column.n_missing for column in self.columns)


Check = Callable[[list[str]], object]


def read_file(
    path: str,
    *,
    id_column: str | None = None,
    how: Reading = DEFAULT_READING,
    check: Check = list,
    is_matrix: bool = False,
    matrix_kind: MatrixKind | None = None,
    id_needed: bool = True,
) -> FileTable:
    """The table in a file; "-" is standard input. The format is found from the content.

    `check` is called with the names of the columns before their cells are read. The first column of
    text of a matrix names its rows, and rows of a text file may be short, as in a triangle;
    `matrix_kind` is what the user says of it. Without `id_needed`, the column with the names of the
    rows may be missing.
    """
    source = "standard input" if path == "-" else path
    notes: list[Note] = []
    try:
        raw = source_bytes(path)
        _check_kind(raw, source, how.spell)
        if raw.startswith(ZIP_START) and not is_workbook(raw):
            raw, inside = unzipped(raw, source)
            source = f"{source} ({inside})"
            _check_kind(raw, source, how.spell)
        if is_matrix and office_kind(raw) is None and not raw.startswith(ARROW_STARTS):
            raw, notes, _ = _square(raw, source, matrix_kind, how)
        id_name = None if id_column is None else (id_column, id_needed)
        found = _parsed(source, raw, id_name, how, check, is_matrix)
        return replace(found, notes=[*found.notes, *notes])
    except MemoryError:
        raise DataError(
            f"{source} does not fit into memory. Save it as a file that is not compressed, or as "
            f"Parquet, and read that by blocks: {how.spell('memory_limit', '1GB')}"
        ) from None


def _square(raw: bytes, source: str, kind: MatrixKind | None, how: Reading) -> SquareText:
    try:
        return square_text(raw, kind, how.spell, how.header)
    except DataError as error:
        raise DataError(f"{source}: {error}") from error


def is_saved_fit(raw: bytes) -> bool:
    """Do these first bytes of a file begin a saved fit?"""
    return raw.startswith(b"PK\x03\x04") and raw[30:38] == b"fit.json"


def _check_kind(raw: bytes, source: str, spell: Spell) -> None:
    if not raw:
        raise DataError(f"{source} is empty. Give a file with rows and columns.")
    if is_saved_fit(raw):
        shown = showing_fit(source, spell)
        raise DataError(f"{source} is a saved fit, not data. To look at it: {shown}")
    begin = raw[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
    for start, what in OTHER_FILE_STARTS.items():
        if begin.lower().startswith(start.lower()):
            raise DataError(
                f"{source} is {what}. Save the table as CSV from the program that made it."
            )


class _Format(NamedTuple):
    """What is known of a table before its cells are converted."""

    kind: str
    names: list[str]
    notes: list[Note]
    read: Read
    labels: list[ColumnLabels] = []  # noqa: RUF012 (it is not changed)
    sheet: str | None = None
    separator: str = ","


def _parsed(
    source: str,
    raw: bytes,
    id_name: tuple[str, bool] | None,
    how: Reading,
    check: Check,
    is_matrix: bool,
) -> FileTable:
    missing = missing_codes(how.missing)
    office = office_kind(raw)
    if office != "workbook" and how.sheet is not None:
        raise InputError(f"{how.spell('sheet')} is for workbooks, and {source} is none.")
    office_table = None if office is None else read_office(raw, office, source, how.sheet)
    try:
        if office_table is not None:
            found = _of_office(office_table, how)
        elif raw.startswith(ARROW_STARTS[0]):
            found = _of_arrow("Parquet", raw)
        elif raw.startswith(ARROW_STARTS):
            found = _of_arrow("Feather", raw)
        else:
            found = _of_text(raw, how)
        names, notes = found.names, found.notes
        position = None
        if id_name is not None and (id_name[1] or id_name[0] in names):
            position = find_column(how.spell("id_column"), id_name[0], names)
        check(names)
        if len(names) == 1 and not is_matrix and _triangle_advice(raw, source, how):
            raise DataError("the rows have one cell each.")
        chunks, decimal = found.read(position)
        if is_matrix:
            position = next((j for j, one in enumerate(chunks) if different_cells(one)), None)
            notes = _without_row_names(notes, None if position is None else names[position])
        answers, undecided = _answers(names, chunks, position, how)
        by_name = {name: one for one in answers for name in one.columns}
        cells = chunks
        chunks = [
            as_numbers(one, by_name[name]) if name in by_name else one
            for name, one in zip(names, chunks, strict=True)
        ]
        columns = [
            column_of_arrow(name, one, missing, decimal)
            for name, one in zip(names, chunks, strict=True)
        ]
        columns = [
            words_undecided(one, undecided[one.name]) if one.name in undecided else one
            for one in columns
        ]
        columns = _with_formulas(columns, notes)
        if not is_matrix:
            check_no_summaries(names, cells, columns, decimal)
    except DataError as error:
        if office_table is not None:
            advice = "".join(f" {note.message(how.spell)}" for note in _sheet_notes(office_table))
        else:
            advice = "" if is_matrix else _triangle_advice(raw, source, how)
        raise DataError(f"{source}: {error}{advice}") from error
    except InputError as error:
        if office_table is None or not (sheet := _sheet_notes(office_table)):
            raise
        raise InputError(f"{error} {sheet[0].message(how.spell)}") from error
    ids = (
        None
        if position is None
        else ["" if v is None else _id_text(v) for v in chunks[position].to_pylist()]
    )
    truths = tuple(column.name for column in columns if column.truth)
    notes = notes + ([Note("truth", truths)] if truths else [])
    if _names_genes(names[0], chunks[0]):
        notes = [*notes, Note("genes", (names[0],))]
    elif name_samples(names) and columns[0].n_rows > len(names):
        notes = [*notes, Note("samples", tuple(names), columns[0].n_rows)]
    if missing.any:
        notes = [*notes, Note("missing", count=sum(column.coded for column in columns))]
    return FileTable(
        source=source,
        kind=found.kind,
        columns=columns,
        n_rows=columns[0].n_rows,
        notes=[*notes, *_labelled_missing(columns, found.labels), *(one.note for one in answers)],
        id_position=position,
        ids=ids,
        labels=with_value_labels(_without_codes(found.labels, columns, missing), answers),
        sheet=found.sheet,
        answers=answers,
        separator=found.separator,
        decimal=decimal if found.kind in ("CSV", "TSV") else ".",
    )


def _with_formulas(columns: list[ParsedColumn], notes: list[Note]) -> list[ParsedColumn]:
    """Empty columns that have formulas, with that as the reason for dropping them."""
    formulas = {name for note in notes if note.code == "formulas" for name in note.columns}
    return [
        replace(one, dropped=DroppedColumn(one.name, "formulas"))
        if one.name in formulas and one.dropped is not None and one.dropped.code == "empty"
        else one
        for one in columns
    ]


def _labelled_missing(columns: list[ParsedColumn], labels: list[ColumnLabels]) -> list[Note]:
    """Notes on values that are read as numbers, and have the label of a missing answer."""
    by_name = {one.name: one.numbers for one in columns}
    found: dict[tuple[str, str], list[str]] = {}
    for one in labels:
        numbers = by_name.get(one.name)
        for value, label in one.values:
            if numbers is not None and is_missing_label(label) and np.any(numbers == value):
                found.setdefault((f"{value:g}", label), []).append(one.name)
    return [
        Note("labelled_missing", tuple(names), detail=label, value=value)
        for (value, label), names in found.items()
    ]


def _without_codes(
    labels: list[ColumnLabels], columns: list[ParsedColumn], missing: MissingCodes
) -> list[ColumnLabels]:
    """The labels of values that are not missing: no codes, and no "no answer" that nobody gave."""
    by_name = {one.name: one.numbers for one in columns}

    def kept(name: str, value: float, label: str) -> bool:
        if value in missing.numbers:
            return False
        numbers = by_name.get(name)
        return not is_missing_label(label) or (
            numbers is not None and bool(np.any(numbers == value))
        )

    return [
        replace(one, values=tuple(pair for pair in one.values if kept(one.name, *pair)))
        for one in labels
    ]


def _without_row_names(notes: list[Note], row_names: str | None) -> list[Note]:
    """The notes on the columns of a matrix, which the names of rows are none of."""
    found = []
    for note in notes:
        if note.code == "nameless":
            note = replace(note, columns=tuple(one for one in note.columns if one != row_names))
        if note.code != "nameless" or note.columns:
            found.append(note)
    return found


def _answers(
    names: list[str], chunks: list[Any], id_position: int | None, how: Reading
) -> FoundAnswers:
    """Columns of words that become numbers."""
    texts = {}
    for j, (name, cells) in enumerate(zip(names, chunks, strict=True)):
        words = None if j == id_position else different_cells(cells)
        if words is not None:
            texts[name] = words
    return find_answers(texts, how.order, missing_codes(how.missing), how.answers)


def _names_genes(name: str, cells: Any) -> bool:
    """Does a first column name genes or probes, each once?"""
    if not str(cells.type).endswith("string") or len(cells) < FEWEST_GENES:
        return False
    words = [str(cell) for cell in cells.to_pylist()]
    if len(set(words)) < len(words):
        return False
    share = sum(_GENE.fullmatch(word) is not None for word in words) / len(words)
    return name.strip().lower().replace(" ", "_") in GENE_NAMES or share >= GENE_SHARE


def name_samples(names: Sequence[str]) -> bool:
    """Do the columns, apart from one with names of rows, have names of samples?"""
    named = sum(_SAMPLE.fullmatch(name.strip()) is not None for name in names)
    return named >= max(FEWEST_SAMPLES, len(names) - 1)


def _id_text(value: Any) -> str:
    """The name of a row: files of statistics programs have whole numbers as decimals."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


Read = Callable[[int | None], tuple[list[Any], str]]
"""Returns Arrow columns and the decimal sign; the column at the given position is text."""


def _of_text(raw: bytes, how: Reading) -> _Format:
    dialect = find_dialect(raw, how)

    def read(position: int | None) -> tuple[list[Any], str]:
        return whole_text(raw, dialect, position), dialect.decimal

    kind = "TSV" if dialect.separator == "\t" else "CSV"
    labels = [ColumnLabels(*pair) for pair in zip(dialect.names, dialect.labels, strict=False)]
    labels = [one for one in labels if one.any]
    written = ";" if dialect.separator == "|" else dialect.separator
    return _Format(kind, dialect.names, dialect.notes, read, labels, separator=written)


def _sheet_notes(table: OfficeTable) -> list[Note]:
    """Which sheet of a workbook is read, if there are others and none was asked for."""
    others = tuple(table.other_sheets)
    return [Note("sheet", others, detail=str(table.sheet))] if others else []


def _triangle_advice(raw: bytes, source: str, how: Reading) -> str:
    """How to fit a triangle of a matrix, if the rows of a text are one."""
    try:
        found = square_text(raw, "correlation", how.spell, how.header)
    except DataError:
        return ""
    shown = fitting_matrix(source, "correlation", how.spell)
    return f" If it is a triangle of a correlation matrix: {shown}" if found.is_triangle else ""


def _of_office(table: OfficeTable, how: Reading) -> _Format:
    if table.text is not None:
        found = _of_text(table.text, replace(how, decimal=how.decimal or "."))
        notes = [*_sheet_notes(table), *found.notes]
        formulas = {j: k for j, k in table.empty_formulas.items() if 0 <= j < len(found.names)}
        if formulas:
            of_columns = tuple(found.names[j] for j in sorted(formulas))
            notes = [*notes, Note("formulas", of_columns, sum(formulas.values()))]
        return found._replace(kind=table.kind, notes=notes, sheet=table.sheet, separator=",")
    names, notes = unique_names(table.names)
    if table.n_user_missing:
        notes = [*notes, Note("user_missing", count=table.n_user_missing)]
    labels = [replace(one, name=name) for one, name in zip(table.labels, names, strict=True)]
    return _Format(
        table.kind, names, notes, lambda _: (table.columns, "."), [o for o in labels if o.any]
    )


def _of_arrow(kind: str, raw: bytes) -> _Format:
    what = f"Reading {kind} files"
    pyarrow = needed("pyarrow", what, "files")
    module = needed(f"pyarrow.{kind.lower()}", what, "files")
    try:
        table = module.read_table(pyarrow.BufferReader(raw))
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"the {kind} file is damaged ({error}).") from None
    names, notes = unique_names(table.column_names)
    if not names:
        raise DataError("it has no columns.")
    return _Format(kind, names, notes, lambda _: (list(table.columns), "."))
