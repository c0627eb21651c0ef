"""Other distributions of the active loadings, by literal coordinate ascent: an oracle for the
tests.

It shares no code with the package `cuspfa`; it imports NumPy, SciPy and the oracle of the paper's
Algorithm 1. It favours being obviously right over being fast. Names follow the paper's letters.

Part 1, spike at zero: K columns, all active. y_i = Lambda eta_i + eps_i, eta_i ~ N(0, I_K),
sigma_j^2 ~ InvGa(a_sigma, b_sigma), and lambda_jh ~ N(0, theta_h) with theta_h as the slab says.
The rows enter through their Gram matrix G = Y'Y (p x p) and their number n_c only, since the
scores' means are m = Y W for some W (p x K): sum_i m_i m_i' = W'GW and sum_i y_ij m_i = W'G[:, j].

Part 2, finite spike: the paper's labels and sticks, the spike N(0, theta_inf), and the slab
lambda_jh | theta_h ~ N(0, theta_h), theta_h ~ InvGa(a, b). Rows y are n x p, as in `algorithm1`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize
from scipy.special import digamma, gammaln

from oracles import algorithm1 as a1

LOG_2PI = np.log(2.0 * np.pi)


# ------------------------------------------------------------------------------- the slabs


@dataclass(frozen=True)
class Gaussian:
    """lambda_jh ~ N(0, theta0)."""

    theta0: float


@dataclass(frozen=True)
class InverseGamma:
    """lambda_jh | theta_h ~ N(0, theta_h), theta_h ~ InvGa(a, b); q(theta_h) = InvGa(A_h, B_h)."""

    a: float
    b: float


@dataclass(frozen=True)
class Learned:
    """lambda_jh ~ N(0, theta_h), theta_h a parameter: one per column, or one for all."""

    shared: bool = False


@dataclass(frozen=True)
class PooledInverseGamma:
    """As InverseGamma, with (a, b) parameters maximised against the bound + log hyperprior.

    The fields a and b only start the search. The hyperprior, a density of (log a, log(b/a)):
    a ~ Gamma(shape, rate) and log(b/a) ~ N(log centre, sd^2), independent.

    joint=True: the block is (a, b, q(theta)), maximised together. joint=False: q(theta) given
    (a, b), then (a, b) given q(theta). The two have the same stationary points.
    """

    a: float = 2.0
    b: float = 0.4
    joint: bool = True
    shape: float = 2.0
    rate: float = 0.02
    centre: float = 0.2
    sd: float = 1.5


@dataclass(eq=False)
class FixedTheta:
    """The theta-block of Gaussian and Learned: the variances themselves."""

    value: np.ndarray  # (K,)


@dataclass(eq=False)
class InvGaTheta:
    """The theta-block of the InvGa slabs: q(theta_h) = InvGa(A_h, B_h), prior InvGa(a, b)."""

    A: np.ndarray  # (K,)
    B: np.ndarray  # (K,)
    a: float
    b: float


def expected_inverse(A, B):
    """E[1 / x] for x ~ InvGa(A, B)."""
    return A / B


def expected_log(A, B):
    """E[log x] for x ~ InvGa(A, B)."""
    return np.log(B) - digamma(A)


def expected_log_inverse_gamma(A, B, a, b):
    """E[log InvGa(x; a, b)] for x ~ InvGa(A, B)."""
    constant = a * np.log(b) - gammaln(a)
    return constant - (a + 1.0) * expected_log(A, B) - b * expected_inverse(A, B)


def inverse_gamma_entropy(A, B):
    """- E[log InvGa(x; A, B)] for x ~ InvGa(A, B)."""
    return A + np.log(B) + gammaln(A) - (1.0 + A) * digamma(A)


def log_hyperprior(a, b, slab):
    """The log density of (log a, log(b/a)) at (a, b)."""
    gamma = slab.shape * np.log(slab.rate) - gammaln(slab.shape)
    gamma += (slab.shape - 1.0) * np.log(a) - slab.rate * a
    jacobian = np.log(a)  # da = a d(log a)
    distance = (np.log(b / a) - np.log(slab.centre)) / slab.sd
    normal = -0.5 * LOG_2PI - np.log(slab.sd) - 0.5 * distance**2
    return float(gamma + jacobian + normal)


# ============================================================== part 1: spike at zero, all active


@dataclass(eq=False)
class Hyper:
    """The constants of the prior other than the slab's."""

    alpha: float
    a_sigma: float
    b_sigma: float


