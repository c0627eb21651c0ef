"""Sentences of a report: methods, how to repeat the analysis, how to cite."""

from __future__ import annotations

import math
from typing import Any

from cuspfa._utils.spelling import as_argument, as_option
from cuspfa._utils.wording import counted, minus
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.provenance import Provenance, versions
from cuspfa.reporting.html.content import ReportContent
from cuspfa.reporting.provenance_text import data_text, remarks, settings_text
from cuspfa.reporting.recipe import python_recipe
from cuspfa.reporting.summary import ridge_text

CITED = (
    "The cuspfa developers. cuspfa: Bayesian factor analysis under the cumulative shrinkage "
    "process. Version {version}.",
    "Legramanti, S. (2020). Variational Bayes for Gaussian factor models under the cumulative "
    "shrinkage process. arXiv:2008.05310.",
    "Legramanti, S., Durante, D. & Dunson, D. B. (2020). Bayesian cumulative shrinkage for "
    "infinite factorizations. Biometrika 107(3), 745–752. doi:10.1093/biomet/asaa008.",
)


def done(content: ReportContent) -> list[tuple[str, str]]:
    """Terms of the section on methods, each with its sentences."""
    summary, provenance = content.summary, content.provenance
    lines = [("Data", _data_text(content))]
    if provenance is not None and provenance.data is not None:
        said = remarks(provenance.data, as_option if provenance.command else as_argument)
        lines += [("Left out and assumed", " ".join(said))] if said else []
    lines.append(("Missing values", _missing_text(content)))
    lines.append(("Model", _model_text(summary.n_columns, content.n_factors)))
    if content.posterior.model_error or content.summary.ridge:
        lines.append(("Model error", _error_text(content)))
    prior = content.posterior.prior
    # A sampler that moves between numbers of factors has a finite spike in any case.
    moves = content.posterior.kind == "gibbs" and not content.number_given
    spike = getattr(content.posterior, "spike", None) if moves else prior.spike
    lines.append(("Prior", _prior_text(prior, spike)))
    lines.append(("Method", _method_text(content)))
    intervals = f"95 % credible intervals from {content.n_draws} draws of the posterior"
    lines.append(("Intervals", f"{intervals}, given the number of factors."))
    if provenance is not None:
        lines.append(("Settings", settings_text(provenance.settings)))
    made = versions() if provenance is None else provenance.versions
    lines.append(("Versions", ", ".join(f"{name} {number}" for name, number in made) + "."))
    return lines


def _data_text(content: ReportContent) -> str:
    summary, provenance = content.summary, content.provenance
    rows, columns = counted(summary.n_rows, "row"), counted(summary.n_columns, "column")
    size = f"{rows} and {columns} were analysed."
    if provenance is None or provenance.data is None:
        return size
    return f"{data_text(provenance.data)} {size}"


def _missing_text(content: ReportContent) -> str:
    missing = content.missing
    if missing is None:
        return "None in the rows that were analysed."
    cells = missing.n_rows * content.summary.n_columns
    columns = counted(len(missing.by_column), "column")
    return (
        f"{missing.total} of {cells} values ({100 * missing.total / cells:.1f} %), in {columns}. "
        "None was filled in and no row was dropped for them: "
        "values are taken as missing at random."
    )


def _model_text(p: int, k: int) -> str:
    return (
        f"Gaussian factor analysis: each of the {p} variables is a weighted sum of {k} common "
        f"factor{'s' * (k != 1)} and noise of its own. Loadings are shown on the correlation scale."
    )


def _error_text(content: ReportContent) -> str:
    size, ridge = content.posterior.model_error, content.summary.ridge
    text = (
        "The covariance of the population may differ from that of the factor model by an error of "
        f"RMSEA {size:g} (Wu & Browne, 2015)"
    )
    if not ridge:
        return f"{text}, which was given. Correlations and new rows are those of the population."
    return (
        f"{text}, which was learned with the number of factors. {ridge_text(ridge)} Correlations "
        "and new rows are those of the population."
    )


def _prior_text(prior: CuspPrior, spike: float | None) -> str:
    slab = repr(prior.slab)
    where = "at zero" if spike is None else f"of variance {spike:g}"
    noise = f"inverse gamma ({prior.noise_shape:g}, {prior.noise_rate:g})"
    if prior.noise_shape <= 0:
        noise += ", which is nearly flat above a floor"
    return minus(
        f"Cumulative shrinkage process with α = {prior.alpha:g}, the expected number of factors "
        f"under the prior; slab {slab}, spike {where}; noise variances {noise}."
    )


def _method_text(content: ReportContent) -> str:
    fit_info = content.fit_info
    if fit_info is None:
        return "Not recorded."
    tried = [entry.n_factors for entry in fit_info.search]
    ended = "converged" if fit_info.converged else fit_info.status
    if fit_info.method == "gibbs":
        chains = counted(content.posterior.n_chains, "chain")
        found = content.posterior.diagnostics
        met = ""
        if found is not None and math.isfinite(found.worst_r_hat):
            met = (
                f" R-hat is at most {found.worst_r_hat:.3f} and the effective size at least "
                f"{found.smallest_size:.0f}."
            )
        return f"Gibbs sampler, {chains}; {ended}.{met}"
    number = "the number of factors given" if content.number_given else "no other number tried"
    if len(tried) > 1:
        number = f"numbers of factors from {min(tried)} to {max(tried)} tried and compared"
    bound = minus(f"{fit_info.lower_bound:.2f}")
    return (
        f"Variational inference, {number}; {ended} after "
        f"{counted(fit_info.n_iter, 'iteration')}, evidence lower bound {bound}."
    )


def citations(content: ReportContent) -> list[str]:
    """References to cite, with the version of cuspfa."""
    made: dict[str, Any] = dict(
        versions() if content.provenance is None else content.provenance.versions
    )
    return [text.format(version=made.get("cuspfa", dict(versions())["cuspfa"])) for text in CITED]


def again(provenance: Provenance | None) -> list[tuple[str, str]]:
    """The command and the Python code that repeat the fit, each with its kind."""
    if provenance is None:
        return []
    kinds = (("Command", provenance.command), ("Python", python_recipe(provenance)))
    return [(kind, text) for kind, text in kinds if text]
