"""Tables as Markdown, LaTeX and HTML, with what is special in each of them escaped."""

from __future__ import annotations

import re
from html import escape

from cuspfa.data.tables.cells import clean
from cuspfa.reporting.tables.content import TableContent
from cuspfa.reporting.tables.layout import Cell, TableLayout, TableRow, cell_text, layouts

# --- Markdown ---

_MARKDOWN = re.compile(r"([\\`*_\[\]<>|&~$#])")


def as_markdown(tables: TableContent) -> str:
    """Pipe tables, which GitHub, Pandoc and Quarto read."""
    return "\n\n".join(map(_markdown_table, layouts(tables))) + "\n"


def markdown_text(text: str) -> str:
    r"""A text that Markdown shows as it is, on one line.

    Examples
    --------
    >>> print(markdown_text("a|b *c*"))
    a\|b \*c\*
    """
    return _MARKDOWN.sub(r"\\\1", clean(text))


def _markdown_table(table: TableLayout) -> str:
    width = len(table.heads)
    sides = [":--" if j < table.n_texts else "--:" for j in range(width)]
    lines = [
        f"**Table {table.number}**",
        "",
        f"*{markdown_text(table.title)}*",
        "",
        _markdown_row([_markdown_cell(cell) for cell in table.heads]),
        _markdown_row(sides),
    ]
    for row in table.rows:
        cells = [_markdown_cell(cell) for cell in row.cells]
        if row.heading:
            cells = [f"*{cells[0]}*", *[""] * (width - 1)]
        lines.append(_markdown_row(cells))
    notes = " ".join(markdown_text(note) for note in table.notes)
    return "\n".join([*lines, "", f"*Note.* {notes}"])


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    text = markdown_text(cell_text(cell))
    if not text:
        return ""
    text = f"**{text}**" if cell.bold else text
    return f"*{text}*" if cell.italic else text


# --- LaTeX ---

LONG_TABLE = 40
"""Rows above which a LaTeX table may break between pages."""
LINE_LETTERS, WORDING_LETTERS = 88, 29
"""Letters of a line of a page and of a line of the column of wording; wider tables are scaled."""
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedblright{}",
    # After the end of a row these would be an argument, or a star, of it.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    # Without braces two of them are one dash.
    "-": "{-}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "−": "$-$",
    "²": "$^2$",
    "χ": r"$\chi$",
    "α": r"$\alpha$",
    "ω": r"$\omega$",
    "–": "--",
}


def as_latex(tables: TableContent) -> str:
    r"""Tables with booktabs, to be included by \input."""
    head = "% Needs \\usepackage{array,booktabs,graphicx,longtable,textcomp}.\n"
    return head + "\n\n".join(map(_latex_table, layouts(tables))) + "\n"


def latex_text(text: str) -> str:
    r"""A text that LaTeX sets as it is, on one line.

    Examples
    --------
    >>> print(latex_text("50 % of A_1 & B"))
    50 \% of A\_1 \& B
    """
    return "".join(_LATEX.get(letter, letter) for letter in clean(text))


