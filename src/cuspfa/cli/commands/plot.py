"""The command `cuspfa plot`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cuspfa._utils.optional import needed
from cuspfa.cli.console import Terminal
from cuspfa.cli.options import ShowOptions
from cuspfa.cli.outputs import check_file
from cuspfa.cli.saved_fits import load_fit, shown_as
from cuspfa.errors import InputError
from cuspfa.io.atomic import replacing

FIGURE_SUFFIXES = ("png", "svg", "pdf")
NO_DATE = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Metadata without a date, so that the same fit gives the same file."""
DOTS_PER_INCH = 200


def draw(fit: Path, kind: str, output: Path, show: ShowOptions) -> None:
    """Draw one figure of a saved fit into a file."""
    suffix = output.suffix.lower().removeprefix(".")
    if suffix not in FIGURE_SUFFIXES:
        raise InputError(f"-o must end in .png, .svg or .pdf. Got {str(output)!r} instead.")
    check_file("-o", output, str(fit))
    needed("matplotlib", "cuspfa plot", "cli")
    from matplotlib import rc_context

    from cuspfa.reporting.plots import PLOTS

    posterior = shown_as(load_fit(fit), show)
    figure = np.ravel(PLOTS[kind](posterior))[0].figure
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
