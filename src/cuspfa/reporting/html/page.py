"""Rendering the content of a report as one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from functools import cache, partial
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup, escape

from cuspfa._typing import Array, Indices
from cuspfa._utils.wording import minus, signed
from cuspfa.posterior.fit_info import SearchEntry
from cuspfa.posterior.provenance import versions
from cuspfa.reporting.citations import references
from cuspfa.reporting.figures.variables import LARGEST_DRAWN_MATRIX
from cuspfa.reporting.headline import curve_notes
from cuspfa.reporting.html import narrative
from cuspfa.reporting.html.content import LoadingsOnAxes, ReportContent
from cuspfa.reporting.html.figures import figures, items, matrices
from cuspfa.reporting.labels import shortened
from cuspfa.reporting.methods_text import again, methods
from cuspfa.reporting.summary import next_words, ridge_text

ITEM_LETTERS = 36
"""Characters of a variable and its wording in the list of the largest loadings."""
UNIT = 10_000
"""Numbers go into the page as whole multiples of 1/UNIT, two bytes each."""
_OPTION = re.compile(r"(?<![^\s(])--[a-z][a-z-]*")
MOST_VARIABLES_OF_PAIRS = 500
"""Variables up to which all correlations are in the page as numbers."""


def render(content: ReportContent, title: str | None = None) -> str:
    """The whole page."""
    style, script = resource("style.css"), resource("script.js")
    return (
        templates()
        .get_template("report.html")
        .render(
            **_values(content, title),
            style=Markup(style),
            script=Markup(script),
            policy=policy(style, script),
            data=htmlsafe_json_dumps(page_data(content), allow_nan=False, separators=(",", ":")),
        )
    )


def render_sections(content: ReportContent) -> str:
    """The sections of the page, for another page, which has the map of loadings."""
    page = templates().get_template("report.html")
    return page.render(**_values(content, None) | {"whole": False})


def render_map() -> str:
    """The figure in which the page's script draws the map of loadings."""
    page = templates().get_template("report.html")
    return "".join(page.blocks["map"](page.new_context({})))


def _values(content: ReportContent, title: str | None) -> dict[str, Any]:
    """What the template is filled with, apart from style, script and data."""
    return {
        "title": title or "Factor analysis",
        "whole": True,
        "content": content,
        "summary": content.summary,
        "labels": dict(zip(content.names, content.labels, strict=True)),
        "wording": dict(
            zip(content.posterior.column_names, content.posterior.column_labels, strict=True)
        ),
        "answer": narrative.answer(content),
        "agreement": narrative.agreement(content),
        "left_over": narrative.left_over(content),
        "sureness": narrative.sureness(content),
        "measures": narrative.measures(content),
        "measured": narrative.measured(content),
        "cautions": narrative.caution_sentences(content),
        "methods": methods(content.posterior, content.n_draws),
        "again": again(content.provenance, content.posterior.presentation),
        "citations": [one.text for one in references(content.posterior)],
        "figures": figures(content),
        "matrices": matrices(content),
        "items": items(content),
        "category_rows": _category_rows(content),
        "curve_notes": curve_notes(content.summary.curve),
        "ridge": ridge_text(content.summary.ridge),
        "next_words": next_words(content.summary.curve) if content.summary.next_step else "",
        "version": dict(versions())["cuspfa"],
    }


