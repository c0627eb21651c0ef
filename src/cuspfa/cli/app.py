"""Commands, errors and exit codes.

0    done
1    something went wrong in the program (a defect; --debug shows the traceback)
2    the command line or the input is wrong; one line says what to do
130  interrupted
141  the reader of our output went away
"""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from errno import ENOSPC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

from cuspfa import __version__
from cuspfa.cli.console import Terminal

if TYPE_CHECKING:
    from cuspfa.data.tables.dialect import Reading

app = App(
    name="cuspfa",
    version=__version__,
    help="Bayesian factor analysis that finds its own number of factors.\n\n"
    "Example: cuspfa fit answers.csv -o answers.cusp\n\n"
    "Add --debug to any command to see where an error came from.",
    help_format="plaintext",  # what renders markdown takes long to load
    suppress_keyboard_interrupt=False,
)


def _whole_number(type_: Any, tokens: Sequence[Any]) -> int:
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f'must be a whole number, got "{tokens[0].value}"') from None


def _whole(text: str) -> Parameter:
    """An option that takes a whole number."""
    return Parameter(converter=_whole_number, help=text)


def _flag(text: str) -> Parameter:
    """An option without a value."""
    return Parameter(negative="", show_default=False, help=text)


def _output(text: str) -> Parameter:
    """The file that a command writes."""
    return Parameter(name=("--output", "-o"), help=text)


def _number(type_: Any, tokens: Sequence[Any]) -> float:
    try:
        return float(tokens[0].value)
    except ValueError:
        raise ValueError(f'must be a number, got "{tokens[0].value}"') from None


Picture = Literal["search", "loadings", "forest", "correlation", "communality", "trace"]
Axes = Literal["varimax", "quartimax", "equamax", "promax", "oblimin", "quartimin", "geomin"]
NewRows = Annotated[
    Path,
    Parameter(
        allow_leading_hyphen=True,
        help="Table, or folder of them, with the columns of the fit in any order; - is standard "
        "input.",
    ),
]
TableOut = Annotated[
    Path | None,
    _output("CSV, TSV or Parquet file. Left out: standard output."),
]
Fit = Annotated[Path, Parameter(help="A fit, as cuspfa fit -o writes it.")]
KeptId = Annotated[str | None, Parameter(help="Column with names of rows, to be kept.")]
Header = Annotated[
    bool | None,
    Parameter(help="The first row names the columns, or does not. Left out: found out."),
]
Decimal = Annotated[
    Literal["point", "comma"] | None,
    Parameter(help="The decimal sign. Left out: found out."),
]
Missing = Annotated[
    list[str] | None,
    Parameter(
        negative="",
        allow_leading_hyphen=True,
        help="Codes for missing values, with commas between them, such as -99,999.",
    ),
]


def _reading(header: bool | None, decimal: str | None, missing: list[str] | None) -> Reading:
    from cuspfa.cli.reading import as_option
    from cuspfa.data.tables.dialect import Reading

    sign = {None: None, "point": ".", "comma": ","}[decimal]
    codes = (word.strip() for text in missing or () for word in text.split(","))
    return Reading(header, sign, tuple(filter(None, codes)), as_option)