@dataclass(eq=False)
class State:
    """The parameters of q(lambda) q(eta) q(sigma) [q(theta)]; the scores' means are Y W."""

    W: np.ndarray  # (p, K)
    V_eta: np.ndarray  # (K, K)
    mu: np.ndarray  # (p, K)
    V: np.ndarray  # (p, K, K)
    A: float
    B: np.ndarray  # (p,)
    theta: FixedTheta | InvGaTheta


def expected_precision(theta):
    """E[1 / theta_h], h = 1..K."""
    if isinstance(theta, FixedTheta):
        return 1.0 / theta.value
    return expected_inverse(theta.A, theta.B)


def expected_log_theta(theta):
    """E[log theta_h], h = 1..K."""
    if isinstance(theta, FixedTheta):
        return np.log(theta.value)
    return expected_log(theta.A, theta.B)


def expected_squares(mu, V):
    """E[lambda_.h' lambda_.h] = sum_j (mu_jh^2 + V_j;hh), h = 1..K."""
    K = mu.shape[1]
    out = np.empty(K)
    for h in range(K):
        out[h] = (mu[:, h] ** 2 + V[:, h, h]).sum()
    return out


def score_moments(G, n_c, state):
    """sum_i E[eta_i eta_i'] (K x K), and sum_i y_ij E[eta_i] as row j (p x K)."""
    return state.W.T @ G @ state.W + n_c * state.V_eta, G @ state.W


def update_loadings(G, n_c, slab, state, hyper):
    """q(lambda_j) = N(mu_j, V_j), j = 1..p."""
    p, K = state.mu.shape
    eta_eta, y_eta = score_moments(G, n_c, state)
    prior = np.diag(expected_precision(state.theta))
    mu, V = np.empty((p, K)), np.empty((p, K, K))
    for j in range(p):
        tau = state.A / state.B[j]
        V[j] = np.linalg.inv(prior + tau * eta_eta)
        mu[j] = tau * V[j] @ y_eta[j]
    return replace(state, mu=mu, V=V)


def expected_residual(G, n_c, state, j):
    """sum_i E[(y_ij - lambda_j' eta_i)^2]."""
    eta_eta, y_eta = score_moments(G, n_c, state)
    lambda_lambda = np.outer(state.mu[j], state.mu[j]) + state.V[j]
    return G[j, j] - 2.0 * state.mu[j] @ y_eta[j] + (eta_eta * lambda_lambda).sum()


def update_noise(G, n_c, slab, state, hyper):
    """q(sigma_j^2) = InvGa(A, B_j), j = 1..p."""
    p = len(state.mu)
    B = np.empty(p)
    for j in range(p):
        B[j] = hyper.b_sigma + 0.5 * expected_residual(G, n_c, state, j)
    return replace(state, A=hyper.a_sigma + n_c / 2, B=B)


def update_scores(G, n_c, slab, state, hyper):
    """q(eta_i) = N(m_i, V_eta), with m_i = V_eta sum_j tau_j mu_j y_ij, that is m = Y W."""
    p, K = state.mu.shape
    total = np.eye(K)
    for j in range(p):
        total += state.A / state.B[j] * (np.outer(state.mu[j], state.mu[j]) + state.V[j])
    V_eta = np.linalg.inv(total)
    W = np.diag(state.A / state.B) @ state.mu @ V_eta
    return replace(state, W=W, V_eta=V_eta)


def optimal_theta(mu, V, a, b):
    """The InvGa theta-block that maximises the bound, given (a, b) and the loadings."""
    p, K = mu.shape
    squares = expected_squares(mu, V)
    A, B = np.empty(K), np.empty(K)
    for h in range(K):
        A[h] = a + p / 2
        B[h] = b + 0.5 * squares[h]
    return InvGaTheta(A=A, B=B, a=a, b=b)


