"""The command-line program: arguments in, an exit code out."""

import sys


def main() -> None:
    """Entry point of `cuspfa`. Names the extra to install if packages are missing."""
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
