"""What `cuspfa fit` and `cuspfa info` print, in 80 columns."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from cuspfa._typing import Array, Indices
from cuspfa._utils.fit_warning import PossibleMissingCode
from cuspfa._utils.fit_warning_text import terminal_text
from cuspfa._utils.spelling import as_option
from cuspfa._utils.wording import capitalized, counted, listed
from cuspfa.cli.console import Terminal
from cuspfa.data.tables.cells import clean, quoted
from cuspfa.data.tables.labels import scale_words, scales_of
from cuspfa.data.tables.notes import Note
from cuspfa.data.tables.read_table import Table
from cuspfa.diagnostics.assumptions import Finding
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.category_tables import CountTable, ThresholdTable
from cuspfa.posterior.fit_info import FitInfo
from cuspfa.reporting.factorization_summary import CountSummary
from cuspfa.reporting.headline import PAGE_WIDTH
from cuspfa.reporting.labels import axes_name, short_names, shortened
from cuspfa.reporting.summary import Summary, headline_lines
from cuspfa.rotation.aligned import AlignedDraws

NARROWEST = 40
"""The least width to which sentences are wrapped."""
DIMMED_BELOW = 0.3
"""Loadings below this are dimmed in a terminal."""
ALL_FACTORS, SHOWN_FACTORS = 7, 6
"""The largest number of factors of which all have a column, and how many have one of more."""
FURTHER_FACTORS, FURTHER_ITEMS = 12, 5
"""Further factors that are listed below the table, and variables of each."""
SHOWN_CORRELATIONS = 12
"""Factors whose correlations are shown."""
SHOWN_THRESHOLDS = 60
"""Columns whose thresholds are printed."""
SIGN_STYLES = ("#0087d7", "#d75f00")
"""Colours of positive and of negative loadings: blue and orange, as in figures and in the report,
with enough contrast to a light and to a dark background."""
SHOWN_VARIABLES = 60
"""With more variables, those with the largest loadings are shown."""
SHOWN_LEFT_OUT, SHOWN_EXCLUDED = 20, 12
"""Columns that are named of those that were left out, and left out as asked."""
SHOWN_LABELS, LONGEST_QUOTE = 4, 60
"""Labels of columns that are shown of those in the file, and characters of each."""
SHOWN_SCALES, SHOWN_VALUES = 3, 11
"""Different scales of answers that are shown, and values of each."""
NARROWEST_WORDING = 14
"""Columns beside the name of a variable that its wording needs to be shown."""
NO_SIGN = "°"
"""Printed after a loading whose interval contains zero."""


class Page:
    """Lines of at most 80 columns, on a console of any width."""

    def __init__(self, console: Terminal) -> None:
        self.console = console

    def line(self, text: str | Text = "") -> None:
        """Print one line, cut to the width of a page."""
        shown = Text(text) if isinstance(text, str) else text
        if cell_len(shown.plain) > PAGE_WIDTH:
            shown = Text(_padded(shown.plain, PAGE_WIDTH))
        self.console.print(shown, soft_wrap=True, markup=False)

    def command(self, text: str) -> None:
        """Print a command to copy, whole in one line of any length."""
        self.console.print(Text(f"  {clean(text)}"), soft_wrap=True, markup=False)

    def paragraph(self, text: str, *, indent: int = 2, style: str = "") -> None:
        """Print sentences, wrapped into lines."""
        for line in wrapped(text, indent, max(min(PAGE_WIDTH, self.console.width), NARROWEST)):
            self.line(Text(line, style=style))


def wrapped(text: str, indent: int = 2, width: int = PAGE_WIDTH) -> list[str]:
    """Wrap a text into lines; half as many characters a line if some are twice as wide."""
    room = width if cell_len(text) == len(text) else width // 2
    return textwrap.wrap(text, room, subsequent_indent=" " * indent, break_on_hyphens=False)


def _padded(text: str, width: int) -> str:
    """Cut or pad a text to a width; … marks a cut."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1).rstrip() + "…"


# --- what was read ---