def slab_terms(mu, V, theta, slab):
    """The terms of the bound that depend on the theta-block, by name."""
    p, K = mu.shape
    squares = expected_squares(mu, V)
    precision, log_theta = expected_precision(theta), expected_log_theta(theta)
    loadings_prior = theta_prior = theta_entropy = hyperprior = 0.0
    for h in range(K):
        loadings_prior += -0.5 * p * (LOG_2PI + log_theta[h]) - 0.5 * precision[h] * squares[h]
        if isinstance(theta, InvGaTheta):
            A, B = theta.A[h], theta.B[h]
            theta_prior += expected_log_inverse_gamma(A, B, theta.a, theta.b)
            theta_entropy += inverse_gamma_entropy(A, B)
    if isinstance(slab, PooledInverseGamma):
        hyperprior = log_hyperprior(theta.a, theta.b, slab)
    return {
        "loadings_prior": loadings_prior,
        "theta_prior": theta_prior,
        "theta_entropy": theta_entropy,
        "hyperprior": hyperprior,
    }


def pool(mu, V, theta, slab, joint):
    """(a, b) that maximise the bound + log hyperprior, numerically over (log a, log b).

    joint=False keeps q(theta) as it is; joint=True moves q(theta) to its optimum at each (a, b).
    """
    K = mu.shape[1]

    def block(x):
        a, b = np.exp(x)
        if joint:
            return optimal_theta(mu, V, a, b)
        return replace(theta, a=a, b=b)

    def loss(x):
        return -sum(slab_terms(mu, V, block(x), slab).values())

    def slope(x):
        # With q(theta) at its optimum, its own move contributes nothing to first order.
        new = block(x)
        d_a = d_b = 0.0
        for h in range(K):
            d_a += np.log(new.b) - digamma(new.a) - expected_log(new.A[h], new.B[h])
            d_b += new.a / new.b - expected_inverse(new.A[h], new.B[h])
        pull = (np.log(new.b / new.a) - np.log(slab.centre)) / slab.sd**2
        d_log_a = new.a * d_a + slab.shape - slab.rate * new.a + pull
        d_log_b = new.b * d_b - pull
        return np.array([-d_log_a, -d_log_b])

    # Far from the hyperprior's centre there can be two maxima: one of small a, whose wide
    # distribution
    # reaches the columns, and one of large a with b / a moved to them. Hence several starts.
    scales = [slab.centre]
    if K:
        scales.append(np.exp(np.log(expected_squares(mu, V) / len(mu)).mean()))
    starts = [(np.log(theta.a), np.log(theta.b))]
    starts += [(np.log(a), np.log(a * scale)) for a in (0.3, 3.0, 100.0) for scale in scales]
    best = None
    for start in starts:
        found = optimize.minimize(
            loss,
            start,
            jac=slope,
            method="L-BFGS-B",
            bounds=[(-15.0, 15.0), (-30.0, 30.0)],
            options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 1000},
        )
        if best is None or found.fun < best.fun:
            best = found
    # The loss fixes its minimiser to half the digits only; the zero of its slope gives the rest.
    x = optimize.root(slope, best.x, tol=1e-14).x
    if np.abs(x - best.x).max() > 1e-3 or np.abs(slope(x)).max() > 1e-8:
        raise ArithmeticError("the search for (a, b) failed")
    return float(np.exp(x[0])), float(np.exp(x[1]))


def update_slab(G, n_c, slab, state, hyper):
    """The theta-block, moved to its maximiser (nothing moves for the Gaussian slab)."""
    mu, V = state.mu, state.V
    p, K = mu.shape
    if isinstance(slab, Gaussian):
        theta = FixedTheta(value=np.full(K, slab.theta0))
    elif isinstance(slab, Learned):
        squares = expected_squares(mu, V)
        if not (squares > 0).all():
            raise ValueError("a column of loadings is zero: its variance has no maximiser")
        value = np.full(K, squares.mean() / p) if slab.shared and K else squares / p
        theta = FixedTheta(value=value)
    elif isinstance(slab, InverseGamma):
        theta = optimal_theta(mu, V, slab.a, slab.b)
    elif slab.joint:
        a, b = pool(mu, V, state.theta, slab, joint=True)
        theta = optimal_theta(mu, V, a, b)
    else:
        theta = optimal_theta(mu, V, state.theta.a, state.theta.b)
        a, b = pool(mu, V, theta, slab, joint=False)
        theta = replace(theta, a=a, b=b)
    return replace(state, theta=theta)


UPDATES = (update_loadings, update_noise, update_scores, update_slab)


