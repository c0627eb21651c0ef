"""The HTML report on a fit, one self-contained file: `posterior.report(path)`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from cuspfa._utils.arguments import must_be
from cuspfa.io.atomic import as_path, check_writable, replacing
from cuspfa.posterior.draws import Draws
from cuspfa.rotation.aligned import AlignedDraws

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior


def write_report(
    posterior: Posterior,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    scores: Any = None,
    draws: Draws | None = None,
    aligned: AlignedDraws | None = None,
) -> None:
    """Write a report; see `Posterior.report`.

    `aligned` are draws on the axes of the posterior, which are then not rotated again.
    """
    target = as_path(path)
    check_writable("path", target)
    if title is not None and not isinstance(title, str):
        raise must_be("title", "None or a text", title)
    try:
        from cuspfa.reporting.html.page import render
    except ImportError as error:
        raise ImportError(
            f"A report needs jinja2 and matplotlib. {error.name} is not installed. Install it with "
            "pip install 'cuspfa[cli]'."
        ) from error
    from cuspfa.reporting.html.content import gather

    text = render(gather(posterior, draws, scores, aligned=aligned), title)
    with replacing(target) as temporary:
        # Characters that UTF-8 does not have, such as lone surrogates, become question marks.
        temporary.write_bytes(text.encode("utf-8", "replace"))
