"""How the answer depends on the prior: a table over settings, cheap because a fit is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from scipy.sparse import issparse
from sklearn.base import clone

from cuspfa._checks import must_be
from cuspfa.data.checks import check_table
from cuspfa.data.moments import Moments
from cuspfa.estimator import CuspFactorAnalysis
from cuspfa.prior import CuspPrior
from cuspfa.slabs import GaussianSlab, InverseGammaSlab, LearnedSlab

Slabs = GaussianSlab | InverseGammaSlab | LearnedSlab


class SensitivityRow(NamedTuple):
    """One setting of the prior and what it leads to."""

    alpha: float
    spike: float | None
    slab: Slabs
    n_factors: int
    expected_active_factors: float
    lower_bound: float


def sensitivity(
    estimator: CuspFactorAnalysis,
    X: Any,
    *,
    alpha: Iterable[float] | None = None,
    spike: Iterable[float | None] | None = None,
    slab: Iterable[Slabs] | None = None,
) -> list[SensitivityRow]:
    """Fit under every combination of the given prior settings.

    Parameters
    ----------
    estimator : CuspFactorAnalysis
        Its prior is the setting that the others vary; it is not changed.
    X : array, data frame or Moments
        The data.
    alpha, spike, slab : iterables or None
        The values to try of each; None keeps the estimator's own.

    Returns
    -------
    list of SensitivityRow
        In the order of the combinations, the last argument varying fastest.

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, sensitivity
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> [row.n_factors for row in sensitivity(CuspFactorAnalysis(), X, alpha=[1, 5, 20])]
    [2, 2, 2]
    """
    base = CuspPrior() if estimator.prior is None else estimator.prior
    values: list[list[Any]] = []
    for name, given in (("alpha", alpha), ("spike", spike), ("slab", slab)):
        chosen = [getattr(base, name)] if given is None else list(given)
        if not chosen:
            raise must_be(name, "None or at least one value", given)
        values.append(chosen)
    if not isinstance(X, Moments):
        table = check_table(X)
        if not issparse(table.rows) and table.rows.shape[0] >= table.rows.shape[1]:
            X = Moments.from_rows(table.rows, table.names)  # one pass over the rows for all fits
    rows = []
    for a, s, law in product(*values):
        prior = replace(base, alpha=a, spike=s, slab=law)
        model = clone(estimator).set_params(prior=prior)
        model = model.fit_moments(X) if isinstance(X, Moments) else model.fit(X)
        rows.append(
            SensitivityRow(
                prior.alpha,
                prior.spike,
                prior.slab,
                model.n_factors_,
                model.expected_active_factors_,
                model.lower_bound_,
            )
        )
    return rows
