"""The HTML report on a fit, one self-contained file: `posterior.report(path)`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuspfa._utils.arguments import must_be
from cuspfa.io.atomic import as_path, check_writable, replacing
from cuspfa.posterior.draws import Draws
from cuspfa.reporting.html.content import gather
from cuspfa.rotation.aligned import AlignedDraws

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior
    from cuspfa.posterior.factorization import FactorizationPosterior


def write_report(
    posterior: Posterior,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    scores: Any = None,
    draws: Draws | None = None,
    aligned: AlignedDraws | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Write a report; see `Posterior.report`.

    `aligned` are draws on the axes of the posterior, which are then not rotated again. `notes` are
    sentences on the data that stand among the cautions.
    """
    target = _target(path, title)
    try:
        from cuspfa.reporting.html.page import render
    except ImportError as error:
        raise _needs(error) from error

    content = gather(posterior, draws, scores, aligned=aligned, notes=notes)
    _write(target, render(content, title))


def write_count_report(
    posterior: FactorizationPosterior, path: str | os.PathLike[str], *, title: str | None = None
) -> None:
    """Write a report on a fit to counts; see `FactorizationPosterior.report`."""
    target = _target(path, title)
    try:
        from cuspfa.reporting.html.factorization_page import render_counts
    except ImportError as error:
        raise _needs(error) from error
    _write(target, render_counts(posterior, title))


def _target(path: str | os.PathLike[str], title: str | None) -> Path:
    target = as_path(path)
    check_writable("path", target)
    if title is not None and not isinstance(title, str):
        raise must_be("title", "None or a text", title)
    return target


def _needs(error: ImportError) -> ImportError:
    return ImportError(
        f"A report needs jinja2 and matplotlib. {error.name} is not installed. Install it with "
        "pip install 'cuspfa[cli]'."
    )


def _write(target: Path, text: str) -> None:
    with replacing(target) as temporary:
        # Characters that UTF-8 does not have, such as lone surrogates, become question marks.
        temporary.write_bytes(text.encode("utf-8", "replace"))
