"""Criteria of simple structure, which a rotation minimises, with their gradients.

Each takes a stack (B, p, K) of loadings and gives values (B,) and gradients (B, p, K).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from cuspfa._typing import Array, BoolArray


class Criterion(Protocol):
    """Values and gradients of a stack of loadings."""

    def __call__(self, loadings: Array) -> tuple[Array, Array]:
        """(B,) and (B, p, K)."""
        ...  # pragma: no cover


class Quartic(NamedTuple):
    """Products of squared loadings: the families of Crawford & Ferguson and of oblimin.

    ¼ {across Σ_j Σ_{h≠k} l²_jh l²_jk + down Σ_h Σ_{j≠i} l²_jh l²_ih} less, for oblimin,
    ¼ (γ/p) Σ_{h≠k} (Σ_j l²_jh)(Σ_j l²_jk). For orthogonal axes across = 1 − κ, down = κ is varimax
    with κ = 1/p, quartimax with 0 and equamax with K/2p.
    """

    across: float
    down: float
    gamma: float = 0.0

    def __call__(self, loadings: Array) -> tuple[Array, Array]:
        """Values and gradients."""
        squares = loadings**2
        columns = squares.sum(axis=1, keepdims=True)
        weights = (squares.sum(axis=2, keepdims=True) - squares) * self.across
        if self.down:
            weights += self.down * (columns - squares)
        if self.gamma:
            others = columns.sum(axis=2, keepdims=True) - columns
            weights -= self.gamma / loadings.shape[1] * others
        values = np.einsum("bjk,bjk->b", squares, weights) / 4
        weights *= loadings
        return values, weights


class Geomin(NamedTuple):
    """Σ_j (Π_k (l²_jk + ε))^{1/K}: a variable counts little if one of its loadings is small."""

    epsilon: float

    def __call__(self, loadings: Array) -> tuple[Array, Array]:
        """Values and gradients."""
        raised = loadings**2 + self.epsilon
        means = np.exp(np.mean(np.log(raised), axis=2, keepdims=True))
        gradient = (2.0 / loadings.shape[2]) * loadings / raised * means
        return means.sum(axis=(1, 2)), gradient


class Target(NamedTuple):
    """The squared distance to target loadings, where the target has a value."""

    wanted: Array
    asked: BoolArray

    def __call__(self, loadings: Array) -> tuple[Array, Array]:
        """Values and gradients."""
        distance = np.where(self.asked, loadings - self.wanted, 0.0)
        return np.einsum("bjk,bjk->b", distance, distance), 2.0 * distance
