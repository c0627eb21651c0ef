"""The evidence lower bound of Algorithm 1 in as many digits as wanted, term by term.

Written from the model alone, with mpmath and sums over single entries; no matrix of the package, of
NumPy or of the other oracle is used but the parameters of q themselves.
"""

from mpmath import mp, mpf


def bound(y, state, hyper, digits=50):
    """E_q[log p(y, λ, η, σ, z, v)] − E_q[log q] of a state of `oracles.algorithm1`."""
    with mp.workdps(digits):
        return _bound(_exact(y), state, hyper)


def _exact(rows):
    return [[mpf(float(value)) for value in row] for row in rows]


def _bound(y, s, hyper):
    n, p, h_all = len(y), len(y[0]), len(s.kappa)
    alpha, theta_0, theta_inf, a, b = (
        mpf(float(value))
        for value in (hyper.alpha, hyper.theta_0, hyper.theta_inf, hyper.a_sigma, hyper.b_sigma)
    )
    eta, lam = _exact(s.mu_eta), _exact(s.mu_lambda)
    v_eta, v_lam = _exact(s.V_eta), [_exact(block) for block in s.V_lambda]
    shape, rate = mpf(float(s.A_sigma)), [mpf(float(value)) for value in s.B_sigma]
    kappa = _exact(s.kappa)
    a_v, b_v = [mpf(float(x)) for x in s.A_v], [mpf(float(x)) for x in s.B_v]
    log_2pi = mp.log(2 * mp.pi)
    axes = range(h_all)
    total = mpf(0)

    log_sigma = [mp.log(rate[j]) - mp.digamma(shape) for j in range(p)]
    for j in range(p):
        for i in range(n):
            # E(y − λ'η)² entry by entry: E[λ_a λ_b] E[η_a η_b] for independent λ and η
            square = y[i][j] ** 2 - 2 * y[i][j] * sum(lam[j][c] * eta[i][c] for c in axes)
            for c in axes:
                for d in axes:
                    second = lam[j][c] * lam[j][d] + v_lam[j][c][d]
                    square += second * (eta[i][c] * eta[i][d] + v_eta[c][d])
            total += -(log_2pi + log_sigma[j] + square * shape / rate[j]) / 2
        total += a * mp.log(b) - mp.loggamma(a) - (a + 1) * log_sigma[j] - b * shape / rate[j]
        # entropy of InvGa(A, B)
        total += shape + mp.log(rate[j]) + mp.loggamma(shape) - (1 + shape) * mp.digamma(shape)
        total += _entropy(v_lam[j], log_2pi)
    for i in range(n):
        total += -sum(log_2pi + eta[i][c] ** 2 + v_eta[c][c] for c in axes) / 2
    total += n * _entropy(v_eta, log_2pi)

    log_v = [mp.digamma(a_v[m]) - mp.digamma(a_v[m] + b_v[m]) for m in range(h_all - 1)]
    log_rest = [mp.digamma(b_v[m]) - mp.digamma(a_v[m] + b_v[m]) for m in range(h_all - 1)]
    for h in axes:
        squared_norm = sum(lam[j][h] ** 2 + v_lam[j][h][h] for j in range(p))
        for place in axes:
            weight = kappa[h][place]
            if not weight:
                continue
            theta = theta_inf if place <= h else theta_0
            log_omega = sum(log_rest[:place]) + (log_v[place] if place < h_all - 1 else 0)
            density = -p * (log_2pi + mp.log(theta)) / 2 - squared_norm / theta / 2
            total += weight * (density + log_omega - mp.log(weight))
    for m in range(h_all - 1):
        total += mp.log(alpha) + (alpha - 1) * log_rest[m]  # Beta(1, α)
        beta = mp.loggamma(a_v[m]) + mp.loggamma(b_v[m]) - mp.loggamma(a_v[m] + b_v[m])
        total -= (a_v[m] - 1) * log_v[m] + (b_v[m] - 1) * log_rest[m] - beta
    return total


def _entropy(covariance, log_2pi):
    size = len(covariance)
    return (size * (1 + log_2pi) + mp.log(mp.det(mp.matrix(covariance)))) / 2
