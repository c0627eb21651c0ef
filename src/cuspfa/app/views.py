"""The parts of the page: HTML from values, with the figures and the words of the report."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cuspfa._utils.wording import counted
from cuspfa.app.analysis import Analysis, ColumnLine
from cuspfa.app.page_settings import LIKELIHOODS, ROTATIONS, PageSettings
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.error_curve import TOLERATED
from cuspfa.reporting.citations import references
from cuspfa.reporting.figures.values import grouped_order
from cuspfa.reporting.headline import headline
from cuspfa.reporting.html.content import gather
from cuspfa.reporting.html.page import (
    UNIT,
    pack,
    packed_integers,
    page_data,
    render_map,
    render_sections,
)
from cuspfa.reporting.labels import axes_name
from cuspfa.reporting.methods_text import methods_paragraph
from cuspfa.reporting.provenance_text import warning_texts
from cuspfa.reporting.summary import count_of, headline_of
from cuspfa.rotation.aligned import AlignedDraws

MOST_OFFERED = 30
"""Largest number of factors that can be chosen."""
BAR, BAR_HEIGHT = 6, 22
"""Width and height of the bars of a small histogram."""


@cache
def app_templates() -> Environment:
    """The templates of the page."""
    return Environment(
        loader=PackageLoader("cuspfa.app"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def table_part(analysis: Analysis, settings: PageSettings) -> dict[str, Any]:
    """The table of columns."""
    lines = analysis.columns()
    shown = [(one, _histogram(one)) for one in lines]
    file, chosen = analysis.file, set(settings.columns)
    size = "" if file is None else f"{counted(file.n_rows, 'row')}, {counted(len(lines), 'column')}"
    html = (
        app_templates()
        .get_template("table.html")
        .render(
            lines=shown,
            chosen=chosen,
            notes=analysis.notes(),
            kind="" if file is None else file.kind,
        )
    )
    controls = (
        app_templates()
        .get_template("controls.html")
        .render(
            settings=settings,
            rotations=ROTATIONS,
            likelihoods=LIKELIHOODS,
            errors=TOLERATED,
            most=min(len(analysis.usual), MOST_OFFERED),
            has_rows=file is not None,
        )
    )
    return {
        "name": analysis.name or "Example: 25 personality items",
        "size": size,
        "html": html,
        "controls": controls,
        "settings": settings.as_json(),
        "missing": analysis.missing,
        "has_rows": file is not None,
    }


def answer_part(
    posterior: Posterior, settings: PageSettings, *, with_curve: bool
) -> dict[str, Any]:
    """The number of factors and the loadings, which are known first."""
    k = posterior.n_active
    said = headline_of(posterior) if with_curve else headline(count_of(posterior))
    known = posterior.provenance
    html = (
        app_templates()
        .get_template("answer.html")
        .render(
            n_factors=k,
            headline=said,
            settings=settings_in_words(settings, posterior),
            warnings=[] if known is None else warning_texts(known),
            map=Markup(render_map()) if k else "",
        )
    )
    return {
        "html": html,
        "settings": settings.as_json(),
        "n_factors": k,
        "headline": said,
        "names": list(posterior.factor_names),
        "data": _mean_data(posterior),
    }


def report_part(
    posterior: Posterior, settings: PageSettings, aligned: AlignedDraws
) -> dict[str, Any]:
    """The sections of the report, with intervals."""
    content = gather(posterior, aligned=aligned, other_axes=False)
    return {
        "html": render_sections(content),
        "settings": settings.as_json(),
        "data": page_data(content),
        "methods": methods_paragraph(posterior, content.n_draws),
        "bibtex": "\n\n".join(one.bibtex for one in references(posterior)),
    }


def settings_in_words(settings: PageSettings, posterior: Posterior) -> str:
    """The settings of an answer in words."""
    said = [counted(len(posterior.column_names), "column"), axes_name(posterior.rotation)]
    if settings.n_factors is not None:
        said.append("number of factors given")
    if settings.model_error == "auto":
        said.append("model error learned")
    elif settings.model_error:
        said.append(f"tolerated RMSEA {settings.model_error:g}")
    if settings.likelihood != "gaussian":
        said.append(f"likelihood {settings.likelihood}")
    return ", ".join(said)


def _histogram(line: ColumnLine) -> Markup:
    if not line.bars:
        return Markup("")
    most, width = max(line.bars), BAR * len(line.bars)
    bars = "".join(
        f'<rect x="{BAR * i}" y="{BAR_HEIGHT * (1 - n / most):.1f}" width="{BAR - 1}" '
        f'height="{BAR_HEIGHT * n / most:.1f}"/>'
        for i, n in enumerate(line.bars)
    )
    said = f"rows by value, from low to high: {', '.join(map(str, line.bars))}"
    return Markup(
        f'<svg class="bars" width="{width}" height="{BAR_HEIGHT}" role="img" '
        f'aria-label="{said}"><title>{said}</title>{bars}</svg>'
    )


def _mean_data(posterior: Posterior) -> dict[str, Any]:
    """What the report's script reads, without what is made of draws."""
    loadings, rotation = posterior.rotated_solution.loadings, posterior.rotation
    axes = {
        "key": "principal" if rotation is None else rotation.method,
        "label": axes_name(rotation).capitalize(),
        "oblique": rotation is not None and rotation.is_oblique,
        "note": "",
        "factors": list(posterior.presentation.factor_names) or None,
        "shares": [[share] for share in np.round(posterior.explained_variance_ratio, 4).tolist()],
        "mean": pack(loadings),
        "lower": None,
        "upper": None,
        "sign": None,
        "correlations": None,
        "order": packed_integers(grouped_order(loadings)[0]),
    }
    labels = posterior.column_labels
    return {
        "unit": UNIT,
        "names": posterior.column_names,
        "labels": labels if any(labels) else None,
        "axes": [axes],
        "communality": None,
        "correlation": None,
        "tables": {},
        "scores": None,
    }
