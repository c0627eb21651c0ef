"""`cuspfa plot`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cuspfa._utils.optional import needed
from cuspfa.cli.console import Terminal
from cuspfa.cli.outputs import check_file, check_not_the_input
from cuspfa.cli.saved_fits import load_fit
from cuspfa.errors import InputError
from cuspfa.io.atomic import replacing

SUFFIXES = ("png", "svg", "pdf")
NO_DATE = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Metadata without a date, so that the same fit gives the same file."""
DOTS_PER_INCH = 200


def draw(fit: Path, kind: str, output: Path) -> None:
    """Draw one figure of a saved fit into a file."""
    suffix = output.suffix.lower().removeprefix(".")
    if suffix not in SUFFIXES:
        raise InputError(f"-o must end in .png, .svg or .pdf. Got {str(output)!r} instead.")
    check_file("-o", output)
    check_not_the_input("-o", output, str(fit))
    needed("matplotlib", "cuspfa plot", "cli")
    from cuspfa.reporting.plots import KINDS

    posterior = load_fit(fit)
    figure = np.ravel(KINDS[kind](posterior))[0].figure
    with replacing(output) as temporary:
        figure.savefig(
            temporary,
            format=suffix,
            dpi=DOTS_PER_INCH,
            bbox_inches="tight",
            metadata=NO_DATE.get(suffix, {}),
        )
    Terminal().print(f"Written to {output}", soft_wrap=True, markup=False)
