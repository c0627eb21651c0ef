"""Files that the page offers: the fit, its report, tables for a paper, scores, the analysis."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from cuspfa._utils.arguments import one_of
from cuspfa.app.analysis import Analysis
from cuspfa.app.analysis_file import SavedAnalysis, write_analysis
from cuspfa.app.file_names import stem_of
from cuspfa.app.page_settings import PageSettings
from cuspfa.cli.written_tables import field_text
from cuspfa.data.tables.cells import clean
from cuspfa.data.tables.column_names import not_a_formula
from cuspfa.errors import InputError
from cuspfa.posterior.base import Posterior
from cuspfa.reporting.html import write_report
from cuspfa.reporting.tables.files import write_tables

OUTPUTS = ("report", "fit", "tables", "scores", "analysis")
PAPER_SUFFIXES = ("docx", "xlsx", "tex", "md", "html")
ANALYSIS_SUFFIX = ".cuspa"
SUPPRESSED = 0.3
"""Loadings that are smaller are left out of a table where that is asked for."""


def write_output(
    job: dict[str, Any],
    path: Path,
    analysis: Analysis,
    settings: PageSettings,
    posterior: Posterior,
) -> str:
    """Write what is asked for to `path`, and return the name that it is offered by."""
    what, stem = job["what"], stem_of(analysis.name)
    one_of("what", what, OUTPUTS)
    asked = job["asked"]
    if what == "report":
        aligned = analysis.aligned(settings, posterior)
        title = f"Factor analysis of {clean(analysis.name) or '25 personality items'}"
        write_report(posterior, path, title=title, aligned=aligned)
        return f"{stem}-report.html"
    if what == "fit":
        posterior.save(path, statistics=asked.get("statistics") != "0")
        return f"{stem}.cusp"
    if what == "tables":
        kind = asked.get("kind", "docx")
        one_of("kind", kind, PAPER_SUFFIXES)
        target = path.with_suffix(f".{kind}")
        tables = posterior.apa_tables(
            suppress=SUPPRESSED if asked.get("suppress") == "1" else 0.0,
            intervals=asked.get("intervals") == "1",
            draws=analysis.aligned(settings, posterior).draws,
        )
        write_tables(tables, target)
        target.replace(path)
        return f"{stem}-tables.{kind}"
    if what == "scores":
        path.write_text(_scores_text(analysis, posterior), encoding="utf-8")
        return f"{stem}-scores.csv"
    _write_analysis(asked, path, analysis, settings, posterior)
    return f"{stem}{ANALYSIS_SUFFIX}"


def _scores_text(analysis: Analysis, posterior: Posterior) -> str:
    scores = analysis.scores(posterior)
    if not scores.shape[1]:
        raise InputError("A fit of no factors has no scores.")
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(not_a_formula, posterior.presentation.heads(scores.shape[1], "factor{}")))
    writer.writerows([field_text(value) for value in row] for row in scores.tolist())
    return stream.getvalue()


def _write_analysis(
    asked: dict[str, str],
    path: Path,
    analysis: Analysis,
    settings: PageSettings,
    posterior: Posterior,
) -> None:
    """With the table or, to be shared without its rows, with the fit alone."""
    table = fit = None
    if asked.get("rows") == "0" or analysis.file is None:
        inside = path.with_suffix(".cusp")
        posterior.save(inside, statistics=asked.get("statistics") != "0")
        fit = inside.read_bytes()
        inside.unlink()
    elif analysis.stored is not None:
        table = analysis.stored.read_bytes()
    saved = SavedAnalysis(analysis.name, analysis.missing, settings, table, fit)
    write_analysis(saved, path)
