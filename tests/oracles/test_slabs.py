"""Checks of the oracle itself: its bounds by Monte Carlo, its updates by perturbation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from oracles import algorithm1 as a1
from oracles import slabs
from oracles.monte_carlo import check_terms, draw_common, less_variable, standard_errors
from support import factor_rows

HYPER = slabs.Hyper(alpha=2.5, a_sigma=1.7, b_sigma=0.6)
SPIKE = slabs.SpikeHyper(alpha=2.5, a_sigma=1.7, b_sigma=0.6, theta_inf=0.2)
SHARP = slabs.SpikeHyper(alpha=5.0, a_sigma=1.0, b_sigma=0.3, theta_inf=1e-6)
INVERSE_GAMMA = slabs.InverseGamma(a=2.2, b=1.4)
SLABS = {
    "gaussian": slabs.Gaussian(1.3),
    "inverse-gamma": INVERSE_GAMMA,
    "learned": slabs.Learned(),
    "learned-common": slabs.Learned(shared=True),
    "pooled": slabs.PooledInverseGamma(3.0, 0.5),
    "pooled-in-turn": slabs.PooledInverseGamma(3.0, 0.5, joint=False),
}
every_slab = pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS.keys())


def problem(n, p, K, slab, seed):
    rng = np.random.default_rng(seed)
    y = factor_rows(n, p, 2, rng, noise=0.5)
    return y, slabs.random_state(p, K, slab, rng), rng


# ------------------------------------------------------------- (a) the bounds, by Monte Carlo


@pytest.mark.parametrize(
    ("slab", "updated", "centred"),
    [
        (INVERSE_GAMMA, False, False),
        (INVERSE_GAMMA, True, True),
        (slabs.PooledInverseGamma(3.0, 0.5), False, False),
    ],
)
def test_bound_agrees_with_monte_carlo_and_a_wrong_constant_does_not(slab, updated, centred):
    y, state, rng = problem(4, 3, 2, slab, seed=11)
    n_c, G = 4, y.T @ y
    if centred:  # n - 1 rows with the Gram matrix of n centred rows
        more = factor_rows(5, 3, 2, rng, noise=0.5) + 7.0
        G, n_c = 4 * np.cov(more, rowvar=False), 4
        y = np.linalg.cholesky(G).T  # 3 rows, and a fourth of zeros
        y = np.vstack([y, np.zeros(3)])
        assert y.T @ y == pytest.approx(G)
    if updated:
        state = slabs.iteration(G, n_c, slab, state, HYPER)
    else:  # still no block fits another, but the draws vary less
        state = replace(
            state,
            V_eta=0.2 * state.V_eta,
            mu=0.5 * state.mu,
            V=0.2 * state.V,
            B=3.0 * state.B,
        )
    draws = 100_000
    lam, sigma2, samples = draw_common(
        y, y @ state.W, state.V_eta, state.mu, state.V, state.A, state.B, HYPER, draws, rng
    )
    theta = state.theta
    q_theta = [stats.invgamma(theta.A[h], scale=theta.B[h]) for h in range(2)]
    th = np.stack([q.rvs(draws, random_state=rng) for q in q_theta], axis=1)
    samples["loadings_prior"] = stats.norm.logpdf(lam, 0, np.sqrt(th)[:, None]).sum(axis=(1, 2))
    samples["theta_prior"] = stats.invgamma(slab.a, scale=slab.b).logpdf(th).sum(axis=1)
    samples["theta_entropy"] = -sum(q_theta[h].logpdf(th[:, h]) for h in range(2))
    samples["count_prior"] = stats.poisson(HYPER.alpha).logpmf(2)
    samples["hyperprior"] = 0.0
    if isinstance(slab, slabs.PooledInverseGamma):  # the density of a, times da / d(log a)
        samples["hyperprior"] = (
            stats.gamma(2, scale=50).logpdf(3.0)
            + np.log(3.0)
            + stats.norm(np.log(0.2), 1.5).logpdf(np.log(0.5 / 3.0))
        )
    check_terms(slabs.bound_terms(G, n_c, slab, state, HYPER), samples)
    if updated:
        omega = np.einsum("sjh,skh->sjk", lam, lam)
        omega[:, range(3), range(3)] += sigma2
        for (j, k), value in np.ndenumerate(slabs.expected_omega(state)):
            assert standard_errors(value, omega[:, j, k]) < 4.5


@pytest.mark.parametrize(("H", "updated"), [(3, False), (3, True), (1, False)])
def test_spike_bound_agrees_with_monte_carlo_and_a_wrong_one_does_not(H, updated):
    rng = np.random.default_rng(11)
    y, slab = factor_rows(4, 3, 2, rng, noise=0.5), INVERSE_GAMMA
    state = slabs.random_spike_state(4, 3, H, rng)
    state = slabs.spike_iteration(y, slab, state, SPIKE) if updated else less_variable(state)
    draws = 100_000
    lam, _, samples = draw_common(
        y,
        state.mu_eta,
        state.V_eta,
        state.mu_lambda,
        state.V_lambda,
        state.A_sigma,
        state.B_sigma,
        SPIKE,
        draws,
        rng,
    )
    label = np.stack([rng.choice(H, size=draws, p=state.kappa[h]) for h in range(H)], axis=1)
    in_slab = label > np.arange(H)
    v = np.ones((draws, H))  # v_H = 1
    for h in range(H - 1):
        v[:, h] = rng.beta(state.A_v[h], state.B_v[h], size=draws)
    omega = v * np.cumprod(np.hstack([np.ones((draws, 1)), 1.0 - v[:, :-1]]), axis=1)
    q_theta = [stats.invgamma(state.A_theta[h], scale=state.B_theta[h]) for h in range(H)]
    slab_theta = np.stack([q.rvs(draws, random_state=rng) for q in q_theta], axis=1)
    theta = np.where(in_slab, slab_theta, SPIKE.theta_inf)
    log_p = stats.invgamma(slab.a, scale=slab.b).logpdf(slab_theta)
    log_q = np.stack([q_theta[h].logpdf(slab_theta[:, h]) for h in range(H)], axis=1)
    log_kappa = np.log(state.kappa)
    samples |= {
        "loadings_prior": stats.norm.logpdf(lam, 0, np.sqrt(theta)[:, None]).sum(axis=(1, 2)),
        "labels_prior": np.log(np.take_along_axis(omega, label, axis=1)).sum(axis=1),
        "sticks_prior": stats.beta(1, SPIKE.alpha).logpdf(v[:, :-1]).sum(axis=1),
        "labels_entropy": -sum(log_kappa[h][label[:, h]] for h in range(H)),
        "sticks_entropy": np.zeros(draws)
        - sum(stats.beta(state.A_v[h], state.B_v[h]).logpdf(v[:, h]) for h in range(H - 1)),
        "theta_prior": np.where(in_slab, log_p, 0.0).sum(axis=1),
        "theta_entropy": -np.where(in_slab, log_q, 0.0).sum(axis=1),
    }
    terms = slabs.spike_bound_terms(y, slab, state, SPIKE)
    check_terms(terms, samples)
    # The control: theta's terms counted in the spike too would be seen.
    wrong = sum(slabs.inverse_gamma_entropy(state.A_theta[h], state.B_theta[h]) for h in range(H))
    if H > 1:
        assert standard_errors(wrong, samples["theta_entropy"]) > 9
    else:
        assert terms["theta_entropy"] == 0.0 != wrong


# ------------------------------------------------- (b) each update maximises over its own block


def _move_gaussian(mu, V, t, rng):
    """Move in units of the distribution's own scale; V stays positive definite."""
    L = np.linalg.cholesky(V)
    root = L @ (np.eye(len(V)) + t * np.tril(rng.normal(size=V.shape)))
    return mu + t * rng.normal(size=mu.shape) @ L.T, root @ root.T


