"""Steps of a factor model with binary and ordinal cells, one cell after the other.

Expectations are integrals by `scipy.integrate.quad`, derivatives are differences of the log
probability. Nothing here is batched, and no quadrature nodes are shared with the package.
"""

import numpy as np
from scipy import integrate, special


def log_probability(code, f, cuts):
    """Of an ordinal cell with probit link."""
    ends = [-np.inf, *[c for c in cuts if np.isfinite(c)], np.inf]
    low, high = ends[code] - f, ends[code + 1] - f
    if low > 0:
        low, high = -high, -low
    return np.log(special.ndtr(high) - special.ndtr(low))


def expectations(code, mean, variance, cuts):
    """E ℓ, E ∂ℓ/∂f and E ∂²ℓ/∂f² for f ~ N(mean, variance)."""
    sd, step = np.sqrt(variance), 1e-3

    def expected(of):
        def integrand(x):
            return of(x) * np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))

        return integrate.quad(integrand, mean - 8 * sd, mean + 8 * sd, epsabs=1e-10)[0]

    def log(x):
        return log_probability(code, x, cuts)

    return (
        expected(log),
        expected(lambda x: (log(x + step) - log(x - step)) / (2 * step)),
        expected(lambda x: (log(x + step) + log(x - step) - 2 * log(x)) / step**2),
    )


def all_expectations(x, cuts, mean, covariance, m, v):
    """Of every cell; a missing one has none."""
    n, p = x.shape
    found = np.zeros((3, n, p))
    for i in range(n):
        for j in range(p):
            if np.isnan(x[i, j]):
                continue
            variance = mean[j] @ v[i] @ mean[j]
            variance += m[i] @ covariance[j] @ m[i] + np.trace(covariance[j] @ v[i])
            found[:, i, j] = expectations(int(x[i, j]), mean[j] @ m[i], variance, cuts[j])
    return found


def scores(e1, e2, mean, covariance, m):
    """m_i and V_i after a whole step."""
    (n, k), p = m.shape, len(mean)
    new, v = np.zeros((n, k)), np.zeros((n, k, k))
    for i in range(n):
        precision, gradient = np.eye(k), -m[i]
        for j in range(p):
            w = -e2[i, j]
            precision = precision + w * (np.outer(mean[j], mean[j]) + covariance[j])
            gradient = gradient + e1[i, j] * mean[j] - w * covariance[j] @ m[i]
        v[i] = np.linalg.inv(precision)
        new[i] = m[i] + v[i] @ gradient
    return new, v


def loadings(e1, e2, m, v, mean, prior_precision):
    """μ_j and V_λj after a whole step."""
    n, p = e1.shape
    new, covariance = np.zeros_like(mean), np.zeros((p, *v.shape[1:]))
    for j in range(p):
        precision, gradient = np.diag(prior_precision), -prior_precision * mean[j]
        for i in range(n):
            w = -e2[i, j]
            precision = precision + w * (np.outer(m[i], m[i]) + v[i])
            gradient = gradient + e1[i, j] * m[i] - w * v[i] @ mean[j]
        covariance[j] = np.linalg.inv(precision)
        new[j] = mean[j] + covariance[j] @ gradient
    return new, covariance


def log_marginal(x, loadings, cuts):
    """Σ_i log p(x_i | Λ, cuts) for one factor, by integration."""
    total = 0.0
    for row in x:

        def integrand(eta, row=row):
            value = np.exp(-0.5 * eta**2) / np.sqrt(2 * np.pi)
            for j, code in enumerate(row):
                if not np.isnan(code):
                    value *= np.exp(log_probability(int(code), loadings[j, 0] * eta, cuts[j]))
            return value

        total += np.log(integrate.quad(integrand, -9, 9, epsabs=1e-13)[0])
    return total
