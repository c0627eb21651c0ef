"""The command `cuspfa describe`."""

from __future__ import annotations

import sys
from pathlib import Path

from cuspfa.cli.console import Terminal
from cuspfa.cli.outputs import print_json
from cuspfa.cli.saved_fits import load_fit
from cuspfa.cli.terminal import Page
from cuspfa.errors import InputError
from cuspfa.reporting.citations import made_with, references
from cuspfa.reporting.methods_text import methods, methods_paragraph
from cuspfa.reporting.summary import summary_draws


def print_description(fit: Path, *, bibtex: bool, as_json: bool) -> None:
    """Print the methods of a saved fit as a paragraph, and what to cite."""
    if bibtex and as_json:
        raise InputError("--json has the BibTeX entries too. Give --bibtex or --json.")
    posterior = load_fit(fit)
    cited = references(posterior)
    if bibtex:
        sys.stdout.write("\n\n".join(one.bibtex for one in cited) + "\n")
        return
    n_draws = len(summary_draws(posterior))  # as in the report
    if as_json:
        terms = [{"term": term, "text": text} for term, text in methods(posterior, n_draws)]
        print_json(
            {
                "paragraph": methods_paragraph(posterior, n_draws),
                "methods": terms,
                "references": [one._asdict() for one in cited],
                "versions": dict(made_with(posterior)),
            }
        )
        return
    page = Page(Terminal())
    page.paragraph(methods_paragraph(posterior, n_draws), indent=0)
    page.line()
    page.line("References")
    for one in cited:
        page.paragraph(one.text)