def _move_gaussians(mu, V, t, rng):
    moved = [_move_gaussian(mu[j], V[j], t, rng) for j in range(len(mu))]
    return np.stack([m for m, _ in moved]), np.stack([v for _, v in moved])


def _move_positive(x, t, rng):
    return x * np.exp(t * rng.normal(size=np.shape(x)))


def move(update, slab, state, t, rng):
    """A new state of part 1, one block moved a step t along a direction drawn from rng."""
    if update is slabs.update_loadings:
        mu, V = _move_gaussians(state.mu, state.V, t, rng)
        return replace(state, mu=mu, V=V)
    if update is slabs.update_noise:
        return replace(state, A=_move_positive(state.A, t, rng), B=_move_positive(state.B, t, rng))
    if update is slabs.update_scores:
        _, V_eta = _move_gaussian(np.zeros(len(state.V_eta)), state.V_eta, t, rng)
        return replace(state, W=state.W + 0.2 * t * rng.normal(size=state.W.shape), V_eta=V_eta)
    theta = state.theta
    if isinstance(slab, slabs.Learned):
        value = _move_positive(theta.value, t, rng)
        if slab.shared:
            value = theta.value * np.exp(t * rng.normal())
        return replace(state, theta=replace(theta, value=value))
    if isinstance(slab, slabs.InverseGamma):
        new = replace(theta, A=_move_positive(theta.A, t, rng), B=_move_positive(theta.B, t, rng))
    elif slab.joint:
        new = slabs.InvGaTheta(*(_move_positive(x, t, rng) for x in vars(theta).values()))
    else:
        new = replace(theta, a=_move_positive(theta.a, t, rng), b=_move_positive(theta.b, t, rng))
    return replace(state, theta=new)


