"""The command `cuspfa report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from cuspfa._utils.optional import needed
from cuspfa.cli.console import Terminal
from cuspfa.cli.options import ShowOptions
from cuspfa.cli.outputs import check_file
from cuspfa.cli.saved_fits import given_names, load_any_fit, of_counts, shown_as
from cuspfa.data.tables.cells import clean
from cuspfa.errors import InputError

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior
    from cuspfa.posterior.factorization import FactorizationPosterior


def write(fit: Path, output: Path, *, title: str | None, scores: bool, show: ShowOptions) -> None:
    """Write the report on a saved fit."""
    check_report("-o", output, str(fit))
    any_fit = load_any_fit(fit)
    counts = of_counts(any_fit)
    if counts is not None:
        _write_counts(counts, output, title, scores, show)
        return
    posterior = cast("Posterior", any_fit)
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
    known = posterior.provenance
    if title is None and known is not None and known.data is not None:
        title = title_of(known.data.source)
    posterior.report(output, title=title, scores=found)
    Terminal().say_written(output)


def title_of(source: str) -> str:
    """The title of the report on data of this file."""
    return f"Factor analysis of {Path(clean(source)).name}"


def _write_counts(
    posterior: FactorizationPosterior,
    output: Path,
    title: str | None,
    scores: bool,
    show: ShowOptions,
) -> None:
    if scores or show.reverse or show.wording is not None:
        wrong = "--scores" if scores else "--reverse" if show.reverse else "--wording"
        raise InputError(f"{wrong} has no effect on the report of a fit to counts. Leave it out.")
    posterior.with_factor_names(given_names(show)).report(output, title=title)
    Terminal().say_written(output)


def check_report(option: str, output: Path, read: str) -> None:
    """Refuse a missing package, or a file that cannot be written, before the work is done."""
    for package in ("jinja2", "matplotlib"):
        needed(package, "A report", "cli")
    check_file(option, output, read)