def show_reading(page: Page, table: Table) -> None:
    """Print the numbers of rows, columns and missing values, and what the reader assumed."""
    size = f"{counted(table.n_rows_read, 'row')}, {counted(table.n_columns_read, 'column')}"
    missing = table.n_missing_read or "none"
    page.paragraph(f"Read {clean(table.source)} ({table.kind}): {size}, {missing} missing.")
    for note in table.notes:
        page.paragraph(f"  {note.message(as_option)}", indent=4)
    labelled = [one for one in table.labels if one.label]
    if labelled:
        names = [
            f"{one.name} {quoted(shortened(one.label, LONGEST_QUOTE), LONGEST_QUOTE)}"
            for one in labelled
        ]
        page.paragraph(f"  Labels: {listed(names, SHOWN_LABELS)}.", indent=4)
    _show_scales(page, table)


def _show_scales(page: Page, table: Table) -> None:
    """Print labels of values, apart from those of answers in words, which a note has."""
    told = {name for one in table.answers for name in one.columns}
    labels = {one.name: dict(one.values) for one in table.labels if one.name not in told}
    scales = scales_of([name for name in table.names if name not in told], labels)
    for scale in list(scales)[:SHOWN_SCALES]:
        if scale:
            where = "" if len(scales) == 1 else f" (in {listed(scales[scale], SHOWN_LABELS)})"
            page.paragraph(
                f"  Values: {listed(scale_words(scale), SHOWN_VALUES)}{where}.", indent=4
            )


def show_doubts(page: Page, notes: Sequence[Note]) -> None:
    """Print notes on reading that are shown even with --quiet."""
    for note in notes:
        if note.is_doubt:
            page.paragraph(note.message(as_option))


def show_left_out(page: Page, table: Table) -> None:
    """Print columns that were left out, with the reason, and rows without a value."""
    if table.dropped:
        number = len(table.dropped)
        page.line(Text(f"Left out {counted(number, 'column')}:", style="bold yellow"))
        shown = table.dropped[:SHOWN_LEFT_OUT]
        width = min(24, max(cell_len(one.name) for one in shown))
        for one in shown:
            told = one.shown(as_option)
            lines = textwrap.wrap(told, max(PAGE_WIDTH - width - 4, 20), break_on_hyphens=False)
            page.line(f"  {_padded(shortened(one.name, width), width)}  {lines[0]}")
            for line in lines[1:]:
                page.line(f"  {'':{width}}  {line}")
        if number > len(shown):
            page.line(f"  and {number - len(shown)} more (--json names them all)")
    show_empty_rows(page, table)
    if table.excluded:
        page.paragraph(f"Left out as asked: {listed(table.excluded, SHOWN_EXCLUDED)}.")


def show_empty_rows(page: Page, table: Table) -> None:
    """Print how many rows have no value and are left out, if there are any."""
    if table.n_empty:
        page.paragraph(
            f"Left out {counted(table.n_empty, 'row')} without any value in the columns analysed: "
            f"{counted(table.n_rows, 'row')} are analysed."
        )


def show_missing(page: Page, table: Table) -> None:
    """Print the number of missing values, if there are any."""
    if table.n_missing:
        most = sorted(table.n_missing.items(), key=lambda item: -item[1])[:3]
        page.paragraph(
            f"{counted(sum(table.n_missing.values()), 'missing value')} in {table.n_incomplete} of "
            f"{counted(table.n_rows, 'row')}: taken as missing at random, nothing is filled in or "
            f"dropped. Most: {', '.join(f'{name} {number}' for name, number in most)}."
        )


# --- what was found ---


def show_headline(page: Page, headline: str) -> None:
    """Print the first sentence, in bold."""
    for line in headline_lines(headline):
        page.line(Text(line, style="bold"))


