"""A literal Gibbs sampler, row by row and entry by entry, written from the papers alone.

Λ p×H, σ² (p), η n×H, z (H), v (H), θ (H): Legramanti, Durante & Dunson (2020), Algorithm 1, with a
fixed number H of columns, and Algorithm 2, which adapts it. `mask` (n×p, True where observed) makes
every sum over observed entries only; `free_means` draws the columns' means, with a flat prior.
Nothing of the package is used.
"""

import math

import numpy as np


def slab_log_density(column, slab):
    """Log density of a column of the slab; ("normal", θ_0), or ("inverse gamma", a, b): θ out."""
    p, squares = len(column), float(sum(x * x for x in column))
    if slab[0] == "normal":
        return -0.5 * p * math.log(2 * math.pi * slab[1]) - 0.5 * squares / slab[1]
    _, a, b = slab
    return (
        a * math.log(b)
        - math.lgamma(a)
        + math.lgamma(a + p / 2)
        - 0.5 * p * math.log(2 * math.pi)
        - (a + p / 2) * math.log(b + squares / 2)
    )


def spike_log_density(column, spike):
    p, squares = len(column), float(sum(x * x for x in column))
    return -0.5 * p * math.log(2 * math.pi * spike) - 0.5 * squares / spike


def draw_normal(precision, linear, rng):
    """N(P⁻¹ b, P⁻¹)."""
    root = np.linalg.cholesky(precision)
    mean = np.linalg.solve(precision, linear)
    return mean + np.linalg.solve(root.T, rng.standard_normal(len(linear)))


def draw_labels(loadings, weights, slab, spike, rng):
    H = loadings.shape[1]
    z = np.empty(H, dtype=int)
    for h in range(H):
        inside = spike_log_density(loadings[:, h], spike)
        outside = slab_log_density(loadings[:, h], slab)
        scores = np.array(
            [
                (math.log(weights[q]) if weights[q] > 0 else -math.inf)
                + (inside if q <= h else outside)
                for q in range(H)
            ]
        )
        chances = np.exp(scores - scores.max())
        z[h] = rng.choice(H, p=chances / chances.sum())
    return z


def draw_weights(z, alpha, rng):
    H = len(z)
    weights, rest = np.empty(H), 1.0
    for q in range(H):
        v = 1.0 if q == H - 1 else rng.beta(1 + np.sum(z == q), alpha + np.sum(z > q))
        weights[q], rest = v * rest, rest * (1 - v)
    return weights


def sample(
    y,
    *,
    slab,
    spike,
    alpha,
    noise_shape,
    noise_rate,
    n_terms,
    sweeps,
    rng,
    mask=None,
    free_means=False,
    adapt=None,
):
    """Draws after each sweep: Ω (sweeps, p, p), the number of active columns (sweeps,) and means.

    The means (sweeps, p) are zeros unless they are free.
    """
    rows, (n, p) = y, y.shape
    means = np.zeros(p)
    seen = np.ones((n, p), dtype=bool) if mask is None else mask
    H = n_terms
    loadings, noise = rng.standard_normal((p, H)), np.ones(p)
    theta, weights = np.full(H, spike), np.full(H, 1.0 / H)
    scores = rng.standard_normal((n, H))
    omegas, counts, all_means = [], [], []
    for t in range(1, sweeps + 1):
        if free_means:
            for j in range(p):
                left = rows[seen[:, j], j] - scores[seen[:, j]] @ loadings[j]
                spread = math.sqrt(noise[j] / len(left))
                means[j] = left.mean() + spread * rng.standard_normal()
            y = rows - means
        for j in range(p):
            own = scores[seen[:, j]]
            precision = np.diag(1.0 / theta) + own.T @ own / noise[j]
            loadings[j] = draw_normal(precision, own.T @ y[seen[:, j], j] / noise[j], rng)
        for j in range(p):
            residual = y[seen[:, j], j] - scores[seen[:, j]] @ loadings[j]
            shape = noise_shape + seen[:, j].sum() / 2
            noise[j] = (noise_rate + residual @ residual / 2) / rng.gamma(shape)
        for i in range(n):
            part = loadings[seen[i]]
            precision = np.eye(H) + part.T @ (part / noise[seen[i], None])
            scores[i] = draw_normal(precision, part.T @ (y[i, seen[i]] / noise[seen[i]]), rng)
        z = draw_labels(loadings, weights, slab, spike, rng)
        weights = draw_weights(z, alpha, rng)
        active = z > np.arange(H)
        for h in range(H):
            if not active[h]:
                theta[h] = spike
            elif slab[0] == "normal":
                theta[h] = slab[1]
            else:
                rate = slab[2] + float(loadings[:, h] @ loadings[:, h]) / 2
                theta[h] = rate / rng.gamma(slab[1] + p / 2)
        omegas.append(loadings @ loadings.T + np.diag(noise))
        counts.append(int(active.sum()))
        all_means.append(means.copy())
        if adapt is not None and t >= adapt[0] and rng.random() < math.exp(adapt[1] + adapt[2] * t):
            new = math.sqrt(spike) * rng.standard_normal((p, 1))
            fresh = rng.standard_normal((n, 1))
            if active.sum() < H - 1:
                loadings = np.hstack([loadings[:, active], new])
                scores = np.hstack([scores[:, active], fresh])
                theta = np.append(theta[active], spike)
                weights = np.append(weights[active], 1.0 - weights[active].sum())
            elif p >= H:
                loadings, scores = np.hstack([loadings, new]), np.hstack([scores, fresh])
                theta = np.append(theta, spike)
                v = rng.beta(1, alpha)
                weights = np.append(weights[:-1], [v * weights[-1], (1 - v) * weights[-1]])
            H = loadings.shape[1]
    return np.array(omegas), np.array(counts), np.array(all_means)
