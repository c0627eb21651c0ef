"""Posterior distributions of fitted models, the same for every engine, in the user's units."""

from typing import TYPE_CHECKING

from cuspfa._utils.lazy import lazy_names, public_names

if TYPE_CHECKING:
    from cuspfa.estimator.load import load as load
    from cuspfa.model.likelihoods.kinds import ColumnLikelihood as ColumnLikelihood
    from cuspfa.model.likelihoods.kinds import LikelihoodTable as LikelihoodTable
    from cuspfa.posterior.base import Posterior as Posterior
    from cuspfa.posterior.category_tables import CategoryTable as CategoryTable
    from cuspfa.posterior.category_tables import CountTable as CountTable
    from cuspfa.posterior.category_tables import ThresholdTable as ThresholdTable
    from cuspfa.posterior.draws import Draws as Draws
    from cuspfa.posterior.draws import Interval as Interval
    from cuspfa.posterior.error_curve import CurveGap as CurveGap
    from cuspfa.posterior.error_curve import CurvePoint as CurvePoint
    from cuspfa.posterior.error_curve import ModelErrorCurve as ModelErrorCurve
    from cuspfa.posterior.factorization import FactorizationPosterior as FactorizationPosterior
    from cuspfa.posterior.factorization_results import CountFitInfo as CountFitInfo
    from cuspfa.posterior.factorization_results import CountSearchEntry as CountSearchEntry
    from cuspfa.posterior.factorization_results import CountSearchPath as CountSearchPath
    from cuspfa.posterior.factorization_results import FactorItems as FactorItems
    from cuspfa.posterior.factorization_results import FactorizationDraws as FactorizationDraws
    from cuspfa.posterior.files import load_scores as load_scores
    from cuspfa.posterior.fit_info import FitInfo as FitInfo
    from cuspfa.posterior.fit_info import ModelErrorEntry as ModelErrorEntry
    from cuspfa.posterior.fit_info import ModelErrorPath as ModelErrorPath
    from cuspfa.posterior.fit_info import SearchEntry as SearchEntry
    from cuspfa.posterior.fit_info import SearchPath as SearchPath
    from cuspfa.posterior.latent import LatentPosterior as LatentPosterior
    from cuspfa.posterior.predictive import FactorScores as FactorScores
    from cuspfa.posterior.provenance import Provenance as Provenance
    from cuspfa.posterior.sampled import Diagnostics as Diagnostics
    from cuspfa.posterior.sampled import SampledPosterior as SampledPosterior
    from cuspfa.posterior.sampled_factorization import (
        SampledFactorizationPosterior as SampledFactorizationPosterior,
    )
    from cuspfa.posterior.sampled_latent import SampledLatentPosterior as SampledLatentPosterior
    from cuspfa.posterior.variational import VariationalPosterior as VariationalPosterior
    from cuspfa.reporting.factorization_summary import CountSummary as CountSummary
    from cuspfa.reporting.summary import Summary as Summary
    from cuspfa.reporting.tables.files import ApaTables as ApaTables

_DEFINED_IN = {
    "cuspfa.estimator.load": ("load",),
    "cuspfa.model.likelihoods.kinds": ("ColumnLikelihood", "LikelihoodTable"),
    "cuspfa.posterior.base": ("Posterior",),
    "cuspfa.posterior.draws": ("Draws", "Interval"),
    "cuspfa.posterior.error_curve": ("CurveGap", "CurvePoint", "ModelErrorCurve"),
    "cuspfa.posterior.factorization": ("FactorizationPosterior",),
    "cuspfa.posterior.factorization_results": (
        "CountFitInfo",
        "CountSearchEntry",
        "CountSearchPath",
        "FactorItems",
        "FactorizationDraws",
    ),
    "cuspfa.reporting.factorization_summary": ("CountSummary",),
    "cuspfa.posterior.files": ("load_scores",),
    "cuspfa.posterior.fit_info": (
        "FitInfo",
        "ModelErrorEntry",
        "ModelErrorPath",
        "SearchEntry",
        "SearchPath",
    ),
    "cuspfa.posterior.category_tables": ("CategoryTable", "CountTable", "ThresholdTable"),
    "cuspfa.posterior.latent": ("LatentPosterior",),
    "cuspfa.posterior.predictive": ("FactorScores",),
    "cuspfa.posterior.provenance": ("Provenance",),
    "cuspfa.posterior.sampled": ("Diagnostics", "SampledPosterior"),
    "cuspfa.posterior.sampled_factorization": ("SampledFactorizationPosterior",),
    "cuspfa.posterior.sampled_latent": ("SampledLatentPosterior",),
    "cuspfa.posterior.variational": ("VariationalPosterior",),
    "cuspfa.reporting.summary": ("Summary",),
    "cuspfa.reporting.tables.files": ("ApaTables",),
}
__all__ = public_names(_DEFINED_IN)
__getattr__, __dir__ = lazy_names(__name__, _DEFINED_IN)
