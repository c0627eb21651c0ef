"""The methods of a Poisson factorization in sentences, and how to repeat and cite it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuspfa._utils.fit_warning_text import CLASSES, engine_code
from cuspfa._utils.wording import counted
from cuspfa.data.tables.cells import clean
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior
from cuspfa.posterior.factorization_results import CountProvenance
from cuspfa.posterior.provenance import versions
from cuspfa.reporting.citations import COUNT_PAPERS, SOFTWARE, Reference
from cuspfa.reporting.provenance_text import analysed_text

if TYPE_CHECKING:
    from cuspfa.posterior.factorization import FactorizationPosterior


def count_methods(posterior: FactorizationPosterior) -> list[tuple[str, str]]:
    """Terms of a section on methods, each with its sentences."""
    provenance, k = posterior.provenance, posterior.n_active
    lines = [("Data", _data_text(posterior))]
    if posterior.totals.n_missing:
        cells = counted(posterior.totals.n_missing, "cell")
        lines.append(("Missing cells", f"{cells} were missing and taken as missing at random."))
    lines.append(
        (
            "Model",
            "The model is Poisson factorization: each count is a Poisson variable whose rate is "
            f"the sum of {counted(k, 'factor')}, each of them a score of the row times a loading "
            "of the column, none negative"
            + (", times the exposure of the row." if _exposed(provenance) else "."),
        )
    )
    lines.append(("Prior", _prior_text(posterior)))
    lines.append(("Method", _method_text(posterior)))
    drawn = "exact draws (Gibbs sampling from the fit)"
    if posterior.n_chains:
        drawn = f"draws with {counted(k, 'factor')}"
    elif not posterior.has_exact_draws:
        drawn = "draws from the mean-field distribution, which are too narrow"
    lines.append(("Intervals", f"Intervals are 95 % intervals of {len(posterior.kept)} {drawn}."))
    made = ", ".join(f"{name} {number}" for name, number in count_versions(provenance))
    lines.append(("Versions", f"The software was {made}."))
    return lines


def _method_text(posterior: FactorizationPosterior) -> str:
    """How it was fitted."""
    if not posterior.n_chains:
        given = "given" if posterior.number_given else "found by a search with exact sweeps"
        return f"The fit maximises a variational lower bound. The number of factors was {given}."
    info, given = posterior.fit_info, "given"
    if not posterior.number_given:
        given = "drawn with all else; the most probable one is shown"
    ended = "" if info is None else f" of {counted(info.n_iter, 'sweep')} ({info.status})"
    return (
        f"The posterior was sampled by {counted(posterior.n_chains, 'Gibbs chain')}{ended}. The "
        f"number of factors was {given}."
    )


def count_paragraph(posterior: FactorizationPosterior) -> str:
    """The methods of a fit to counts as one paragraph."""
    return " ".join(text for _, text in count_methods(posterior))


def count_versions(provenance: CountProvenance | None) -> tuple[tuple[str, str], ...]:
    """Versions of the packages that made a fit; of those installed where they are not known."""
    return versions() if provenance is None else provenance.versions


def count_references(posterior: FactorizationPosterior) -> list[Reference]:
    """What to cite with a fit."""
    made = dict(count_versions(posterior.provenance))
    version = made.get("cuspfa", dict(versions())["cuspfa"])
    software = Reference(*(part.replace("{version}", version) for part in SOFTWARE))
    return [software, *COUNT_PAPERS]


def count_again(posterior: FactorizationPosterior) -> list[tuple[str, str]]:
    """The command and the Python code that repeat the fit, each with its kind."""
    provenance = posterior.provenance
    if provenance is None:
        return []
    kinds = (("Command", provenance.command), ("Python", count_recipe(posterior)))
    return [(kind, text) for kind, text in kinds if text]


def count_recipe(posterior: FactorizationPosterior) -> str:
    """Python code that repeats a fit."""
    provenance = posterior.provenance
    assert provenance is not None
    data, settings = provenance.data, provenance.settings
    from_file = data is not None and data.form == "file" and not settings.exposure
    source = repr(data.source) if from_file and data is not None else "X"
    defaults = {"n_factors": "auto", "max_factors": 50, "tol": 0.1, "max_iter": 2000}
    given = [
        f"{name}={getattr(settings, name)!r}"
        for name, value in defaults.items()
        if getattr(settings, name) != value
    ]
    imported = ["CuspPoissonFactorization"]
    engine = posterior.engine
    if engine is not None:
        method = engine_code(engine) if engine.values else repr(engine.name)
        given.append(f"method={method}")
        imported += [CLASSES[engine.name]] if engine.values else []
    plain = PoissonFactorizationPrior()
    if posterior.prior not in (plain, plain.for_data(posterior.prior.size or 1.0)):
        given.append(f"prior={posterior.prior!r}")
        imported.append("PoissonFactorizationPrior")
    if settings.fractions:
        given.append("fractions=True")
    if isinstance(settings.random_state, int):
        given.append(f"random_state={settings.random_state}")
    exposure = ", exposure=exposure" if settings.exposure else ""
    note = "" if source != "X" else "  # your data"
    return "\n".join(
        [
            f"from cuspfa import {', '.join(imported)}",
            "",
            f"model = CuspPoissonFactorization({', '.join(given)}).fit({source}{exposure}){note}",
            'model.posterior_.report("report.html")',
        ]
    )


def _exposed(provenance: CountProvenance | None) -> bool:
    return provenance is not None and provenance.settings.exposure


def _data_text(posterior: FactorizationPosterior) -> str:
    rows, columns = counted(posterior.n_rows, "row"), counted(posterior.n_columns, "column")
    size = f"{rows} and {columns} with {posterior.totals.n_events:,.0f} events were analysed."
    provenance = posterior.provenance
    if provenance is None:
        return size
    text = analysed_text(provenance.data, size)
    if exposure := provenance.settings.exposure_column:
        text += f" Exposures are those of the column {clean(exposure)}."
    return text


def _prior_text(posterior: FactorizationPosterior) -> str:
    prior, (a, c, e, f) = posterior.prior, posterior.hyperparameters
    return (
        "The prior of the number of factors is that of the cumulative shrinkage process "
        f"(Legramanti, Durante & Dunson, 2020) with α = {prior.alpha:g}; scores are gamma "
        f"variables of shape {a:.3g} and loadings of shape {c:.3g}, with a rate for each factor, "
        f"Ga({e:.3g}, {f:.3g}). Numbers that the prior does not give were learned."
    )
