"""Commands, errors and exit codes.

0    done
1    something went wrong in the program (a defect; --debug shows the traceback)
2    the command line or the input is wrong; one line says what to do
130  interrupted
141  the reader of our output went away
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from cuspfa import __version__
from cuspfa.cli.console import Terminal

app = App(
    name="cuspfa",
    version=__version__,
    help="Bayesian factor analysis that finds its own number of factors.\n\n"
    "Add --debug to any command to see where an error came from.",
    suppress_keyboard_interrupt=False,
)


def _whole_number(type_: Any, tokens: Sequence[Any]) -> int:
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f'must be a whole number, got "{tokens[0].value}"') from None


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
    seed: Annotated[
        int, Parameter(converter=_whole_number, help="Seed of random starts and draws.")
    ] = 0,
    quick: Annotated[
        bool, Parameter(negative="", help="200 draws instead of 2000, for a first look.")
    ] = False,
) -> None:
    """Print Table 1 of Legramanti (2020) with our figures beside the paper's.

    Example: cuspfa reproduce --seed 1 --json table.json
    """
    from cuspfa.cli.reproduce import print_table

    print_table(seed=seed, quick=quick, json_path=json)


def run(arguments: list[str]) -> int:
    """Run the program; return its exit code."""
    from cuspfa.errors import CuspError

    debug = "--debug" in arguments
    arguments = [word for word in arguments if word != "--debug"]
    error_console = Terminal(stderr=True, soft_wrap=True)
    try:
        app(arguments, exit_on_error=False, print_error=False, error_console=error_console)
        sys.stdout.flush()
    except KeyboardInterrupt:
        error_console.print("Interrupted.")
        return 130
    except BrokenPipeError:
        # The interpreter flushes once more as it ends; let it do so into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (CuspError, CycloptsError, OSError) as error:
        if debug:
            traceback.print_exc()
        error_console.print("cuspfa:", _one_line(error), markup=False)
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
    return 0


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
