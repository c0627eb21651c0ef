"""Commands, errors and exit codes.

0  done
1  something went wrong in the program (a defect; --debug shows the traceback)
2  the command line or the input is wrong; one line says what to do
130  interrupted
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from cuspfa import __version__

app = App(
    name="cuspfa",
    version=__version__,
    help="Bayesian factor analysis that finds its own number of factors.",
)


@app.command
def reproduce(
    *,
    json: Annotated[Path | None, Parameter(help="Write the table to this file as JSON.")] = None,
    seed: Annotated[int, Parameter(help="Seed of random starts and draws.")] = 0,
    quick: Annotated[
        bool, Parameter(negative="", help="200 draws instead of 2000, for a first look.")
    ] = False,
) -> None:
    """Print Table 1 of Legramanti (2020) with our figures beside the paper's.

    Example: cuspfa reproduce --seed 1 --json table.json
    """
    from cuspfa.cli.reproduce import print_table

    print_table(Console(highlight=False), seed=seed, quick=quick, json_path=json)


def run(arguments: list[str]) -> int:
    """Run the program; return its exit code."""
    from cuspfa.errors import CuspError

    debug = "--debug" in arguments
    arguments = [word for word in arguments if word != "--debug"]
    error_console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        app(arguments, exit_on_error=False, print_error=False, error_console=error_console)
    except KeyboardInterrupt:
        error_console.print("Interrupted.")
        return 130
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


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
