"""What both kinds of `cuspfa fit` check before the work is done, and their warnings as JSON."""

from __future__ import annotations

from typing import Any

from cuspfa._utils.fit_warning import FitWarning
from cuspfa._utils.fit_warning_text import DEFAULT, terminal_text
from cuspfa._utils.spelling import EngineSettings
from cuspfa.cli.commands.report import check_report
from cuspfa.cli.loadings import check_loadings
from cuspfa.cli.options import FitOptions
from cuspfa.cli.outputs import check_file
from cuspfa.io.atomic import check_apart
from cuspfa.reporting.tables.files import check_table_file


def check_fit_outputs(options: FitOptions) -> None:
    """Refuse files that are read, given twice, or cannot be written."""
    read = options.data or "-"
    if options.output is not None:
        check_file("-o", options.output, read)
    if options.loadings is not None:
        check_loadings(options.loadings, read)
    if options.report is not None:
        check_report("--report", options.report, read)
    if options.tables is not None:
        check_file("--tables", options.tables, read)
        check_table_file(options.tables, "--tables")
    outputs = (("-o", options.output), ("--loadings", options.loadings))
    check_apart((*outputs, ("--report", options.report), ("--tables", options.tables)))


def warning_as_json(warning: FitWarning, engine: EngineSettings = DEFAULT) -> dict[str, Any]:
    """Code, fields and words."""
    return {**warning.to_dict(), "message": terminal_text(warning, engine)}
