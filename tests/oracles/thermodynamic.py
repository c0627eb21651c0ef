"""log p(y | K) of the Gaussian factor model by sampling: an oracle for the tests.

    y_i = Lambda eta_i + eps_i,  i = 1..n,  eta_i ~ N(0, I_K),  eps_i ~ N(0, diag sigma^2)
    lambda_jh ~ N(0, theta_h),  theta_h given or theta_h ~ InvGa(a, b)
    sigma_j^2 ~ InvGa(a_s, b_s)

Written from this model alone: it shares no code with the package `cuspfa` and imports only NumPy
and SciPy. A path of distributions leads from one that can be drawn from directly to the posterior.
The scores eta are kept as unknowns, so every conditional of these distributions has a name and can
be drawn:

    p(Lambda, theta) p(eta) r(sigma^2)^(1-s) p(sigma^2)^s prod_(i<=m) N(x_i; Lambda eta_i, Sigma)^t

with r_j = InvGa(2, mean square of column j) and x_1..x_m rows with the Gram matrix (m/n) y'y. (Such
rows exist if m >= p. The likelihood depends on y'y alone, so they need not be rows of y.) At m = n,
t = s = 1 the normalising constant is p(y | K). The path has two parts:

1. m = m_0 fixed, t from 0 to 1, s from 0 to 1 in the first quarter of that: power posteriors. Its
   weights are made of log p(x | Lambda, eta, sigma^2) and log p(sigma^2) - log r(sigma^2).
2. s = t = 1, m from m_0 to n. With the scores integrated out this is the power m/n of the
   likelihood, and the weights are multiples of sum_i log N(y_i; 0, Lambda Lambda' + Sigma).

With m_0 = n there is no second part (`first=None`; the only choice where n < p). A small m_0 makes
the path shorter, as the scores of few rows are at play, and safer where a noise variance may come
close to 0 ("Heywood"): there log p(x | Lambda, eta, sigma^2) has no bound, and the posterior is
reached only where m_0 (1 - t) is small.

Between neighbours let w = log pi'/pi. Two estimates of the sum of log Z'/Z come out: thermodynamic
integration, by the trapezoid rule (E[w] + E'[w]) / 2 with the end correction that the variances
(the slopes of the means) allow; and Bennett's acceptance ratio, which has no error of
discretisation. The sums of E[w] and of E'[w] are bounds below and above. Chains are independent
copies of the whole path, and errors are from the spread between them. Neighbours exchange states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

LOG_2PI = np.log(2.0 * np.pi)


@dataclass(frozen=True)
class Model:
    """K factors; `slab` is theta if it is given, or the pair (a, b) of its InvGa distribution."""

    k: int
    slab: float | tuple[float, float]
    noise: tuple[float, float]


@dataclass(frozen=True)
class Level:
    """A distribution on the path."""

    m: int
    t: float
    s: float


@dataclass(frozen=True)
class Estimate:
    """log p(y | K) by Bennett's ratios and by integration, with standard errors."""

    value: float
    error: float
    integral: float
    integral_error: float
    bounds: tuple[float, float]
    levels: list[Level]
    spread: np.ndarray  # (L - 1,) sd of the log weights between neighbours
    exchanged: np.ndarray  # (L - 1,) part of the exchanges that were accepted


def rows_without_mean(y):
    """n - 1 rows with the Gram matrix of the centred data: the likelihood under a flat mean."""
    n = len(y)
    basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0]
    return basis[:, 1:].T @ y