def bound_terms(G, n_c, slab, state, hyper):
    """E_q[log p] - E_q[log q], + log Poisson(K; alpha), + the log hyperprior; all constants kept.

    Valid at any state: no term assumes that some block has just been updated.
    """
    p, K = state.mu.shape
    eta_eta, _ = score_moments(G, n_c, state)

    likelihood = noise_prior = noise_entropy = loadings_entropy = 0.0
    for j in range(p):
        A, B = state.A, state.B[j]
        likelihood += -0.5 * n_c * (LOG_2PI + expected_log(A, B))
        likelihood += -0.5 * expected_inverse(A, B) * expected_residual(G, n_c, state, j)
        noise_prior += expected_log_inverse_gamma(A, B, hyper.a_sigma, hyper.b_sigma)
        noise_entropy += inverse_gamma_entropy(A, B)
        loadings_entropy += a1._gaussian_entropy(state.V[j])

    terms = {
        "likelihood": likelihood,
        "scores_prior": -0.5 * n_c * K * LOG_2PI - 0.5 * np.trace(eta_eta),
        "noise_prior": noise_prior,
        "loadings_entropy": loadings_entropy,
        "scores_entropy": n_c * a1._gaussian_entropy(state.V_eta),
        "noise_entropy": noise_entropy,
        "count_prior": K * np.log(hyper.alpha) - hyper.alpha - gammaln(K + 1),
    }
    terms |= slab_terms(state.mu, state.V, state.theta, slab)
    return {name: float(value) for name, value in terms.items()}


def bound(G, n_c, slab, state, hyper):
    """The evidence lower bound plus the log prior of K, and of (a, b) if they are parameters."""
    return float(sum(bound_terms(G, n_c, slab, state, hyper).values()))


def expected_omega(state):
    """E[Omega] = mu mu' + diag(sum_h V_j;hh + B_j / (A - 1)); it exists for A > 1."""
    if state.A <= 1.0:
        raise ValueError("the noise variances have no mean")
    omega = state.mu @ state.mu.T
    for j in range(len(omega)):
        omega[j, j] += np.trace(state.V[j]) + state.B[j] / (state.A - 1.0)
    return omega


def start_state(G, n_c, slab, K, hyper, start_mu, start_noise):
    """Loadings at the point start_mu, tau = 1 / start_noise, scores and theta-block from them."""
    p = len(G)
    mu = np.array(start_mu, dtype=float)
    if mu.shape != (p, K):
        raise ValueError(f"start_mu has shape {mu.shape}, not {(p, K)}")
    A = hyper.a_sigma + n_c / 2
    if isinstance(slab, InverseGamma | PooledInverseGamma):
        theta = optimal_theta(mu, np.zeros((p, K, K)), slab.a, slab.b)
    else:
        theta = FixedTheta(value=np.ones(K))
    state = State(
        W=np.zeros((p, K)),
        V_eta=np.eye(K),
        mu=mu,
        V=np.zeros((p, K, K)),
        A=A,
        B=A * np.broadcast_to(np.asarray(start_noise, dtype=float), p),
        theta=theta,
    )
    state = update_scores(G, n_c, slab, state, hyper)
    return update_slab(G, n_c, slab, state, hyper)


def iteration(G, n_c, slab, state, hyper):
    """One iteration: loadings, noise, scores, theta-block."""
    for update in UPDATES:
        state = update(G, n_c, slab, state, hyper)
    return state


@dataclass(eq=False)
class Result:
    """The state after the last iteration, the bound after each, and E[Omega]."""

    state: State
    bounds: np.ndarray  # (n_cycles,)
    omega: np.ndarray  # (p, p)

    bound = property(lambda self: float(self.bounds[-1]))
    mu = property(lambda self: self.state.mu)
    V = property(lambda self: self.state.V)
    A = property(lambda self: self.state.A)
    B = property(lambda self: self.state.B)
    theta = property(lambda self: self.state.theta)


def fit(G, n_c, slab, K, hyper, start_mu, start_noise, n_iterations):
    """Coordinate ascent, n_iterations >= 1; `start_noise` is a number or one per column."""
    if n_iterations < 1:
        raise ValueError("at the start the loadings are a point, where the bound is not finite")
    state = start_state(G, n_c, slab, K, hyper, start_mu, start_noise)
    bounds = []
    for _ in range(n_iterations):
        state = iteration(G, n_c, slab, state, hyper)
        bounds.append(bound(G, n_c, slab, state, hyper))
    return Result(state=state, bounds=np.array(bounds), omega=expected_omega(state))


