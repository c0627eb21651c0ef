"""Populations that are factor models only approximately, and sufficient statistics of their rows.

Covariance matrices of n rows are drawn by their Wishart distribution, so that n may be any number.
"""

from __future__ import annotations

import numpy as np

from cuspfa import Moments

MINOR = 150
FALL = 0.8
"""Each falling minor factor has so many times the loadings of the one before it."""
DOUBLED = 0.3
"""The part of their variance that two columns of a doublet share with each other alone."""


def generator(*numbers: int) -> np.random.Generator:
    """One for each row of the table, size and data set."""
    return np.random.default_rng([48610237, *numbers])


def simple(rng: np.random.Generator, p: int, k: int) -> np.ndarray:
    """Loadings of p/k columns on each of k factors, 0.6 to 0.8; variances of the columns are 1."""
    return np.kron(np.eye(k), np.ones((p // k, 1))) * rng.uniform(0.6, 0.8, (p, 1))


def exact(rng: np.random.Generator, p: int, k: int) -> np.ndarray:
    """The correlation matrix of a factor model."""
    loadings = simple(rng, p, k)
    return np.asarray(loadings @ loadings.T + np.diag(1 - np.sum(loadings**2, axis=1)))


def minor(
    rng: np.random.Generator, p: int, k: int, share: float, *, fall: float = 1.0
) -> np.ndarray:
    """A correlation matrix with minor factors, which have this share of each variance."""
    loadings = simple(rng, p, k)
    small = rng.standard_normal((p, MINOR)) * fall ** np.arange(MINOR)
    small *= np.sqrt(share / np.sum(small**2, axis=1))[:, None]
    common = loadings @ loadings.T + small @ small.T
    return np.asarray(common + np.diag(1 - np.diag(common)))


def doublet(rng: np.random.Generator, p: int, k: int) -> np.ndarray:
    """A correlation matrix of a factor model and one pair of columns with more in common."""
    root = np.ones(p)
    root[:2] = np.sqrt(1 - DOUBLED)
    found = exact(rng, p, k) * np.outer(root, root)
    found[:2, :2] += DOUBLED
    return found


def moments(rng: np.random.Generator, covariance: np.ndarray, n: int) -> Moments:
    """Those of n normal rows."""
    p = len(covariance)
    lower = np.tril(rng.standard_normal((p, p)), -1)
    lower[np.diag_indices(p)] = np.sqrt(rng.chisquare(n - 1 - np.arange(p)))
    root = np.linalg.cholesky(covariance) @ lower
    return Moments.from_covariance(root @ root.T / (n - 1), n=n)


def normal_rows(rng: np.random.Generator, covariance: np.ndarray, n: int) -> np.ndarray:
    """The rows themselves."""
    root = np.linalg.cholesky(covariance)
    return np.asarray(rng.standard_normal((n, len(covariance))) @ root.T)
