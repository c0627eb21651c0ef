"""Rows of a population that is near a factor model, and not in it."""

import numpy as np
from scipy.stats import invwishart

from cuspfa.model.model_error import ModelError


def rows_near_model(n, p, k, size, seed):
    """Rows of N(0, Σ̃) with Σ̃ drawn around a model of k factors, off by an error of this size."""
    rng = np.random.default_rng(seed)
    own = np.arange(p)[:, None] * k // p == np.arange(k)
    loadings = rng.uniform(0.4, 0.8, (p, k)) * (own | (rng.random((p, k)) < 0.2))
    omega = loadings @ loadings.T + np.diag(rng.uniform(0.4, 0.8, p))
    m = ModelError.of_size(size, p).degrees
    population = invwishart(df=m, scale=m * omega).rvs(random_state=rng)
    return rng.multivariate_normal(np.zeros(p), population, size=n, method="cholesky")
