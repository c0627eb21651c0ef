"""The terminal's face of `cuspfa plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cuspfa._utils.optional import needed
from cuspfa.cli.console import Terminal
from cuspfa.cli.outputs import check_not_the_input
from cuspfa.cli.saved_fits import load_fit
from cuspfa.errors import InputError
from cuspfa.io.atomic import check_writable, replacing

SUFFIXES = ("png", "svg", "pdf")
DOTS_PER_INCH = 200


def draw(fit: Path, kind: str, output: Path) -> None:
    """One picture of a saved fit, in a file."""
    suffix = output.suffix.lower().removeprefix(".")
    if suffix not in SUFFIXES:
        raise InputError(f"-o must end in .png, .svg or .pdf. Got {str(output)!r} instead.")
    check_writable("-o", output)
    check_not_the_input("-o", output, str(fit))
    needed("matplotlib", "cuspfa plot", "cli")
    from cuspfa.reporting.plots import KINDS

    posterior = load_fit(fit)
    figure = _figure(KINDS[kind](posterior))
    with replacing(output) as temporary:
        figure.savefig(
            temporary,
            format=suffix,
            dpi=DOTS_PER_INCH,
            bbox_inches="tight",
            metadata=_no_date(suffix),
        )
    Terminal().print(f"Written to {output}", soft_wrap=True, markup=False)


def _figure(axes: Any) -> Any:
    """Of the axes that were drawn on, be they one or several."""
    return np.ravel(axes)[0].figure


def _no_date(suffix: str) -> dict[str, None]:
    """The same fit gives the same file."""
    return {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix, {})
