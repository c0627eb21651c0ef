"""The figures that no switch changes; those of loadings are drawn by the page's script."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from cuspfa._typing import Array, Indices
from cuspfa.posterior.fit_info import FitInfo, SearchEntry
from cuspfa.reporting.html.content import Content, MissingValues, Rule
from cuspfa.reporting.html.svg import (
    WIDTH,
    Figure,
    Scale,
    linear,
    minus,
    room_for,
    short,
    ticks,
    whole_ticks,
)
from cuspfa.reporting.summary import MIN_SHARE

ROW = 22.0
LEFT = 74.0
"""Where a plot begins, right of its numbers and their name."""
MOST_ROWS = 40
"""Rows of a figure; of more variables all are drawn as a curve."""
CHAIN_POINTS = 400
"""Points of a chain: of longer ones every so many."""


def rules_figure(rules: Sequence[Rule]) -> Markup:
    """What each rule says, on one line of numbers."""
    left = room_for([rule.name for rule in rules], most=190)
    bottom = 14 + ROW * len(rules)
    figure = Figure("Number of factors by each rule", bottom + 34)
    numbers = [rule.number for rule in rules]
    low, high = max(min(numbers) - 1, 0), max(numbers) + 1
    x = linear(low, high, left + 8, WIDTH - 14)
    for at in whole_ticks(low, high, 12):
        figure.line("grid", x(at), 8, x(at), bottom)
        figure.text("tick middle", x(at), bottom + 16, str(at))
    figure.names([rule.name for rule in rules], lambda i: 14 + ROW * (i + 0.5), left)
    for i, rule in enumerate(rules):
        y = 14 + ROW * (i + 0.5)
        kind = "dot chosen" if rule.ours else "dot"
        figure.add(
            "circle", kind, title=f"{rule.name}: {rule.number}", cx=x(rule.number), cy=y, r=6
        )
    return figure.markup()


def search_figure(fit_info: FitInfo, chosen: int) -> Markup | None:
    """Bound and evidence by number of factors, or probabilities; None if one alone was tried."""
    if fit_info.method == "gibbs":
        return _probabilities(fit_info.search, chosen)
    if len(fit_info.search) < 2:
        return None
    entries = fit_info.search
    numbers = [entry.n_factors for entry in entries]
    curves = [
        ("bound", [entry.lower_bound for entry in entries], "evidence lower bound"),
        ("evidence", [entry.evidence for entry in entries], "evidence"),
    ]
    below = {kind: _below(values) for kind, values, _ in curves}
    deepest = max((-v for values in below.values() for v in values if math.isfinite(v)), default=1)
    # Linear down to one nat, from there on logarithmic: 300 nats and 3 have to be seen together.
    depth = max(_symlog(max(deepest, 1.0)), 1.0)
    figure = Figure("Bound and evidence by number of factors", 290)
    x = linear(min(numbers) - 0.4, max(numbers) + 0.4, LEFT, WIDTH - 12)
    y = linear(0, depth, 18, 214)
    marks = [0.0] + [10.0**power for power in range(math.ceil(math.log10(max(deepest, 1.0))) + 1)]
    for mark in [one for one in marks if _symlog(one) <= depth * 1.001]:
        figure.line("grid", LEFT, y(_symlog(mark)), WIDTH - 12, y(_symlog(mark)))
        figure.text(
            "tick end", LEFT - 6, y(_symlog(mark)) + 4, minus(f"{-mark:,.0f}" if mark else "0")
        )
    _number_axis(figure, x, numbers, 228)
    figure.line("chosen-line", x(chosen), 10, x(chosen), 218)
    figure.add("text", "axis middle turned", "nats below the best")
    for kind, _, label in curves:
        points = [
            (x(k), y(_symlog(-v)), k, v)
            for k, v in zip(numbers, below[kind], strict=True)
            if math.isfinite(v)
        ]
        if not points:
            continue
        figure.path(f"curve {kind}", [(px, py) for px, py, _, _ in points])
        for px, py, k, v in points:
            title = f"{k} factors: {minus(f'{v:.1f}')} nats, {label}"
            figure.add("circle", f"point {kind}", title=title, cx=px, cy=py, r=4)
    _key(figure, [(kind, label) for kind, _, label in curves if _any(below[kind])], 264)
    return figure.markup()


def _any(values: Sequence[float]) -> bool:
    return any(math.isfinite(value) for value in values)


def _below(values: Sequence[float]) -> list[float]:
    known = [value for value in values if math.isfinite(value)]
    return [value - max(known) if math.isfinite(value) else math.nan for value in values]


def _symlog(depth: float) -> float:
    return depth if depth <= 1 else 1 + math.log10(depth)


def _number_axis(figure: Figure, x: Scale, numbers: Sequence[int], y: float) -> None:
    for k in whole_ticks(min(numbers), max(numbers), 14):
        figure.text("tick middle", x(k), y + 6, str(k))
    figure.text("axis middle", (LEFT + WIDTH - 12) / 2, y + 24, "number of factors")


def _key(figure: Figure, lines: Sequence[tuple[str, str]], y: float) -> None:
    """Which curve is which; the line of what was chosen last."""
    at = 20.0
    for kind, label in [*lines, ("chosen-line", "chosen")]:
        figure.line(kind if kind == "chosen-line" else f"curve {kind}", at, y + 10, at + 18, y + 10)
        figure.text("label", at + 23, y + 14, label)
        at += 23 + 6.8 * len(label) + 18


def _probabilities(entries: Sequence[SearchEntry], chosen: int) -> Markup:
    numbers = [entry.n_factors for entry in entries]
    figure = Figure("Posterior probability of each number of factors", 262)
    x = linear(min(numbers) - 0.6, max(numbers) + 0.6, LEFT, WIDTH - 12)
    top = max(entry.weight for entry in entries)
    y = linear(0, top, 214, 18)
    for mark in ticks(0, top, 4):
        figure.line("grid", LEFT, y(mark), WIDTH - 12, y(mark))
        figure.text("tick end", LEFT - 6, y(mark) + 4, f"{100 * mark:.0f} %")
    wide = min(30.0, 0.7 * (x(1) - x(0)))
    for entry in entries:
        at, kind = x(entry.n_factors), "bar chosen" if entry.n_factors == chosen else "bar"
        title = f"{entry.n_factors} factors: {100 * entry.weight:.1f} %"
        height = 214 - y(entry.weight)
        figure.add(
            "rect", kind, "", title, x=at - wide / 2, y=214 - height, width=wide, height=height
        )
    _number_axis(figure, x, numbers, 228)
    return figure.markup()


def shares_figure(content: Content) -> Markup | None:
    """How strong each factor is, with intervals."""
    factors = content.factors
    if not factors:
        return None
    bottom = 14 + 20 * len(factors)
    figure = Figure("Share of the variance of each factor", bottom + 44)
    high = max([row.upper for row in factors] + [1.3 * MIN_SHARE])
    x = linear(0, high, 40, WIDTH - 16)
    for at in ticks(0, 100 * high, 6):
        figure.line("grid", x(at / 100), 8, x(at / 100), bottom)
        figure.text("tick middle", x(at / 100), bottom + 15, f"{at:g} %")
    figure.line("limit", x(MIN_SHARE), 4, x(MIN_SHARE), bottom)
    for number, row in enumerate(factors, 1):
        y = 14 + 20 * (number - 0.5)
        figure.text("label end", 32, y + 4, str(number))
        span = f"{100 * row.lower:.1f} – {100 * row.upper:.1f} %"
        title = f"Factor {number}: {100 * row.share:.1f} % ({span})"
        kind = "bar" if row.share > MIN_SHARE else "bar small"
        figure.add("rect", kind, "", title, x=40, y=y - 5, width=x(row.share) - 40, height=10)
        figure.line("whisker", x(row.lower), y, x(row.upper), y)
    words = f"share of the variance, 95 % interval; dots at {100 * MIN_SHARE:.0f} %"
    figure.text("axis middle", (40 + WIDTH - 16) / 2, bottom + 36, words)
    return figure.markup()


def communality_figure(content: Content) -> Markup | None:
    """Part of each variable's variance that factors explain: rows, or a curve of very many."""
    if not content.n_factors:
        return None
    middle, (lower, upper) = content.communality
    order = np.argsort(-middle, kind="stable")
    if len(order) > MOST_ROWS:
        return _communality_curve(content.names, order, middle, lower, upper)
    names = [content.names[j] for j in order]
    left = room_for(names)
    bottom = 8 + 18 * len(order)
    figure = Figure("Communalities", bottom + 40)
    x = linear(0, 1, left, WIDTH - 16)
    for at in ticks(0, 1, 5):
        figure.line("grid", x(at), 4, x(at), bottom)
        figure.text("tick middle", x(at), bottom + 15, f"{at:g}")
    figure.names(names, lambda i: 8 + 18 * (i + 0.5), left)
    for i, j in enumerate(order):
        y = 8 + 18 * (i + 0.5)
        title = f"{content.names[j]}: {middle[j]:.2f} ({lower[j]:.2f} – {upper[j]:.2f})"
        figure.line("whisker", x(lower[j]), y, x(upper[j]), y)
        figure.add("circle", "dot", title=title, cx=x(middle[j]), cy=y, r=4.5)
    figure.text("axis middle", (left + WIDTH - 16) / 2, bottom + 33, "communality, 95 % interval")
    return figure.markup()


