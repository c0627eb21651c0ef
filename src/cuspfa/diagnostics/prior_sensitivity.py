"""The number of factors and the bound over settings of the prior."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be
from cuspfa._utils.tables import Columns, TabularResult
from cuspfa.data.moments import Moments
from cuspfa.data.robust_moments import robust_moments
from cuspfa.data.validate import check_table
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.inference.engine import engine_of
from cuspfa.model.slabs import Slab


class PriorSensitivityRow(NamedTuple):
    """One setting of the prior, and the fit under it."""

    alpha: float
    spike: float | None
    slab: Slab
    n_factors: int
    expected_active_factors: float
    lower_bound: float


class PriorSensitivity(TabularResult, list[PriorSensitivityRow]):
    """A list with a row for each setting of the prior.

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, prior_sensitivity
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> table = prior_sensitivity(CuspFactorAnalysis(), X, alpha=[1, 5])
    >>> table.to_frame()["n_factors"].tolist()
    [2, 2]
    """

    def _columns(self) -> Columns:
        names = PriorSensitivityRow._fields
        found = {name: [getattr(row, name) for row in self] for name in names}
        return {**found, "slab": [repr(row.slab) for row in self]}


def prior_sensitivity(
    model: CuspFactorAnalysis,
    X: Any,
    *,
    alpha: Iterable[float] | None = None,
    spike: Iterable[float | None] | None = None,
    slab: Iterable[Slab] | None = None,
) -> PriorSensitivity:
    """Fit under every combination of the given prior settings.

    Parameters
    ----------
    model : CuspFactorAnalysis
        Its prior is the setting that the others vary; it is not changed.
    X : array, data frame or Moments
        The data; missing values as in `CuspFactorAnalysis.fit`. For a robust model, rows.
    alpha, spike, slab : iterables or None
        The values to try of each; None keeps the model's own. A finite spike needs a slab that
        does not depend on all factors: give both.

    Returns
    -------
    PriorSensitivity, a list of PriorSensitivityRow
        In the order of the combinations, the last argument varying fastest.

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, prior_sensitivity
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> [row.n_factors for row in prior_sensitivity(CuspFactorAnalysis(), X, alpha=[1, 5, 20])]
    [2, 2, 2]
    """
    if not isinstance(model, CuspFactorAnalysis):
        raise must_be("model", "a CuspFactorAnalysis", type(model).__name__)
    if model.likelihood != "gaussian":
        raise must_be("the likelihood of model", "'gaussian'", model.likelihood)
    base = engine_of(model.method).default_prior() if model.prior is None else model.prior
    values: list[list[Any]] = []
    for name, given in (("alpha", alpha), ("spike", spike), ("slab", slab)):
        if given is not None and not isinstance(given, Iterable):
            raise must_be(name, "None or several values", given)
        chosen = [getattr(base, name)] if given is None else list(given)
        if not chosen:
            raise must_be(name, "None or at least one value", given)
        values.append(chosen)
    # All settings are checked before the first fit.
    priors = [
        replace(base, alpha=a, spike=s, slab=distribution)
        for a, s, distribution in product(*values)
    ]
    moments = robust_moments(X).moments() if model.robust else _moments(X)
    if not model.standardize and model.prior is None:
        # With a prior given the data are taken as they are: put them on the scale of prior=None.
        variances = np.diag(moments.covariance) if moments is not None else _variances(X)
        scale = float(np.sqrt(np.median(variances)))
        if moments is not None:
            cross = moments.cross_products / scale**2
            moments = Moments(moments.n, moments.mean / scale, cross, moments.names)
        else:
            X = check_table(X, allow_missing=True).rows / scale
    rows = PriorSensitivity()
    for prior in priors:
        fitted = clone(model).set_params(prior=prior, robust=False)  # its moments are robust
        fitted = fitted.fit_moments(moments) if moments is not None else fitted.fit(X)
        rows.append(
            PriorSensitivityRow(
                prior.alpha,
                prior.spike,
                prior.slab,
                fitted.n_factors_,
                fitted.expected_active_factors_,
                fitted.lower_bound_,
            )
        )
    return rows


def _moments(X: Any) -> Moments | None:
    """One pass over the rows for all fits, where that is enough."""
    if isinstance(X, Moments):
        return X
    table = check_table(X, allow_missing=True)
    wide = table.rows.shape[0] < table.rows.shape[1]
    if table.has_missing or wide or issparse(table.rows):
        return None
    return Moments.from_rows(table.rows, table.names)


def _variances(X: Any) -> Array:
    rows = check_table(X, allow_missing=True).rows
    if issparse(rows):
        mean = np.asarray(rows.mean(axis=0)).ravel()
        squares = np.asarray(rows.multiply(rows).sum(axis=0)).ravel()
        n = rows.shape[0]
        return np.asarray((squares - n * mean**2) / (n - 1))
    return np.asarray(np.nanvar(np.asarray(rows, dtype=float), axis=0, ddof=1))
