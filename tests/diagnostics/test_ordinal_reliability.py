"""ω of the sum of answers, by simulation: the correlation of two sums with the same factors."""

from __future__ import annotations

import numpy as np
import pytest

from cuspfa.diagnostics.ordinal_reliability import ordinal_omega

LOADINGS = np.array([[0.8, 0.0], [0.6, 0.3], [-0.7, 0.2], [0.5, 0.5]])
THRESHOLDS = [np.array([-0.5, 0.8]), np.array([1.2]), np.array([-1.0, 0.0, 1.0]), np.array([0.0])]
LEVELS = [np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0]), np.arange(4.0), np.array([1.0, 5.0])]
KEYS = np.array([1.0, 1.0, -1.0, 1.0])


def sums(scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = np.sqrt(1 - np.sum(LOADINGS**2, axis=1))
    z = scores @ LOADINGS.T + noise * rng.normal(size=(len(scores), 4))
    parts = [
        key * own[np.searchsorted(cuts, column)]
        for column, cuts, own, key in zip(z.T, THRESHOLDS, LEVELS, KEYS, strict=True)
    ]
    return np.asarray(np.sum(parts, axis=0))


def test_omega_is_the_correlation_of_parallel_sums() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400_000, 2))
    one, two = sums(scores, rng), sums(scores, rng)
    found = ordinal_omega(LOADINGS, THRESHOLDS, LEVELS, KEYS)
    assert found == pytest.approx(np.corrcoef(one, two)[0, 1], abs=0.005)
    assert ordinal_omega(LOADINGS, THRESHOLDS, LEVELS, np.ones(4)) != pytest.approx(found, abs=0.05)
    assert np.isnan(ordinal_omega(LOADINGS[:0], [], [], KEYS[:0]))