# =================================================================== part 2: the finite spike


@dataclass(eq=False)
class SpikeHyper(Hyper):
    """The constants of the prior other than the slab's."""

    theta_inf: float


@dataclass(eq=False)
class SpikeState(a1.State):
    """Algorithm 1's blocks, and q(theta_h | z_h in the slab) = InvGa(A_theta_h, B_theta_h).

    Given z_h in the spike, theta_h is theta_inf. The last column is never in the slab.
    """

    A_theta: np.ndarray  # (H,)
    B_theta: np.ndarray  # (H,)


def slab_probability(state, h):
    """q(z_h in the slab) = sum_{l > h} kappa_hl."""
    return state.kappa[h, h + 1 :].sum()


def expected_log_normal(state, h):
    """E[log N_p(lambda_.h; 0, theta_h)] over q(lambda) q(theta_h | slab)."""
    p = len(state.mu_lambda)
    A, B = state.A_theta[h], state.B_theta[h]
    square = expected_squares(state.mu_lambda, state.V_lambda)[h]
    return -0.5 * p * (LOG_2PI + expected_log(A, B)) - 0.5 * expected_inverse(A, B) * square


def spike_log_normal(state, hyper, h):
    """E[log N_p(lambda_.h; 0, theta_inf)] over q(lambda)."""
    p = len(state.mu_lambda)
    square = expected_squares(state.mu_lambda, state.V_lambda)[h]
    return -0.5 * p * (LOG_2PI + np.log(hyper.theta_inf)) - 0.5 * square / hyper.theta_inf


def spike_step_loadings(y, slab, state, hyper):
    """Step 1: V_j^(lambda) and mu_j^(lambda), for j from 1 to p."""
    n, p = y.shape
    H = len(state.kappa)
    theta_star = np.empty(H)
    for h in range(H):
        active = slab_probability(state, h)
        in_slab = expected_inverse(state.A_theta[h], state.B_theta[h])
        theta_star[h] = active * in_slab + state.kappa[h, : h + 1].sum() / hyper.theta_inf
    mu, V = np.empty((p, H)), np.empty((p, H, H))
    eta_eta = state.mu_eta.T @ state.mu_eta + n * state.V_eta
    for j in range(p):
        tau = state.A_sigma / state.B_sigma[j]
        V[j] = np.linalg.inv(np.diag(theta_star) + tau * eta_eta)
        mu[j] = tau * V[j] @ state.mu_eta.T @ y[:, j]
    return replace(state, mu_lambda=mu, V_lambda=V)


def spike_step_noise(y, slab, state, hyper):
    """Step 2 of Algorithm 1."""
    return a1.step2_noise(y, state, hyper)


def spike_step_scores(y, slab, state, hyper):
    """Step 3 of Algorithm 1."""
    return a1.step3_scores(y, state, hyper)


def spike_step_theta(y, slab, state, hyper):
    """q(theta_h | slab); it does not depend on the labels."""
    theta = optimal_theta(state.mu_lambda, state.V_lambda, slab.a, slab.b)
    return replace(state, A_theta=theta.A, B_theta=theta.B)


def spike_step_labels(y, slab, state, hyper):
    """Step 4: kappa_hl for h from 1 to H and l from 1 to H, normalised in logs."""
    H = len(state.kappa)
    log_omega = a1.expected_log_omega(state)
    kappa = np.empty((H, H))
    for h in range(H):
        A, B = state.A_theta[h], state.B_theta[h]
        in_slab = expected_log_normal(state, h)  # E log N(lambda_.h; 0, theta_h)
        in_slab += expected_log_inverse_gamma(A, B, slab.a, slab.b)  # + E log p(theta_h)
        in_slab += inverse_gamma_entropy(A, B)  # - E log q(theta_h | slab)
        in_spike = spike_log_normal(state, hyper, h)
        log_kappa = np.empty(H)
        for l in range(H):  # noqa: E741 (the paper's letter)
            log_kappa[l] = log_omega[l] + (in_spike if l <= h else in_slab)
        weights = np.exp(log_kappa - log_kappa.max())
        kappa[h] = weights / weights.sum()
    return replace(state, kappa=kappa)