class Sampler:
    """Gibbs sampling for a batch of B chains, each at its own level of the path."""

    def __init__(self, y, model, levels, rng):
        self.model, self.rng = model, rng
        n, self.p = y.shape
        self.reference = (2.0, np.sum(y**2, axis=0) / n)
        self.m, self.t, self.s = (
            np.array([getattr(level, name) for level in levels], dtype=float) for name in "mts"
        )
        self.rows = y if n < self.p else np.linalg.qr(y, mode="r")  # the others are 0
        self.scale = np.sqrt(self.m / n)[:, None, None]
        self.mask = np.arange(n) < self.m[:, None]  # (B, n)
        self.gram = y.T @ y
        self.squares = self.m[:, None] / n * np.diag(self.gram)

    def start(self):
        """Independent draws of (Lambda, sigma^2, theta) from p(Lambda, theta) r(sigma^2)."""
        size, k = len(self.m), self.model.k
        if isinstance(self.model.slab, tuple):
            a, b = self.model.slab
            theta = b / self.rng.standard_gamma(a, size=(size, k))
        else:
            theta = np.full((size, k), self.model.slab)
        loadings = np.sqrt(theta)[:, None, :] * self.rng.standard_normal((size, self.p, k))
        shape, rate = self.reference
        return loadings, rate / self.rng.standard_gamma(shape, size=(size, self.p)), theta

    # --- log densities

    def noise_ratio(self, variance):
        """log p(sigma^2) - log r(sigma^2), (B, p)."""
        (a, b), (shape, rate) = self.model.noise, self.reference
        constant = gammaln(shape) - shape * np.log(rate)
        if a > 0:  # otherwise p(sigma^2) is sigma^(-2(a+1)) exp(-b/sigma^2) as it stands
            constant += a * np.log(b) - gammaln(a)
        return constant + (shape - a) * np.log(variance) + (rate - b) / variance

    def log_likelihood(self, state):
        """Sum over all n rows of log N(y_i; 0, Lambda Lambda' + Sigma), (B,)."""
        loadings, variance, _ = state
        omega = loadings @ loadings.transpose(0, 2, 1)
        omega[:, range(self.p), range(self.p)] += variance
        root = np.linalg.inv(np.linalg.cholesky(omega))
        log_det = -2 * np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)), axis=1)
        quadratic = np.sum(root * (root @ self.gram), axis=(1, 2))
        return -0.5 * (self.mask.shape[1] * (self.p * LOG_2PI + log_det) + quadratic)

    def log_joint(self, variance, residual):
        """log N(x; Lambda eta, Sigma) of the m rows in use, from the residual sums of squares."""
        terms = self.m[:, None] * (LOG_2PI + np.log(variance)) + residual / variance
        return -0.5 * np.sum(terms, axis=1)

    # --- conditionals

    def noise_without_scores(self, state):
        """Metropolis steps for log sigma_j^2 of a few columns, with the scores integrated out.

        prod_i integral of N(eta_i; 0, I) N(y_i; Lambda eta_i, Sigma)^t is, up to constants, that
        of N(y_i; 0, Lambda Lambda' + Sigma / t) |Sigma|^((1-t)/2). A step changes one entry of the
        diagonal, so P = (Lambda Lambda' + Sigma / t)^-1 and Q = P (sum of y_i y_i') P change by
        matrices of rank one or two.
        """
        loadings, variance, theta = state
        variance, p = variance.copy(), self.p
        t, warm = np.where(self.t > 0, self.t, 1.0), self.t > 0
        omega = loadings @ loadings.transpose(0, 2, 1)
        omega[:, range(p), range(p)] += variance / t[:, None]
        inverse = np.linalg.inv(omega)
        inner = self.scale**2 * (inverse @ self.gram @ inverse)
        scale = np.exp(self.rng.uniform(np.log(0.1), np.log(4.0), size=variance.shape))
        steps = scale * self.rng.standard_normal(variance.shape)
        chance = np.log(self.rng.uniform(size=variance.shape))
        for j in self.rng.choice(p, size=min(p, 2 + p // 5), replace=False):
            new = variance[:, j] * np.exp(steps[:, j])
            delta = (new - variance[:, j]) / t
            growth = 1 + delta * inverse[:, j, j]
            gain = -0.5 * self.m * np.log(growth) + 0.5 * delta / growth * inner[:, j, j]
            gain += 0.5 * self.m * (1 - t) * steps[:, j]
            a, b = self.model.noise
            power = (1 - self.s) * self.reference[0] + self.s * a
            linear = (1 - self.s) * self.reference[1][j] + self.s * b
            gain -= power * steps[:, j] + linear * (1 / new - 1 / variance[:, j])
            accept = warm & (chance[:, j] < gain)
            c = np.where(accept, delta / growth, 0.0)[:, None, None]
            column, row = inverse[:, :, [j]], inverse[:, [j], :]
            inner_column, corner = inner[:, :, [j]], inner[:, j, j][:, None, None]
            cross = inner_column @ row
            inner = inner - c * (cross + cross.transpose(0, 2, 1)) + c**2 * corner * (column @ row)
            inverse = inverse - c * (column @ row)
            variance[:, j] = np.where(accept, new, variance[:, j])
        return loadings, variance, theta

    def scores(self, state):
        """eta | Lambda, sigma^2 of the rows in use, 0 for the others: (B, n, K)."""
        loadings, variance, _ = state
        scaled = loadings * (self.t[:, None] / variance)[:, :, None]
        precision = np.eye(self.model.k) + loadings.transpose(0, 2, 1) @ scaled
        half = np.linalg.inv(np.linalg.cholesky(precision))  # precision^-1 = half' half
        eta = self.rng.standard_normal((*self.mask.shape, self.model.k))
        eta[:, : len(self.rows)] += self.scale * (self.rows @ scaled) @ half.transpose(0, 2, 1)
        return np.where(self.mask[:, :, None], eta @ half, 0.0)

    def rescale(self, loadings, eta):
        """Moves (eta_h, lambda_h) -> (c eta_h, lambda_h / c), theta_h integrated out.

        The likelihood does not change, so c has density c^(m-p) p(c eta) p(lambda / c) dc / c.
        Random walk steps in log c.
        """
        inner, outer = np.sum(eta**2, axis=1), np.sum(loadings**2, axis=1)  # (B, K)
        m = self.m[:, None]

        def log_density(x):
            value = (m - self.p) * x - 0.5 * np.exp(2 * x) * inner
            if isinstance(self.model.slab, tuple):
                a, b = self.model.slab
                return value - (a + self.p / 2) * np.log(b + 0.5 * np.exp(-2 * x) * outer)
            return value - 0.5 * np.exp(-2 * x) * outer / self.model.slab

        step = 2.4 / np.sqrt(2.0 * (m + self.p))
        x = np.zeros_like(inner)
        here = log_density(x)
        for size in (step, 0.5 * step, 2.0 * step):
            moved = x + size * self.rng.standard_normal(x.shape)
            there = log_density(moved)
            accept = np.log(self.rng.uniform(size=x.shape)) < there - here
            x, here = np.where(accept, moved, x), np.where(accept, there, here)
        return loadings * np.exp(-x)[:, None, :], eta * np.exp(x)[:, None, :]

    def shear(self, loadings, eta, theta):
        """Moves eta_h -> eta_h + e eta_g, lambda_g -> lambda_g - e lambda_h: e is normal."""
        k = self.model.k
        turn = np.broadcast_to(np.eye(k), (len(eta), k, k)).copy()  # eta -> eta turn
        back = turn.copy()  # Lambda -> Lambda back
        inner = eta.transpose(0, 2, 1) @ eta
        outer = loadings.transpose(0, 2, 1) @ loadings
        for h in range(k):
            for g in range(k):
                if g == h:
                    continue
                precision = inner[:, g, g] + outer[:, h, h] / theta[:, g]
                mean = (outer[:, g, h] / theta[:, g] - inner[:, g, h]) / precision
                e = mean + self.rng.standard_normal(len(mean)) / np.sqrt(precision)
                for matrix, target, source, size in (
                    (inner, h, g, e[:, None]),
                    (outer, g, h, -e[:, None]),
                ):
                    matrix[:, :, target] += size * matrix[:, :, source]
                    matrix[:, target, :] += size * matrix[:, source, :]
                turn[:, :, h] += e[:, None] * turn[:, :, g]
                back[:, :, g] -= e[:, None] * back[:, :, h]
        return loadings @ back, eta @ turn

    def sweep(self, state):
        """One sweep that leaves each chain's distribution as it is.

        Returns the new state and sum_i (y_ij - lambda_j' eta_i)^2 with its scores, (B, p).
        """
        k, residual = self.model.k, self.squares
        if k:
            state = self.noise_without_scores(state)
            loadings, variance, theta = state
            loadings, eta = self.rescale(loadings, self.scores(state))
            if isinstance(self.model.slab, tuple):
                a, b = self.model.slab
                drawn = self.rng.standard_gamma(a + self.p / 2, size=theta.shape)
                theta = (b + 0.5 * np.sum(loadings**2, axis=1)) / drawn
            loadings, eta = self.shear(loadings, eta, theta)
            weight = (self.t[:, None] / variance)[:, :, None]
            second = eta.transpose(0, 2, 1) @ eta
            cross = self.scale * (self.rows.T @ eta[:, : len(self.rows)])
            precision = weight[..., None] * second[:, None]
            precision[:, :, range(k), range(k)] += 1.0 / theta[:, None, :]
            half = np.linalg.inv(np.linalg.cholesky(precision))
            white = np.einsum("bjhg,bjg->bjh", half, weight * cross)
            white += self.rng.standard_normal(white.shape)
            loadings = np.einsum("bjh,bjhg->bjg", white, half)
            fitted = np.sum(loadings * (loadings @ second - 2 * cross), axis=2)
            # A factor that equals a column leaves nothing but rounding errors.
            residual = np.maximum(residual + fitted, 1e-13 * residual)
        else:
            loadings, variance, theta = state
        (a, b), (shape, rate) = self.model.noise, self.reference
        t, s, m = self.t[:, None], self.s[:, None], self.m[:, None]
        drawn = self.rng.standard_gamma((1 - s) * shape + s * a + t * m / 2, size=variance.shape)
        variance = ((1 - s) * rate + s * b + t * residual / 2) / drawn
        return (loadings, variance, theta), residual


def level(m, t):
    return Level(m, t, min(1.0, 4 * t))


def path(n, p, model, first, size, step):
    """Levels: `size` of them for the first part, steps of `step` in units of sd for the second."""
    m = n if first is None or n < p else min(n, max(first, p))
    x = np.linspace(0.0, 1.0, size)
    levels = [level(m, t) for t in x**3 / (x**3 + (1 - x) ** 2)]
    dimension = p * (model.k + 1)
    while m < n:
        m = min(n, m + max(1, int(m * step / np.sqrt(dimension / 2))))
        levels.append(level(m, 1.0))
    return levels


def evened(levels, spread):
    """The levels of the first part moved so that neighbours are about equally far apart."""
    m = levels[0].m
    t = np.array([one.t for one in levels if one.m == m])
    length = np.cumsum(spread[: len(t) - 1])
    even = np.linspace(0.0, 1.0, len(t))
    place = 0.7 * np.append(0.0, length / length[-1]) + 0.3 * even
    return [level(m, one) for one in np.interp(even, place, t)] + levels[len(t) :]


def log_evidence(
    y, model, *, first=0, size=20, step=0.7, chains=4, sweeps=400, seed=0, kind=Sampler
):
    """Estimate log p(y | K) for centred rows y (n, p).

    `first` is m_0, or p if that is larger; None for n. `size` and `step` are for the two parts of
    the path. An eighth of the `sweeps` comes in front and evens out the steps of the first part,
    another eighth is not counted. `kind` is the class of the sampler.
    """
    y, rng = np.asarray(y, dtype=float), np.random.default_rng(seed)
    n, p = y.shape
    levels = path(n, p, model, first, size, step)
    # Each level starts from where the one before ended.
    state, starts = None, []
    for one in levels:
        sampler = kind(y, model, [one] * chains, rng)
        state = sampler.start() if state is None else state
        for _ in range(3):
            state, _ = sampler.sweep(state)
        starts.append(state)
    state = tuple(np.concatenate(parts) for parts in zip(*starts, strict=True))
    for _ in range(2):
        sampler = kind(y, model, [one for one in levels for _ in range(chains)], rng)
        state, up, down, _ = run(sampler, levels, state, sweeps // 8)
        levels = evened(levels, spread_of(up, down))
    sampler = kind(y, model, [one for one in levels for _ in range(chains)], rng)
    _, up, down, exchanged = run(sampler, levels, state, sweeps)

    ratios = np.empty(up.shape[1:])
    for i in range(len(ratios)):
        ratios[i] = [bennett(up[:, i, c], down[:, i, c]) for c in range(chains)]
    parts = 0.5 * (up.mean(axis=0) + down.mean(axis=0))
    parts -= (down.var(axis=0) - up.var(axis=0)) / 12
    # Under an InvGa slab w has no variance at t = 0: the first step is left to the ratio.
    integral = ratios[0] + parts[1:].sum(axis=0)
    total, root = ratios.sum(axis=0), np.sqrt(chains)
    return Estimate(
        float(total.mean()),
        float(total.std(ddof=1) / root),
        float(integral.mean()),
        float(integral.std(ddof=1) / root),
        (float(up.mean(axis=(0, 2)).sum()), float(down.mean(axis=(0, 2)).sum())),
        levels,
        spread_of(up, down),
        exchanged,
    )


def spread_of(up, down):
    return 0.5 * (up.std(axis=0) + down.std(axis=0)).mean(axis=1)


def run(sampler, levels, state, sweeps):
    """All levels at once: with C chains, copy c of level i is number i * C + c of the batch.

    Returns the last state; log pi_(i+1) / pi_i at the states of level i (`up`) and of level i + 1
    (`down`), both (sweeps, levels - 1, C); and the part of the exchanges accepted.
    """
    size, chains = len(levels), len(sampler.m) // len(levels)
    t_step, s_step = (np.diff(x[::chains])[:, None] for x in (sampler.t, sampler.s))
    m_step = np.diff(sampler.m[::chains])[:, None] / sampler.mask.shape[1]
    up, down = np.empty((2, sweeps, size - 1, chains))
    accepted = np.zeros((size - 1, chains))
    for number in range(sweeps):
        state, residual = sampler.sweep(state)
        joint = sampler.log_joint(state[1], residual).reshape(size, chains)
        ratio = np.sum(sampler.noise_ratio(state[1]), axis=1).reshape(size, chains)
        collapsed = np.zeros((size, chains))
        if m_step[-1] > 0:
            collapsed = sampler.log_likelihood(state).reshape(size, chains)
        for into, at in ((up, slice(None, -1)), (down, slice(1, None))):
            into[number] = t_step * joint[at] + s_step * ratio[at] + m_step * collapsed[at]
        # Neighbours exchange, even pairs and odd pairs in turn.
        pairs = np.arange(number % 2, size - 1, 2)
        gain = (up[number] - down[number])[pairs]
        accept = np.log(sampler.rng.uniform(size=gain.shape)) < gain
        order = np.arange(size * chains).reshape(size, chains)
        order[pairs], order[pairs + 1] = (
            np.where(accept, order[pairs + 1], order[pairs]),
            np.where(accept, order[pairs], order[pairs + 1]),
        )
        state = tuple(part[order.ravel()] for part in state)
        accepted[pairs] += accept
    return state, up, down, 2 * accepted.mean(axis=1) / sweeps


def bennett(up, down):
    """log Z' / Z from as many values of log pi' / pi at draws from pi (`up`) as from pi' (`down`).

    The root r of sum f(r - up) = sum f(down - r), f(x) = 1 / (1 + e^x).
    """
    r = 0.5 * (up.mean() + down.mean())
    low, high = min(up.min(), down.min()), max(up.max(), down.max())
    for _ in range(200):
        f = 1 / (1 + np.exp(np.clip(r - up, -700, 700)))
        g = 1 / (1 + np.exp(np.clip(down - r, -700, 700)))
        if (excess := f.sum() - g.sum()) > 0:
            low = r
        else:
            high = r
        slope = np.sum(f * (1 - f)) + np.sum(g * (1 - g))
        r, last = r + excess / max(slope, 1e-300), r
        if not low <= r <= high:
            r = 0.5 * (low + high)
        if abs(r - last) < 1e-10:
            break
    return r
