"""What a reader of tables found out, assumed and dropped: values, and their words."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from cuspfa._utils.spelling import Spell, as_argument
from cuspfa._utils.wording import counted, listed

SEPARATOR_NAMES = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
"""In order of preference. Commas come last, since they may be decimal signs."""
DropCode = Literal[
    "text",
    "words",
    "odd_word",
    "dates",
    "thousands",
    "per_cent",
    "mixed",
    "strays",
    "empty",
    "formulas",
    "type",
    "constant",
    "narrow",
    "few",
    "counter",
    "id",
    "id_column",
    "covariate",
]
NoteCode = Literal[
    "format",
    "encoding",
    "row_names",
    "renamed",
    "nameless",
    "header",
    "no_header",
    "empty_first_row",
    "truth",
    "missing",
    "sheet",
    "user_missing",
    "answers",
    "numbered",
    "ordered",
    "qualtrics",
    "shared_question",
    "covariates",
    "frame_covariates",
    "duplicates",
    "genes",
    "samples",
    "no_diagonal",
    "repaired",
    "other_n",
    "labelled_missing",
    "formulas",
    "features_in_rows",
]
_REASONS: dict[DropCode, str] = {
    "text": "text",
    "words": "words whose order is not known",
    "odd_word": "words, one of which is in no scale with the others",
    "dates": "dates or times",
    "thousands": "numbers with thousands separators (save them without)",
    "per_cent": "numbers with per cent signs (save them without)",
    "mixed": "correct, or leave empty, {count} of {of} values that are not numbers",
    "strays": "correct, or leave empty, the values that are not numbers",
    "empty": "empty",
    "formulas": "formulas without stored values",
    "type": "values of type {detail}, not numbers",
    "constant": "constant",
    "narrow": "varies too little for its size: subtract a constant first",
    "few": "only {count} of {of} rows have a value",
    "counter": "counts the rows from {count} on",
    "id": "names of rows: distinct whole numbers under the name of an identifier",
    "id_column": "names of rows, as requested",
    "covariate": "looks like {detail}",
}
_NOTES: dict[NoteCode, str] = {
    "format": "Cells {detail}.",
    "encoding": "Not encoded in UTF-8; read as {detail}.",
    "row_names": "The rows have one cell more than the header: the first cells are taken as names "
    "of rows.",
    "renamed": "Column {count} has the name {detail} of another column; it is renamed {columns}.",
    "nameless": "Columns without a name in the header are named: {columns}.",
    "header": "The first row holds distinct whole numbers above other numbers: taken as names "
    "of the columns.",
    "no_header": "The first row holds numbers only: taken as data; the columns are named x1 to "
    "x{count}.",
    "empty_first_row": "The first row holds no values: taken as data; the columns are named x1 to "
    "x{count}.",
    "truth": "True and false are read as 1 and 0: {columns}.",
    "sheet": "Sheet {detail!r} of the workbook is read.",
    "user_missing": "{cells} with values that the file declares as missing.",
    "answers": "Words are read as numbers: {detail} (in {columns}).",
    "numbered": "Words are read by the numbers before them: {detail} (in {columns}).",
    "ordered": "Words are read as numbers: {detail} (in {columns}).",
    "qualtrics": "The rows below the column names hold the wording of the questions and codes of "
    "Qualtrics: taken as labels.",
    "shared_question": "Labels of items are without the question that they share: {detail}",
    "covariates": "Columns that look like {detail} are analysed: {columns}.",
    "frame_covariates": "Columns that look like {detail} are analysed: {columns}. Leave them out "
    "of X unless they are measurements like the others.",
    "duplicates": "Columns are equal in all rows in which both have a value: {columns}. Leave one "
    "of each pair out.",
    "genes": "Column {columns} names genes or probes: the rows seem to be variables, and the "
    "columns samples. A factor analysis takes rows as observations: transpose the table.",
    "samples": "The columns have names of samples ({columns}) and there are {count} rows: the rows "
    "seem to be variables. A factor analysis takes rows as observations: transpose the table.",
    "no_diagonal": "The rows are taken as a triangle without its diagonal, of {count} variables.",
    "other_n": "The file has n = {count}. The number that was given, {detail}, is used.",
    "formulas": "{cells} with formulas without stored values, read as empty: in {columns}. "
    "Open the workbook in Excel or LibreOffice and save it there.",
    "labelled_missing": "The file has a label for missing answers, {value} = {detail}, and does "
    "not declare the value as missing. It is read as a number in {columns}.",
    "features_in_rows": "The rows of the file are those of {detail}: they are taken as columns.",
    "repaired": "The matrix is not positive semi-definite, because of few digits or missing "
    "values. Its negative eigenvalues were set to zero, which changed {detail}.",
}
_DOUBTS: dict[NoteCode, tuple[str, bool]] = {
    "header": ("If it is data", False),
    "no_header": ("If it names the columns", True),
    "empty_first_row": ("If it names the columns", True),
}
_ALWAYS_SHOWN = (
    "sheet",
    "answers",
    "numbered",
    "covariates",
    "frame_covariates",
    "duplicates",
    "genes",
    "samples",
    "no_diagonal",
    "repaired",
    "other_n",
    "labelled_missing",
    "formulas",
)


@dataclass(frozen=True)
class DroppedColumn:
    """A column that is not analysed, and why.

    Parameters
    ----------
    name : str
        Name of the column.
    code : str
        The reason: text, words, odd_word, dates, thousands, per_cent, mixed, strays, empty,
        formulas, type, constant, narrow, few, counter, id, id_column or covariate.
    count, of : int
        Numbers in the reason, such as the values that are not numbers, and all values.
    detail : str
        A type in the reason.
    example : str
        What the column holds, to be shown at the terminal. It is not written into files.

    Examples
    --------
    >>> from cuspfa.data.tables.notes import DroppedColumn
    >>> DroppedColumn("age", "few", count=3, of=60).reason
    'only 3 of 60 rows have a value'
    """

    name: str
    code: DropCode
    count: int = 0
    of: int = 0
    detail: str = ""
    example: str = field(default="", metadata={"in_files": False})

    @property
    def reason(self) -> str:
        """The reason in words, without any cell of the data."""
        return _REASONS[self.code].format(count=self.count, of=self.of, detail=self.detail)

    def without_example(self) -> DroppedColumn:
        """The note without any cell of the data, to be kept with a fit."""
        return replace(self, example="")

    def message(self, spell: Spell = as_argument) -> str:
        """The reason, with the argument that changes it."""
        return f"{self._said(spell)}{self._advice(spell)}"

    def shown(self, spell: Spell = as_argument) -> str:
        """The note with an example of the cells, for the terminal."""
        return f"{self._said(spell)}{self.example}{self._advice(spell)}"

    def _said(self, spell: Spell) -> str:
        return (
            f"names of rows, as {spell('id_column')} says"
            if self.code == "id_column"
            else self.reason
        )

    def _advice(self, spell: Spell) -> str:
        order = spell("order", ("low", "…", "high"))
        if self.code == "words":
            return f"; to give it: {order}"
        if self.code == "odd_word":
            return f"; correct it, or give the order of all: {order}"
        if self.code in ("counter", "id", "covariate"):
            name = spell("include" if self.code == "covariate" else "columns")
            return f"; to keep it, name it in {name}"
        return ""


@dataclass(frozen=True)
class Note:
    """Something that was found out or assumed about the format of a table.

    Parameters
    ----------
    code : str
        The kind of note: format, encoding, row_names, renamed, nameless, header, no_header,
        empty_first_row, truth, missing, sheet, user_missing,
        answers, numbered, ordered, qualtrics, shared_question, covariates,
        frame_covariates, duplicates, genes, samples,
        no_diagonal, repaired, other_n,
        labelled_missing, formulas or features_in_rows.
    columns : tuple of str
        Columns in the note.
    count : int
        A number in the note.
    detail : str
        A word in the note.
    value : str
        A value of the columns that the note is about, as a cell has it.
    """

    code: NoteCode
    columns: tuple[str, ...] = ()
    count: int = 0
    detail: str = ""
    value: str = ""

    @property
    def is_doubt(self) -> bool:
        """May the assumption be wrong, or without effect, so that it is always reported?"""
        always = (*_DOUBTS, *_ALWAYS_SHOWN)
        return self.code in always or (self.code == "missing" and not self.count)

    def message(self, spell: Spell = as_argument) -> str:
        """The note in words, with the argument that changes it."""
        if self.code == "missing":
            cells = f"{self.count or 'no'} cell{'' if self.count == 1 else 's'}"
            return f"{spell('missing')} made {cells} missing."
        shown = listed(self.columns, 4)
        said = _NOTES[self.code].format(
            columns=shown,
            count=self.count,
            cells=counted(self.count, "cell"),
            detail=self.detail,
            value=self.value,
        )
        if self.code == "answers":
            return f"{said} If their order is another one: {spell('order', ('low', '…', 'high'))}"
        if self.code == "labelled_missing":
            return f"{said} To make it missing: {spell('missing', (self.value,))}"
        if self.code == "covariates":
            exclude = spell("exclude")
            where = "" if exclude.startswith("--") else " of read_table"
            return f"{said} To leave them out, name them in {exclude}{where}."
        if self.code == "sheet":
            return f"{said} For another one: {spell('sheet', self.columns[0])}"
        if self.code not in _DOUBTS:
            return said
        doubt, header = _DOUBTS[self.code]
        return f"{said} {doubt}: {spell('header', header)}"

    def __str__(self) -> str:
        return self.message()
