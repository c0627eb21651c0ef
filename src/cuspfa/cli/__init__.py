"""The command-line program: arguments in, an exit code out."""

import gc
import sys

COLLECT_AFTER = (50_000, 20, 20)
"""Objects between runs of the garbage collector. It runs hundreds of times while packages are
imported otherwise, for nothing, a tenth of a short command's time."""


def main() -> None:
    """Entry point of `cuspfa`. Names the extra to install if packages are missing."""
    gc.set_threshold(*COLLECT_AFTER)
    try:
        try:
            import cyclopts  # noqa: F401
            import rich  # noqa: F401
        except ModuleNotFoundError:
            sys.stderr.write("The cuspfa program needs more packages: pip install 'cuspfa[cli]'\n")
            sys.exit(2)
        from cuspfa.cli.app import run_program
    except KeyboardInterrupt:
        sys.exit(130)

    sys.exit(run_program(sys.argv[1:]))
