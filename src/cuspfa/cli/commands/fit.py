"""The command `cuspfa fit`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cuspfa import __version__
from cuspfa._utils.fit_warning import (
    DependentColumns,
    DeterminedColumns,
    NearConstant,
    NeverCoObserved,
    PossibleMissingCode,
    SingleValueRows,
)
from cuspfa._utils.fit_warning_text import terminal_text
from cuspfa._utils.warn import silent
from cuspfa.cli.commands.fit_counts import run_count_fit
from cuspfa.cli.commands.report import title_of
from cuspfa.cli.console import Terminal
from cuspfa.cli.data_input import (
    SHOWN_BY_READING,
    check_data,
    check_model,
    check_number,
    chosen_likelihood,
    estimator_of,
    has_likelihood,
    named_rows,
    read_data,
    row_names,
    table_as_json,
)
from cuspfa.cli.fit_outputs import check_fit_outputs, warning_as_json
from cuspfa.cli.loadings import write_loadings
from cuspfa.cli.next_command import command_after
from cuspfa.cli.options import FitOptions, ShowOptions
from cuspfa.cli.outputs import print_json
from cuspfa.cli.progress import progress
from cuspfa.cli.provenance import command_of, data_provenance
from cuspfa.cli.reading import after_fit
from cuspfa.cli.saved_fits import given_names, shown_as
from cuspfa.cli.terminal import (
    Page,
    counted_without,
    show_codes,
    show_empty_rows,
    show_findings,
    show_headline,
    show_missing,
    show_parameters,
    show_summary,
    show_warnings,
)
from cuspfa.data.screening.missing_codes import find_codes
from cuspfa.data.tables.read_table import Table
from cuspfa.data.tables.sparse_files import sparse_suffix
from cuspfa.data.tables.wording import read_wording
from cuspfa.diagnostics.assumptions import Finding, is_quick, quick_findings, with_row_names
from cuspfa.errors import InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.inference.variational.cost import cost_of_incomplete
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.provenance import Origin
from cuspfa.reporting.html import write_report
from cuspfa.reporting.summary import (
    Summary,
    as_dict,
    headline_of,
    next_words,
    summarise,
    summary_draws,
)

ABOUT_DATA = (
    NearConstant,
    DependentColumns,
    DeterminedColumns,
    NeverCoObserved,
    SingleValueRows,
)
"""Warnings that can make a result worthless, so that they stand above it. Codes for missing values
are known before the fit and printed then."""


def run_fit(options: FitOptions, began: float) -> None:
    """Read the table, fit the model, write the files and print the result.

    `began` is when the command was given, on the clock of `time.perf_counter`.
    """
    if options.model == "poisson-factorization":
        run_count_fit(options, began)
        return
    _check(options)
    check_fit_outputs(options)
    # With --json and --quiet, notes and warnings go to standard error.
    page = Page(Terminal(stderr=options.as_json or options.quiet))
    table = read_data(options, page, factors=options.factors, quiet=options.quiet)
    on_disk = table.stream is not None
    if options.show.wording is not None:
        # Before the work is done.
        wording = read_wording(str(options.show.wording), table.names)
        show_warnings(page, [wording.unused] if wording.unused else [])
    cost = cost_of_incomplete(table.n_rows, table.n_incomplete, len(table.names), options.factors)
    if cost is not None and table.n_missing:
        page.paragraph(terminal_text(cost))
    sampled = table.by_blocks and table.sample is not table.data
    codes = find_codes(table.names, table.sample, by_blocks=sampled)
    show_codes(page, codes)
    origin = Origin(
        data_provenance(options, table),
        command_of(options),
        # No cell of the data goes into a file.
        tuple(replace(one, value=None) for one in codes),
    )
    with warnings.catch_warnings(record=True) as caught, progress(options.quiet) as bar:
        warnings.simplefilter("always")
        if has_likelihood(options):
            bar.say("fitting one number of factors after the other")
        with silent():  # warnings of the fit are in the posterior
            model, seconds = _fitted(options, table, bar.on_iteration, origin)
        posterior, not_shown = _shown_as(model.posterior_, options.show)
        if on_disk:
            table = after_fit(table, posterior)
        bar.say("factors by tolerated model error")
        answer = headline_of(posterior)
    if on_disk:
        show_empty_rows(page, table)
        show_missing(page, table)
    assert posterior.provenance is not None
    engine = posterior.provenance.settings.engine
    # Empty rows, dropped columns and notes of the reader have been printed already.
    told = [one for one in posterior.provenance.warnings if not isinstance(one, SHOWN_BY_READING)]
    doubts = [one for one in told if isinstance(one, ABOUT_DATA)]
    show_warnings(page, [terminal_text(one, engine) for one in doubts])
    if not options.as_json and not options.quiet:  # what follows takes as long again
        page.line()
        show_headline(page, answer)
    with warnings.catch_warnings(record=True) as later, progress(options.quiet) as bar:
        warnings.simplefilter("always")
        bar.say("draws from the posterior, for intervals")
        draws = summary_draws(posterior)
        aligned = posterior.align(draws=draws)
        bar.say("measures of fit and other rules")
        found: dict[str, Any] | Summary
        if options.as_json:
            found = as_dict(posterior, draws, aligned=aligned)
        else:
            found = summarise(posterior, draws, aligned)
    others = list(dict.fromkeys([*not_shown, *(str(one.message) for one in [*caught, *later])]))
    if options.output is not None:
        posterior.save(options.output, statistics=not options.no_statistics)
    if options.loadings is not None:
        write_loadings(options.loadings, posterior, aligned)
    if options.tables is not None:
        posterior.apa_tables(draws=draws).write(options.tables)
    checked = None
    if options.report is not None:
        checked = _checks(options, table, model)
        notes = [] if checked is None else checked.sentences(table.n_empty)
        with progress(options.quiet) as bar:
            bar.say("writing the report")
            title = title_of(table.source)
            write_report(posterior, options.report, title=title, aligned=aligned, notes=notes)
    rows = isinstance(table.data, np.ndarray)
    in_vain = rows and options.factors is None and posterior.n_active == 0
    after = command_after(options, looked_in_vain=in_vain)
    if isinstance(found, dict):
        checked = checked or _checks(options, table, model)
        found |= _circumstances(options, table, model)
        found["checks"] = None if checked is None else checked.as_json()
        found["warnings"] = [warning_as_json(one, engine) for one in told]
        found["warnings"] += [{"code": "other", "message": one} for one in others]
        step = found["next_step"] or after._asdict()
        found["next_command"] = step["command"]
        found["seconds"] = {
            "fit": seconds,
            "checks": None if checked is None else checked.seconds,
            "total": time.perf_counter() - began,
        }
        print_json(found)
    elif options.quiet:
        Terminal().print(found.headline, soft_wrap=True, markup=False)  # one line of any length
        page.paragraph(found.remark)
    else:
        show_summary(page, found, begun=True)
        if rows and table.n_empty and found.outlying_rows is not None:
            page.paragraph(counted_without(table.n_empty))
        page.line()
        show_parameters(page, posterior, aligned)
        checked = checked or _checks(options, table, model)
        if checked is not None:
            names, n = row_names(table), table.n_rows
            by_name = [with_row_names(one, n, names) for one in checked.findings]
            show_findings(page, by_name, table.n_empty)
    later_told = [one for one in told if not isinstance(one, (PossibleMissingCode, *ABOUT_DATA))]
    show_warnings(page, [terminal_text(one, engine) for one in later_told] + others)
    if not options.quiet:
        if not options.as_json:
            total = time.perf_counter() - began
            checks = "" if checked is None else f"{checked.seconds:.1f} s for checks, "
            page.line(f"Time: {seconds:.1f} s for the fit, {checks}{total:.1f} s in all.")
        for written in (options.output, options.loadings, options.tables, options.report):
            if written is not None:
                page.console.say_written(written)
        if isinstance(found, Summary):
            step = found.next_step
            page.line(after.purpose if step is None else next_words(found.curve))
            page.command(after.command if step is None else step.command)


def _check(options: FitOptions) -> None:
    check_data(options)
    _check_no_counts(options)
    check_model(options)
    names = given_names(options.show)
    if names is not None and options.factors is not None and len(names) != options.factors:
        raise InputError(
            f"--names must be as many as --factors, {options.factors}. Got {len(names)} instead."
        )
    if options.no_statistics and options.output is None:
        raise InputError("--no-statistics is for a saved fit. Give -o FILE too.")
    check_number(options.factors, options.max_factors)
    if options.offset is not None and not has_likelihood(options):
        raise InputError(
            "--offset is for counts. Give --likelihood negative_binomial or poisson too."
        )
    if has_likelihood(options):
        if options.matrix_kind is not None:
            raise InputError(
                "--likelihood and --ordinal need rows. Leave out --correlation and --covariance."
            )
        if options.method == "gibbs" and options.model_error != 0:
            raise InputError(
                "--model-error must be left out with --method gibbs and --likelihood or --ordinal."
            )
        if options.model_error == "auto":
            raise InputError(
                "--model-error must be a number with --likelihood or --ordinal, such as 0.05."
            )
    if options.model_error != 0 and options.no_statistics:
        raise InputError(
            "--no-statistics cannot be used with --model-error: a fit with model error needs the "
            "statistics of the data. Leave out one of them."
        )


def _check_no_counts(options: FitOptions) -> None:
    """Refuse options and files of counts."""
    of_counts = {
        "--exposure": options.exposure is not None,
        "--layer": options.layer is not None,
        "--transpose": options.transpose,
    }
    given = [name for name, is_given in of_counts.items() if is_given]
    if given:
        raise InputError(f"{given[0]} is for --model poisson-factorization. Give it too.")
    if options.data is not None and sparse_suffix(options.data) in (".mtx", ".npz"):
        raise InputError(
            f"{options.data} is a sparse matrix. If it holds counts, give --model "
            "poisson-factorization; of measurements give a table."
        )


def _fitted(
    options: FitOptions,
    table: Table,
    callback: Callable[[Any], None] | None,
    origin: Origin,
) -> tuple[CuspFactorAnalysis, float]:
    """The fitted model, and the seconds of the fit."""
    model = estimator_of(
        options,
        n_factors=options.factors,
        rotation=options.rotation,
        callback=callback,
        likelihood=chosen_likelihood(options, table.names),
    )
    began = time.perf_counter()
    model._fit(table, table.names, origin)
    return model, time.perf_counter() - began


class _Checked(NamedTuple):
    """What the checks of the rows found, and the seconds that they took."""

    findings: list[Finding]
    seconds: float

    def sentences(self, n_empty: int) -> list[str]:
        """The findings as sentences, with the rows by their numbers."""
        without = f" {counted_without(n_empty)}" if n_empty else ""
        return [
            f"{one.kind.capitalize()}: {one.message}{without * bool(one.rows)}"
            for one in self.findings
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "findings": [
                {
                    "kind": one.kind,
                    "message": one.message,
                    "columns": list(one.columns),
                    "rows": [row + 1 for row in one.rows],
                }
                for one in self.findings
            ],
        }


def _checks(options: FitOptions, table: Table, model: CuspFactorAnalysis) -> _Checked | None:
    """Outlying rows and doublets, if the rows are in memory and not many."""
    rows = table.data
    if any(one.kind != "gaussian" for one in model.likelihoods_):
        return None
    if options.no_checks or not isinstance(rows, np.ndarray) or not is_quick(*rows.shape):
        return None
    began = time.perf_counter()
    with progress(options.quiet) as bar:
        bar.say("looking for outlying rows and doublets (--no-checks leaves this out)")
        # No cell of the data, such as a name of a row, goes into files or the JSON.
        findings = quick_findings(model, rows, named_rows(None, table.n_rows))
    return _Checked(findings, time.perf_counter() - began)


def _shown_as(posterior: Posterior, show: ShowOptions) -> tuple[Posterior, list[str]]:
    """The posterior with names, signs and wording; what cannot be used becomes a message.

    The number of factors is not known before the fit, so a wrong name does not end the command.
    """
    told = []
    parts = (
        ShowOptions(names=show.names),
        ShowOptions(reverse=show.reverse),
        ShowOptions(wording=show.wording),
    )
    for one in parts:
        try:
            posterior = shown_as(posterior, one, quiet=True)
        except InputError as error:
            told.append(f"{error} It is left out.")
    return posterior, told


def _circumstances(
    options: FitOptions,
    table: Table,
    model: CuspFactorAnalysis,
) -> dict[str, Any]:
    """Data, settings and search, for the JSON."""
    return {
        **table_as_json(table),
        "settings": {
            "method": options.method,
            "standardize": options.standardize,
            "factors": "auto" if options.factors is None else options.factors,
            "max_factors": options.max_factors,
            "max_time": options.max_time,
            "model_error": options.model_error,
            "likelihood": options.likelihood,
            "ordinal": options.ordinal,
            "link": options.link,
            "offset": options.offset,
            "robust": options.robust,
            "rotation": options.rotation,
            "seed": options.seed,
            "cuspfa": __version__,
        },
        "search": [entry._asdict() for entry in model.search_],
        "converged": bool(model.converged_),
        "status": model.status_,
        "n_iter": int(model.n_iter_),
        "lower_bound": float(model.lower_bound_),
        "expected_active_factors": float(model.expected_active_factors_),
    }
