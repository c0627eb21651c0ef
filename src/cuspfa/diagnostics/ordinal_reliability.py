"""Reliability of sums of ordinal items, on the scale of the answers.

ω of latent responses is that of a sum that is not observed. Here the sum is that of the answers
(Green & Yang, 2009): the part of its variance that the common factors explain.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from cuspfa._typing import Array
from cuspfa._utils.bivariate_normal import bivariate_normal_cdf

FULL = 1.0 - 1e-9
"""Largest correlation of two latent responses by the factors alone."""


def ordinal_omega(
    loadings: Array, thresholds: Sequence[Array], levels: Sequence[Array], keys: Array
) -> float:
    """ω of the sum of the answers, for normal latent responses of variance one.

    `loadings` (p, K) are those of uncorrelated factors, `levels` the values of the answers. An item
    with the key −1 is reversed before it is added.
    """
    common = np.clip(loadings @ loadings.T, -FULL, FULL)
    total = explained = 0.0
    for i, (own, values) in enumerate(zip(thresholds, levels, strict=True)):
        steps = keys[i] * np.diff(values)
        for j in range(i + 1):
            other = keys[j] * np.diff(levels[j])
            x, y = np.meshgrid(own, thresholds[j], indexing="ij")
            weights = np.outer(steps, other)
            joint = bivariate_normal_cdf(x, y, np.full(x.shape, common[i, j])) - ndtr(x) * ndtr(y)
            covariance = float(np.sum(weights * joint))
            explained += covariance * (1.0 if i == j else 2.0)
            if i == j:
                edges = np.concatenate([[0.0], ndtr(own), [1.0]])
                chances = np.diff(edges)
                mean = float(chances @ values)
                total += float(chances @ values**2) - mean**2
            else:
                total += 2.0 * covariance
    return explained / total if total > 0 else float("nan")
