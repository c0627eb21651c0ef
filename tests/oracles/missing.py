"""Factor analysis with missing values, written out loop by loop, and its bound by dense joint
distributions.

Nothing here knows patterns, packed matrices or blocks of rows. The scores of all rows are one
normal vector of nK numbers, of which the mean over the rows is projected out.
"""

import numpy as np


def centred(y):
    """Each column less the mean of what it has; NaN stay."""
    return y - np.nanmean(y, axis=0)


def scores(y, mean, covariance, anchor, tau):
    """m_i and V_i of each row, one row and one column after the other."""
    n, p = y.shape
    k = mean.shape[1]
    m, v = np.zeros((n, k)), np.zeros((n, k, k))
    for i in range(n):
        precision, towards = np.eye(k), np.zeros(k)
        for j in range(p):
            if np.isnan(y[i, j]):
                continue
            second = np.outer(mean[j], mean[j]) + covariance[j]
            precision += tau[j] * second
            towards += tau[j] * (y[i, j] * mean[j] + second @ anchor[j])
        v[i] = np.linalg.inv(precision)
        m[i] = v[i] @ towards
    return m, v


def loadings(y, m, v, prior_precision, tau):
    """μ_j, V_j and a_j of each column, and E Σ (y − λᵀη)² with them."""
    (n, p), k = y.shape, m.shape[1]
    mean, covariance, anchor = np.zeros((p, k)), np.zeros((p, k, k)), np.zeros((p, k))
    rss = np.zeros(p)
    for j in range(p):
        rows = [i for i in range(n) if not np.isnan(y[i, j])]
        at = sum(m[i] for i in rows) / len(rows)
        second, cross = np.zeros((k, k)), np.zeros(k)
        for i in rows:
            second += np.outer(m[i] - at, m[i] - at) + (1 - 1 / n) * v[i]
            cross += y[i, j] * (m[i] - at)
        covariance[j] = np.linalg.inv(np.diag(prior_precision) + tau[j] * second)
        mean[j] = tau[j] * covariance[j] @ cross
        anchor[j] = at - m.mean(axis=0)
        both = covariance[j] + np.outer(mean[j], mean[j])
        rss[j] = sum(y[i, j] ** 2 for i in rows) - 2 * cross @ mean[j] + np.trace(both @ second)
    return mean, covariance, anchor, rss


def dense_scores_terms(y, m, v, mean, covariance, tau):
    """−½ Σ_j τ_j E[RSS_j], and E[log p(η)] − E[log q(η)], of the projected joint distribution,
    exactly.

    RSS_j has the column's mean integrated out given the scores. Of both only what depends on the
    scores' covariances is approximated by the package; from below.
    """
    n, k = m.shape
    dense = np.zeros((n * k, n * k))
    for i in range(n):
        dense[i * k : (i + 1) * k, i * k : (i + 1) * k] = v[i]
    q, _ = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))
    centring = np.kron(q[:, 1:].T, np.eye(k))  # (n−1)K × nK: the mean over the rows is left out
    distribution = centring @ dense @ centring.T
    at = centring @ m.ravel()
    sign, log_det = np.linalg.slogdet(distribution)
    assert sign > 0
    prior = 0.5 * (log_det + len(distribution) - np.trace(distribution) - at @ at)
    likelihood = 0.0
    for j in range(y.shape[1]):
        rows = np.flatnonzero(~np.isnan(y[:, j]))
        size = len(rows)
        keep = np.zeros((size, n))
        keep[np.arange(size), rows] = 1.0
        keep -= keep.mean(axis=0)  # centred over the rows that have column j
        both = covariance[j] + np.outer(mean[j], mean[j])
        mapped = np.kron(keep, np.eye(k))
        spread = (mapped @ dense @ mapped.T).reshape(size, k, size, k)
        own = sum(np.trace(both @ spread[a, :, a, :]) for a in range(size))
        moved = keep @ m
        value = y[rows, j] @ y[rows, j] - 2 * y[rows, j] @ (moved @ mean[j])
        value += np.sum((moved @ both) * moved) + own
        likelihood -= 0.5 * tau[j] * value
    return likelihood, prior


def log_likelihood(y, loadings, noise):
    """Σ_i log N(y_i; m, Ω) with a flat prior on m, row by row; without the constants of n_j."""
    p = y.shape[1]
    omega = loadings @ loadings.T + np.diag(noise)
    h, g, value = np.zeros((p, p)), np.zeros(p), 0.0
    for row in y:
        o = np.flatnonzero(~np.isnan(row))
        inverse = np.linalg.inv(omega[np.ix_(o, o)])
        h[np.ix_(o, o)] += inverse
        g[o] += inverse @ row[o]
        value -= 0.5 * (len(o) * np.log(2 * np.pi) + row[o] @ inverse @ row[o])
        value -= 0.5 * np.linalg.slogdet(omega[np.ix_(o, o)])[1]
    value += 0.5 * g @ np.linalg.solve(h, g) + p / 2 * np.log(2 * np.pi)
    value -= 0.5 * np.linalg.slogdet(h)[1]
    return value + 0.5 * np.sum(np.log(np.sum(~np.isnan(y), axis=0)))


def conditional(row, mean, omega):
    """Mean and covariance of the missing values of one row given what it has."""
    o = ~np.isnan(row)
    if not o.any():
        return mean, omega
    weights = omega[np.ix_(~o, o)] @ np.linalg.inv(omega[np.ix_(o, o)])
    at = mean[~o] + weights @ (row[o] - mean[o])
    return at, omega[np.ix_(~o, ~o)] - weights @ omega[np.ix_(o, ~o)]
