"""The bound of binary items with one factor, and the bound with further cumulants, by quadrature.

With w = p(x, η)/q(η) the bound of a row is E_q[log w], and its log probability is the sum of all
cumulants of log w under q, divided by their factorials. With q normal at the maximum of the bound,
the second one is most of what the bound lacks. Nothing of the package is used.
"""

import numpy as np
from scipy import optimize
from scipy.special import log_ndtr

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def best_normals(signed, slopes, intercepts, start):
    """Means and variances of the scores of patterns (P, J) of −1 and 1, where the bound is largest.

    At the maximum the gradient is zero and the precision is one plus the expected curvature.
    """
    mean, variance = start
    for _ in range(200):
        eta = mean[:, None] + np.sqrt(variance)[:, None] * NODES
        f = signed[:, :, None] * linear(eta, slopes, intercepts)
        ratio = np.exp(-0.5 * f**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(f))
        gradient = (signed[:, :, None] * ratio * slopes[:, None]) @ WEIGHTS
        curvature = (ratio * (ratio + f) * slopes[:, None] ** 2) @ WEIGHTS
        precision = 1.0 + curvature.sum(axis=1)
        step = (gradient.sum(axis=1) - mean) / precision
        change = max(np.abs(step).max(), np.abs(1.0 / precision - variance).max())
        mean, variance = mean + step, 1.0 / precision
        if change < 1e-11:
            break
    return mean, variance


def linear(eta, slopes, intercepts):
    """(P, J, nodes)."""
    return slopes[None, :, None] * eta[:, None, :] + intercepts[None, :, None]


def best_slopes(patterns, counts, *, second):
    """Slopes (J,) where the bound, or with `second` its sum with half the second cumulant, is
    largest, and the value there.
    """
    signed, j = 2.0 * patterns - 1.0, patterns.shape[1]
    scores = [np.zeros(len(patterns)), np.full(len(patterns), 0.6)]

    def loss(at):
        slopes, intercepts = at[:j], at[j:]
        scores[:] = best_normals(signed, slopes, intercepts, scores)
        eta = scores[0][:, None] + np.sqrt(scores[1])[:, None] * NODES
        logs = log_ndtr(signed[:, :, None] * linear(eta, slopes, intercepts)).sum(axis=1)
        logs += 0.5 * (np.log(scores[1])[:, None] + NODES**2 - eta**2)
        mean = logs @ WEIGHTS
        spread = (logs - mean[:, None]) ** 2 @ WEIGHTS
        return -counts @ (mean + 0.5 * spread if second else mean)

    found = optimize.minimize(loss, np.full(2 * j, 0.6), method="BFGS", options={"gtol": 1e-3})
    return found.x[:j], -found.fun
