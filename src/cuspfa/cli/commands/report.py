"""`cuspfa report`."""

from __future__ import annotations

from pathlib import Path

from cuspfa._utils.optional import needed
from cuspfa.cli.console import Terminal
from cuspfa.cli.outputs import check_file, check_not_the_input
from cuspfa.cli.saved_fits import load_fit
from cuspfa.errors import InputError


def write(fit: Path, output: Path, *, title: str | None, scores: bool) -> None:
    """Write one page on a saved fit."""
    check_report("-o", output)
    check_not_the_input("-o", output, str(fit))
    posterior = load_fit(fit)
    found = None
    if scores:
        from cuspfa.posterior.files import load_scores

        found = load_scores(fit)
        if found is None:
            raise InputError(
                f"--scores: there are none in {str(fit)!r}. Save them with the fit, in Python: "
                "posterior.save(path, scores=model.transform(X))."
            )
    posterior.report(output, title=title, scores=found)
    Terminal().print(f"Written to {output}", soft_wrap=True, markup=False)


def check_report(option: str, output: Path) -> None:
    """Refuse a missing package, or a file that cannot be written, before the work is done."""
    for package in ("jinja2", "matplotlib"):
        needed(package, "A report", "cli")
    check_file(option, output)