def move_spike(step, state, t, rng):
    """The same for part 2."""
    if step is slabs.spike_step_loadings:
        mu, V = _move_gaussians(state.mu_lambda, state.V_lambda, t, rng)
        return replace(state, mu_lambda=mu, V_lambda=V)
    if step is slabs.spike_step_scores:
        mu, V = _move_gaussian(state.mu_eta, state.V_eta, t, rng)
        return replace(state, mu_eta=mu, V_eta=V)
    if step is slabs.spike_step_labels:
        kappa = _move_positive(state.kappa, t, rng)
        return replace(state, kappa=kappa / kappa.sum(axis=1, keepdims=True))
    names = {
        slabs.spike_step_noise: ("A_sigma", "B_sigma"),
        slabs.spike_step_theta: ("A_theta", "B_theta"),
        slabs.spike_step_sticks: ("A_v", "B_v"),
    }[step]
    return replace(state, **{name: _move_positive(getattr(state, name), t, rng) for name in names})


def check_maximum(value, moved, start, best):
    """`best` has the highest bound of its block; `start` differs from it in that block only."""
    top = value(best)
    slack = 1e-12 * max(1.0, abs(top))
    assert top >= value(start) - slack

    def slope(state, seed, t=2e-5):
        up, down = (value(moved(state, s, np.random.default_rng(seed))) for s in (t, -t))
        return (up - down) / (2 * t)

    for seed in range(10):
        for t in (0.02, -0.02, 0.3):
            assert value(moved(best, t, np.random.default_rng(seed))) <= top + slack
        assert abs(slope(best, seed)) < 1e-5 + 1e-10 * abs(top)
    return max(abs(slope(start, seed)) for seed in range(5))