def show_summary(page: Page, summary: Summary, *, begun: bool = False) -> None:
    """Print the summary, its headline in bold.

    Where a page is `begun` with the headline, and the next step ends it, both are left out.
    """
    if not begun:
        show_headline(page, summary.headline)
    step = summary.next_step
    text = summary.text(with_next_step=not begun)
    for line in text.splitlines()[len(headline_lines(summary.headline)) :]:
        if step is not None and line.strip() == step.command:
            page.command(step.command)
        else:
            page.line(line)


def show_count_summary(page: Page, summary: CountSummary) -> None:
    """Print the summary of a fit to counts, its headline in bold."""
    headline, *lines = str(summary).splitlines()
    page.line(Text(headline, style="bold"))
    for line in lines:
        page.line(line)


class Order(NamedTuple):
    """The order in which variables are listed."""

    rows: Indices
    all: bool
    """Is every variable among them?"""


def sort_variables(loadings: Array, most: int = SHOWN_VARIABLES) -> Order:
    """Variables by the factor on which they load most, the largest loading first.

    Of more than `most`, about as many for each factor, those with the largest loadings.
    """
    size = np.abs(loadings)
    own_factor, largest = np.argmax(size, axis=1), np.max(size, axis=1)
    order = np.lexsort((-largest, own_factor))
    if len(order) <= most:
        return Order(order, True)
    place = np.zeros(len(order), dtype=int)
    for h in range(loadings.shape[1]):
        members = order[own_factor[order] == h]
        place[members] = np.arange(len(members))
    chosen = np.lexsort((-largest, place))[:most]
    return Order(order[np.isin(order, chosen)], False)


def show_parameters(page: Page, posterior: Posterior, aligned: AlignedDraws) -> None:
    """Print loadings, thresholds and dispersions where there are any, and how the fit ended."""
    show_loadings(page, posterior, aligned)
    page.line()
    if thresholds := posterior.threshold_table(draws=aligned.draws):
        show_thresholds(page, thresholds)
        page.line()
    if counts := posterior.count_table(draws=aligned.draws):
        show_count_table(page, counts)
        page.line()
    show_fit_info(page, posterior.fit_info)


def show_loadings(page: Page, posterior: Posterior, aligned: AlignedDraws) -> None:
    """Print sorted loadings, with each variable's communality and its interval."""
    loadings, rotation = posterior.rotated_solution.loadings, posterior.rotation
    draws = aligned.draws
    k = loadings.shape[1]
    if not k:
        page.line("No factors, hence no loadings.")
        return
    shown = loadings[:, : k if k <= ALL_FACTORS else SHOWN_FACTORS]
    order = sort_variables(loadings)
    names = [clean(name) for name in posterior.column_names]
    texts = [clean(text) for text in posterior.column_labels]
    common = np.median(draws.communality, axis=0)  # as --json has it
    lower, upper = posterior.interval("communality", draws=draws)
    tail = 21
    room = PAGE_WIDTH - 7 * shown.shape[1] - tail
    width = min(room, max(8, *(cell_len(names[j]) for j in order.rows)))
    labels = short_names(names, width)
    if any(texts) and room - width >= NARROWEST_WORDING:
        labels = _worded(labels, texts, max(cell_len(labels[j]) for j in order.rows))
        width = min(room, max(cell_len(labels[j]) for j in order.rows))
    table = aligned.table(columns=order.rows)
    unsure = (table.lower <= 0) & (table.upper >= 0)
    page.line(f"Loadings ({axes_name(rotation)}, correlation scale) and communalities (h²):")
    if given := posterior.presentation.factor_names:
        factors = ", ".join(f"{h} {name}" for h, name in enumerate(given, 1))
        page.paragraph(f"Factors: {factors}.")
    numbers = "".join(f"{h:6d} " for h in range(1, shown.shape[1] + 1))
    page.line(f"{'':{width}}{numbers}    h²  95 % interval")
    for place, j in enumerate(order.rows):
        row = Text(_padded(labels[j], width))
        for h, value in enumerate(shown[j]):
            # Not -0.00.
            rounded = value + 0.0 if abs(value) >= 0.005 else 0.0
            row.append(f"{rounded:6.2f}", _loading_style(value))
            row.append(NO_SIGN if unsure[place, h] else " ")
        row.append(f"  {common[j]:4.2f}    {lower[j]:4.2f} – {upper[j]:4.2f}")
        page.line(row)
    if np.any(unsure[:, : shown.shape[1]]):
        page.line(f"{NO_SIGN} The 95 % interval of the loading contains 0.")
    for line in _not_shown(loadings, shown.shape[1], order, names):
        page.paragraph(line)
    if rotation is not None and rotation.is_oblique and k > 1:
        page.line()
        _show_correlations(page, posterior.rotated_solution.correlations)


