"""The methods of an analysis in sentences: for the report, and as a paragraph for a paper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cuspfa._utils.spelling import as_argument, as_option
from cuspfa._utils.wording import counted, minus
from cuspfa.model.likelihoods.counts import (
    LOG_DISPERSION_MEAN,
    LOG_DISPERSION_SD,
    CountLikelihood,
)
from cuspfa.model.likelihoods.kinds import (
    COUNT_KINDS,
    GIVEN_OFFSET,
    LIBRARY_SIZE,
    LikelihoodTable,
)
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.fit_info import FitInfo, ModelErrorPath
from cuspfa.posterior.provenance import Provenance
from cuspfa.reporting.citations import made_with
from cuspfa.reporting.kinds_text import has_counts, likelihood_text
from cuspfa.reporting.outlying_rows import rows_of_small_weight
from cuspfa.reporting.provenance_text import analysed_text, remarks, settings_text
from cuspfa.reporting.recipe import python_recipe
from cuspfa.reporting.summary import ridge_text

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior
    from cuspfa.posterior.presentation import Presentation

READING_NOTES = "Left out and assumed"
"""The term whose sentences have advice for the next fit, and are no part of the paragraph."""


def methods(posterior: Posterior, n_draws: int) -> list[tuple[str, str]]:
    """Terms of a section on methods, each with its sentences."""
    provenance = posterior.provenance
    lines = [("Data", _data_text(posterior))]
    if provenance is not None and provenance.data is not None:
        said = remarks(provenance.data, as_option if provenance.command else as_argument)
        lines += [(READING_NOTES, " ".join(said))] if said else []
    lines.append(("Missing values", _missing_text(posterior)))
    lines.append(("Model", _model_text(posterior)))
    if rows := rows_of_small_weight(posterior):
        method = "Rows were taken as t distributed (Lange, Little & Taylor, 1989)."
        lines.append(("Rows", f"{method} {rows}"))
    if error := _error_text(posterior):
        lines.append(("Model error", error))
    prior = posterior.prior
    # A sampler that moves between numbers of factors has a finite spike in any case.
    moves = posterior.diagnostics is not None and not posterior.number_given
    spike = getattr(posterior, "spike", None) if moves else prior.spike
    lines.append(("Prior", _prior_text(prior, spike, posterior.likelihoods)))
    if posterior.fit_info is not None:
        lines.append(("Method", _method_text(posterior, posterior.fit_info)))
    intervals = f"95 % credible intervals from {n_draws} draws of the posterior"
    lines.append(("Intervals", f"Intervals are {intervals}, given the number of factors."))
    if provenance is not None:
        lines.append(("Settings", f"The settings were: {settings_text(provenance.settings)}"))
    made = ", ".join(f"{name} {number}" for name, number in made_with(posterior))
    lines.append(("Versions", f"The software was {made}."))
    return lines


def methods_paragraph(posterior: Posterior, n_draws: int) -> str:
    """The methods of a fit as one paragraph."""
    terms = methods(posterior, n_draws)
    return " ".join(text for term, text in terms if term != READING_NOTES)


def _data_text(posterior: Posterior) -> str:
    provenance = posterior.provenance
    rows = counted(posterior.n_rows, "row")
    columns = counted(len(posterior.column_names), "column")
    data = None if provenance is None else provenance.data
    return analysed_text(data, f"{rows} and {columns} were analysed.")


def _missing_text(posterior: Posterior) -> str:
    lacking = posterior.n_rows - np.asarray(posterior.column_counts)
    total = int(np.sum(lacking))
    if not total:
        return "No value was missing in the rows that were analysed."
    cells = posterior.n_rows * len(lacking)
    columns = counted(int(np.sum(lacking > 0)), "column")
    return (
        f"{total} of {cells} values ({100 * total / cells:.1f} %), in {columns}, were missing. "
        "None was filled in and no row was dropped for them: "
        "values are taken as missing at random."
    )


def _model_text(posterior: Posterior) -> str:
    p, k = len(posterior.column_names), posterior.n_active
    noise = "noise of its own"
    parts = f"a weighted sum of {counted(k, 'common factor')} and {noise}" if k else noise
    shown = " Loadings are shown on the correlation scale." if k else ""
    if has_counts(posterior.likelihoods):
        others = ""
        if any(one.kind not in COUNT_KINDS for one in posterior.likelihoods):
            others = ", or else the variable or the response behind its categories,"
        return (
            f"The model is factor analysis of latent responses: of each of the {p} variables the "
            f"logarithm of the rate of its counts{others} is {parts}. "
            f"{likelihood_text(posterior.likelihoods)}{_offset_text(posterior)}{shown}"
        )
    if told := likelihood_text(posterior.likelihoods):
        return (
            f"The model is factor analysis of latent responses: each of the {p} variables, or the "
            f"normal or logistic number behind its categories, is {parts}, and thresholds divide "
            f"it into categories. {told}{shown}"
        )
    return f"The model is Gaussian factor analysis: each of the {p} variables is {parts}.{shown}"


def _offset_text(posterior: Posterior) -> str:
    rule = None if posterior.provenance is None else posterior.provenance.settings.offset
    if rule is None:
        return " Log rates have no offsets."
    if rule == LIBRARY_SIZE:
        return " The offset of a row is the logarithm of the sum of its counts."
    named = "given" if rule == GIVEN_OFFSET else f"the column {rule}"
    return f" Offsets of log rates are {named}."


def _error_text(posterior: Posterior) -> str:
    """Empty where the model is taken as exact."""
    size = posterior.model_error
    info = posterior.fit_info
    ridge = ModelErrorPath() if info is None else info.model_errors
    if not size and not ridge:
        return ""
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


def _prior_text(prior: CuspPrior, spike: float | None, columns: LikelihoodTable) -> str:
    """Of the factors, and of the parameters that columns of these likelihoods have."""
    where = "zero" if spike is None else f"normal with variance {spike:g}"
    kinds, others = {one.kind for one in columns}, []
    if not kinds or kinds & {"gaussian", "normal_scores"}:
        noise = f"inverse gamma ({prior.noise_shape:g}, {prior.noise_rate:g})"
        if prior.noise_shape <= 0:
            noise += ", which is nearly flat above a floor"
        others.append(f"Noise variances are {noise}.")
    if "ordinal" in kinds:
        others.append(
            "The density of thresholds is normal, with standard deviation "
            f"{OrdinalLikelihood.cut_sd:g}, divided by the differences of neighbours."
        )
    if has_counts(columns):
        others.append(
            "Means of log rates are normal around the logarithm of the mean rate of the column, "
            f"with standard deviation {CountLikelihood.location_sd:g}."
        )
    if "negative_binomial" in kinds:
        others.append(
            f"Logarithms of dispersions are normal with mean {LOG_DISPERSION_MEAN:g} and standard "
            f"deviation {LOG_DISPERSION_SD:g}."
        )
    return minus(
        "The prior is the cumulative shrinkage process (Legramanti, Durante & Dunson, 2020) with "
        f"α = {prior.alpha:g}, the expected number of factors under the prior. Loadings of an "
        f"active factor (the slab) are {prior.slab.in_words}; those of others (the spike) are "
        f"{where}. {' '.join(others)}"
    )


def _method_text(posterior: Posterior, fit_info: FitInfo) -> str:
    tried = [entry.n_factors for entry in fit_info.search]
    if fit_info.method == "gibbs":
        chains = counted(posterior.n_chains, "chain")
        found = posterior.diagnostics
        met = ""
        if found is not None and math.isfinite(found.worst_r_hat):
            met = (
                f" R-hat is at most {found.worst_r_hat:.3f} and the effective size at least "
                f"{found.smallest_size:.0f}."
            )
        ended = "converged" if fit_info.converged else fit_info.status
        return f"The posterior was drawn by a Gibbs sampler with {chains}; {ended}.{met}"
    number = "the number of factors was given"
    if not posterior.number_given:
        number = "no other number of factors was tried"
    if len(tried) > 1:
        number = f"numbers of factors from {min(tried)} to {max(tried)} were tried and compared"
    if likelihood_text(posterior.likelihoods):
        drawn = "exact Gibbs sweeps from it"
        others = "thresholds"
        if has_counts(posterior.likelihoods):
            drawn, others = "exact Metropolis sweeps from it", "parameters of the columns"
        if not posterior.has_exact_draws:
            drawn = "the normal distribution at it"
        return (
            f"The mode of loadings and {others} was found by full information, with the scores "
            "integrated out by expectation propagation; log evidence is that of Laplace's method "
            f"and of bridge sampling; {number}. Intervals are by draws from {drawn}."
        )
    bound = ""
    if not math.isnan(fit_info.lower_bound):
        bound = f", with an evidence lower bound of {minus(f'{fit_info.lower_bound:.2f}')}"
    ended = "The fit converged" if fit_info.converged else f"The fit ended ({fit_info.status})"
    return (
        f"The posterior was approximated by variational inference (Legramanti, 2020); {number}. "
        f"{ended} after {counted(fit_info.n_iter, 'iteration')}{bound}."
    )


def again(
    provenance: Provenance | None, shown: Presentation | None = None
) -> list[tuple[str, str]]:
    """The command and the Python code that repeat the fit, each with its kind."""
    if provenance is None:
        return []
    kinds = (("Command", provenance.command), ("Python", python_recipe(provenance, shown)))
    return [(kind, text) for kind, text in kinds if text]
