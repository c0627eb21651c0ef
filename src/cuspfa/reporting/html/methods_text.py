"""Sentences of a report: what was done, how to do it again, how to cite."""

from __future__ import annotations

import math
from typing import Any

from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.provenance import Provenance, versions
from cuspfa.reporting.html.content import Content
from cuspfa.reporting.labels import minus
from cuspfa.reporting.provenance_text import data_text, remarks, settings_text
from cuspfa.reporting.recipe import python_recipe

CITED = (
    "The cuspfa developers. cuspfa: Bayesian factor analysis under the cumulative shrinkage "
    "process. Version {version}.",
    "Legramanti, S. (2020). Variational Bayes for Gaussian factor models under the cumulative "
    "shrinkage process. arXiv:2008.05310.",
    "Legramanti, S., Durante, D. & Dunson, D. B. (2020). Bayesian cumulative shrinkage for "
    "infinite factorizations. Biometrika 107(3), 745–752. doi:10.1093/biomet/asaa008.",
)


def done(content: Content) -> list[tuple[str, str]]:
    """Terms and sentences."""
    summary, provenance = content.summary, content.provenance
    lines = [("Data", _data(content))]
    if provenance is not None and provenance.data is not None and remarks(provenance.data):
        lines.append(("Left out and assumed", " ".join(remarks(provenance.data))))
    lines.append(("Missing values", _missing(content)))
    lines.append(("Model", _model(summary.n_columns, content.n_factors)))
    prior = getattr(content.posterior, "prior", None)
    if isinstance(prior, CuspPrior):
        # A sampler that moves between numbers of factors has a finite spike in any case.
        spike = getattr(content.posterior, "spike", None) if _number_drawn(content) else prior.spike
        lines.append(("Prior", _prior(prior, spike)))
    lines.append(("Method", _method(content)))
    lines.append(("Intervals", _intervals(content)))
    if provenance is not None:
        lines.append(("Settings", settings_text(provenance.settings)))
    made = versions() if provenance is None else provenance.versions
    lines.append(("Versions", ", ".join(f"{name} {number}" for name, number in made) + "."))
    return lines


def _data(content: Content) -> str:
    summary, provenance = content.summary, content.provenance
    size = f"{summary.n_rows} rows and {summary.n_columns} columns were analysed."
    if provenance is None or provenance.data is None:
        return size
    return f"{data_text(provenance.data)} {size}"


def _missing(content: Content) -> str:
    missing = content.missing
    if missing is None:
        return "None among the rows that were analysed."
    cells = missing.n_rows * content.summary.n_columns
    noun = "column" if len(missing.by_column) == 1 else "columns"
    return (
        f"{missing.total} of {cells} values ({100 * missing.total / cells:.1f} %), in "
        f"{len(missing.by_column)} {noun}. None was filled in and no row was dropped for them: "
        "values are taken as missing at random."
    )


def _model(p: int, k: int) -> str:
    return (
        f"Gaussian factor analysis: each of the {p} variables is a weighted sum of {k} common "
        "factors and noise of its own. Loadings are shown on the correlation scale."
    )


def _prior(prior: CuspPrior, spike: float | None) -> str:
    slab = repr(prior.slab)
    where = "at zero" if spike is None else f"of variance {spike:g}"
    noise = f"inverse gamma ({prior.noise_shape:g}, {prior.noise_rate:g})"
    if prior.noise_shape <= 0:
        noise += ", which is nearly flat above a floor"
    return minus(
        f"Cumulative shrinkage process with α = {prior.alpha:g}, the number of factors expected "
        f"beforehand; slab {slab}, spike {where}; noise variances {noise}."
    )


def _method(content: Content) -> str:
    fit_info = content.fit_info
    if fit_info is None:
        return "Not recorded."
    tried = [entry.n_factors for entry in fit_info.search]
    ended = "converged" if fit_info.converged else fit_info.status
    if fit_info.method == "gibbs":
        chains = content.posterior.n_chains
        noun = "chain" if chains == 1 else "chains"
        found = getattr(content.posterior, "diagnostics", None)
        met = ""
        if found is not None and math.isfinite(found.worst_r_hat):
            met = (
                f" R-hat is at most {found.worst_r_hat:.3f} and the effective size at least "
                f"{found.smallest_size:.0f}."
            )
        return f"Gibbs sampler, {chains} {noun}; {ended}.{met}"
    number = "the number of factors given" if content.number_given else "no other number tried"
    if len(tried) > 1:
        number = f"numbers of factors from {min(tried)} to {max(tried)} tried and compared"
    bound = minus(f"{fit_info.lower_bound:.2f}")
    return (
        f"Variational inference, {number}; {ended} after {fit_info.n_iter} iterations, evidence "
        f"lower "
        f"bound {bound}."
    )


def _number_drawn(content: Content) -> bool:
    return content.posterior.kind == "gibbs" and not content.number_given


def _intervals(content: Content) -> str:
    made = f"95 % credible intervals from {content.n_draws} draws of the posterior"
    return f"{made}, given the number of factors."


def citations(content: Content) -> list[str]:
    """How to cite."""
    made: dict[str, Any] = dict(
        versions() if content.provenance is None else content.provenance.versions
    )
    return [text.format(version=made.get("cuspfa", dict(versions())["cuspfa"])) for text in CITED]


def again(provenance: Provenance | None) -> list[tuple[str, str]]:
    """Command and Python to come to the same fit: kind and text."""
    if provenance is None:
        return []
    kinds = (("Command", provenance.command), ("Python", python_recipe(provenance)))
    return [(kind, text) for kind, text in kinds if text]
