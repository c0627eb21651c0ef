"""Commands, errors and exit codes.

0    done
1    a defect of the program (--debug shows the traceback)
2    a mistake in the command line or the input; one line says what to do
130  interrupted
141  the program that reads the output has ended
"""

from __future__ import annotations

import io
import logging
import os
import sys
import time
import traceback
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from cyclopts import App, CycloptsError, Parameter

from cuspfa import __version__
from cuspfa.cli.console import Terminal
from cuspfa.cli.options import (
    CongruenceOptions,
    DataOptions,
    FitOptions,
    ModelOptions,
    PriorOptions,
    ReadingOptions,
    SelectOptions,
    ShowOptions,
    choice_option,
    flag_option,
    number_option,
    output_option,
    whole_option,
)

app = App(
    name="cuspfa",
    version=__version__,
    help="Bayesian factor analysis that infers the number of factors.\n\n"
    "Example: cuspfa fit answers.csv -o answers.cusp\n\n"
    "Add --debug to any command to see where an error came from.",
    help_format="plaintext",  # markdown needs packages that load slowly
    suppress_keyboard_interrupt=False,
)


Picture = Literal[
    "search", "model_error", "scree", "loadings", "forest", "correlation", "communality", "trace"
]
NewRowsFile = Annotated[
    Path,
    Parameter(
        allow_leading_hyphen=True,
        help="Table, or folder of them, with the columns of the fit in any order; - is standard "
        "input.",
    ),
]
TableOut = Annotated[
    Path | None,
    output_option("CSV, TSV, Excel (.xlsx) or Parquet file. Default: standard output."),
]
FitFile = Annotated[Path, Parameter(help="A fit, as cuspfa fit -o writes it.")]
KeptId = Annotated[
    str | None, Parameter(help="Column with the names of the rows. It is copied to the output.")
]
DataFile = Annotated[
    Path | None,
    Parameter(
        allow_leading_hyphen=True,
        help="CSV, TSV, Parquet or Feather file, workbook (.xlsx, .xls, .ods), or file of "
        "SPSS (.sav), Stata (.dta) or R (.rds); of counts also a sparse matrix (.mtx, .npz, "
        ".h5ad); - is standard input.",
    ),
]
JsonFlag = Annotated[
    bool, flag_option("Print the result as JSON. All else goes to standard error.", "--json")
]
HowToRead = Annotated[ReadingOptions, Parameter(name="*")]
HowToShow = Annotated[ShowOptions, Parameter(name="*")]
NO_FIT_OPTIONS, NO_READING_OPTIONS, NO_SHOW_OPTIONS = FitOptions(), ReadingOptions(), ShowOptions()
NO_SELECT_OPTIONS, NO_CHECK_OPTIONS = SelectOptions(), ModelOptions()
NO_CONGRUENCE_OPTIONS, NO_PRIOR_OPTIONS = CongruenceOptions(), PriorOptions()


@app.command
def fit(
    data: DataFile = None,
    /,
    *,
    options: Annotated[FitOptions, Parameter(name="*")] = NO_FIT_OPTIONS,
) -> None:
    """Fit a factor model to a table and print a summary.

    Leaves out text, dates, constants, row numbers and rows without any value, and says so.
    Missing values stay missing: nothing is filled in, and no other row is dropped.

    Example: cuspfa fit answers.csv --exclude age,sex -o answers.cusp
    """
    began = time.perf_counter()  # loading the modules is part of the time that a person waits
    from cuspfa.cli.commands.fit import run_fit

    run_fit(_with_data(options, data), began)


@app.command
def select_n_factors(
    data: DataFile = None,
    /,
    *,
    options: Annotated[SelectOptions, Parameter(name="*")] = NO_SELECT_OPTIONS,
) -> None:
    """Print the number of factors by each rule, with held-out rows and random halves.

    Example: cuspfa select-n-factors answers.csv --exclude age,sex
    """
    from cuspfa.cli.commands.select_n_factors import run_selection

    run_selection(_with_data(options, data))


@app.command
def check(
    fit_or_data: Annotated[
        Path | None,
        Parameter(
            allow_leading_hyphen=True,
            help="A table, which is fitted first; or a saved fit, with its data after it.",
        ),
    ] = None,
    data: Annotated[
        Path | None, Parameter(allow_leading_hyphen=True, help="The table of a saved fit.")
    ] = None,
    /,
    *,
    options: Annotated[ModelOptions, Parameter(name="*")] = NO_CHECK_OPTIONS,
) -> None:
    """Look for skewed items, outlying rows and doublets, which make factors of their own.

    Example: cuspfa check answers.csv
    """
    from cuspfa.cli.commands.check import run_check

    saved = None if data is None else fit_or_data
    run_check(saved, _with_data(options, fit_or_data if data is None else data))