@app.command
def fit(
    data: Annotated[
        Path | None,
        Parameter(
            allow_leading_hyphen=True,
            help="CSV, TSV, Parquet or Feather file; - is standard input.",
        ),
    ] = None,
    /,
    *,
    example: Annotated[
        Literal["bfi"] | None,
        Parameter(help="Fit data that come with cuspfa: 25 personality items."),
    ] = None,
    output: Annotated[
        Path | None,
        _output("Save the fit to this file, such as fit.cusp."),
    ] = None,
    report: Annotated[
        Path | None,
        Parameter(help="Write a page for the browser to this file, such as report.html."),
    ] = None,
    loadings: Annotated[
        Path | None,
        Parameter(help="Write loadings and communalities with 95 % intervals to this CSV file."),
    ] = None,
    no_statistics: Annotated[
        bool,
        _flag(
            "Save the fit without cross-products or rotated rows of the data, from which rows "
            "may be guessed: measures of fit are lost, and intervals are rougher."
        ),
    ] = False,
    method: Annotated[str, Parameter(help="The engine: variational or gibbs.")] = "variational",
    columns: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="Columns to analyse: names with commas between them, or numbers from 1 on, such "
            "as 3-10. May be repeated. Left out: all columns of numbers.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        Parameter(negative="", help="Columns to leave out, written in the same way."),
    ] = None,
    id: Annotated[str | None, Parameter(help="Column with names of rows: not analysed.")] = None,
    missing: Missing = None,
    header: Header = None,
    decimal: Decimal = None,
    standardize: Annotated[
        bool,
        Parameter(show_default=False, help="Scale each column to unit variance first (default)."),
    ] = True,
    factors: Annotated[
        int | None,
        _whole("Number of factors. Left out: found."),
    ] = None,
    max_factors: Annotated[
        int | None,
        _whole(
            "Most factors that are looked for. Left out: 100, or fewer if the columns cannot "
            "tell so many apart."
        ),
    ] = None,
    max_time: Annotated[
        float | None,
        Parameter(
            converter=_number,
            help="Seconds for the search or the sampler, which then end with what they have. "
            "Left out: no limit.",
        ),
    ] = None,
    rotation: Annotated[
        Axes | None,
        Parameter(
            help="Axes of the factors: uncorrelated (varimax, quartimax, equamax) or correlated "
            "(promax, oblimin, quartimin, geomin). Left out: principal axes."
        ),
    ] = None,
    seed: Annotated[
        int,
        _whole("Seed of the random numbers. A variational fit does not depend on it."),
    ] = 0,
    memory_limit: Annotated[
        str | None,
        Parameter(
            help="Memory that may be taken, such as 4GB. The table is then read by blocks, as are "
            "folders, and files that would not fit."
        ),
    ] = None,
    json: Annotated[
        bool,
        _flag("Print the result as JSON, and all else to standard error."),
    ] = False,
    quiet: Annotated[
        bool,
        _flag(
            "Print the first line of the summary alone; what was left out, and warnings, go "
            "to standard error."
        ),
    ] = False,
) -> None:
    """Fit a factor model to a table, and show what was found.

    Leaves out text, dates, constants, row numbers and rows without any value, and says so.
    Missing values stay missing: nothing is filled in, and no other row is dropped.

    Example: cuspfa fit answers.csv --exclude age,sex -o answers.cusp
    """
    from cuspfa.cli.commands.fit import Request
    from cuspfa.cli.commands.fit import fit as run_fit

    run_fit(
        Request(
            data=None if data is None else str(data),
            example=example,
            output=output,
            report=report,
            method=method,
            columns=columns or (),
            exclude=exclude or (),
            id_column=id,
            standardize=standardize,
            factors=factors,
            max_factors=max_factors,
            max_time=max_time,
            rotation=rotation,
            seed=seed,
            as_json=json,
            quiet=quiet,
            how=_reading(header, decimal, missing),
            statistics=not no_statistics,
            loadings=loadings,
            memory_limit=memory_limit,
        )
    )


@app.command
def scores(
    fit: Fit,
    data: NewRows,
    /,
    *,
    output: TableOut = None,
    id: KeptId = None,
    missing: Missing = None,
    header: Header = None,
    decimal: Decimal = None,
) -> None:
    """Factor scores of the rows of a table, as CSV or Parquet.

    Example: cuspfa scores answers.cusp answers.csv --id person -o scores.csv
    """
    from cuspfa.cli.commands.scores import write_scores

    how = _reading(header, decimal, missing)
    write_scores(fit, str(data), output=output, id_column=id, how=how)


@app.command
def impute(
    fit: Fit,
    data: NewRows,
    /,
    *,
    output: TableOut = None,
    draws: Annotated[
        int | None,
        _whole(
            "So many tables with drawn values, one below the other, for analyses that are "
            "pooled by Rubin's rules. Left out: one table of expected values."
        ),
    ] = None,
    std: Annotated[
        bool,
        _flag("Add columns with the standard deviation of each value that was filled in."),
    ] = False,
    id: KeptId = None,
    seed: Annotated[int, _whole("Seed of the draws.")] = 0,
    missing: Missing = None,
    header: Header = None,
    decimal: Decimal = None,
) -> None:
    """Fill in the missing values of a table by a saved fit, as CSV or Parquet.

    Example: cuspfa impute answers.cusp answers.csv --draws 20 -o filled.csv
    """
    from cuspfa.cli.commands.impute import write_imputed

    how = _reading(header, decimal, missing)
    write_imputed(
        fit, str(data), output=output, id_column=id, draws=draws, std=std, seed=seed, how=how
    )