@cache
def templates() -> Environment:
    """The templates of pages, with their filters."""
    environment = Environment(
        loader=PackageLoader("cuspfa.reporting.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": _percent,
        "signed": signed,
        "plain": _two_decimals,
        "tidy": _tidy,
        "short": partial(shortened, longest=ITEM_LETTERS),
    }
    return environment


@cache
def resource(name: str) -> str:
    """A file of the package, with line ends as a browser hashes them."""
    text = files("cuspfa.reporting.html").joinpath(name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def policy(style: str, script: str) -> str:
    """Content-Security-Policy: our own style and script, pictures in the page, and nothing else."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}"


def _tidy(text: str) -> Markup:
    """The text with no line break before a percent sign or inside an option of the program."""
    escaped = str(escape(text.replace(" %", "\N{NO-BREAK SPACE}%")))
    return Markup(_OPTION.sub(r'<span class="option">\g<0></span>', escaped))


def _two_decimals(value: float) -> str:
    return minus(f"{value:.2f}")


def _category_rows(content: ReportContent) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Each category with the threshold below it; None for the lowest one."""
    below = {(one["column"], one["above"]): one for one in content.thresholds}
    return [(one, below.get((one["column"], one["category"]))) for one in content.categories]


# --- numbers for the page's script ---


def pack(values: Array) -> str:
    """Numbers as 16-bit integers, little-endian, in base64."""
    whole = np.clip(np.round(np.asarray(values, dtype=float) * UNIT), -32767, 32767)
    return base64.b64encode(whole.astype("<i2").tobytes()).decode()


def packed_integers(values: Indices) -> str:
    """Whole numbers as 16-bit integers in base64."""
    return base64.b64encode(np.asarray(values).astype("<i2").tobytes()).decode()


def page_data(content: ReportContent) -> dict[str, Any]:
    """What the script reads: loadings on each set of axes, communalities, correlations, tables."""
    middle, (lower, upper) = content.communality
    return {
        "unit": UNIT,
        "names": content.names,
        "labels": content.labels if any(content.labels) else None,
        "axes": [_axes_data(one) for one in content.axes],
        "communality": [pack(middle), pack(lower), pack(upper)],
        "correlation": _correlation_data(content),
        "tables": _tables(content),
        "scores": None if content.scores is None else np.round(content.scores, 4).tolist(),
    }


def _axes_data(axes: LoadingsOnAxes) -> dict[str, Any]:
    table = axes.table
    return {
        "key": axes.key,
        "label": axes.label,
        "oblique": axes.oblique,
        "note": narrative.axes_note(axes),
        "factors": list(axes.factor_names) or None,
        "shares": np.round(axes.shares, 4).tolist(),
        "mean": pack(table.mean),
        "lower": pack(table.lower),
        "upper": pack(table.upper),
        "sign": pack(table.false_sign_rate),
        "correlations": np.round(axes.correlations, 4).tolist() if axes.oblique else None,
        "order": packed_integers(axes.order),
    }


def _correlation_data(content: ReportContent) -> dict[str, Any]:
    """Lower triangles row by row; of very many variables their order alone."""
    order = content.axes[0].order
    thin = -(-len(order) // LARGEST_DRAWN_MATRIX)
    found: dict[str, Any] = {
        "order": packed_integers(order[::thin]),
        "sample": None,
        "fitted": None,
    }
    if len(order) <= MOST_VARIABLES_OF_PAIRS:
        lower = np.tril_indices(len(order))
        found["fitted"] = pack(content.fitted[lower])
        found["sample"] = None if content.sample is None else pack(content.sample[lower])
    return found


def _tables(content: ReportContent) -> dict[str, list[list[Any]]]:
    """Tables to download: a row of names, then rows of values."""
    factors = [
        [line.name or number, *map(_digits, (line.share, line.lower, line.upper, line.determinacy))]
        for number, (line, _) in enumerate(content.factors, 1)
    ]
    tables: dict[str, list[list[Any]]] = {
        "factors": [["factor", "share", "share_lower", "share_upper", "determinacy"], *factors],
        "rules": [["rule", "n_factors"], *([rule.name, rule.number] for rule in content.rules)],
    }
    if content.summary.curve.points:
        columns = content.summary.curve.columns()
        rows = zip(*columns.values(), strict=True)
        tables["model_error"] = [list(columns), *(list(map(_digits, row)) for row in rows)]
    for name, values in (("thresholds", content.thresholds), ("categories", content.categories)):
        if values:
            tables[name] = [list(values[0]), *(list(map(_digits, one.values())) for one in values)]
    if content.fit_info is not None:
        names = ["iterations" if name == "n_iter" else name for name in SearchEntry._fields]
        tables["search"] = [names, *(list(map(_digits, one)) for one in content.fit_info.search)]
    if content.summary.fit is not None:
        measures = content.summary.fit._asdict().items()
        tables["fit"] = [
            ["measure", "value"],
            *([name, _digits(value)] for name, value in measures),
        ]
    return tables


def _digits(value: Any) -> Any:
    """Seven digits of a real number; None in place of NaN, which JSON does not have."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.7g}") if math.isfinite(value) else None