def show_thresholds(page: Page, thresholds: ThresholdTable) -> None:
    """Print thresholds with half the widths of their intervals, a line or more for each column."""
    if not thresholds:
        return
    names = list(dict.fromkeys(one["column"] for one in thresholds))
    labels = dict(zip(names, short_names(tuple(names), 16), strict=True))
    width = max(map(cell_len, labels.values()))
    page.line("Thresholds of latent responses of variance one (± half of the 95 % interval):")
    for name in names[:SHOWN_THRESHOLDS]:
        cells = [
            f"{one['threshold']:6.2f} ±{(one['upper'] - one['lower']) / 2:.2f}"
            for one in thresholds
            if one["column"] == name
        ]
        room = max(1, (PAGE_WIDTH - width - 2) // 14)
        for first in range(0, len(cells), room):
            label = labels[name] if first == 0 else ""
            page.line(f"{_padded(label, width)}  {'  '.join(cells[first : first + room])}")
    if len(names) > SHOWN_THRESHOLDS:
        page.line(f"Of the first {SHOWN_THRESHOLDS} of {len(names)} columns; --json has all.")


def show_count_table(page: Page, columns: CountTable) -> None:
    """Print dispersions of columns of counts, with intervals."""
    own = [one for one in columns if math.isfinite(one["dispersion"])]
    if not own:
        return
    labels = short_names(tuple(one["column"] for one in own), 16)
    width = max(map(cell_len, labels))
    page.line("Dispersions r of negative binomial columns, with 95 % intervals:")
    for label, one in list(zip(labels, own, strict=True))[:SHOWN_THRESHOLDS]:
        ends = f"{one['lower']:.3g} – {one['upper']:.3g}"
        page.line(f"{_padded(label, width)}  {one['dispersion']:8.3g}  {ends}")
    if len(own) > SHOWN_THRESHOLDS:
        page.line(f"Of the first {SHOWN_THRESHOLDS} of {len(own)} columns; --json has all.")


def _worded(labels: list[str], texts: list[str], width: int) -> list[str]:
    """Names, and behind them in a column of their own the wording of the variables."""
    pairs = zip(labels, texts, strict=True)
    return [f"{_padded(name, width)}  {text}" if text else name for name, text in pairs]


def _loading_style(value: float) -> str:
    """Small loadings are dimmed, others have the colour of their sign."""
    return "dim" if abs(value) < DIMMED_BELOW else SIGN_STYLES[int(value < 0)]


def _show_correlations(page: Page, correlations: Array) -> None:
    page.line("Correlations of the factors:")
    shown = correlations[:SHOWN_CORRELATIONS]
    page.line("   " + "".join(f"{h:6d}" for h in range(1, len(shown) + 1)))
    for h, row in enumerate(shown, 1):
        page.line(f"{h:3d}" + "".join(f"{value:z6.2f}" for value in row[:h]))
    if len(shown) < len(correlations):
        page.line(f"Of the first {len(shown)} of {len(correlations)} factors; --json has all.")


def _not_shown(loadings: Array, n_shown: int, order: Order, names: Sequence[str]) -> Iterator[str]:
    """Factors and variables without a place in the table."""
    p, k = loadings.shape
    if k > n_shown:
        yield from _further_factors(loadings, n_shown, names)
    if not order.all:
        yield f"The {len(order.rows)} of {p} variables that load most; fit --json has them all."


def _further_factors(loadings: Array, n_shown: int, names: Sequence[str]) -> Iterator[str]:
    """The variables that load on the factors for which the table has no column.

    These have a loading of at least `DIMMED_BELOW` on the factor, or no larger one on another.
    """
    size, k = np.abs(loadings), loadings.shape[1]
    home = np.argmax(size, axis=1)
    lines, others = [], []
    for h in range(n_shown, k):
        matters = np.flatnonzero((size[:, h] >= DIMMED_BELOW) | (home == h))
        if not len(matters):
            others.append(str(h + 1))
            continue
        strongest = matters[np.argsort(-size[matters, h], kind="stable")]
        items = [f"{shortened(names[j], 24)} {loadings[j, h]:+.2f}" for j in strongest]
        lines.append(f"  {h + 1}: {listed(items, FURTHER_ITEMS)}")
    head = f"Factors {n_shown + 1} to {k} have no column"
    if not lines:
        yield f"{head}: all their loadings are below {DIMMED_BELOW}; --json has them."
        return
    yield f"{head}; --json has all their loadings."
    yield from lines[:FURTHER_FACTORS]
    if len(lines) > FURTHER_FACTORS:
        yield f"  and {len(lines) - FURTHER_FACTORS} more factors with such loadings"
    if others:
        yield f"  {listed(others, FURTHER_FACTORS)}: all loadings are below {DIMMED_BELOW}"


def show_fit_info(page: Page, fit_info: FitInfo | None) -> None:
    """Print the weights of the numbers of factors, and convergence."""
    if fit_info is None:
        return
    scored = sorted(fit_info.search, key=lambda one: -one.weight)
    words = ", ".join(
        f"{one.weight:.2f} for {one.n_factors}" for one in scored[:5] if one.weight >= 0.005
    )
    if fit_info.method == "gibbs":
        page.paragraph(f"Probabilities of the number of factors: {words}.")
        page.paragraph(
            f"{fit_info.n_iter} sweeps; {fit_info.status}.",
            style="" if fit_info.converged else "bold red",
        )
        return
    if len(fit_info.search) > 1 and words:
        tried = [one.n_factors for one in fit_info.search]
        verb = "Compared" if fit_info.n_iter == 0 else "Tried"
        page.paragraph(
            f"{verb} {min(tried)} to {max(tried)} factors; weights of evidence (not "
            f"probabilities): {words}."
        )
    if fit_info.n_iter == 0:  # of the mode of single cells
        page.paragraph(
            f"{capitalized(fit_info.status)}.", style="" if fit_info.converged else "bold red"
        )
        return
    iterations = counted(fit_info.n_iter, "iteration")
    if (total := sum(one.n_iter for one in fit_info.search)) > fit_info.n_iter:
        iterations = f"{total} iterations, {fit_info.n_iter} of them in the last run"
    known = not math.isnan(fit_info.lower_bound)
    bound = f"; bound {fit_info.lower_bound:.2f}" if known else ""
    if fit_info.converged:
        page.paragraph(f"Converged after {iterations}{bound}.")
    else:
        page.paragraph(f"Ended after {iterations}{bound}: {fit_info.status}.", style="bold red")


def show_findings(page: Page, findings: Sequence[Finding], n_empty: int) -> None:
    """Print what the checks of the rows found."""
    for one in findings:
        note = f" {counted_without(n_empty)}" if one.rows and n_empty else ""
        page.paragraph(f"Check, {one.kind}: {clean(one.message)}{note}", style="yellow")


def counted_without(n_empty: int) -> str:
    """How rows are counted where some have no value."""
    return f"Rows are counted without the {n_empty} that have no value."


def show_codes(page: Page, codes: Sequence[PossibleMissingCode]) -> None:
    """Warn of numbers that may be codes for missing values."""
    show_warnings(page, [terminal_text(one) for one in codes])


def show_warnings(page: Page, messages: Sequence[str]) -> None:
    """Print warnings, each of which says what to do."""
    for message in messages:
        page.paragraph(f"Warning: {clean(message)}", style="yellow")