@app.command
def info(fit: Fit, /) -> None:
    """Show what a saved fit holds, with its summary.

    Example: cuspfa info answers.cusp
    """
    from cuspfa.cli.commands.info import print_info

    print_info(fit)


@app.command
def report(
    fit: Fit,
    /,
    *,
    output: Annotated[Path, _output("File to write, such as report.html.")],
    title: Annotated[str | None, Parameter(help="Name of the page.")] = None,
    scores: Annotated[
        bool,
        _flag("Include the factor scores of the rows, if they were saved with the fit."),
    ] = False,
) -> None:
    """Write one page on a saved fit, which any browser shows and which needs nothing else.

    Example: cuspfa report answers.cusp -o report.html
    """
    from cuspfa.cli.commands.report import write

    write(fit, output, title=title, scores=scores)


@app.command
def plot(
    fit: Fit,
    kind: Annotated[Picture, Parameter(help="What to draw.")],
    /,
    *,
    output: Annotated[Path, _output("File to write: .png, .svg or .pdf.")],
) -> None:
    """Draw one picture of a saved fit.

    Example: cuspfa plot answers.cusp loadings -o loadings.png
    """
    from cuspfa.cli.commands.plot import draw

    draw(fit, kind, output)


@app.command
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Which shell.")],
    /,
) -> None:
    """Print what makes a shell complete cuspfa's commands and options at the Tab key.

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
    seed: Annotated[int, _whole("Seed of random starts and draws.")] = 0,
    quick: Annotated[
        bool, Parameter(negative="", help="200 draws instead of 2000, for a first look.")
    ] = False,
    simulations: Annotated[
        bool,
        Parameter(
            negative="",
            help="The simulations of Legramanti, Durante & Dunson (2020) instead: minutes.",
        ),
    ] = False,
) -> None:
    """Print Table 1 of Legramanti (2020) with our figures beside the paper's.

    Example: cuspfa reproduce --seed 1 --json table.json
    """
    from cuspfa.cli.commands.reproduce import print_simulations, print_table

    if simulations:
        print_simulations(seed=seed, quick=quick, json_path=json)
        return
    print_table(seed=seed, quick=quick, json_path=json)


def run(arguments: list[str]) -> int:
    """Run the program; return its exit code."""
    from cuspfa.errors import CuspError

    debug = "--debug" in arguments
    arguments = [word for word in arguments if word != "--debug"]
    error_console = Terminal(stderr=True, soft_wrap=True)
    # Where its cache cannot be written, matplotlib says so in lines of its own.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    _replace_what_cannot_be_written()
    try:
        code = _exit_code(arguments, error_console)
        if sys.stdout is not None:  # it may have been closed by who called us
            sys.stdout.flush()
    except KeyboardInterrupt:
        error_console.print("Interrupted.")
        return 130
    except BrokenPipeError:
        _give_up_output()
        return 141
    except (CuspError, CycloptsError, OSError) as error:
        if debug:
            traceback.print_exc()
        said = _one_line(error)
        if isinstance(error, OSError) and error.errno == ENOSPC and error.filename is None:
            said = f"standard output: {said}"  # files are named where they are written
        if isinstance(error, CycloptsError):
            from cuspfa.cli.usage_errors import in_our_words

            said = in_our_words(error, app, arguments)
        error_console.print("cuspfa:", said, markup=False)
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:  # a full disk
            _give_up_output()
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
    """Of a run that ended as it should: cyclopts exits by itself, or not, by its version."""
    try:
        app(arguments, exit_on_error=False, print_error=False, error_console=error_console)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    return 0


def _give_up_output() -> None:
    """The interpreter flushes once more as it ends; let it do so into nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replace_what_cannot_be_written() -> None:
    """A terminal that lacks a letter of some column's name shows a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