@app.command
def congruence(
    first: Annotated[
        Path | None,
        Parameter(allow_leading_hyphen=True, help="A saved fit; or a table, with --by."),
    ] = None,
    second: Annotated[
        Path | None, Parameter(help="Another saved fit, of the same variables.")
    ] = None,
    /,
    *,
    options: Annotated[CongruenceOptions, Parameter(name="*")] = NO_CONGRUENCE_OPTIONS,
) -> None:
    """Compare the factors of two saved fits, or of the groups of a table.

    Example: cuspfa congruence answers.csv --by gender
    """
    from cuspfa.cli.commands.congruence import run_congruence

    run_congruence(first, second, _with_data(options, first))


@app.command
def prior_sensitivity(
    data: DataFile = None,
    /,
    *,
    options: Annotated[PriorOptions, Parameter(name="*")] = NO_PRIOR_OPTIONS,
) -> None:
    """Print the number of factors under several priors.

    Example: cuspfa prior-sensitivity answers.csv --alpha 1,5,20
    """
    from cuspfa.cli.commands.prior_sensitivity import run_sensitivity

    run_sensitivity(_with_data(options, data))


@app.command
def scores(
    fit: FitFile,
    data: NewRowsFile,
    /,
    *,
    output: TableOut = None,
    id: KeptId = None,
    exposure: Annotated[
        str | None,
        Parameter(help="Column with the exposures of counts. Default: as in the fit."),
    ] = None,
    layer: Annotated[
        str | None, Parameter(help="Layer of an h5ad file with counts. Default: as in the fit.")
    ] = None,
    transpose: Annotated[
        bool, flag_option("The rows of a sparse matrix of counts are variables.")
    ] = False,
    read: HowToRead = NO_READING_OPTIONS,
) -> None:
    """Factor scores of the rows of a table, as CSV or Parquet.

    Example: cuspfa scores answers.cusp answers.csv --id person -o scores.csv
    """
    from cuspfa.cli.commands.scores import CountRows, write_scores

    counts = CountRows(exposure, layer, transpose)
    write_scores(fit, str(data), output=output, id_column=id, read=read, counts=counts)


@app.command
def impute(
    fit: FitFile,
    data: NewRowsFile,
    /,
    *,
    output: TableOut = None,
    draws: Annotated[
        int | None,
        whole_option(
            "Number of tables with drawn values, one below the other, for analyses that are "
            "pooled by Rubin's rules. Default: one table of expected values."
        ),
    ] = None,
    std: Annotated[
        bool,
        flag_option("Add columns with the standard deviation of each value that was filled in."),
    ] = False,
    id: KeptId = None,
    seed: Annotated[int, whole_option("Seed of the draws.")] = 0,
    read: HowToRead = NO_READING_OPTIONS,
) -> None:
    """Fill in the missing values of a table by a saved fit, as CSV or Parquet.

    Example: cuspfa impute answers.cusp answers.csv --draws 20 -o filled.csv
    """
    from cuspfa.cli.commands.impute import write_imputed

    write_imputed(
        fit,
        str(data),
        output=output,
        id_column=id,
        draws=draws,
        std=std,
        seed=seed,
        read=read,
    )


@app.command
def info(fit: FitFile, /) -> None:
    """Print what a saved fit contains, and its summary.

    Example: cuspfa info answers.cusp
    """
    from cuspfa.cli.commands.info import print_info

    print_info(fit)


@app.command
def describe(
    fit: FitFile,
    /,
    *,
    bibtex: Annotated[bool, flag_option("Print the references as BibTeX entries only.")] = False,
    json: JsonFlag = False,
) -> None:
    """Print the methods of a saved fit as a paragraph for a paper, and what to cite.

    Example: cuspfa describe answers.cusp
    """
    from cuspfa.cli.commands.describe import print_description

    print_description(fit, bibtex=bibtex, as_json=json)


@app.command
def report(
    fit: FitFile,
    /,
    *,
    output: Annotated[Path, output_option("File to write, such as report.html.")],
    title: Annotated[str | None, Parameter(help="Name of the page.")] = None,
    scores: Annotated[
        bool,
        flag_option("Include the factor scores of the rows, if they were saved with the fit."),
    ] = False,
    show: HowToShow = NO_SHOW_OPTIONS,
) -> None:
    """Write an HTML report on a saved fit, one file for any browser.

    Example: cuspfa report answers.cusp -o report.html
    """
    from cuspfa.cli.commands.report import write

    write(fit, output, title=title, scores=scores, show=show)


@app.command
def table(
    fit: FitFile,
    /,
    *,
    output: Annotated[Path, output_option("File to write: .docx, .tex, .md, .html or .xlsx.")],
    suppress: Annotated[
        float,
        number_option("Leave out loadings that are smaller in absolute value, such as 0.3."),
    ] = 0.0,
    intervals: Annotated[
        bool, flag_option("Write the 95 % intervals of loadings and communalities too.")
    ] = False,
    sort: Annotated[
        bool,
        Parameter(
            show_default=False,
            help="Group the variables by factor and sort them by loading (default).",
        ),
    ] = True,
    show: HowToShow = NO_SHOW_OPTIONS,
) -> None:
    """Write tables for a paper: loadings, factors with alpha and omega, correlations and fit.

    Example: cuspfa table answers.cusp --suppress 0.3 -o tables.docx
    """
    from cuspfa.cli.commands.table import write_table

    write_table(fit, output, suppress=suppress, intervals=intervals, sort=sort, show=show)


