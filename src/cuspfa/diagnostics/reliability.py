"""Reliability of scores and scales, from loadings and correlations alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa._utils.arguments import must_be
from cuspfa.data.column_choice import check_columns
from cuspfa.diagnostics.matrices import check_definite, correlation_matrix, loading_matrix
from cuspfa.errors import DataError
from cuspfa.posterior.draws import Draws


def omega_total(loadings: Any, noise_share: Any, *, columns: Any = None, keys: Any = None) -> float:
    """McDonald's ω of a sum score: the part of its variance that is due to common factors.

    Parameters
    ----------
    loadings : array (p, K)
        Of uncorrelated factors, on the correlation scale.
    noise_share : array (p,)
        The part of each variable's variance that the factors do not explain; one less the row
        sums of squared loadings. (In the units of the data both describe the raw sum.)
    columns : None, or indices, slice or mask of some variables
        Those that are added up; None means all.
    keys : None or array (p,) of 1 and -1
        -1 for a variable that is reversed before it is added. A scale with items of both kinds
        makes no sense without.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> L = np.array([[0.8], [0.7], [0.6], [0.5]])
    >>> round(omega_total(L, 1 - np.sum(L**2, axis=1)), 4)
    0.7494
    >>> L[0] *= -1
    >>> round(omega_total(L, 1 - np.sum(L**2, axis=1), keys=[-1, 1, 1, 1]), 4)
    0.7494
    """
    rows, noise = _loadings_and_noise(loadings, "noise_share", noise_share)
    return _omega(rows, noise, _sum_weights(columns, keys, len(rows)))


def omega_by_group(
    loadings: Any, noise_share: Any, groups: Mapping[str, Any], *, keys: Any = None
) -> dict[str, float]:
    """`omega_total` of the sum score of each group of variables.

    Parameters
    ----------
    loadings, noise_share, keys
        As in `omega_total`.
    groups : mapping from name to indices, slice or mask of variables
        The scales.

    Returns
    -------
    dict of float

    Examples
    --------
    >>> import numpy as np
    >>> L = np.kron(np.eye(2), np.array([[0.8], [0.7], [0.6]]))
    >>> shares = 1 - np.sum(L**2, axis=1)
    >>> scales = omega_by_group(L, shares, {"first": [0, 1, 2], "second": slice(3, 6)})
    >>> {name: round(value, 3) for name, value in scales.items()}
    {'first': 0.745, 'second': 0.745}
    """
    rows, noise = _loadings_and_noise(loadings, "noise_share", noise_share)
    if not isinstance(groups, Mapping):
        raise must_be("groups", "a mapping from names to columns", groups)
    return {
        name: _omega(rows, noise, _sum_weights(c, keys, len(rows))) for name, c in groups.items()
    }


def _omega(loadings: Array, noise: Array, weights: Array) -> float:
    common = float(np.sum((weights @ loadings) ** 2))
    total = common + float(weights**2 @ noise)
    if total <= 0:
        raise DataError("the sum of these variables does not vary; ω is not defined.")
    return common / total


def cronbach_alpha(correlation: Any, *, columns: Any = None, keys: Any = None) -> float:
    """Cronbach's α of the sum of standardised variables, for comparison with ω.

    Of a model's own correlations it is at most ω, and equal to it only if all variables load alike
    on one factor.

    Parameters
    ----------
    correlation : array (p, p)
        Correlation matrix.
    columns, keys
        As in `omega_total`; at least two variables.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> L = np.array([0.8, 0.7, 0.6, 0.5])
    >>> R = np.outer(L, L) + np.diag(1 - L**2)
    >>> round(cronbach_alpha(R), 4)
    0.7421
    """
    r = correlation_matrix("correlation", correlation)
    weights = _sum_weights(columns, keys, len(r))
    size = int(np.sum(weights**2))
    if size < 2:
        raise must_be("columns", "at least two variables", columns)
    total = float(weights @ r @ weights)
    if total <= 0:
        raise DataError("the sum of these variables does not vary; α is not defined.")
    return size / (size - 1) * (1 - size / total)


class ScaleDraws(NamedTuple):
    """α and ω of one sum score, for each draw."""

    alpha: Array
    omega: Array


def scale_draws(draws: Draws, columns: Indices, keys: Array) -> ScaleDraws:
    """`cronbach_alpha` and `omega_total` of each draw's model, for the sum of some variables.

    `keys` has 1 or -1 for each of these. The variance of the sum is that of the model's
    correlations; ω counts what any factor explains of it.
    """
    some, size = draws.only(columns), len(columns)
    common = np.sum((keys @ some.standardized_loadings) ** 2, axis=1)
    total = common + np.sum(1.0 - some.communality, axis=1)
    return ScaleDraws(size / (size - 1) * (1.0 - size / total), common / total)


def determinacy(loadings: Any, noise_variance: Any, *, factor_correlations: Any = None) -> Array:
    """Correlation of each factor with its best linear estimate, the regression score.

    √diag(ΦΛᵀΩ⁻¹ΛΦ) with Ω = ΛΦΛᵀ + Σ; its square is the reliability of the scores. Scores are often
    called usable for single people above 0.9; two sets of scores that fit equally well correlate
    by as little as 2 × determinacy² − 1.

    Parameters
    ----------
    loadings : array (p, K)
        On any scale; `components_.T` or `loadings_`.
    noise_variance : array (p,)
        On the scale of the loadings, above zero.
    factor_correlations : array (K, K) or None, default=None
        Φ; None for uncorrelated factors.

    Returns
    -------
    ndarray (K,)

    Examples
    --------
    >>> import numpy as np
    >>> L = np.array([[0.8], [0.7], [0.6], [0.5]])
    >>> determinacy(L, 1 - np.sum(L**2, axis=1)).round(3)
    array([0.886])
    """
    rows, noise = _loadings_and_noise(loadings, "noise_variance", noise_variance)
    if np.any(noise <= 0):
        j = int(np.argmin(noise))
        raise DataError(
            f"noise_variance must be above zero. Got {noise[j]:g} at index {j}: a variable without "
            "noise determines its factors exactly."
        )
    # ΛᵀΩ⁻¹Λ = (I + B)⁻¹B with B = ΛᵀΣ⁻¹Λ (Woodbury): no p×p matrix, no small difference.
    # Correlated factors are Tᵀη with TᵀT = Φ and Λ = (ΛTᵀ)T^{-T}: B of η, rotated at the end.
    rotation: Array = np.eye(rows.shape[1])
    if factor_correlations is not None and rows.shape[1] > 1:
        phi = correlation_matrix("factor_correlations", factor_correlations)
        if len(phi) != rows.shape[1]:
            raise must_be("factor_correlations", f"of {rows.shape[1]} factors", phi.shape)
        check_definite("factor_correlations", phi)
        rotation = np.asarray(np.linalg.cholesky(phi).T)
    with np.errstate(over="ignore", invalid="ignore"):
        b = rotation @ ((rows.T / noise) @ rows) @ rotation.T
    if not np.all(np.isfinite(b)):
        raise DataError("loadings squared, divided by noise_variance, are too large for a number.")
    # By eigenvalues, since I + B is singular to rounding error where loadings differ much in size.
    values, vectors = np.linalg.eigh(b)
    shares = np.maximum(values, 0.0) / (1.0 + np.maximum(values, 0.0))
    squared = np.diag(rotation.T @ (vectors * shares) @ vectors.T @ rotation)
    return np.asarray(np.sqrt(np.clip(squared, 0.0, 1.0)))


def _loadings_and_noise(loadings: Any, name: str, noise: Any) -> tuple[Array, Array]:
    rows = loading_matrix("loadings", loadings)
    try:
        values = np.asarray(noise, dtype=float)
    except (TypeError, ValueError):
        values = np.full(0, np.nan)
    if values.shape != (len(rows),) or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise must_be(name, f"{len(rows)} numbers not below zero, one a row of loadings", noise)
    return rows, values


def _sum_weights(columns: Any, keys: Any, p: int) -> Array:
    """1, -1 or 0 for each variable: its weight in the sum score."""
    chosen = np.arange(p) if columns is None else check_columns(columns, p, None)
    if not len(chosen):
        raise must_be("columns", "at least one variable", columns)
    signs = np.ones(p) if keys is None else np.asarray(keys, dtype=object)
    if signs.shape != (p,) or any(sign not in (-1, 1) for sign in signs.tolist()):
        raise must_be("keys", f"None or 1 or -1 for each of the {p} variables", keys)
    weights = np.zeros(p)
    weights[chosen] = signs[chosen]
    return weights
