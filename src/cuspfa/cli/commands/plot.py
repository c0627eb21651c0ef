"""The command `cuspfa plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from cuspfa._utils.optional import needed
from cuspfa.cli.console import Terminal
from cuspfa.cli.options import ShowOptions
from cuspfa.cli.outputs import check_file
from cuspfa.cli.saved_fits import comma_words, load_fit, shown_as
from cuspfa.errors import InputError
from cuspfa.io.atomic import replacing
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.presentation import find_factor

FIGURE_SUFFIXES = ("png", "svg", "pdf")
NO_DATE = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Metadata without a date, so that the same fit gives the same file."""
DOTS_PER_INCH = 200
FIGURES_OF_FACTORS = ("forest",)
"""Figures of single factors."""


def draw(fit: Path, kind: str, output: Path, *, factor: str | None, show: ShowOptions) -> None:
    """Draw one figure of a saved fit into a file."""
    if factor is not None and kind not in FIGURES_OF_FACTORS:
        raise InputError(
            f"--factor is for {' and '.join(FIGURES_OF_FACTORS)}. Leave it out for {kind}."
        )
    suffix = output.suffix.lower().removeprefix(".")
    if suffix not in FIGURE_SUFFIXES:
        raise InputError(f"-o must end in .png, .svg or .pdf. Got {str(output)!r} instead.")
    check_file("-o", output, str(fit))
    needed("matplotlib", "cuspfa plot", "cli")
    from matplotlib import rc_context

    from cuspfa.reporting.plots import PLOTS

    posterior = shown_as(load_fit(fit), show)
    settings = {} if factor is None else {"factor": _factors(factor, posterior)}
    figure = np.ravel(PLOTS[kind](posterior, **settings))[0].figure
    # Without a salt, ids in an SVG file would be random.
    with replacing(output) as temporary, rc_context({"svg.hashsalt": "cuspfa"}):
        figure.savefig(
            temporary,
            format=suffix,
            dpi=DOTS_PER_INCH,
            bbox_inches="tight",
            metadata=NO_DATE.get(suffix, {}),
        )
    Terminal().say_written(output)


def _factors(text: str, posterior: Posterior) -> int | list[int] | Literal["all"]:
    """The factors of --factor by their numbers."""
    k, shown = posterior.n_active, posterior.presentation
    if not k:
        raise InputError("--factor: the fit has no factors.")
    if text.strip().lower() == "all":
        return "all"
    try:
        found = [find_factor(shown, word, k) for word in comma_words("--factor", text)]
    except InputError as error:
        raise InputError(f"--factor: {error}") from None
    return found[0] if len(found) == 1 else found
