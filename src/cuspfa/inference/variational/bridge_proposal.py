"""The proposal of bridge sampling: loadings and noise near the posterior, and their density.

Its densities are averaged over rotations of Λ. What a rotation of a draw towards the mean and the
whitening of the difference take for each draw is compiled (`_kernels/bridge.pyx`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.linalg import polar_factor, solve_lower
from cuspfa.inference._kernels import kernel
from cuspfa.inference.kernels import Statistics, flip
from cuspfa.inference.updates import Loadings
from cuspfa.inference.variational.collapsed_bound import (
    Widened,
    along_pairs,
    along_turns,
    log_volume,
)
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.model.likelihoods.gaussian import Noise, log_noise_density
from cuspfa.model.slabs import LOG_2PI

PROPOSAL_VARIANCE_FACTOR, PROPOSAL_NOISE_FACTOR = 1.7, 1.4
"""Factors by which the proposal widens the variances of q (loadings) and of maximum likelihood
(logarithms of noise variances)."""
LEAST_SIGNAL, LEAST_INFORMATION = 0.3, 0.02
"""Least d_h − 1 of a factor, and least information on a noise variance as a part of n/2, that the
proposal assumes."""
CERTAIN_STRENGTH = 2.0
"""Squared norm of a column of Λ/σ, in units of p/n, up to which its proposal does not depend on
the noise."""
ROWS_PER_COLUMN = 2
"""Rows for each column from which on the proposal's noise is normal and moves the loadings. With
fewer, the skewness of that many noise variances would give single draws most of the weight."""
SKEWED_VARIANCE_FACTOR, SKEWED_NOISE_FACTOR = 1.3, 0.7
"""With fewer rows: factors by which the variances of q(Λ) and the shape of q(σ²) are multiplied."""
MOST_CORRELATED = 400
"""Columns up to which the noise variances of the proposal are correlated."""


class Proposal:
    """A normal distribution of log σ², and given σ² q̃ averaged over rotations; both widened.

    Under q loadings and noise are independent. A posteriori they are not: the mean of Λ moves with
    σ² as the best loadings for known noise do (`Shift`). With few rows noise and loadings are
    those of q, widened.
    """

    def __init__(self, state: VariationalState, data: Statistics) -> None:
        k = state.n_factors
        many = data.n >= ROWS_PER_COLUMN * len(state.noise.rate)
        factor = PROPOSAL_VARIANCE_FACTOR if many else SKEWED_VARIANCE_FACTOR
        wider = state.loadings.widened(factor)
        self.widened = Widened(state._replace(loadings=wider))
        # When a draw is rotated towards the mean, rows are weighted by their precisions.
        self.rows = data.n * state.noise.precision + 1.0
        if many:
            self.shift: Shift | None = Shift(state, data, self.rows)
            self.noise: _NormalLogNoise | _WiderNoise = _NormalLogNoise(
                np.log(state.noise_variance), noise_root(self.shift.directions[:, :k], data.n)
            )
        else:
            self.shift, self.noise = None, _WiderNoise(state.noise)
        values, vectors = np.linalg.eigh(self.widened.information)
        values = np.maximum(values, 1e-10 * max(float(values.max(initial=0.0)), 1e-200))
        self.angle_root = vectors / np.sqrt(values)
        # The integral of q̃(ΛQ) over Q is that of a normal distribution of the angles, but no more
        # than the volume of O(K) where the data do not determine the angles.
        volume, angles = log_volume(k), len(values)
        peaks = 0.5 * np.log(2 * np.pi / values)
        self.log_copies = volume - float(np.sum(np.minimum(peaks, volume / max(angles, 1))))

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Loadings (p, size, K) and noise variances (p, size), without a rotation: no density
        here depends on one.
        """
        p, k = self.widened.mean.shape
        z = rng.standard_normal((size, p, k))
        moved = self.widened.mean + self.widened.draw_moves(z, rng)
        noise = self.noise.draw(size, rng)
        return flip(moved + self._shift_at(noise)), noise

    def _shift_at(self, noise: Array) -> Array | float:
        """What the mean of Λ changes by at noise variances (p, size)."""
        return 0.0 if self.shift is None else self.shift.of(np.log(noise) - self.shift.center)

    def log_density(self, loadings: Array, noise: Array) -> Array:
        """Log density of loadings (p, size, K), averaged over rotations, and noise (p, size)."""
        wide, (p, _, k) = self.widened, loadings.shape
        quadratic, moved = self.whitened(loadings, noise)
        explained = wide.solve(along_pairs(moved, wide.pairs).T)
        quadratic -= np.sum(explained**2, axis=0)
        # The part along the angles is integrated out.
        left = along_turns(moved, wide.turns) - explained.T @ wide.explained
        quadratic -= np.sum((left @ self.angle_root) ** 2, axis=1)
        log_loadings = -0.5 * (p * k * LOG_2PI + wide.log_det + quadratic) - self.log_copies
        return np.asarray(log_loadings + self.noise.log_density(noise), dtype=float)

    def whitened(self, loadings: Array, noise: Array) -> tuple[Array, Array]:
        """Σ_j δ_jᵀ V_j^{-1} δ_j, (size,), and Σ_j μ_j δ_jᵀ V_j^{-1}, (size, K, K).

        δ is the difference of a draw, rotated towards the mean, to the mean at its noise.
        """
        wide, core, distribution = self.widened, kernel("bridge"), self.widened.distribution
        size, k = loadings.shape[1:]
        if core is not None and isinstance(distribution, Loadings):
            quadratic, moved = np.empty(size), np.empty((size, k, k))
            shift = None if self.shift is None else self.shift.kernel_arguments(noise)
            arrays = (
                *(loadings, wide.mean, self.rows, np.linalg.inv(distribution.basis)),
                *(distribution.weights, distribution.eigenvalues),
            )
            draws, mean, *others = map(np.ascontiguousarray, arrays)
            failed = core.whitened(draws, mean, shift, *others, quadratic, moved)
            if not failed:
                return quadratic, moved
        return self.whitened_by_definition(loadings, noise)

    def whitened_by_definition(self, loadings: Array, noise: Array) -> tuple[Array, Array]:
        """`whitened` without the compiled core."""
        wide = self.widened
        mean = np.broadcast_to(
            wide.mean + self._shift_at(noise), (noise.shape[1], *wide.mean.shape)
        )
        towards = flip(loadings).transpose(0, 2, 1) @ (self.rows[:, None] * mean)
        delta = flip(loadings) @ polar_factor(towards) - mean
        whitened = wide.distribution.whitened(delta)
        return np.sum(delta * whitened, axis=(1, 2)), wide.mean.T @ whitened