@every_slab
@pytest.mark.parametrize(("n", "p", "K"), [(9, 4, 3), (3, 5, 2)])
def test_each_update_maximises_the_bound_over_its_block(n, p, K, slab):
    y, start, _ = problem(n, p, K, slab, seed=5)
    G, n_c = y.T @ y, n - 0.5
    for update in slabs.UPDATES:
        best = update(G, n_c, slab, start, HYPER)
        if update is slabs.update_slab and isinstance(slab, slabs.Gaussian):
            assert np.array_equal(best.theta.value, start.theta.value)
            continue
        begun = start
        if update is slabs.update_slab and slab == SLABS["pooled-in-turn"]:
            # (a, b) move last; q(theta) before them, to its own optimum.
            theta = slabs.optimal_theta(start.mu, start.V, start.theta.a, start.theta.b)
            begun = replace(start, theta=theta)
            assert np.array_equal(best.theta.B, theta.B)
        steepest = check_maximum(
            lambda s: slabs.bound(G, n_c, slab, s, HYPER),
            lambda s, t, rng, update=update: move(update, slab, s, t, rng),
            begun,
            best,
        )
        assert steepest > 0.1, update.__name__  # the test can fail


@pytest.mark.parametrize(("n", "p", "H"), [(9, 4, 3), (3, 5, 4)])
def test_each_spike_step_maximises_the_bound_over_its_block(n, p, H):
    rng = np.random.default_rng(5)
    y, start = factor_rows(n, p, 2, rng, noise=0.5), slabs.random_spike_state(n, p, H, rng)
    for step in slabs.SPIKE_STEPS:
        steepest = check_maximum(
            lambda s: slabs.spike_bound(y, INVERSE_GAMMA, s, SPIKE),
            lambda s, t, rng, step=step: move_spike(step, s, t, rng),
            start,
            step(y, INVERSE_GAMMA, start, SPIKE),
        )
        assert steepest > 0.1, step.__name__


@pytest.mark.parametrize("K", [0, 1, 4])
@pytest.mark.parametrize("joint", [True, False])
def test_pooled_parameters_do_not_depend_on_where_the_search_starts(K, joint):
    slab = SLABS["pooled"]
    _, state, _ = problem(6, 8, K, slab, seed=1)
    found = [
        slabs.pool(state.mu, state.V, replace(state.theta, a=a, b=b), slab, joint)
        for a, b in [(0.1, 3.0), (3.0, 0.5), (200.0, 10.0)]
    ]
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-10)
    if K == 0:  # the hyperprior's mode: 2 log a - 0.02 a at a = 100, b / a = 0.2
        assert found[0] == pytest.approx((100.0, 20.0), rel=1e-10)


@pytest.mark.parametrize("scales", [(0.17, 0.92, 0.21, 4.4, 1.8), (14.0, 0.4), (17.0, 8.0, 18.0)])
@pytest.mark.parametrize("a", [0.3, 100.0])
def test_pooled_parameters_are_the_higher_of_two_maxima(scales, a):
    slab, p, K = SLABS["pooled"], 5, len(scales)
    mu, V = np.tile(scales, (p, 1)), np.zeros((p, K, K))

    def value(a, b):
        return sum(slabs.slab_terms(mu, V, slabs.optimal_theta(mu, V, a, b), slab).values())

    theta = slabs.optimal_theta(mu, V, a, 0.2 * a)
    top = value(*slabs.pool(mu, V, theta, slab, joint=True))
    # The height along a, each time at its best b / a: it falls and rises again.
    ratios = np.exp(np.linspace(-8.0, 8.0, 40))
    ridge = [max(value(a, a * r) for r in ratios) for a in np.exp(np.linspace(-3.0, 6.0, 30))]
    assert max(ridge) <= top
    peaks = [i for i in range(1, 29) if ridge[i] > max(ridge[i - 1], ridge[i + 1])]
    assert len(peaks) > 1


# --------------------------------------------------------- (c) the bound never falls; the rest