def _communality_curve(
    names: Sequence[str], order: Indices, middle: Array, lower: Array, upper: Array
) -> Markup:
    figure = Figure("Communalities of all variables, sorted", 300)
    x = linear(0, len(order) - 1, 46, WIDTH - 16)
    y = linear(0, 1, 250, 12)
    for at in ticks(0, 1, 5):
        figure.line("grid", 46, y(at), WIDTH - 16, y(at))
        figure.text("tick end", 40, y(at) + 4, f"{at:g}")
    step = max(1, len(order) // 400)
    places = range(0, len(order), step)
    band = [(x(i), y(upper[order[i]])) for i in places]
    band += [(x(i), y(lower[order[i]])) for i in reversed(places)]
    figure.path("band", band, close=True)
    figure.path("curve evidence", [(x(i), y(middle[order[i]])) for i in places])
    for i, kind in ((0, ""), (len(order) - 1, " end")):
        name, value = names[order[i]], middle[order[i]]
        down = 18 if y(value) < 200 else -12
        words = f"{name[:26]} {value:.2f}"
        figure.text(f"label{kind}", x(i) + (4 if not kind else -2), y(value) + down, words, name)
    figure.text("axis middle", (46 + WIDTH - 16) / 2, 286, f"{len(order)} variables, sorted")
    return figure.markup()


def trace_figure(content: Content) -> Markup | None:
    """How the fit came to rest: the bound by iteration, or the chains of a sampler."""
    chains = getattr(content.posterior, "log_likelihood", None)
    if chains is not None:
        return _chains(np.asarray(chains).reshape(content.posterior.n_chains, -1))
    fit_info = content.fit_info
    trace = np.asarray(fit_info.trace if fit_info is not None else [], dtype=float)
    gaps = trace[-1] - trace[:-1] if len(trace) else trace
    kept = np.flatnonzero(gaps > 0)  # rounding error may have any sign
    if len(kept) < 2:
        return None
    powers = np.log10(gaps[kept])
    low, high = math.floor(powers.min()), max(math.ceil(powers.max()), math.floor(powers.min()) + 1)
    figure = Figure("Distance of the bound to its last value, by iteration", 262)
    x = linear(1, len(trace), LEFT, WIDTH - 16)
    y = linear(low, high, 214, 14)
    for mark in ticks(low, high, 5):
        if mark == round(mark):
            figure.line("grid", LEFT, y(mark), WIDTH - 16, y(mark))
            figure.text(
                "tick end",
                LEFT - 6,
                y(mark) + 4,
                f"{10.0**mark:g}" if mark > -4 else f"1e{mark:.0f}",
            )
    for at in ticks(1, len(trace), 6):
        if at == round(at):
            figure.text("tick middle", x(at), 232, f"{at:.0f}")
    step = max(1, len(kept) // CHAIN_POINTS)
    figure.path("curve evidence", [(x(i + 1), y(math.log10(gaps[i]))) for i in kept[::step]])
    figure.text("axis middle", (LEFT + WIDTH - 16) / 2, 252, "iteration")
    figure.add("text", "axis middle turned", "nats below the last bound")
    return figure.markup()


def _chains(chains: Array) -> Markup:
    figure = Figure("Log-likelihood of the draws, by chain", 262)
    low, high = float(chains.min()), float(chains.max())
    x = linear(1, max(chains.shape[1], 2), LEFT, WIDTH - 16)
    y = linear(low, high, 214, 14)
    for mark in ticks(low, high, 4):
        figure.line("grid", LEFT, y(mark), WIDTH - 16, y(mark))
        figure.text("tick end", LEFT - 6, y(mark) + 4, minus(f"{mark:,.6g}"))
    step = max(1, chains.shape[1] // CHAIN_POINTS)
    for number, values in enumerate(chains):
        points = [(x(i + 1), y(float(values[i]))) for i in range(0, len(values), step)]
        figure.path(f"curve chain chain{number % 4}", points)
    for at in ticks(1, chains.shape[1], 5):
        figure.text("tick middle", x(at), 232, f"{at:.0f}")
    figure.text("axis middle", (LEFT + WIDTH - 16) / 2, 252, "draw, one line a chain")
    return figure.markup()


def patterns_figure(missing: MissingValues | None) -> Markup | None:
    """Which columns are missing together: one line a pattern, with its rows."""
    if missing is None or not missing.together:
        return None
    lacked = {name for names, _ in missing.together for name in names}
    columns = [name for name, _ in missing.by_column if name in lacked][:MOST_ROWS]
    place = {name: i for i, name in enumerate(columns)}
    below = room_for(columns, least=30, most=120)
    cell = min(24.0, (WIDTH - 70) / len(columns))
    bottom = 8 + 20 * len(missing.together)
    figure = Figure("Columns that are missing together", bottom + below + 8)
    for i, (names, rows) in enumerate(missing.together):
        y = 8 + 20 * i
        for j in range(len(columns)):
            figure.add("rect", "seen", x=10 + j * cell, y=y, width=cell - 2, height=18)
        for name in names:
            if name in place:
                x, title = 10 + place[name] * cell, f"{', '.join(names)}: {rows} rows"
                figure.add("rect", "bar", "", title, x=x, y=y, width=cell - 2, height=18)
        figure.text("tick", 10 + len(columns) * cell + 6, y + 13, str(rows))
    for j, name in enumerate(columns):
        figure.upright(short(name, max(int(below / 7.2), 3)), 10 + (j + 0.5) * cell + 3, bottom + 4)
    return figure.markup()


def missing_figure(missing: MissingValues | None) -> Markup | None:
    """Missing values by column, most first."""
    if missing is None:
        return None
    rows = missing.by_column[:MOST_ROWS]
    left, bottom = room_for([name for name, _ in rows]), 8 + 18 * len(rows)
    figure = Figure("Missing values by column", bottom + 40)
    high = max(number for _, number in rows) / missing.n_rows
    x = linear(0, high, left, WIDTH - 46)
    for at in ticks(0, 100 * high, 4):
        figure.line("grid", x(at / 100), 4, x(at / 100), bottom)
        figure.text("tick middle", x(at / 100), bottom + 15, f"{at:g} %")
    figure.names([name for name, _ in rows], lambda i: 8 + 18 * (i + 0.5), left)
    for i, (name, number) in enumerate(rows):
        y, part = 8 + 18 * (i + 0.5), number / missing.n_rows
        title = f"{name}: {number} of {missing.n_rows}"
        figure.add("rect", "bar", "", title, x=left, y=y - 5, width=x(part) - left, height=10)
        figure.text("tick", x(part) + 5, y + 4, str(number))
    more = len(missing.by_column) - len(rows)
    words = "missing values" + (f"; {more} more columns have some" if more else "")
    figure.text("axis middle", (left + WIDTH - 46) / 2, bottom + 33, words)
    return figure.markup()
