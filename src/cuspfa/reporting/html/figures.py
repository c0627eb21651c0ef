"""The figures of a report, drawn as in `cuspfa.plots`. The page's script draws the loadings."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from cuspfa.diagnostics.fit_indices import srmr
from cuspfa.posterior.draws import Interval
from cuspfa.reporting.figures.counts import (
    NAME_BELOW,
    NAME_BESIDE,
    draw_missing,
    draw_patterns,
    draw_rules,
)
from cuspfa.reporting.figures.error_curve import draw_error_curve
from cuspfa.reporting.figures.items import (
    draw_information,
    draw_item,
    information_curve,
    ordinal_items,
    response_curves,
)
from cuspfa.reporting.figures.search import draw_bound, draw_chains, draw_search, draw_shares
from cuspfa.reporting.figures.variables import (
    FIGURE_ROWS,
    LARGEST_DRAWN_MATRIX,
    draw_communality,
    draw_matrix,
)
from cuspfa.reporting.html.content import ReportContent
from cuspfa.reporting.html.svg import as_svg
from cuspfa.reporting.labels import short_names

MATRIX_POINTS = 300.0
"""Side in points of a matrix."""
ROW_POINTS, AXIS_POINTS = 18.0, 44.0
"""Points of a row with a name, and of the axis below."""


FIGURE_ENDS = 20
"""Highest and lowest communalities that are shown where there are more than `FIGURE_ROWS`."""


ITEM_WIDTH, ITEM_HEIGHT = 300.0, 190.0
"""Size in points of a figure of an item."""
MOST_ITEMS = 30
"""Items whose response curves are shown: those with the largest loadings."""


class ItemFigure(NamedTuple):
    """Curves of an item, or information."""

    title: str
    picture: Markup


class Matrix(NamedTuple):
    """One of the matrices of correlations."""

    kind: str
    title: str
    note: str
    picture: Markup


def figures(content: ReportContent) -> dict[str, Markup]:
    """Figures by the names that the template has for them; only those with something to show."""
    found = _of_the_fit(content) | _of_missing_values(content)
    names = [rule.name for rule in content.rules]
    draw = partial(draw_rules, names=names, numbers=[rule.number for rule in content.rules])
    title = "Number of factors by each rule"
    found["rules"] = as_svg("rules", title, draw, height=24 * len(names) + 24)
    curve = content.summary.curve
    if curve.points:
        draw = partial(draw_error_curve, curve=curve, own=content.posterior.model_error)
        title = "Number of factors by tolerated model error"
        found["model_error"] = as_svg("model-error", title, draw, height=260)
    if content.n_factors:
        share, lower, upper = content.axes[0].shares.T
        draw = partial(
            draw_shares,
            middle=share,
            ends=Interval(lower, upper),
            large=content.summary.large_share,
        )
        found["shares"] = as_svg("shares", "Share of the variance of each factor", draw, height=240)
        middle, ends = content.communality
        most = FIGURE_ROWS if len(middle) <= FIGURE_ROWS else FIGURE_ENDS
        names = _beside(content, content.names)
        draw = partial(draw_communality, names=names, middle=middle, ends=ends, most=most)
        height = ROW_POINTS * min(len(middle), most) + AXIS_POINTS
        found["communality"] = as_svg("communality", "Communalities", draw, height=height)
    return found


def items(content: ReportContent) -> list[ItemFigure]:
    """Response curves of ordinal columns by the factor they load on most, and information."""
    posterior, found = content.posterior, []
    columns = ordinal_items(posterior) if content.n_factors else []
    if not columns:
        return []
    loadings = np.abs(posterior.rotated_solution.loadings)
    home = np.argmax(loadings, axis=1)
    heads = posterior.factor_names
    for h in range(content.n_factors):
        own = [j for j in columns if home[j] == h]
        if not own:
            continue
        draw = partial(
            draw_information,
            curves=[information_curve(posterior, j, h) for j in columns],
            names=[posterior.column_names[j] for j in columns],
            factor=heads[h],
        )
        title = f"Information on {heads[h]}"
        picture = as_svg(f"information-{h}", title, draw, height=ITEM_HEIGHT, width=ITEM_WIDTH)
        found.append(ItemFigure(title, picture))
    strongest = sorted(columns, key=lambda j: -loadings[j, home[j]])[:MOST_ITEMS]
    for j in sorted(strongest):
        h, name = int(home[j]), posterior.column_names[j]
        draw = partial(
            draw_item,
            curves=response_curves(posterior, j, h),
            labels=posterior.level_labels(j),
            factor=heads[h],
        )
        title = f"Answers to {name}"
        picture = as_svg(f"item-{j}", title, draw, height=ITEM_HEIGHT, width=ITEM_WIDTH)
        found.append(ItemFigure(content.described[name], picture))
    return found


def _of_the_fit(content: ReportContent) -> dict[str, Markup]:
    fit_info, found = content.fit_info, {}
    if fit_info is None:
        return {}
    sampled = fit_info.method == "gibbs"
    if sampled or len(fit_info.search) > 1:
        draw = partial(
            draw_search, entries=fit_info.search, chosen=content.n_factors, sampled=sampled
        )
        title = "Each number of factors: " + ("probability" if sampled else "bound and evidence")
        found["search"] = as_svg("search", title, draw, height=290)
    chains = content.posterior.chain_log_likelihood
    if chains is not None:
        draw = partial(draw_chains, chains=chains)
        found["trace"] = as_svg("trace", "Log-likelihood by chain", draw, height=260)
    elif len(fit_info.trace):
        draw = partial(draw_bound, fit_info=fit_info)
        found["trace"] = as_svg("trace", "Bound by iteration", draw, height=260)
    return found


def _of_missing_values(content: ReportContent) -> dict[str, Markup]:
    missing = content.missing
    if missing is None:
        return {}
    counts = missing.by_column[:FIGURE_ROWS]
    names = _beside(content, [name for name, _ in counts])
    counts = [(name, number) for name, (_, number) in zip(names, counts, strict=True)]
    more = len(missing.by_column) - len(counts)
    draw = partial(draw_missing, counts=counts, n_rows=missing.n_rows, n_more=more)
    height = ROW_POINTS * len(counts) + AXIS_POINTS
    found = {"missing": as_svg("missing", "Missing values by column", draw, height=height)}
    if missing.together:
        lacked = {name for names, _ in missing.together for name in names}
        columns = [name for name, _ in missing.by_column if name in lacked][:FIGURE_ROWS]
        draw = partial(draw_patterns, columns=columns, patterns=missing.together)
        longest = max(min(len(name), NAME_BELOW) for name in columns)
        height = 22 * len(missing.together) + 7.5 * longest + 12
        title = "Columns that are missing together"
        found["patterns"] = as_svg("patterns", title, draw, height=height)
    return found


def _beside(content: ReportContent, names: list[str]) -> list[str]:
    """Short names with their wording, beside a figure."""
    described = content.described
    return short_names([described[name] for name in names], NAME_BESIDE)


def matrices(content: ReportContent) -> list[Matrix]:
    """Correlations of the data, those of the model, and residuals."""
    order = content.axes[0].order
    thin = -(-len(order) // LARGEST_DRAWN_MATRIX)
    chosen = np.ix_(order[::thin], order[::thin])
    fitted = content.fitted[chosen]
    every = "" if thin == 1 else f", every {thin} variables"
    shown = [("fitted", f"by the model{every}", fitted, 1.0)]
    if content.sample is not None:
        sample = content.sample[chosen]
        limit = float(np.max(np.abs(sample - fitted))) or 1.0
        size = srmr(content.sample, content.fitted) if len(content.sample) > 1 else 0.0
        note = f"at most {limit:.2f}, SRMR {size:.3f}"
        shown.insert(0, ("sample", "of the data", sample, 1.0))
        shown.append(("residual", note, sample - fitted, limit))
    found = []
    for kind, note, values, limit in shown:
        draw = partial(draw_matrix, values=values, limit=limit, interpolation="none")
        title = f"{kind.capitalize()} correlations"
        picture = as_svg(kind, title, draw, height=MATRIX_POINTS, width=MATRIX_POINTS, bare=True)
        found.append(Matrix(kind, kind.capitalize(), note, picture))
    return found