@every_slab
@pytest.mark.parametrize(("n", "p", "K"), [(30, 6, 3), (5, 12, 2), (5, 12, 6)])
def test_bound_never_falls(n, p, K, slab):
    y, _, rng = problem(n, p, K, slab, seed=2)
    G = y.T @ y
    start = rng.normal(size=(p, K))
    fitted = slabs.fit(G, n - 1, slab, K, HYPER, start, 0.3, 8)
    state = slabs.start_state(G, n - 1, slab, K, HYPER, start, 0.3)
    last, seen = -np.inf, []
    for iteration in range(8):
        for update in slabs.UPDATES:
            state = update(G, n - 1, slab, state, HYPER)
            value = slabs.bound(G, n - 1, slab, state, HYPER)
            assert value >= last - 1e-11 * abs(value), (iteration, update.__name__)
            last = value
        seen.append(value)
    assert fitted.bounds.tolist() == seen
    assert fitted.bound == seen[-1] > seen[0]
    assert np.array_equal(fitted.mu, state.mu)
    assert np.array_equal(fitted.B, state.B)
    assert np.linalg.eigvalsh(fitted.omega).min() > 0


@pytest.mark.parametrize("hyper", [SPIKE, SHARP], ids=["mild", "sharp"])
@pytest.mark.parametrize(("n", "p", "H"), [(30, 6, 5), (5, 12, 4), (5, 4, 1)])
def test_spike_bound_never_falls(n, p, H, hyper):
    rng = np.random.default_rng(3)
    y, start = factor_rows(n, p, 2, rng, noise=0.5), slabs.random_spike_state(n, p, H, rng)
    fitted = slabs.fit_spike(y, INVERSE_GAMMA, hyper, start, 8)
    state, last = start, fitted.bounds[0]
    for iteration in range(8):
        for step in slabs.SPIKE_STEPS:
            state = step(y, INVERSE_GAMMA, state, hyper)
            value = slabs.spike_bound(y, INVERSE_GAMMA, state, hyper)
            assert value >= last - 1e-11 * max(1.0, abs(last)), step.__name__
            last = value
        assert fitted.bounds[iteration + 1] == value
    assert fitted.bound > fitted.bounds[0]


@pytest.mark.parametrize(("n", "p", "K"), [(9, 4, 3), (3, 5, 2)])
def test_gaussian_slab_is_algorithm_1_with_one_variance(n, p, K):
    """With theta_0 = theta_inf the paper's labels do not matter to the other blocks."""
    slab = slabs.Gaussian(1.3)
    y, state, rng = problem(n, p, K, slab, seed=4)
    G = y.T @ y
    hyper = a1.Hyper(HYPER.alpha, 1.3, 1.3, HYPER.a_sigma, HYPER.b_sigma)
    other = replace(
        a1.random_state(n, p, K, rng),
        mu_eta=y @ state.W,
        V_eta=state.V_eta,
        mu_lambda=state.mu,
        V_lambda=state.V,
        A_sigma=state.A,
        B_sigma=state.B,
    )
    steps = (a1.step1_loadings, a1.step2_noise, a1.step3_scores)
    for _ in range(5):
        for update, step in zip(slabs.UPDATES[:3], steps, strict=True):
            state, other = update(G, n, slab, state, HYPER), step(y, other, hyper)
        assert y @ state.W == pytest.approx(other.mu_eta, rel=1e-9, abs=1e-11)
        assert state.mu == pytest.approx(other.mu_lambda, rel=1e-9, abs=1e-11)
        assert pytest.approx(other.V_lambda, rel=1e-9, abs=1e-11) == state.V
        assert pytest.approx(other.B_sigma, rel=1e-9) == state.B
        terms, expected = (
            slabs.bound_terms(G, n, slab, state, HYPER),
            a1.bound_terms(y, other, hyper),
        )
        for name in terms.keys() & expected.keys():
            assert terms[name] == pytest.approx(expected[name], rel=1e-9), name


