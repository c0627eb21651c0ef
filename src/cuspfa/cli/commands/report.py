"""The command `cuspfa report`."""

from __future__ import annotations

from pathlib import Path

from cuspfa._utils.optional import needed
from cuspfa.cli.console import Terminal
from cuspfa.cli.options import ShowOptions
from cuspfa.cli.outputs import check_file
from cuspfa.cli.saved_fits import load_fit, shown_as
from cuspfa.errors import InputError


def write(fit: Path, output: Path, *, title: str | None, scores: bool, show: ShowOptions) -> None:
    """Write the report on a saved fit."""
    check_report("-o", output, str(fit))
    posterior = load_fit(fit)
    reversed_before = set(posterior.presentation.reversed_factors)
    posterior = shown_as(posterior, show)
    found = None
    if scores:
        from cuspfa.posterior.files import load_scores

        found = load_scores(fit)
        if found is None:
            raise InputError(
                f"--scores: {str(fit)!r} has no scores. Save them with the fit, in Python: "
                "posterior.save(path, scores=model.transform(X))."
            )
        for number in reversed_before ^ set(posterior.presentation.reversed_factors):
            found[:, number - 1] *= -1
    posterior.report(output, title=title, scores=found)
    Terminal().say_written(output)


def check_report(option: str, output: Path, read: str) -> None:
    """Refuse a missing package, or a file that cannot be written, before the work is done."""
    for package in ("jinja2", "matplotlib"):
        needed(package, "A report", "cli")
    check_file(option, output, read)
