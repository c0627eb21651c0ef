"""The command `cuspfa info`."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import cast

from cuspfa._utils.wording import counted
from cuspfa.cli.console import Terminal
from cuspfa.cli.saved_fits import load_any_fit, of_counts
from cuspfa.cli.terminal import (
    Page,
    show_count_summary,
    show_parameters,
    show_summary,
)
from cuspfa.io.archive import CONTENT
from cuspfa.posterior.base import Posterior
from cuspfa.reporting.summary import summarise, summary_draws


def print_info(path: Path) -> None:
    """Print what a saved fit contains, and its summary."""
    found = load_any_fit(path)
    counts = of_counts(found)
    with zipfile.ZipFile(path) as archive:
        content = json.loads(archive.read(CONTENT))
    page = Page(Terminal())
    size = path.stat().st_size
    page.line(
        f"{content['format']} version {content['version']}, written by cuspfa "
        f"{content['library']}, {_size_text(size)}"
    )
    if counts is not None:
        inside = [f"gamma distributions of the loadings; {content['n_draws']} draws of them"]
        inside += ["scores of the rows"] if content["scores"] else []
        page.paragraph(f"Contains: {'; '.join(inside)}.")
        page.line()
        show_count_summary(page, counts.summary())
        return
    posterior = cast("Posterior", found)
    if content["kind"] == "latent":
        inside = [f"the mode of loadings and other parameters; {content['n_draws']} draws"]
    elif content["kind"] in ("gibbs", "latent_gibbs"):
        inside = [f"{content['n_draws']} draws from {counted(content['n_chains'], 'chain')}"]
    else:
        inside = ["posterior of the loadings and noise variances"]
    inside += [_statistics_text(content["statistics"]["type"])] if content["statistics"] else []
    n_missing = content.get("missing")
    inside += ["correlations of the data"] if n_missing and n_missing["correlation"] else []
    inside += ["weights of the rows"] if content.get("n_row_weights") is not None else []
    inside += ["factor scores of the rows"] if content["scores"] else []
    alternatives = len(content.get("parts", [None])) - 1
    inside += [counted(alternatives, "other number") + " of factors"] if alternatives else []
    page.paragraph(f"Contains: {'; '.join(inside)}.")
    if n_missing and content["kind"] == "variational":
        page.paragraph(
            "The data had missing values, and their rows are not in the file: intervals come from "
            "draws without exact sweeps and differ a little from those of the fit."
        )
    page.line()
    aligned = posterior.align(draws=summary_draws(posterior))
    show_summary(page, summarise(posterior, aligned.draws, aligned))
    page.line()
    show_parameters(page, posterior, aligned)


def _statistics_text(kind: str) -> str:
    if kind == "gram":
        return "cross-products of the data"
    return "the rows of the data up to a rotation (cuspfa fit --no-statistics leaves them out)"


def _size_text(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1e3:.0f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