class _NormalLogNoise(NamedTuple):
    """log σ² ~ N(center, (RRᵀ)^{-1})."""

    center: Array
    """(p,)"""
    root: Array
    """(p, p) R."""

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Noise variances (p, size)."""
        z = rng.standard_normal((len(self.center), size))
        change = solve_lower(self.root, z, transposed=True)
        return np.asarray(np.exp(self.center[:, None] + change))

    def log_density(self, noise: Array) -> Array:
        """(size,) log density of noise variances (p, size)."""
        log_noise = np.log(noise)
        change = self.root.T @ (log_noise - self.center[:, None])
        log_det = 2.0 * float(np.sum(np.log(np.diag(self.root))))
        quadratic = np.sum(change**2, axis=0) + len(noise) * LOG_2PI - log_det
        return np.asarray(-0.5 * quadratic - np.sum(log_noise, axis=0))


class _WiderNoise:
    """The noise of q with a smaller shape."""

    def __init__(self, noise: Noise) -> None:
        self.wider = noise._replace(
            shape=SKEWED_NOISE_FACTOR * noise.shape, rate=SKEWED_NOISE_FACTOR * noise.rate
        )

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Noise variances (p, size)."""
        return self.wider.draw(size, rng)

    def log_density(self, noise: Array) -> Array:
        """(size,) log density of noise variances (p, size)."""
        return log_noise_density(noise, self.wider)


class Shift:
    """What the best loadings for known noise change by when log σ² does, to first order.

    With u_m and d_m the eigenvectors and eigenvalues of Σ^{-1/2}YᵀYΣ^{-1/2}/n these loadings are
    Σ^{1/2}u_h √(d_h − 1). If log σ² changes by e, they change, up to a rotation, by
    Σ^{1/2} Σ_m u_m G_mh (u_mᵀ diag(e) u_h) √(d_h − 1), with G_mh = −1/(d_m − 1 + d_h − 1) if u_m is
    one of the factors, and −d_m/(d_h − d_m) if it is not.
    """

    def __init__(self, state: VariationalState, data: Statistics, rows: Array) -> None:
        k, self.root = state.n_factors, np.sqrt(state.noise_variance)
        self.center = np.log(state.noise_variance)[:, None]
        _, values, vectors = np.linalg.svd(data.rows / self.root, full_matrices=False)
        d, self.directions = values**2 / data.n, np.ascontiguousarray(vectors.T)
        signal = np.maximum(d[:k] - 1.0, 0.0)
        self.gains = -d[:, None] / np.maximum(d[:k] - d[:, None], LEAST_SIGNAL)
        self.gains[:k] = -1.0 / np.maximum(signal[:, None] + signal, LEAST_SIGNAL)
        self.scale = np.sqrt(signal)
        best = self.root[:, None] * self.directions[:, :k] * self.scale
        # In the rotation of the mean of q. Columns that are hardly different from zero do not move:
        # their sign, which turns with a draw, would be that of the shift.
        towards = rows[:, None] * state.loadings.mean
        strength = np.maximum(np.sum(towards * state.loadings.mean, axis=0), 1e-300)
        certain = np.maximum(1.0 - CERTAIN_STRENGTH * len(rows) / strength, 0.0)
        self.turned = polar_factor(best.T @ towards) * certain

    def of(self, change: Array) -> Array:
        """(size, p, K) for changes of log σ² (p, size)."""
        p, size = change.shape
        u, k = self.directions, len(self.scale)
        weighted = (change.T[:, :, None] * u[:, :k]).transpose(1, 0, 2).reshape(p, size * k)
        products = (u.T @ weighted).reshape(-1, size, k).transpose(1, 0, 2)
        moved = u @ (self.gains * products * self.scale) @ self.turned
        return np.asarray(self.root[:, None] * moved)

    def kernel_arguments(self, noise: Array) -> tuple[Array, ...]:
        """What the compiled core makes `of` of, for noise variances (p, size)."""
        gains = self.gains * self.scale
        change = np.log(noise) - self.center
        arrays = (change, self.root, self.directions, gains, self.turned)
        return tuple(map(np.ascontiguousarray, arrays))


def noise_root(factors: Array, n: float) -> Array:
    """The Cholesky factor of the inverse covariance of log σ², (p, p).

    That is the information of maximum likelihood, n/2 (P∘P) with P the projection onto what the
    factors, orthonormal directions (p, K), leave over (Lawley & Maxwell, 1971). Where a factor has
    few columns, these are several times as uncertain as under q.
    """
    p = len(factors)
    left = np.eye(p) - factors @ factors.T
    if p > MOST_CORRELATED:
        left = np.diag(np.diag(left))
    information = left**2 + LEAST_INFORMATION * np.eye(p)
    return np.asarray(np.linalg.cholesky(0.5 * n / PROPOSAL_NOISE_FACTOR * information))
