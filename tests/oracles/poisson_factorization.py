"""Variational Poisson factorization under the process, literally: loops over cells and columns.

It shares no code with the engine. q(d_h) is the distribution of the rate given that column h is
active; `break_` names a formula that is written down wrongly, for negative controls.
"""

from __future__ import annotations

from math import exp, lgamma, log, sqrt
from typing import Any

from scipy.special import digamma


class Literal:
    """The state and its steps; every quantity is a list of Python floats."""

    def __init__(self, x, s, missing, hyper, alpha, spike, scores, loadings, break_="") -> None:
        """`scores` and `loadings` are (shape, rate) as lists of lists."""
        self.x, self.s, self.missing = x, s, missing
        self.a, self.c, self.e, self.f = hyper
        self.alpha, self.spike, self.break_ = alpha, spike, break_
        self.n, self.p, self.k = len(x), len(x[0]), len(scores[0][0])
        self.theta, self.beta = scores, loadings
        h = range(self.k)
        self.kappa = [[1.0 / self.k for _ in h] for _ in h]
        self.sticks = [(1.0, alpha) for _ in range(self.k - 1)]
        self.active = [1.0] * self.k
        self.update_rates()
        if spike is not None:
            self.update_labels()
            self.update_sticks()
        self.update_split()

    # expectations
    def mean(self, q, i, h) -> float:
        return float(q[0][i][h] / q[1][i][h])

    def log_mean(self, q, i, h) -> float:
        return float(digamma(q[0][i][h])) - log(q[1][i][h])

    def cells(self) -> Any:
        return ((i, j) for i in range(self.n) for j in range(self.p) if not self.missing[i][j])

    # updates
    def update_split(self) -> None:
        self.phi = {}
        for i, j in self.cells():
            logs = [
                self.log_mean(self.theta, i, h) + self.log_mean(self.beta, j, h)
                for h in range(self.k)
            ]
            top = max(logs)
            total = sum(exp(one - top) for one in logs)
            self.phi[i, j] = [exp(one - top) / total for one in logs]

    def update_scores(self) -> None:
        shape = [[self.a] * self.k for _ in range(self.n)]
        rate = [[self.a] * self.k for _ in range(self.n)]
        for i, j in self.cells():
            for h in range(self.k):
                shape[i][h] += self.x[i][j] * self.phi[i, j][h]
                exposure = 1.0 if self.break_ == "exposure" else self.s[i]
                rate[i][h] += exposure * self.mean(self.beta, j, h)
        self.theta = (shape, rate)

    def update_loadings(self) -> None:
        shape = [[self.c] * self.k for _ in range(self.p)]
        rate = [[0.0] * self.k for _ in range(self.p)]
        for j in range(self.p):
            for h in range(self.k):
                inactive = 0.0 if self.spike is None else self.c / self.spike
                kappa = self.active[h]
                rate[j][h] = kappa * self.d[0][h] / self.d[1][h] + (1 - kappa) * inactive
                if self.break_ == "rate":
                    rate[j][h] = self.d[0][h] / self.d[1][h]
        for i, j in self.cells():
            for h in range(self.k):
                shape[j][h] += self.x[i][j] * self.phi[i, j][h]
                rate[j][h] += self.s[i] * self.mean(self.theta, i, h)
        self.beta = (shape, rate)
        self.update_rates()

    def update_rates(self) -> None:
        shape, rate = [], []
        for h in range(self.k):
            shape.append(self.e + self.c * (1 if self.break_ == "shape" else self.p))
            rate.append(self.f + sum(self.mean(self.beta, j, h) for j in range(self.p)))
        self.d = (shape, rate)

    def slab(self, h) -> float:
        """E log p(β_h | d_h) + E log p(d_h) − E log q(d_h)."""
        k, r = self.d[0][h], self.d[1][h]
        mean, log_mean = k / r, float(digamma(k)) - log(r)
        total = self.e * log(self.f) - lgamma(self.e) + (self.e - 1) * log_mean - self.f * mean
        total += k - log(r) + lgamma(k) + (1 - k) * float(digamma(k))
        for j in range(self.p):
            total += self.c * log_mean - lgamma(self.c)
            total += (self.c - 1) * self.log_mean(self.beta, j, h) - mean * self.mean(
                self.beta, j, h
            )
        return float(total)

    def spike_density(self, h) -> float:
        rate, total = self.c / self.spike, 0.0
        for j in range(self.p):
            total += self.c * log(rate) - lgamma(self.c)
            total += (self.c - 1) * self.log_mean(self.beta, j, h) - rate * self.mean(
                self.beta, j, h
            )
        return float(total)

    def log_weights(self) -> list[float]:
        out, rest = [], 0.0
        for a, b in self.sticks:
            both = float(digamma(a + b))
            out.append(rest + float(digamma(a)) - both)
            rest += float(digamma(b)) - both
        return [*out, rest]

    def update_labels(self) -> None:
        weights = self.log_weights()
        for h in range(self.k):
            slab, spike = self.slab(h), self.spike_density(h)
            scores = [weights[m] + (slab if m > h else spike) for m in range(self.k)]
            top = max(scores)
            total = sum(exp(one - top) for one in scores)
            self.kappa[h] = [exp(one - top) / total for one in scores]
        self.active = [sum(self.kappa[h][h + 1 :]) for h in range(self.k)]

    def update_sticks(self) -> None:
        for m in range(self.k - 1):
            at = sum(self.kappa[h][m] for h in range(self.k))
            beyond = sum(sum(self.kappa[h][m + 1 :]) for h in range(self.k))
            self.sticks[m] = (1.0 + at, self.alpha + beyond)

    def update_scale(self) -> None:
        for h in range(self.k):
            if self.active[h] < 1 - 1e-12:
                continue
            t = sum(self.mean(self.theta, i, h) for i in range(self.n))
            b = sum(self.mean(self.beta, j, h) for j in range(self.p))
            linear = self.a * self.n - self.c * self.p
            if self.break_ == "scale":  # d_h given in place of profiled
                d = self.d[0][h] / self.d[1][h]
                u = (linear + sqrt(linear**2 + 4 * self.a * t * d * b)) / (2 * self.a * t)
            else:
                q = linear * self.f - self.a * t * b
                w = self.a * t * self.f
                u = (q + sqrt(q * q + 4 * w * (self.a * self.n + self.e) * b)) / (2 * w)
            for i in range(self.n):
                self.theta[1][i][h] /= u
            for j in range(self.p):
                self.beta[1][j][h] *= u
        self.update_rates()

    # the bound
    def bound(self) -> float:
        total = 0.0
        for i, j in self.cells():
            x = self.x[i][j]
            total -= lgamma(x + 1)
            for h in range(self.k):
                total -= self.s[i] * self.mean(self.theta, i, h) * self.mean(self.beta, j, h)
                phi = self.phi[i, j][h]
                if x and phi > 0:
                    logs = self.log_mean(self.theta, i, h) + self.log_mean(self.beta, j, h)
                    total += x * phi * (log(self.s[i]) + logs - log(phi))
        for i in range(self.n):
            for h in range(self.k):
                total += self.a * log(self.a) - lgamma(self.a)
                total += (self.a - 1) * self.log_mean(self.theta, i, h)
                total -= self.a * self.mean(self.theta, i, h)
                total += self.entropy(self.theta, i, h)
        for j in range(self.p):
            for h in range(self.k):
                total += self.entropy(self.beta, j, h)
        for h in range(self.k):
            total += self.active[h] * self.slab(h)
            if self.spike is not None:
                total += (1 - self.active[h]) * self.spike_density(h)
        if self.spike is not None:
            weights = self.log_weights()
            for h in range(self.k):
                for m in range(self.k):
                    if self.kappa[h][m] > 0:
                        total += self.kappa[h][m] * (weights[m] - log(self.kappa[h][m]))
            for a, b in self.sticks:
                both = float(digamma(a + b))
                one, two = float(digamma(a)) - both, float(digamma(b)) - both
                total += lgamma(1 + self.alpha) - lgamma(self.alpha) + (self.alpha - 1) * two
                total -= lgamma(a + b) - lgamma(a) - lgamma(b) + (a - 1) * one + (b - 1) * two
        return total

    def entropy(self, q, i, h) -> float:
        k, r = q[0][i][h], q[1][i][h]
        return float(k - log(r) + lgamma(k) + (1 - k) * float(digamma(k)))
