"""The command `cuspfa fit --model poisson-factorization`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from cuspfa import __version__
from cuspfa._utils.arguments import one_of, whole
from cuspfa._utils.fit_warning_text import terminal_text
from cuspfa.cli.console import Terminal
from cuspfa.cli.count_data import read_counts
from cuspfa.cli.data_input import check_data, check_number, refuse_options
from cuspfa.cli.fit_outputs import check_fit_outputs, warning_as_json
from cuspfa.cli.loadings import write_separated
from cuspfa.cli.next_command import command_after
from cuspfa.cli.options import FitOptions
from cuspfa.cli.outputs import print_json
from cuspfa.cli.progress import progress
from cuspfa.cli.provenance import command_of
from cuspfa.cli.saved_fits import given_names
from cuspfa.cli.terminal import Page, show_count_summary, show_warnings
from cuspfa.data.tables.cells import clean
from cuspfa.data.tables.column_names import not_a_formula
from cuspfa.errors import InputError
from cuspfa.estimator.poisson_factorization import COUNT_ENGINES, CuspPoissonFactorization
from cuspfa.inference.gibbs.settings import Gibbs
from cuspfa.posterior.factorization import FactorizationPosterior

COUNT_OPTIONS = (
    "--model",
    "--factors",
    "--exposure",
    "--layer",
    "--transpose",
    "--id",
    "--columns",
    "--exclude",
    "--include",
    "--missing",
    "--header",
    "--decimal",
    "--sheet",
    "--order",
    "--memory-limit",
    "--max-factors",
    "--method",
    "--max-time",
    "--seed",
    "-o",
    "--report",
    "--loadings",
    "--names",
)
"""Options that have an effect with this model."""
DEFAULT_MOST = 50
"""The most factors that the search tries."""


def run_count_fit(options: FitOptions, began: float) -> None:
    """Read counts, fit the model, write the files and print the result."""
    _check(options)
    page = Page(Terminal(stderr=options.as_json or options.quiet))
    read = read_counts(options, page)
    started = time.perf_counter()
    with progress(options.quiet) as bar:
        model = CuspPoissonFactorization(
            n_factors="auto" if options.factors is None else options.factors,
            max_factors=DEFAULT_MOST if options.max_factors is None else options.max_factors,
            random_state=options.seed,
        )
        if options.method == "gibbs":
            model.method = Gibbs(max_time=options.max_time, callback=bar.on_iteration)

        def on_iteration(k: int, number: int, bound: float) -> None:
            bar.say(f"K = {k}, iteration {number}, bound {bound:.1f}")

        bar.say("fitting")
        found_warnings = model._infer(
            read.data,
            read.exposure,
            column=options.exposure or "",
            command=command_of(options),
            callback=on_iteration,
        )
        seconds = time.perf_counter() - started
        posterior, names_left = _named(model.posterior_, options)
        bar.say("draws from the posterior, for intervals")
        found = posterior.summary()
    if options.output is not None:
        posterior.save(options.output)
    if options.loadings is not None:
        write_count_loadings(options.loadings, posterior)
    if options.report is not None:
        name = Path(clean(str(options.data))).name
        posterior.report(options.report, title=f"Poisson factorization of {name}")
    after = command_after(options)
    total = time.perf_counter() - began
    if options.as_json:
        content = posterior.to_dict() | read.shown
        content |= {
            "settings": _settings(options),
            "warnings": [
                *(warning_as_json(one) for one in found_warnings),
                *({"code": "other", "message": one} for one in names_left),
            ],
            "next_command": after.command,
            "seconds": {"fit": seconds, "total": total},
        }
        print_json(content)
    elif options.quiet:
        Terminal().print(found.headline, soft_wrap=True, markup=False)
    else:
        page.line()
        show_count_summary(page, found)
    show_warnings(page, [*map(terminal_text, found_warnings), *names_left])
    if options.quiet:
        return
    if not options.as_json:
        page.line(f"Time: {seconds:.1f} s for the fit, {total:.1f} s in all.")
    for written in (options.output, options.loadings, options.report):
        if written is not None:
            page.console.say_written(written)
    page.line(after.purpose)
    page.command(after.command)


def write_count_loadings(path: Path, posterior: FactorizationPosterior) -> None:
    """Write one row for each column: its loadings with intervals, and residual dispersion."""
    lower, upper = np.quantile(posterior.kept.loadings, [0.025, 0.975], axis=0)
    factors = posterior.presentation.heads(posterior.n_active, "factor{}")
    heads = [f"{one}{end}" for one in factors for end in ("", "_lower", "_upper")]
    rows = [["variable", *map(not_a_formula, heads), "dispersion"]]
    for j, name in enumerate(posterior.column_names):
        cells = np.column_stack([posterior.components[:, j], lower[j], upper[j]]).ravel().tolist()
        numbers = [*cells, float(posterior.totals.dispersion[j])]
        rows.append([not_a_formula(name), *(f"{value:.6g}" for value in numbers)])
    write_separated(path, rows)


def _check(options: FitOptions) -> None:
    check_data(options)
    if options.data is None:
        raise InputError("--example has no counts. Give a file.")
    refuse_options(options, COUNT_OPTIONS, "with --model poisson-factorization")
    whole("--seed", options.seed, 0)
    one_of("--method", options.method, COUNT_ENGINES)
    if options.max_time is not None:
        if options.method != "gibbs":
            raise InputError("--max-time is for --method gibbs with counts. Give it too.")
        Gibbs(max_time=options.max_time).check()
    if options.factors is not None:
        whole("--factors", options.factors, 1)
    if options.max_factors is not None:
        whole("--max-factors", options.max_factors, 1)
    check_number(options.factors, options.max_factors)
    check_fit_outputs(options)


def _named(
    posterior: FactorizationPosterior, options: FitOptions
) -> tuple[FactorizationPosterior, list[str]]:
    """The posterior with names; names that cannot be used become messages, and the fit is kept."""
    try:
        return posterior.with_factor_names(given_names(options.show)), []
    except InputError as error:
        return posterior, [f"--names: {error} It is left out."]


def _settings(options: FitOptions) -> dict[str, Any]:
    return {
        "model": options.model,
        "factors": "auto" if options.factors is None else options.factors,
        "max_factors": options.max_factors,
        "method": options.method,
        "max_time": options.max_time,
        "exposure": options.exposure,
        "seed": options.seed,
        "cuspfa": __version__,
    }
