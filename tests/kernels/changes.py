"""Changes to a table that change no answer, beyond its order and signs."""

from typing import NamedTuple

import numpy as np


class Change(NamedTuple):
    """Another table with the same meaning: `X[rows][:, columns] * signs * (1 + noise)`."""

    X: np.ndarray
    columns: np.ndarray
    signs: np.ndarray

    def back(self, loadings):
        """Loadings, or anything by columns, in the order and with the signs of the first table."""
        found = np.empty_like(loadings)
        found[self.columns] = loadings * self.signs.reshape(-1, *[1] * (loadings.ndim - 1))
        return found


def changes(X):
    """Names and changed tables; always the same ones."""
    n, p = X.shape
    rng = np.random.default_rng([19, n, p])
    same, ones = np.arange(p), np.ones(p)
    order, signs = rng.permutation(p), rng.choice([-1.0, 1.0], p)
    noise = 1 + 1e-13 * rng.standard_normal((n, p))
    return {
        "rows permuted": Change(X[rng.permutation(n)], same, ones),
        "1e-13 noise": Change(X * noise, same, ones),
        "columns permuted": Change(X[:, order], order, ones),
        "columns negated": Change(X * signs, same, signs),
    }