def _latex_table(table: TableLayout) -> str:
    width, long = len(table.heads), len(table.rows) > LONG_TABLE
    worded = r">{\raggedright\arraybackslash}p{0.35\linewidth}"
    texts = ["l", worded][: table.n_texts]
    form = "".join(texts) + "r" * (width - table.n_texts)
    caption = rf"\caption{{{latex_text(table.title)}}}\label{{tab:{table.key}}}"
    heads = [_latex_head(cell, j < table.n_texts) for j, cell in enumerate(table.heads)]
    head = rf"\toprule {' & '.join(heads)} \\ \midrule"
    rows = [_latex_row(row, width) for row in table.rows]
    notes = " ".join(latex_text(note) for note in table.notes)
    note = rf"\textit{{Note.}} {notes}"
    if long:
        # The note is a row, so that it stays below the last part of the table.
        last = rf"\bottomrule \multicolumn{{{width}}}{{p{{\linewidth}}}}{{\footnotesize {note}}} \\"
        again = rf"{caption} \\ {head} \endfirsthead {head} \endhead \bottomrule \endfoot"
        lines = [
            r"{\footnotesize\setlength{\tabcolsep}{4pt}",
            rf"\begin{{longtable}}{{{form}}}",
            rf"{again} {last} \endlastfoot",
            *rows,
            r"\end{longtable}}",
        ]
        return "\n".join(lines)
    opened, closed = (r"\resizebox{\linewidth}{!}{%", "}") if _is_wide(table) else ("%", "")
    lines = [
        r"\begin{table}[htbp]",
        r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
        caption,
        opened,
        rf"\begin{{tabular}}{{{form}}}",
        head,
        *rows,
        r"\bottomrule",
        rf"\end{{tabular}}{closed}",
        rf"\par\smallskip\begin{{minipage}}{{\linewidth}}\footnotesize {note}\end{{minipage}}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _is_wide(table: TableLayout) -> bool:
    """Is the table wider than the lines of a page?"""
    length = 0
    for j, head in enumerate(table.heads):
        texts = [cell_text(row.cells[j]) for row in table.rows if not row.heading]
        longest = max(map(len, [*cell_text(head).split(), *texts, " "]))
        length += 2 + (WORDING_LETTERS if j == 1 and table.n_texts == 2 else longest)
    return length > LINE_LETTERS


def _latex_head(cell: Cell, is_text: bool) -> str:
    text = _latex_cell(cell)
    # A long name of a factor stands in lines above each other.
    if is_text or " " not in cell.text:
        return text
    parts = r" \\ ".join(latex_text(word) for word in cell.text.split())
    return rf"\shortstack[r]{{{parts}}}"


def _latex_row(row: TableRow, width: int) -> str:
    if row.heading:
        return rf"\multicolumn{{{width}}}{{l}}{{\textit{{{_latex_cell(row.cells[0])}}}}} \\"
    return " & ".join(map(_latex_cell, row.cells)) + r" \\"


def _latex_cell(cell: Cell) -> str:
    text = latex_text(cell_text(cell))
    if not text:
        return ""
    text = rf"\textbf{{{text}}}" if cell.bold else text
    return rf"\textit{{{text}}}" if cell.italic else text


# --- HTML ---

_STYLE = """
body { font: 12pt/1.3 "Times New Roman", Tinos, "Liberation Serif", serif; color: #000;
  background: #fff; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
section { margin-bottom: 3rem; overflow-x: auto; }
table { border-collapse: collapse; border-top: 1.5px solid #000; border-bottom: 1.5px solid #000; }
caption { text-align: left; padding-bottom: .5rem; }
caption b { display: block; margin-bottom: .3rem; }
thead th { border-bottom: 1px solid #000; font-weight: 400; vertical-align: bottom; }
th, td { padding: .15rem .6rem; text-align: right; white-space: nowrap; font-weight: 400; }
th.text, td.text { text-align: left; white-space: normal; }
tbody th { text-align: left; }
.group th { font-style: italic; padding-top: .4rem; }
.note { max-width: 48rem; margin-top: .4rem; font-size: 11pt; }
"""


def as_html(tables: TableContent) -> str:
    """One page, without scripts and without anything to load."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Tables</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{as_html_sections(tables)}\n</body>\n</html>\n"
    )


def as_html_sections(tables: TableContent) -> str:
    """The tables alone, as a part of another page."""
    return "\n".join(map(_html_table, layouts(tables)))


def _html_table(table: TableLayout) -> str:
    title = f"<b>Table {table.number}</b><i>{_html_text(table.title)}</i>"
    heads = "".join(
        f'<th scope="col"{_text_class(table, j)}>{_html_cell(cell)}</th>'
        for j, cell in enumerate(table.heads)
    )
    lines = [
        "<section>",
        f"<table>\n<caption>{title}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>",
        *(_html_row(table, row) for row in table.rows),
        "</tbody>\n</table>",
        f'<p class="note"><i>Note.</i> {" ".join(map(_html_text, table.notes))}</p>',
        "</section>",
    ]
    return "\n".join(lines)


def _html_row(table: TableLayout, row: TableRow) -> str:
    if row.heading:
        text = _html_cell(row.cells[0])
        return (
            f'<tr class="group"><th scope="rowgroup" colspan="{len(table.heads)}">{text}</th></tr>'
        )
    first, *others = row.cells
    cells = "".join(
        f"<td{_text_class(table, j)}>{_html_cell(cell)}</td>" for j, cell in enumerate(others, 1)
    )
    return f'<tr><th scope="row" class="text">{_html_cell(first)}</th>{cells}</tr>'


def _text_class(table: TableLayout, j: int) -> str:
    return ' class="text"' if j < table.n_texts else ""


def _html_text(text: str) -> str:
    return escape(clean(text))


def _html_cell(cell: Cell) -> str:
    text = _html_text(cell_text(cell))
    text = f"<b>{text}</b>" if cell.bold else text
    return f"<i>{text}</i>" if cell.italic else text
