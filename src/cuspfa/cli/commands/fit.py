"""The command `cuspfa fit`."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cuspfa import __version__, datasets
from cuspfa._utils.fit_warning import (
    EmptyRows,
    EngineSettings,
    FitWarning,
    PossibleMissingCode,
    ReadingNote,
)
from cuspfa._utils.fit_warning_text import terminal_text
from cuspfa._utils.warn import silent
from cuspfa.cli.commands.report import check_report
from cuspfa.cli.console import Terminal
from cuspfa.cli.loadings import check_loadings, write_loadings
from cuspfa.cli.outputs import check_file, check_not_the_input
from cuspfa.cli.progress import progress
from cuspfa.cli.provenance import command_of, data_provenance
from cuspfa.cli.reading import after_fit, as_option, parse_columns
from cuspfa.cli.terminal import (
    Page,
    rows_without_values,
    show_doubts,
    show_fit_info,
    show_left_out,
    show_loadings,
    show_missing,
    show_reading,
    show_summary,
    show_warnings,
)
from cuspfa.data.out_of_core.block import Choice
from cuspfa.data.out_of_core.stream import Plan, RowStream
from cuspfa.data.screening.missing_codes import SHOWN, find_codes
from cuspfa.data.tables.cells import clean, column_of_numbers
from cuspfa.data.tables.column_names import find_column
from cuspfa.data.tables.dialect import Reading
from cuspfa.data.tables.read_table import Table, load_table, screened
from cuspfa.data.tables.reader import FileTable
from cuspfa.errors import InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.estimator.fit_warnings import cost_of_incomplete
from cuspfa.inference.gibbs.settings import Gibbs
from cuspfa.inference.variational.settings import Variational
from cuspfa.io.atomic import check_apart
from cuspfa.posterior.provenance import Origin
from cuspfa.reporting.summary import as_dict, summarise, summary_draws

METHODS = ("variational", "gibbs")


@dataclass(frozen=True)
class Request:
    """The command line of `cuspfa fit`."""

    data: str | None
    example: str | None
    output: Path | None
    method: str
    columns: Sequence[str]
    exclude: Sequence[str]
    id_column: str | None
    standardize: bool
    factors: int | None
    rotation: str | None
    seed: int
    as_json: bool
    quiet: bool
    how: Reading = field(default_factory=lambda: Reading(spell=as_option))
    statistics: bool = True
    """Are statistics of the data saved with the fit?"""
    loadings: Path | None = None
    memory_limit: str | None = None
    report: Path | None = None
    max_factors: int | None = None
    max_time: float | None = None


def fit(request: Request) -> None:
    """Read, fit, write, show."""
    began = time.perf_counter()
    _check(request)
    if request.output is not None:
        check_file("-o", request.output)
        check_not_the_input("-o", request.output, request.data or "-")
    if request.loadings is not None:
        check_loadings(request.loadings, request.data or "-")
    if request.report is not None:
        check_report("--report", request.report)
        check_not_the_input("--report", request.report, request.data or "-")
    outputs = (
        ("-o", request.output),
        ("--loadings", request.loadings),
        ("--report", request.report),
    )
    check_apart(outputs)
    # The report is standard output's, unless JSON is; what is loud is heard in any case.
    page = Page(Terminal(stderr=request.as_json or request.quiet))
    table = _example(request) if request.data is None else _read(request, page)
    by_blocks, on_disk = table.kind == "by blocks", isinstance(table.data, RowStream)
    if request.quiet or by_blocks:
        show_doubts(page, table.notes)
    else:
        show_reading(page, table)
    _check_factors(request, len(table.names))
    show_left_out(page, table)
    show_missing(page, table)
    cost = cost_of_incomplete(table.n_rows, table.n_incomplete, len(table.names), request.factors)
    if cost is not None and table.n_missing:
        page.paragraph(terminal_text(cost))
    sampled = by_blocks and table.sample is not table.data
    codes = [
        one.warning(by_blocks=sampled) for one in find_codes(table.names, table.sample)[:SHOWN]
    ]
    origin = Origin(
        data_provenance(request, table, by_blocks=by_blocks, counted=not on_disk),
        command_of(request),
        # No cell of the data goes into a file.
        tuple(replace(one, value=None) for one in codes),
    )
    with warnings.catch_warnings(record=True) as caught, progress(request.quiet) as bar:
        warnings.simplefilter("always")
        with silent():  # the posterior has the fit's warnings
            model, seconds = _fitted(request, table, bar.on_iteration, origin)
        posterior = model.posterior_
        if on_disk:
            table = after_fit(table, posterior)
        bar.say("draws from the posterior, for intervals")
        draws = summary_draws(posterior)
        bar.say("measures of fit and other rules for the number of factors")
        found = as_dict(posterior, draws) if request.as_json else summarise(posterior, draws)
    if on_disk:
        if table.n_empty:
            page.paragraph(f"Left out {rows_without_values(table)}.")
        show_missing(page, table)
    assert posterior.provenance is not None
    engine = posterior.provenance.settings.engine
    # Rows without any value have a line of their own, and so have notes of the reader.
    told = [
        one
        for one in posterior.provenance.warnings
        if not isinstance(one, (EmptyRows, ReadingNote))
    ]
    others = list(dict.fromkeys(str(one.message) for one in caught))
    if request.output is not None:
        posterior.save(request.output, statistics=request.statistics)
    if request.loadings is not None:
        write_loadings(request.loadings, posterior, draws)
    if request.report is not None:
        with progress(request.quiet) as bar:
            bar.say("writing the report")
            posterior.report(request.report, title=_title(table), draws=draws)
    if isinstance(found, dict):
        found |= _circumstances(request, table, model)
        found["warnings"] = [_as_json(one, engine) for one in told]
        found["warnings"] += [{"code": "other", "message": one} for one in others]
        found["seconds"] = {"fit": seconds, "total": time.perf_counter() - began}
        text = json.dumps(without_nan(found), indent=2, allow_nan=False)
        sys.stdout.write(text + "\n")
    elif request.quiet:
        Page(Terminal()).line(found.headline)
        page.paragraph(found.remark)
    else:
        page.line()
        show_summary(page, found)
        page.line()
        show_loadings(page, posterior, draws)
        page.line()
        show_fit_info(page, posterior.fit_info)
    shown = [*codes, *(one for one in told if not isinstance(one, PossibleMissingCode))]
    show_warnings(page, [terminal_text(one, engine) for one in shown] + others)
    if not request.quiet:
        if not request.as_json:
            total = time.perf_counter() - began
            page.line(f"Time: {seconds:.1f} s for the fit, {total:.1f} s in all.")
        for written in (request.output, request.loadings, request.report):
            if written is not None:
                page.console.print(f"Written to {written}", soft_wrap=True, markup=False)


def _check(request: Request) -> None:
    if request.method not in METHODS:
        raise InputError(f"--method must be variational or gibbs. Got {request.method!r} instead.")
    if request.seed < 0:
        raise InputError(f"--seed must be a whole number not below 0. Got {request.seed} instead.")
    if request.data is None and request.example is None:
        raise InputError("give a file with data, - for standard input, or --example bfi.")
    if request.data is not None and request.example is not None:
        raise InputError("give a file or --example, not both.")
    if not request.statistics and request.output is None:
        raise InputError("--no-statistics is for a saved fit: give -o FILE too.")
    if request.factors is not None and request.factors < 0:
        raise InputError(
            f"--factors must be a whole number not below 0. Got {request.factors} instead."
        )
    _check_limits(request)


def _check_limits(request: Request) -> None:
    most, seconds = request.max_factors, request.max_time
    if seconds is not None and not 0 < seconds < math.inf:
        raise InputError(f"--max-time must be a number of seconds above 0. Got {seconds} instead.")
    if most is None:
        return
    if most < 0:
        raise InputError(f"--max-factors must be a whole number not below 0. Got {most} instead.")
    if request.method == "gibbs":
        raise InputError("--max-factors is for --method variational. Leave it out.")
    if request.factors is not None:
        raise InputError(
            "--factors gives the number, and --max-factors has none to find. Give one."
        )


def _check_factors(request: Request, columns: int) -> None:
    if request.factors is not None and request.factors > columns:
        raise InputError(
            f"--factors must be at most the {columns} columns analysed. Got "
            f"{request.factors} instead."
        )


def _choose(request: Request, names: list[str]) -> Choice:
    """Columns by their names or numbers; what is wrong is told before the cells are read."""
    asked = parse_columns("--columns", request.columns, names)
    unwanted = parse_columns("--exclude", request.exclude, names)
    _check_factors(request, len(names))
    chosen = asked if request.columns else range(len(names))
    return Choice(chosen, unwanted, asked=bool(request.columns))


def _read(request: Request, page: Page) -> Table:
    assert request.data is not None

    def on_plan(plan: Plan) -> None:
        _check_factors(request, plan.n_columns)
        if not request.quiet:
            page.paragraph(f"Reading {request.data} by blocks: {plan} of memory.")

    with progress(request.quiet) as bar:
        return load_table(
            request.data,
            lambda names: _choose(request, names),
            id_column=request.id_column,
            how=request.how,
            memory_limit=request.memory_limit,
            progress=bar.on_rows,
            on_plan=on_plan,
        )


def _example(request: Request) -> Table:
    bunch = datasets.load_bfi(subset="items")
    names = list(bunch.feature_names)
    columns = [
        column_of_numbers(name, values) for name, values in zip(names, bunch.data.T, strict=True)
    ]
    position = None
    if request.id_column is not None:
        position = find_column("--id", request.id_column, names)
    file = FileTable("example bfi", "25 personality items", columns, len(bunch.data), [], position)
    return screened(file, lambda names: _choose(request, names), request.how)


def _fitted(
    request: Request,
    table: Table,
    callback: Callable[[Any], None] | None,
    origin: Origin,
) -> tuple[CuspFactorAnalysis, float]:
    """The model, and the seconds it took."""
    model = CuspFactorAnalysis(
        n_factors="auto" if request.factors is None else request.factors,
        method=_engine(request, callback),
        standardize=request.standardize,
        rotation=request.rotation,
        random_state=request.seed,
    )
    began = time.perf_counter()
    model._fit(table, table.names, origin)
    return model, time.perf_counter() - began


def _engine(request: Request, callback: Callable[[Any], None] | None) -> Variational | Gibbs:
    if request.method == "gibbs":
        return Gibbs(max_time=request.max_time, callback=callback)
    return Variational(
        max_factors=request.max_factors, max_time=request.max_time, callback=callback
    )


def _title(table: Table) -> str:
    return f"Factor analysis of {Path(clean(table.source)).name}"


def _as_json(warning: FitWarning, engine: EngineSettings) -> dict[str, Any]:
    return {**warning.to_dict(), "message": terminal_text(warning, engine)}


def _circumstances(
    request: Request,
    table: Table,
    model: CuspFactorAnalysis,
) -> dict[str, Any]:
    """What a reader of the JSON wants to know besides the result."""
    return {
        "read": {
            "source": table.source,
            "kind": table.kind,
            "n_rows": table.n_rows_read,
            "n_columns": table.n_columns_read,
            "n_missing": table.n_missing_read,
            "notes": [note.told(as_option) for note in table.notes],
        },
        "left_out": {
            "columns": [{"name": one.name, "reason": one.told(as_option)} for one in table.dropped],
            "excluded": table.excluded,
            "rows": table.n_empty,
        },
        "missing": {
            "n": sum(table.n_missing.values()),
            "n_rows": table.n_incomplete,
            "by_column": table.n_missing,
        },
        "settings": {
            "method": request.method,
            "standardize": request.standardize,
            "factors": "auto" if request.factors is None else request.factors,
            "max_factors": request.max_factors,
            "max_time": request.max_time,
            "rotation": request.rotation,
            "seed": request.seed,
            "cuspfa": __version__,
        },
        "search": [entry._asdict() for entry in model.search_],
        "converged": bool(model.converged_),
        "status": model.status_,
        "n_iter": int(model.n_iter_),
        "lower_bound": float(model.lower_bound_),
        "expected_active_factors": float(model.expected_active_factors_),
    }


def without_nan(value: Any) -> Any:
    """JSON knows neither NaN nor infinity: null stands for them."""
    if isinstance(value, dict):
        return {key: without_nan(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
