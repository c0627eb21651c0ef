"""Tests that kernels leave the joint distribution of parameters and data unchanged (Geweke's).

A draw from the joint distribution is, after a few sweeps, still a draw from it. Draws from the
prior are written from the model alone.
"""

import numpy as np
from scipy import stats

from cuspfa import GaussianSlab, InverseGammaSlab

SLABS = {
    "fixed": GaussianSlab(0.7),
    "inverse gamma": InverseGammaSlab(3.0, 1.5),
    "pooled": InverseGammaSlab(2.0, 0.4, pooled=True),
}


def draw_shape_and_rate(slab, rng):
    """Those of an inverse gamma slab; from their prior if they are pooled."""
    if not slab.pooled:
        return slab.shape, slab.rate
    shape = rng.gamma(2.0, 50.0)
    return shape, shape * np.exp(np.log(0.2) + 1.5 * rng.standard_normal())


def covariance_features(loadings, noise, sample):
    """Functions of Ω = ΛΛᵀ + Σ and of the data's second moments, in which draws are compared."""
    omega = loadings @ loadings.T + np.diag(noise)
    return [
        np.log(np.trace(omega)),
        omega[0, 1] / np.sqrt(omega[0, 0] * omega[1, 1]),
        np.log(noise[0]),
        np.linalg.slogdet(omega)[1],
        np.trace(np.linalg.solve(omega, sample)),
        np.arcsinh(omega[0, 1] * sample[0, 1]),
    ]


def smallest_p_value(before, after):
    """Of Kolmogorov and Smirnov's test, over features of draws before and after sweeps."""
    pairs = zip(np.array(before).T, np.array(after).T, strict=True)
    return min(stats.ks_2samp(one, other).pvalue for one, other in pairs)


def largest_change(before, after):
    """|z| of the changes of the features of each chain and of their squares, over all chains."""
    mean = before.mean(axis=0)
    change = np.hstack([after - before, (after - mean) ** 2 - (before - mean) ** 2])
    varies = change.std(axis=0) > 0  # a given variance does not
    z = change[:, varies].mean(axis=0) / change[:, varies].std(axis=0)
    return float(np.max(np.abs(z)) * np.sqrt(len(before)))


def largest_difference(visited, independent, n_batches=40):
    """|z| of the means of features along a chain, by batches, against independent draws."""
    found, wanted = np.array(visited), np.array(independent)
    batches = found.reshape(n_batches, -1, found.shape[1]).mean(axis=1)
    error = batches.var(axis=0, ddof=1) / n_batches + wanted.var(axis=0, ddof=1) / len(wanted)
    return float(np.max(np.abs(found.mean(axis=0) - wanted.mean(axis=0)) / np.sqrt(error)))
