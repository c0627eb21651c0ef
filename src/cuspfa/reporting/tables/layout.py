"""Rows, columns and notes of the tables, the same for every format."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cuspfa._utils.wording import capitalized, counted, minus
from cuspfa.data.tables.labels import scale_words
from cuspfa.reporting.tables.content import Estimate, FactorRow, TableContent

HEADS_LENGTH, HEADS_LENGTH_WORDED = 36, 24
"""Characters of the names of all factors that fit above a table, and beside wording. Longer names
are in the note, and the factors are numbered."""
UNSURE = "–"
"""In place of a number that does not exist."""


class Number(NamedTuple):
    """A number with its digits."""

    value: float
    digits: int = 2
    leading: bool = False
    """Is there a zero before the point? APA style has none where a value cannot exceed 1."""
    percent: bool = False


class Cell(NamedTuple):
    """What stands in one place of a table: a text, or a number with or without an interval."""

    text: str = ""
    number: Number | None = None
    interval: tuple[float, float] | None = None
    bold: bool = False
    italic: bool = False


class TableRow(NamedTuple):
    """Cells from left to right. A heading has one, which spans the table."""

    cells: tuple[Cell, ...]
    heading: bool = False


@dataclass(frozen=True)
class TableLayout:
    """One table: number, title, heads, rows and notes."""

    key: str
    """A word for file parts and labels, such as "loadings"."""
    number: int
    title: str
    heads: tuple[Cell, ...]
    n_texts: int
    """Columns of text, at the left."""
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]


def number_text(number: Number) -> str:
    """A number as APA style has it, with a minus sign.

    Examples
    --------
    >>> number_text(Number(-0.346)), number_text(Number(0.5, leading=True))
    ('−.35', '0.50')
    >>> number_text(Number(0.346, 1, percent=True)), number_text(Number(-0.001))
    ('34.6', '.00')
    """
    value = 100 * number.value if number.percent else number.value
    text = f"{value:z.{number.digits}f}"
    if not number.leading and not number.percent and number.digits:
        text = text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text
    return minus(text)


def cell_text(cell: Cell) -> str:
    """A cell as text: the number, and its interval in brackets."""
    if cell.number is None:
        return cell.text
    text = number_text(cell.number)
    if cell.interval is None:
        return text
    lower, upper = (number_text(cell.number._replace(value=end)) for end in cell.interval)
    return f"{text} [{lower}, {upper}]"


def layouts(tables: TableContent) -> list[TableLayout]:
    """The tables that there are values for, numbered from 1."""
    made = [_loadings(tables), _factors(tables), _correlations(tables), _fit(tables)]
    found = [one for one in made if one is not None]
    return [
        TableLayout(one.key, number, one.title, one.heads, one.n_texts, one.rows, one.notes)
        for number, one in enumerate(found, 1)
    ]


# --- loadings ---


def _loadings(tables: TableContent) -> TableLayout:
    k, worded = len(tables.factors), any(row.wording for row in tables.items)
    heads = [Cell("Item"), *([Cell("Wording")] if worded else [])]
    named = _names_fit(tables)
    heads += [Cell(factor.name if named else str(h)) for h, factor in _numbered(tables)]
    heads.append(Cell("h²", italic=True))
    rows: list[TableRow] = []
    before = None
    for row in tables.items:
        if tables.sort and row.factor is not None and row.factor != before:
            before = row.factor
            rows.append(TableRow((Cell(_group(tables, before)),), heading=True))
        cells = [Cell(row.name), *([Cell(row.wording)] if worded else [])]
        cells += [_loading(tables, one, h == row.factor) for h, one in enumerate(row.loadings)]
        cells.append(_estimate(row.communality, show=tables.intervals))
        rows.append(TableRow(tuple(cells)))
    title = f"Factor Loadings and Communalities of {len(tables.items)} Items"
    if not k:
        title = f"Communalities of {len(tables.items)} Items"
    return TableLayout(
        "loadings",
        1,
        title,
        tuple(heads),
        1 + worded,
        tuple(rows),
        tuple(_loading_notes(tables)),
    )


def _numbered(tables: TableContent) -> Iterator[tuple[int, FactorRow]]:
    return enumerate(tables.factors, 1)


def _names_fit(tables: TableContent) -> bool:
    """Are the factors called by their names above the loadings, and not by numbers?"""
    worded = any(row.wording for row in tables.items)
    length = sum(len(one.name) for one in tables.factors)
    return tables.named and length <= (HEADS_LENGTH_WORDED if worded else HEADS_LENGTH)


def _group(tables: TableContent, h: int) -> str:
    name = tables.factors[h].name
    return f"Factor {h + 1}: {name}" if tables.named else name


def _loading(tables: TableContent, one: Estimate, largest: bool) -> Cell:
    if abs(one.value) < tables.suppress:
        return Cell()
    return _estimate(one, show=tables.intervals)._replace(bold=largest)


def _estimate(one: Estimate | None, *, show: bool = True) -> Cell:
    if one is None or math.isnan(one.value):
        return Cell(UNSURE)
    return Cell(
        number=Number(one.value),
        interval=(one.lower, one.upper) if show else None,
    )


def _loading_notes(tables: TableContent) -> Iterator[str]:
    yield f"N = {tables.n_rows:,}."
    if tables.factors:
        kind = "Pattern loadings" if tables.correlations is not None else "Loadings"
        axes = tables.rotation if tables.given_axes else f"{tables.rotation} rotation"
        estimate = "posterior means"
        if tables.latent:
            what = "log rates of counts" if tables.log_rates else "latent responses"
            estimate = f"those of {what}, at the mode,"
        yield (
            f"{kind} ({axes}) are {estimate} on the correlation scale; the largest of each "
            "item is in bold."
        )
    if tables.named and not _names_fit(tables):
        names = "; ".join(f"{h} = {one.name}" for h, one in _numbered(tables))
        yield f"Factors: {names}."
    if tables.suppress and tables.factors:
        least = number_text(Number(tables.suppress))
        yield f"Loadings below {least} in absolute value are not shown."
    yield "h² = communality, the posterior median."
    if tables.intervals:
        yield f"{_interval_words(tables)} are in brackets."
        if tables.factors:
            yield (
                "Those of loadings are given the axes."
                if tables.given_axes
                else "Those of loadings include the uncertainty of the axes."
            )
    if tables.scale:
        yield f"Answers: {', '.join(scale_words(tables.scale))}."
    if tables.model_error:
        yield f"The factor model may be off by an RMSEA of {tables.model_error:g}."
    if tables.has_missing:
        yield "Missing values were taken as missing at random and not filled in."
    yield from _approximate(tables, needed=tables.intervals)
    yield f"Computed with cuspfa {tables.version}."


def _interval_words(tables: TableContent) -> str:
    return f"{100 * tables.prob:g}% credible intervals"


def _approximate(tables: TableContent, *, needed: bool) -> Iterator[str]:
    if needed and not tables.exact_draws:
        yield (
            "The data are not part of the saved fit, so that the intervals are approximate and may "
            "be too narrow."
        )


# --- factors ---


def _factors(tables: TableContent) -> TableLayout | None:
    if not tables.factors:
        return None
    heads = ["Factor", "Items", "Variance (%)", "Determinacy", "α", "ω"]
    rows = []
    for h, one in _numbered(tables):
        share = Number(one.share.value, 1, percent=True)
        cells = (
            Cell(f"{h} {one.name}" if tables.named else one.name),
            Cell(number=Number(one.n_items, 0)),
            Cell(number=share, interval=(one.share.lower, one.share.upper)),
            Cell(number=Number(one.determinacy)),
            _estimate(one.alpha),
            _estimate(one.omega),
        )
        rows.append(TableRow(cells))
    return TableLayout(
        "factors",
        2,
        "Variance Explained by the Factors and Reliability of Their Scales",
        tuple(Cell(text, italic=text in "αω") for text in heads),
        1,
        tuple(rows),
        tuple(_factor_notes(tables)),
    )


def _factor_notes(tables: TableContent) -> Iterator[str]:
    yield f"Posterior medians, with {_interval_words(tables)} in brackets."
    together = _percentage(tables.explained)
    yield f"Variance = share of the variance of all items, {together} by all factors together."
    yield "Determinacy = correlation of the factor with its estimated scores."
    yield (
        "A scale is the sum of the standardized items with their largest loading on the factor; α "
        "(Cronbach) and ω (McDonald, total) are those of the model's correlations."
    )
    reverse = [name for one in tables.factors for name in one.reversed_items]
    if reverse:
        yield f"Reversed before they are added: {', '.join(reverse)}."
    yield from _approximate(tables, needed=True)


def _percentage(one: Estimate) -> str:
    value, lower, upper = (number_text(Number(end, 1, percent=True)) for end in one)
    return f"{value}% [{lower}, {upper}]"


def _correlations(tables: TableContent) -> TableLayout | None:
    if tables.correlations is None:
        return None
    heads = [Cell("Factor"), *(Cell(str(h)) for h, _ in list(_numbered(tables))[:-1])]
    rows = []
    for h, row in enumerate(tables.correlations):
        name = tables.factors[h].name
        cells = [Cell(f"{h + 1} {name}" if tables.named else name)]
        cells += [_estimate(one) if g < h else Cell() for g, one in enumerate(row[:-1])]
        rows.append(TableRow(tuple(cells)))
    notes = (f"{_interval_words(tables)} are in brackets.", *_approximate(tables, needed=True))
    return TableLayout(
        "correlations", 3, "Correlations of the Factors", tuple(heads), 1, tuple(rows), notes
    )


# --- fit ---


def _fit(tables: TableContent) -> TableLayout | None:
    fit = tables.fit
    if fit is None:
        return None
    found = {
        "χ²": Cell(number=Number(fit.chi_square, 1, leading=True)),
        "df": Cell(number=Number(fit.df, 0)),
        "p": _p_value(fit.chi_square_p),
        "SRMR": Cell(number=Number(fit.srmr, 3)),
        "RMSEA": Cell(number=Number(fit.rmsea, 3), interval=(fit.rmsea_lower, fit.rmsea_upper)),
        "Predictive p": Cell(number=Number(fit.predictive_p)),
        "KMO": Cell(number=Number(fit.kmo)),
        "Bartlett p": _p_value(fit.bartlett_p),
        "ω total": Cell(number=Number(fit.omega)),
    }
    rows = tuple(
        TableRow((Cell(name, italic=name in ("χ²", "df", "p")), cell))
        for name, cell in found.items()
        if cell.number is None or not math.isnan(cell.number.value)
    )
    notes = [
        "SRMR = standardized root mean square residual; RMSEA = root mean square error of "
        "approximation, with its 90% confidence interval; predictive p = share of data sets "
        "simulated from the model that are further from it than the data, poor near 0; KMO = "
        "Kaiser–Meyer–Olkin measure"
        + (
            "."
            if math.isnan(fit.omega)
            else "; ω total = reliability of the sum of all items, those with negative loadings on "
            "the first principal axis reversed."
        )
    ]
    if tables.model_error:
        notes.append(
            "χ², SRMR and RMSEA are those of the factor model alone; predictive p allows for its "
            f"error of RMSEA {tables.model_error:g}."
        )
    if tables.has_missing and not math.isnan(fit.rmsea):
        notes.append("χ² and RMSEA take the missing values into account.")
    title = f"Fit of the Model With {capitalized(counted(len(tables.factors), 'Factor'))}"
    return TableLayout("fit", 4, title, (Cell("Measure"), Cell("Value")), 1, rows, tuple(notes))


def _p_value(value: float) -> Cell:
    if value < 0.001:
        return Cell("< .001")
    return Cell(number=Number(value, 3))