@app.command
def plot(
    fit: FitFile,
    kind: Annotated[Picture, choice_option("What to draw.")],
    /,
    *,
    output: Annotated[Path, output_option("File to write: .png, .svg or .pdf.")],
    factor: Annotated[
        str | None,
        Parameter(
            help="Factors of the figure forest, by number or name, with commas, or all. Default: "
            "the first."
        ),
    ] = None,
    show: HowToShow = NO_SHOW_OPTIONS,
) -> None:
    """Draw one picture of a saved fit.

    Example: cuspfa plot answers.cusp forest --factor 2 -o factor2.png
    """
    from cuspfa.cli.commands.plot import draw

    draw(fit, kind, output, factor=factor, show=show)


@app.command(name="app")
def serve(
    *,
    port: Annotated[int, whole_option("Port on this machine; 0 is any that is free.")] = 0,
    browser: Annotated[
        bool, Parameter(show_default=False, help="Open the page in the browser (default).")
    ] = True,
    max_upload: Annotated[int, whole_option("Largest file in MB.")] = 256,
    max_time: Annotated[float, number_option("Most seconds of one fit.")] = 600.0,
) -> None:
    """Open a page in the browser to work on: data, fit, report and tables, live.

    It is served from this machine, to you alone. Nothing is loaded from or sent to a network.

    Example: cuspfa app
    """
    from cuspfa.cli.commands.app import run_page

    run_page(port=port, browser=browser, max_upload=max_upload, max_time=max_time)


@app.command
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Which shell.")],
    /,
) -> None:
    """Print a completion script for a shell: the Tab key completes commands and options.

    Example: cuspfa completion bash > ~/.local/share/bash-completion/completions/cuspfa
    """
    sys.stdout.write(app.generate_completion(prog_name="cuspfa", shell=shell) + "\n")


@app.command
def reproduce(
    *,
    json: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="Write the table to this file as JSON; - is standard output.",
        ),
    ] = None,
    seed: Annotated[int, whole_option("Seed of random starts and draws.")] = 0,
    quick: Annotated[
        bool, Parameter(negative="", help="200 draws instead of 2000, for a first look.")
    ] = False,
    simulations: Annotated[
        bool,
        Parameter(
            negative="",
            help="Run the simulations of Legramanti, Durante & Dunson (2020) instead, which "
            "takes minutes.",
        ),
    ] = False,
) -> None:
    """Print Table 1 of Legramanti (2020): figures of the paper and of cuspfa.

    Example: cuspfa reproduce --seed 1 --json table.json
    """
    from cuspfa.cli.commands.reproduce import print_papers

    print_papers(simulations=simulations, seed=seed, quick=quick, json_path=json)


AnyDataOptions = TypeVar("AnyDataOptions", bound=DataOptions)


def _with_data(options: AnyDataOptions, data: Path | None) -> AnyDataOptions:
    return replace(options, data=None if data is None else str(data))


def run_program(arguments: list[str]) -> int:
    """Run the program; return its exit code."""
    from cuspfa.errors import CuspError

    debug = "--debug" in arguments
    arguments = [word for word in arguments if word != "--debug"]
    error_console = Terminal(stderr=True, soft_wrap=True)
    # matplotlib logs a warning if its cache cannot be written.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    _replace_unknown_characters()
    try:
        code = _exit_code(arguments, error_console)
        if sys.stdout is not None:  # the caller may have closed it
            sys.stdout.flush()
    except KeyboardInterrupt:
        error_console.print("Interrupted.")
        return 130
    except BrokenPipeError:
        _discard_output()
        return 141
    except (CuspError, CycloptsError, OSError) as error:
        if debug:
            traceback.print_exc()
        said = _one_line(error)
        if isinstance(error, OSError) and error.errno == ENOSPC and error.filename is None:
            said = f"standard output: {said}"  # errors of other files name them
        if isinstance(error, CycloptsError):
            from cuspfa.cli.usage_errors import usage_text

            said = usage_text(error, app, arguments)
        error_console.print("cuspfa:", said, markup=False)
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:  # a full disk
            _discard_output()
        return 2
    except Exception as error:
        if debug:
            traceback.print_exc()
        error_console.print(
            f"cuspfa: unexpected {type(error).__name__}: {_one_line(error)} "
            "(a defect; --debug shows where)",
            markup=False,
        )
        return 1
    return code


def _exit_code(arguments: list[str], error_console: Terminal) -> int:
    """The exit code of a run without an error. Some versions of cyclopts exit, others return."""
    try:
        app(arguments, exit_on_error=False, print_error=False, error_console=error_console)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    return 0


def _discard_output() -> None:
    """Send standard output to the null device: the interpreter flushes it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replace_unknown_characters() -> None:
    """Write a question mark for each character that the encoding of the output lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