def spike_step_sticks(y, slab, state, hyper):
    """Step 5 of Algorithm 1."""
    return a1.step5_sticks(y, state, hyper)


SPIKE_STEPS = (
    spike_step_loadings,
    spike_step_noise,
    spike_step_scores,
    spike_step_theta,
    spike_step_labels,
    spike_step_sticks,
)


def spike_iteration(y, slab, state, hyper):
    """One iteration: Algorithm 1's order, theta just before the labels (one block with them)."""
    for step in SPIKE_STEPS:
        state = step(y, slab, state, hyper)
    return state


def spike_bound_terms(y, slab, state, hyper):
    """The terms of the bound, all constants kept; valid at any state."""
    # Every term but the loadings' prior is Algorithm 1's. theta_0 is not used in those.
    constants = a1.Hyper(hyper.alpha, 1.0, hyper.theta_inf, hyper.a_sigma, hyper.b_sigma)
    terms = a1.bound_terms(y, state, constants)
    loadings_prior = theta_prior = theta_entropy = 0.0
    for h in range(len(state.kappa)):
        A, B = state.A_theta[h], state.B_theta[h]
        active, inactive = slab_probability(state, h), state.kappa[h, : h + 1].sum()
        loadings_prior += active * expected_log_normal(state, h)
        loadings_prior += inactive * spike_log_normal(state, hyper, h)
        theta_prior += active * expected_log_inverse_gamma(A, B, slab.a, slab.b)
        theta_entropy += active * inverse_gamma_entropy(A, B)
    terms["loadings_prior"] = float(loadings_prior)
    terms["theta_prior"] = float(theta_prior)
    terms["theta_entropy"] = float(theta_entropy)
    return terms


def spike_bound(y, slab, state, hyper):
    """The evidence lower bound, with every constant."""
    return float(sum(spike_bound_terms(y, slab, state, hyper).values()))


@dataclass(eq=False)
class SpikeResult:
    """The state after the last iteration, and the bound at the start and after each iteration."""

    state: SpikeState
    bounds: np.ndarray  # (1 + n_cycles,)

    bound = property(lambda self: float(self.bounds[-1]))


def fit_spike(y, slab, hyper, start_state, n_iterations):
    """Coordinate ascent from a SpikeState; the slab is InverseGamma."""
    if not isinstance(slab, InverseGamma):
        raise TypeError("the finite spike is written for the InverseGamma slab")
    state = start_state
    bounds = [spike_bound(y, slab, state, hyper)]
    for _ in range(n_iterations):
        state = spike_iteration(y, slab, state, hyper)
        bounds.append(spike_bound(y, slab, state, hyper))
    return SpikeResult(state=state, bounds=np.array(bounds))


# --------------------------------------------------------------------------------- helpers


def random_state(p, K, slab, rng):
    """Draw an arbitrary valid state of part 1: no block consistent with another."""
    theta: FixedTheta | InvGaTheta
    if isinstance(slab, InverseGamma | PooledInverseGamma):
        theta = InvGaTheta(
            A=rng.uniform(1.5, 6.0, size=K), B=rng.uniform(0.5, 3.0, size=K), a=slab.a, b=slab.b
        )
    elif isinstance(slab, Gaussian):
        theta = FixedTheta(value=np.full(K, slab.theta0))
    else:
        size = 1 if slab.shared else K
        theta = FixedTheta(value=np.broadcast_to(rng.uniform(0.3, 2.0, size=size), K).copy())
    return State(
        W=rng.normal(size=(p, K)) / p,
        V_eta=a1._random_spd(K, rng),
        mu=rng.normal(size=(p, K)),
        V=np.stack([a1._random_spd(K, rng) for _ in range(p)]),
        A=float(rng.uniform(1.5, 6.0)),
        B=rng.uniform(0.5, 3.0, size=p),
        theta=theta,
    )


def random_spike_state(n, p, H, rng):
    """Draw an arbitrary valid state of part 2: no block consistent with another."""
    return SpikeState(
        **vars(a1.random_state(n, p, H, rng)),
        A_theta=rng.uniform(1.5, 6.0, size=H),
        B_theta=rng.uniform(0.5, 3.0, size=H),
    )
