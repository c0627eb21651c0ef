"""Tables as documents of Word and workbooks of Excel."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from cuspfa._utils.optional import needed
from cuspfa.data.tables.cells import clean
from cuspfa.errors import InputError
from cuspfa.reporting.tables.content import TableContent
from cuspfa.reporting.tables.layout import Cell, Number, TableLayout, TableRow, cell_text, layouts

# --- Word ---

FONT, FONT_POINTS, SMALLEST_POINTS = "Times New Roman", 10.0, 6.0
"""The font, its size, and the smallest size of a wide table."""
PAGE_POINTS, LONG_SIDE_POINTS = 468.0, 648.0
"""Widths between the margins of a page, upright and in landscape."""
LETTER_WIDTH, PADDING_POINTS = 0.47, 8.0
"""Typical width of a letter as a multiple of its size, and room beside the text of a cell."""
WIDER_FONT = 1.5
"""Times the width of a letter that columns have room for, if the page has."""
WORDING_POINTS = 150.0
"""Width in points of the column of wording, at least."""
ONE_PAGE_ROWS = 20
"""Rows of a table that stays on one page."""
MOST_WORD_ROWS = 2000
"""Rows of a table in a document."""
_THICK, _THIN = 12, 6
"""Widths of lines, in eighths of a point."""


def write_docx(tables: TableContent, target: Path) -> None:
    """A document with one table after the other, each with its number, title and note."""
    docx = needed("docx", "Writing a Word document", "office")
    if len(tables.items) > MOST_WORD_ROWS:
        raise InputError(
            f"a Word document has tables of at most {MOST_WORD_ROWS} rows, and these are "
            f"{len(tables.items)} variables. Write a .xlsx, .html or .tex file."
        )
    document, made = docx.Document(), layouts(tables)
    wide = max(sum(_natural_widths(one)) for one in made) > PAGE_POINTS
    _set_up(docx, document, wide)
    for table in made:
        _add_table(docx, document, table, LONG_SIDE_POINTS if wide else PAGE_POINTS)
    document.save(str(target))


def _natural_widths(table: TableLayout) -> list[float]:
    """Points that each column needs so that no number and no word is broken."""
    found = []
    for j, head in enumerate(table.heads):
        texts = [cell_text(row.cells[j]) for row in table.rows if not row.heading]
        if j == 1 and table.n_texts == 2:
            found.append(WORDING_POINTS)
            continue
        longest = max(map(len, [*cell_text(head).split(), *texts, "  "]))
        found.append(LETTER_WIDTH * FONT_POINTS * longest + PADDING_POINTS)
    return found


def _widths(table: TableLayout, room: float) -> tuple[list[float], float]:
    """Widths in points, and the size of the font: smaller where there is not enough room."""
    natural = _natural_widths(table)
    total = sum(natural)
    if total > room:
        scale = room / total
        return [scale * one for one in natural], max(SMALLEST_POINTS, FONT_POINTS * scale)
    # Where the font is not installed, another takes its place, and may be wider.
    wider = min(room / total, WIDER_FONT)
    found = [wider * one for one in natural]
    if table.n_texts == 2:  # the wording takes what is left
        found[1] += room - sum(found)
    return found, FONT_POINTS


def _set_up(docx: Any, document: Any, wide: bool) -> None:
    style = document.styles["Normal"]
    style.font.name, style.font.size = FONT, docx.shared.Pt(FONT_POINTS)
    # Asian letters have a font of their own, which otherwise stays that of the template.
    style.element.rPr.rFonts.set(docx.oxml.ns.qn("w:eastAsia"), FONT)
    style.paragraph_format.space_after = docx.shared.Pt(0)
    section = document.sections[0]
    section.page_width = docx.shared.Pt(792 if wide else 612)
    section.page_height = docx.shared.Pt(612 if wide else 792)
    if wide:
        section.orientation = docx.enum.section.WD_ORIENT.LANDSCAPE
    for side in ("left_margin", "right_margin", "top_margin", "bottom_margin"):
        setattr(section, side, docx.shared.Inches(1))
    about = document.core_properties
    about.author = about.comments = ""
    about.title = "Tables"


def _add_table(docx: Any, document: Any, table: TableLayout, room: float) -> None:
    number = document.add_paragraph()
    number.add_run(f"Table {table.number}").bold = True
    number.paragraph_format.keep_with_next = True
    title = document.add_paragraph()
    title.add_run(clean(table.title)).italic = True
    title.paragraph_format.keep_with_next = True
    title.paragraph_format.space_after = docx.shared.Pt(6)
    width = len(table.heads)
    grid = document.add_table(rows=1 + len(table.rows), cols=width)
    grid.alignment = docx.enum.table.WD_TABLE_ALIGNMENT.LEFT
    grid.autofit = False
    widths, size = _widths(table, room)
    cells = grid._cells  # `cell(i, j)` searches the whole table each time
    for j, points in enumerate(widths):
        grid.columns[j].width = docx.shared.Pt(points)
        for cell in cells[j::width]:
            cell.width = docx.shared.Pt(points)
    fill = partial(_fill, docx, size=docx.shared.Pt(size))
    for j, head in enumerate(table.heads):
        fill(cells[j], head, right=j >= table.n_texts, keep=True)
    for i, row in enumerate(table.rows, 1):
        # A heading stays on the page of the row below it, and the last rows on that of the note.
        keep = row.heading or len(table.rows) <= ONE_PAGE_ROWS or i >= len(table.rows) - 1
        line = cells[i * width : (i + 1) * width]
        if row.heading:
            line[0].merge(line[-1])
            heading = row.cells[0]._replace(italic=True)
            fill(line[0], heading, right=False, keep=keep)
            continue
        for j, one in enumerate(row.cells):
            fill(line[j], one, right=j >= table.n_texts, keep=keep)
    _rule(docx, grid)
    note = document.add_paragraph()
    note.paragraph_format.space_before = docx.shared.Pt(4)
    note.paragraph_format.space_after = docx.shared.Pt(30)
    for text, italic in (("Note. ", True), (" ".join(map(clean, table.notes)), False)):
        note.add_run(text).italic = italic


def _fill(docx: Any, place: Any, cell: Cell, *, right: bool, keep: bool, size: Any) -> None:
    paragraph = place.paragraphs[0]
    # No line break inside a number with its interval.
    text = clean(cell_text(cell))
    run = paragraph.add_run(text.replace(" ", "\N{NO-BREAK SPACE}") if cell.number else text)
    run.bold, run.italic, run.font.size = cell.bold or None, cell.italic or None, size
    paragraph.paragraph_format.keep_with_next = keep
    if right:
        paragraph.alignment = docx.enum.text.WD_ALIGN_PARAGRAPH.RIGHT


def _rule(docx: Any, grid: Any) -> None:
    """Lines above and below the table and below its head; the head is repeated on each page."""
    element, name = docx.oxml.OxmlElement, docx.oxml.ns.qn
    borders = element("w:tblBorders")
    for side in ("top", "bottom"):
        borders.append(_line(element, name, side, _THICK))
    about = grid._tbl.tblPr
    # Word demands an order of these elements.
    about.find(name("w:tblLayout")).addprevious(borders)
    margins = element("w:tblCellMar")
    for side in ("left", "right"):
        margin = element(f"w:{side}")
        margin.set(name("w:w"), str(round(20 * PADDING_POINTS / 2)))
        margin.set(name("w:type"), "dxa")
        margins.append(margin)
    about.find(name("w:tblLayout")).addnext(margins)
    head = grid.rows[0]
    for cell in head.cells:
        below = element("w:tcBorders")
        below.append(_line(element, name, "bottom", _THIN))
        cell._tc.get_or_add_tcPr().append(below)
    for number, row in enumerate(grid.rows):
        settings = row._tr.get_or_add_trPr()
        settings.append(element("w:cantSplit"))
        if number == 0:
            settings.append(element("w:tblHeader"))


def _line(element: Any, name: Any, side: str, size: int) -> Any:
    line = element(f"w:{side}")
    for key, value in (("val", "single"), ("sz", str(size)), ("space", "0"), ("color", "000000")):
        line.set(name(f"w:{key}"), value)
    return line


# --- Excel ---

LONGEST_COLUMN = 60
"""Width of a column in characters, at most."""
NARROWEST_NOTE, EMPTY_COLUMN = 60, 8
"""Width of a note in characters, at least, and that of a column without cells."""
LINE_POINTS = 15.0
"""Height of a line of a note."""
PORTRAIT_LETTERS, A4_PAPER = 110, 9
"""Characters of a table from which on it is printed in landscape; the number of the paper."""


def write_xlsx(tables: TableContent, target: Path) -> None:
    """One sheet for each table. Numbers have all their digits and are shown rounded.

    The ends of an interval are in columns of their own. Names are text cells, never formulas.
    """
    writer = needed("xlsxwriter", "Writing workbooks", "office")
    book = writer.Workbook(
        str(target), {"strings_to_formulas": False, "strings_to_urls": False, "in_memory": True}
    )
    try:
        for table in layouts(tables):
            _add_sheet(book, table)
    finally:
        book.close()


def _add_sheet(book: Any, table: TableLayout) -> None:
    sheet = book.add_worksheet(f"{table.number} {table.key}")
    sheet.write_string(0, 0, f"Table {table.number}", book.add_format({"bold": True}))
    sheet.write_string(1, 0, clean(table.title), book.add_format({"italic": True}))
    places, end = _places(table)
    widths = [0] * end
    head = {"top": 2, "bottom": 1}
    for j, cell in enumerate(table.heads):
        last = places[j + 1] if j + 1 < len(places) else end
        form = book.add_format(
            {**head, "italic": cell.italic, "align": "left" if j < table.n_texts else "right"}
        )
        words = [cell_text(cell), "lower", "upper"][: last - places[j]]
        for step, word in enumerate(words):
            sheet.write_string(3, places[j] + step, clean(word), form)
            widths[places[j] + step] = len(clean(word))
    made: dict[tuple[object, ...], Any] = {}
    for i, row in enumerate(table.rows, 4):
        closing = i == len(table.rows) + 3
        _write_row(book, sheet, i, row, places, end, widths, made, closing=closing)
    shown = [min(width, LONGEST_COLUMN) + 2 for width in widths]
    for j, width in enumerate(shown):
        sheet.set_column(j, j, width)
    _write_note(book, sheet, len(table.rows) + 5, table.notes, shown)
    sheet.freeze_panes(4, table.n_texts)
    sheet.set_paper(A4_PAPER)
    if sum(shown) > PORTRAIT_LETTERS:
        sheet.set_landscape()
    sheet.fit_to_pages(1, 0)  # the width of a page, on as many pages as there are rows
    sheet.repeat_rows(3)


def _write_note(book: Any, sheet: Any, row: int, notes: tuple[str, ...], widths: list[int]) -> None:
    """The note in lines below the table, in one cell that is as wide as it, or wider."""
    end, room = 0, 0
    while end < len(widths) or room < NARROWEST_NOTE:
        room += widths[end] if end < len(widths) else EMPTY_COLUMN
        end += 1
    text = " ".join(map(clean, notes))
    form = book.add_format({"text_wrap": True, "valign": "top"})
    sheet.merge_range(row, 0, row, end - 1, "", form)
    italic = book.add_format({"italic": True})
    sheet.write_rich_string(row, 0, italic, "Note.", f" {text}", form)
    sheet.set_row(row, LINE_POINTS * (-(-len(text) // max(int(0.9 * room), 1)) + 1))


def _places(table: TableLayout) -> tuple[list[int], int]:
    """The first column of the sheet for each column of the table, and their number."""
    wide = [
        any(not row.heading and row.cells[j].interval is not None for row in table.rows)
        for j in range(len(table.heads))
    ]
    places, at = [], 0
    for one in wide:
        places.append(at)
        at += 3 if one else 1
    return places, at


def _write_row(
    book: Any,
    sheet: Any,
    i: int,
    row: TableRow,
    places: list[int],
    end: int,
    widths: list[int],
    made: dict[tuple[object, ...], Any],
    *,
    closing: bool,
) -> None:
    def form(cell: Cell, number: Number | None) -> Any:
        key = (cell.bold, cell.italic or row.heading, closing, number and number[1:])
        if key not in made:
            settings: dict[str, object] = {"bold": key[0], "italic": key[1]}
            settings |= {"bottom": 2} if closing else {}
            settings |= {} if number is None else {"num_format": _number_format(number)}
            made[key] = book.add_format(settings)
        return made[key]

    for j in range(end):
        sheet.write_blank(i, j, None, form(Cell(), None))
    for j, cell in enumerate(row.cells):
        at = places[j]
        if cell.number is None:
            if cell.text:
                sheet.write_string(i, at, clean(cell.text), form(cell, None))
            if not row.heading:
                widths[at] = max(widths[at], len(clean(cell.text)))
            continue
        values = (cell.number.value, *(cell.interval or ()))
        for step, value in enumerate(values):
            shown = 100 * value if cell.number.percent else value
            bare = cell if step == 0 else Cell()
            sheet.write_number(i, at + step, shown, form(bare, cell.number))
            widths[at + step] = max(widths[at + step], 6)


def _number_format(number: Number) -> str:
    if not number.digits:
        return "0"
    zero = "0" if number.leading or number.percent else ""
    digits = "0" * number.digits
    return f"{zero}.{digits};−{zero}.{digits}"
