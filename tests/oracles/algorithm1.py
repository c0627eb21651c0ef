"""Algorithm 1 of the paper, step by step as printed: an oracle for the tests.

The paper: S. Legramanti, "Variational Bayes for Gaussian Factor Models under the Cumulative
Shrinkage Process". This file was written from the paper alone and shares no code with the
package `cuspfa`; it imports only NumPy and SciPy. It favours being obviously the printed
algorithm over being fast. Names follow the paper's letters: y is n x p, H is the number of
factors, row h and column l of `kappa` is kappa_hl = q(z_hl = 1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaln, digamma, entr, gammaln

LOG_2PI = np.log(2.0 * np.pi)


@dataclass(eq=False)
class State:
    """The parameters of q(lambda) q(eta) q(sigma) q(z) q(v)."""

    mu_eta: np.ndarray  # (n, H)
    V_eta: np.ndarray  # (H, H), shared by all i
    mu_lambda: np.ndarray  # (p, H)
    V_lambda: np.ndarray  # (p, H, H)
    A_sigma: float
    B_sigma: np.ndarray  # (p,)
    kappa: np.ndarray  # (H, H), rows sum to one
    A_v: np.ndarray  # (H - 1,)
    B_v: np.ndarray  # (H - 1,)


@dataclass(eq=False)
class Hyper:
    """The constants of the prior."""

    alpha: float
    theta_0: float
    theta_inf: float
    a_sigma: float
    b_sigma: float


PAPER = Hyper(alpha=5.0, theta_0=1.0, theta_inf=1e-6, a_sigma=1.0, b_sigma=0.3)
"""The values of the paper."""
MILD = Hyper(alpha=2.5, theta_0=1.3, theta_inf=0.2, a_sigma=1.7, b_sigma=0.6)
"""Values with which spike and slab overlap."""


# ----------------------------------------------------------------- Algorithm 1, the five steps


def step1_loadings(y, state, hyper):
    """Step 1: V_j^(lambda) and mu_j^(lambda), for j from 1 to p."""
    n, p = y.shape
    H = state.kappa.shape[0]
    theta_star = np.empty(H)  # named as in the paper; it is a precision, not a variance
    for h in range(H):
        spike = state.kappa[h, : h + 1].sum()  # sum_{l=1}^h kappa_hl
        theta_star[h] = (1.0 - spike) / hyper.theta_0 + spike / hyper.theta_inf
    mu_lambda = np.empty((p, H))
    V_lambda = np.empty((p, H, H))
    for j in range(p):
        precision = state.A_sigma / state.B_sigma[j]
        V_lambda[j] = np.linalg.inv(
            np.diag(theta_star) + precision * (state.mu_eta.T @ state.mu_eta + n * state.V_eta)
        )
        mu_lambda[j] = precision * V_lambda[j] @ state.mu_eta.T @ y[:, j]
    return replace(state, mu_lambda=mu_lambda, V_lambda=V_lambda)


def step2_noise(y, state, hyper):
    """Step 2: A^(sigma), and B_j^(sigma) for j from 1 to p."""
    n, p = y.shape
    A_sigma = hyper.a_sigma + n / 2
    # sum_i (mu_ih mu_ik + V_hk): the part of the triple sum that depends on i.
    eta_eta = state.mu_eta.T @ state.mu_eta + n * state.V_eta
    B_sigma = np.empty(p)
    for j in range(p):
        lambda_lambda = np.outer(state.mu_lambda[j], state.mu_lambda[j]) + state.V_lambda[j]
        squares = (y[:, j] ** 2).sum()
        cross = (2.0 * y[:, j] * (state.mu_eta @ state.mu_lambda[j])).sum()
        B_sigma[j] = hyper.b_sigma + 0.5 * (squares - cross + (eta_eta * lambda_lambda).sum())
    return replace(state, A_sigma=A_sigma, B_sigma=B_sigma)


def step3_scores(y, state, hyper):
    """Step 3: V^(eta), then mu_i^(eta) for i from 1 to n."""
    n, p = y.shape
    H = state.kappa.shape[0]
    D = np.diag(state.A_sigma / state.B_sigma)
    total = np.eye(H) + state.mu_lambda.T @ D @ state.mu_lambda
    for j in range(p):
        total = total + state.A_sigma / state.B_sigma[j] * state.V_lambda[j]
    V_eta = np.linalg.inv(total)
    M = V_eta @ state.mu_lambda.T @ D
    mu_eta = np.empty((n, H))
    for i in range(n):
        mu_eta[i] = M @ y[i]
    return replace(state, mu_eta=mu_eta, V_eta=V_eta)


def expected_log_omega(state):
    """E(log omega_l), l = 1..H, as printed under step 4 (v_H = 1)."""
    H = state.kappa.shape[0]
    out = np.zeros(H)
    for l in range(H):  # noqa: E741 (the paper's letter)
        if l < H - 1:  # 1{l < H}
            out[l] += digamma(state.A_v[l]) - digamma(state.A_v[l] + state.B_v[l])
        for m in range(l):  # 1{l > 1} sum_{m=1}^{l-1}
            out[l] += digamma(state.B_v[m]) - digamma(state.A_v[m] + state.B_v[m])
    return out


def step4_labels(y, state, hyper):
    """Step 4: kappa_hl for h from 1 to H and l from 1 to H, normalised in logs."""
    p, H = state.mu_lambda.shape
    log_omega = expected_log_omega(state)
    kappa = np.empty((H, H))
    for h in range(H):
        # E[lambda_.h' lambda_.h] = sum_j (mu_jh^2 + V_j;hh)
        lambda_sq = (state.mu_lambda[:, h] ** 2 + state.V_lambda[:, h, h]).sum()
        log_kappa = np.empty(H)
        for l in range(H):  # noqa: E741
            theta = hyper.theta_inf if l <= h else hyper.theta_0
            log_kappa[l] = log_omega[l] - 0.5 * p * np.log(theta) - 0.5 / theta * lambda_sq
        weights = np.exp(log_kappa - log_kappa.max())
        kappa[h] = weights / weights.sum()
    return replace(state, kappa=kappa)


def step5_sticks(y, state, hyper):
    """Step 5: A_h^(v) and B_h^(v), for h from 1 to H - 1."""
    H = state.kappa.shape[0]
    A_v = np.empty(H - 1)
    B_v = np.empty(H - 1)
    for h in range(H - 1):
        A_v[h] = 1.0 + state.kappa[:, h].sum()
        B_v[h] = hyper.alpha + state.kappa[:, h + 1 :].sum()
    return replace(state, A_v=A_v, B_v=B_v)


STEPS = (step1_loadings, step2_noise, step3_scores, step4_labels, step5_sticks)


def iteration(y, state, hyper):
    """One iteration of Algorithm 1: steps 1 to 5, in the printed order."""
    for step in STEPS:
        state = step(y, state, hyper)
    return state


# ------------------------------------------------------------------- the evidence lower bound


def _gaussian_entropy(V):
    sign, log_det = np.linalg.slogdet(V)
    if sign <= 0:
        raise ValueError("a covariance is not positive definite")
    return 0.5 * (V.shape[0] * (1.0 + LOG_2PI) + log_det)


def bound_terms(y, state, hyper):
    """The terms of E_q[log p(y, lambda, eta, sigma, z, v)] - E_q[log q], all constants kept.

    Valid at any state: no term assumes that some block has just been updated.
    """
    n, p = y.shape
    H = state.kappa.shape[0]
    alpha, a, b = hyper.alpha, hyper.a_sigma, hyper.b_sigma
    mu_eta, V_eta = state.mu_eta, state.V_eta
    A, B = state.A_sigma, state.B_sigma
    kappa, A_v, B_v = state.kappa, state.A_v, state.B_v

    E_precision = A / B  # E[1 / sigma_j^2]
    E_log_sigma2 = np.log(B) - digamma(A)  # E[log sigma_j^2]
    E_log_v = digamma(A_v) - digamma(A_v + B_v)
    E_log_1mv = digamma(B_v) - digamma(A_v + B_v)
    log_omega = expected_log_omega(state)

    # E log p(y | lambda, eta, sigma): y_ij ~ N(lambda_j' eta_i, sigma_j^2).
    likelihood = 0.0
    for j in range(p):
        m, V = state.mu_lambda[j], state.V_lambda[j]
        residual = ((y[:, j] - mu_eta @ m) ** 2).sum()
        # Var(lambda_j' eta_i), summed over i, for independent lambda_j and eta_i.
        spread = n * (m @ V_eta @ m + np.trace(V @ V_eta)) + np.trace(mu_eta @ V @ mu_eta.T)
        likelihood += -0.5 * n * (LOG_2PI + E_log_sigma2[j])
        likelihood += -0.5 * E_precision[j] * (residual + spread)

    # E log p(lambda | z): spike if z_h picks some l <= h, slab if some l > h.
    loadings_prior = 0.0
    for h in range(H):
        lambda_sq = (state.mu_lambda[:, h] ** 2 + state.V_lambda[:, h, h]).sum()
        for l in range(H):  # noqa: E741
            theta = hyper.theta_inf if l <= h else hyper.theta_0
            log_normal = -0.5 * p * (LOG_2PI + np.log(theta)) - 0.5 * lambda_sq / theta
            loadings_prior += kappa[h, l] * log_normal

    # E log p(eta): eta_i ~ N_H(0, I).
    scores_prior = -0.5 * n * H * LOG_2PI - 0.5 * ((mu_eta**2).sum() + n * np.trace(V_eta))

    # E log p(sigma): sigma_j^2 ~ InvGa(a, b).
    noise_prior = 0.0
    for j in range(p):
        noise_prior += a * np.log(b) - gammaln(a) - (a + 1.0) * E_log_sigma2[j] - b * E_precision[j]

    # E log p(z | v): z_h ~ Mult{1, (omega_1, ..., omega_H)}.
    labels_prior = 0.0
    for h in range(H):
        for l in range(H):  # noqa: E741
            labels_prior += kappa[h, l] * log_omega[l]

    # E log p(v): v_h ~ Beta(1, alpha), whose density is alpha (1 - v)^(alpha - 1).
    sticks_prior = 0.0
    for h in range(H - 1):
        sticks_prior += np.log(alpha) + (alpha - 1.0) * E_log_1mv[h]

    # - E log q, block by block.
    loadings_entropy = sum(_gaussian_entropy(state.V_lambda[j]) for j in range(p))
    scores_entropy = n * _gaussian_entropy(V_eta)
    noise_entropy = 0.0
    for j in range(p):
        noise_entropy += A + np.log(B[j]) + gammaln(A) - (1.0 + A) * digamma(A)
    labels_entropy = entr(kappa).sum()  # entr(x) = -x log x, and entr(0) = 0
    sticks_entropy = 0.0
    for h in range(H - 1):
        sticks_entropy += (
            betaln(A_v[h], B_v[h]) - (A_v[h] - 1.0) * E_log_v[h] - (B_v[h] - 1.0) * E_log_1mv[h]
        )

    terms = {
        "likelihood": likelihood,
        "loadings_prior": loadings_prior,
        "scores_prior": scores_prior,
        "noise_prior": noise_prior,
        "labels_prior": labels_prior,
        "sticks_prior": sticks_prior,
        "loadings_entropy": loadings_entropy,
        "scores_entropy": scores_entropy,
        "noise_entropy": noise_entropy,
        "labels_entropy": labels_entropy,
        "sticks_entropy": sticks_entropy,
    }
    return {name: float(value) for name, value in terms.items()}


def bound(y, state, hyper):
    """The evidence lower bound, eq. (5) of the paper, with every constant."""
    return float(sum(bound_terms(y, state, hyper).values()))


# --------------------------------------------------------------------------------- helpers


def expected_active(state):
    """E[H*] = sum_h sum_{l > h} kappa_hl."""
    H = state.kappa.shape[0]
    return float(sum(state.kappa[h, h + 1 :].sum() for h in range(H)))


def _random_spd(H, rng):
    G = rng.normal(size=(H, H))
    return G @ G.T / H + 0.1 * np.eye(H)


def random_state(n, p, H, rng):
    """Draw an arbitrary valid state: every block random, none consistent with another."""
    return State(
        mu_eta=rng.normal(size=(n, H)),
        V_eta=_random_spd(H, rng),
        mu_lambda=rng.normal(size=(p, H)),
        V_lambda=np.stack([_random_spd(H, rng) for _ in range(p)]),
        A_sigma=float(rng.uniform(1.5, 6.0)),
        B_sigma=rng.uniform(0.5, 3.0, size=p),
        kappa=rng.dirichlet(np.ones(H), size=H),
        A_v=rng.uniform(0.5, 3.0, size=H - 1),
        B_v=rng.uniform(0.5, 6.0, size=H - 1),
    )