def test_spike_steps_with_an_almost_fixed_variance_are_algorithm_1():
    rng = np.random.default_rng(7)
    y, start = factor_rows(8, 4, 2, rng, noise=0.5), slabs.random_spike_state(8, 4, 3, rng)
    slab = slabs.InverseGamma(1e7, 1.3e7)
    hyper = a1.Hyper(SPIKE.alpha, 1.3, SPIKE.theta_inf, SPIKE.a_sigma, SPIKE.b_sigma)
    state = slabs.spike_step_theta(y, slab, start, SPIKE)
    other = start
    for _ in range(5):
        state, other = slabs.spike_iteration(y, slab, state, SPIKE), a1.iteration(y, other, hyper)
    assert state.kappa == pytest.approx(other.kappa, rel=1e-4)
    assert state.mu_lambda == pytest.approx(other.mu_lambda, rel=1e-4, abs=1e-6)
    value = slabs.spike_bound(y, slab, state, SPIKE)
    assert value == pytest.approx(a1.bound(y, other, hyper), abs=1e-4)


def test_pooled_in_turn_stays_where_pooled_jointly_stops():
    y, _, rng = problem(40, 6, 2, SLABS["pooled"], seed=9)
    G, start = y.T @ y, rng.normal(size=(6, 2))
    jointly, in_turn = (
        slabs.fit(G, 40, SLABS[name], 2, HYPER, start, 0.3, 20)
        for name in ("pooled", "pooled-in-turn")
    )
    assert jointly.bound > in_turn.bound + 1e-3  # slower, not elsewhere
    theta = slabs.update_slab(G, 40, SLABS["pooled-in-turn"], jointly.state, HYPER).theta
    assert (theta.a, theta.b) == pytest.approx((jointly.theta.a, jointly.theta.b), rel=1e-9)


@every_slab
def test_no_columns_leaves_the_noise_alone(slab):
    y, _, _ = problem(7, 3, 2, slab, seed=0)
    fitted = slabs.fit(y.T @ y, 7, slab, 0, HYPER, np.zeros((3, 0)), 1.0, 2)
    # sigma_j^2 alone is conjugate, so the bound is the log evidence: a multivariate t per column.
    evidence = stats.poisson(HYPER.alpha).logpmf(0)
    for j in range(3):
        scale = HYPER.b_sigma / HYPER.a_sigma * np.eye(7)
        evidence += stats.multivariate_t(np.zeros(7), scale, df=2 * HYPER.a_sigma).logpdf(y[:, j])
    if isinstance(slab, slabs.PooledInverseGamma):
        evidence += slabs.log_hyperprior(100.0, 20.0, slab)
    assert fitted.bound == pytest.approx(evidence, abs=1e-10)
    assert fitted.omega == pytest.approx(np.diag(fitted.B / (fitted.A - 1.0)))


def test_what_cannot_be_fitted_is_refused():
    y, _, rng = problem(7, 3, 2, SLABS["learned"], seed=0)
    G = y.T @ y
    with pytest.raises(ValueError, match="no maximiser"):
        slabs.fit(G, 7, slabs.Learned(), 2, HYPER, np.zeros((3, 2)), 1.0, 2)
    with pytest.raises(ValueError, match="shape"):
        slabs.fit(G, 7, INVERSE_GAMMA, 1, HYPER, np.zeros((3, 2)), 1.0, 2)
    with pytest.raises(ValueError, match="not finite"):
        slabs.fit(G, 7, INVERSE_GAMMA, 2, HYPER, np.zeros((3, 2)), 1.0, 0)
    with pytest.raises(TypeError, match="InverseGamma"):
        slabs.fit_spike(y, slabs.Learned(), SPIKE, slabs.random_spike_state(7, 3, 2, rng), 1)
    state = slabs.random_state(3, 2, INVERSE_GAMMA, rng)
    with pytest.raises(ValueError, match="no mean"):
        slabs.expected_omega(replace(state, A=0.9))
