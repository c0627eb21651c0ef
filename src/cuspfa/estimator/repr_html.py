"""What a notebook shows of a fitted model."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cuspfa.estimator.factor_analysis import CuspFactorAnalysis

MOST_SHARES_SHOWN = 12
"""Most factors whose shares are shown."""


def with_result(page: str, model: CuspFactorAnalysis) -> str:
    """scikit-learn's diagram with the answer below it, inside the page's body."""
    before, end, after = page.rpartition("</body>")
    table = result_table(model)
    return before + table + end + after if end else page + table


def _how_sure(model: CuspFactorAnalysis) -> list[tuple[str, str]]:
    """The bound, or of a sampler the probabilities of the number of factors."""
    if not np.isnan(model.lower_bound_):
        return [("evidence lower bound", f"{model.lower_bound_:.2f}")]
    info = model.posterior_.fit_info
    if info is None or info.method == "variational":  # with model error there is no bound
        return []
    likely = sorted(model.search_, key=lambda entry: -entry.weight)[:MOST_SHARES_SHOWN]
    words = ", ".join(f"{entry.n_factors}: {entry.weight:.2f}" for entry in likely)
    return [("probability by number of factors", words)]


def result_table(model: CuspFactorAnalysis) -> str:
    """Number of factors, their strengths, bound and status."""
    strengths = np.sum(model.loadings_ * model.structure_, axis=0) / model.n_features_in_
    shares = ", ".join(f"{100 * share:.1f}" for share in strengths[:MOST_SHARES_SHOWN])
    more = ", …" if len(strengths) > MOST_SHARES_SHOWN else ""
    lines = [
        ("number of factors", str(model.n_factors_)),
        ("share of variance, % by factor", shares + more if len(strengths) else "–"),
        *([("model error (RMSEA)", f"{model.model_error_:g}")] if model.model_error_ else []),
        *_how_sure(model),
        ("status", html.escape(model.status_)),
    ]
    cells = "".join(
        f'<tr><td style="text-align:left">{name}</td><td style="text-align:left">{value}</td></tr>'
        for name, value in lines
    )
    return f"<table>{cells}</table>"
