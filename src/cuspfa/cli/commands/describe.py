"""The command `cuspfa describe`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple, cast

from cuspfa.cli.console import Terminal
from cuspfa.cli.outputs import print_json
from cuspfa.cli.saved_fits import load_any_fit, of_counts
from cuspfa.cli.terminal import Page
from cuspfa.errors import InputError
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.factorization import FactorizationPosterior
from cuspfa.reporting.citations import Reference, made_with, references
from cuspfa.reporting.factorization_methods import (
    count_methods,
    count_paragraph,
    count_references,
    count_versions,
)
from cuspfa.reporting.methods_text import methods, methods_paragraph
from cuspfa.reporting.summary import summary_draws


def print_description(fit: Path, *, bibtex: bool, as_json: bool) -> None:
    """Print the methods of a saved fit as a paragraph, and what to cite."""
    if bibtex and as_json:
        raise InputError("--json has the BibTeX entries too. Give --bibtex or --json.")
    found = load_any_fit(fit)
    counts = of_counts(found)
    described = _of_factors(cast("Posterior", found)) if counts is None else _of_counts(counts)
    cited = described.references
    if bibtex:
        sys.stdout.write("\n\n".join(one.bibtex for one in cited) + "\n")
        return
    if as_json:
        print_json(
            {
                "paragraph": described.paragraph,
                "methods": [{"term": term, "text": text} for term, text in described.methods],
                "references": [one._asdict() for one in cited],
                "versions": dict(described.versions),
            }
        )
        return
    page = Page(Terminal())
    page.paragraph(described.paragraph, indent=0)
    page.line()
    page.line("References")
    for one in cited:
        page.paragraph(one.text)


class _Described(NamedTuple):
    paragraph: str
    methods: list[tuple[str, str]]
    references: list[Reference]
    versions: tuple[tuple[str, str], ...]


def _of_factors(posterior: Posterior) -> _Described:
    n_draws = len(summary_draws(posterior))  # as in the report
    return _Described(
        methods_paragraph(posterior, n_draws),
        methods(posterior, n_draws),
        references(posterior),
        made_with(posterior),
    )


def _of_counts(posterior: FactorizationPosterior) -> _Described:
    return _Described(
        count_paragraph(posterior),
        count_methods(posterior),
        count_references(posterior),
        count_versions(posterior.provenance),
    )
