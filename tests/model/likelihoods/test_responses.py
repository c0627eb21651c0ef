"""Draws of latent responses against their distributions."""

import numpy as np
import pytest
from scipy import integrate, stats

from cuspfa.model.likelihoods.responses import (
    draw_logistic_precision,
    truncated_logistic,
    truncated_normal,
)


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 0.5), (2.0, 2.5), (-1e6, -3.0), (6.0, 1e6), (-41.0, -40.0), (50, 51)]
)
def test_truncated_normal_numbers(low, high):
    drawn = truncated_normal(np.full(4000, low), np.full(4000, high), np.random.default_rng(0))
    assert np.all((drawn >= low) & (drawn <= high))
    if min(abs(low), abs(high)) < 30:
        truth = stats.truncnorm(low, high)
        assert stats.kstest(drawn, truth.cdf).pvalue > 1e-3
    else:  # nearly exponential with the rate of the end
        near = np.abs(drawn) - min(abs(low), abs(high))
        assert near.mean() == pytest.approx(1 / min(abs(low), abs(high)), rel=0.06)


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 0.5), (2.0, 2.5), (-1e6, -3.0), (6.0, 1e6), (-52.0, -50.0), (60, 61)]
)
def test_truncated_logistic_numbers(low, high):
    drawn = truncated_logistic(np.full(4000, low), np.full(4000, high), np.random.default_rng(0))
    assert np.all((drawn >= low) & (drawn <= high))
    if min(abs(low), abs(high)) < 30:
        below, above = stats.logistic.cdf([low, high])
        if low > 0:  # its complement has the digits
            below, above = -stats.logistic.sf([low, high])
            uniform = (-stats.logistic.sf(drawn) - below) / (above - below)
        else:
            uniform = (stats.logistic.cdf(drawn) - below) / (above - below)
    else:  # exponential with a rate of one
        near = np.abs(drawn) - min(abs(low), abs(high))
        uniform = np.expm1(-near) / np.expm1(-(high - low))
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("residual", [0.0, 0.8, 3.0, 9.0])
def test_precisions_have_their_laplace_transform(residual):
    # E exp(-tω) of PG(2, r) is cosh²(r/2) / cosh²(√(r²/4 + t/2)).
    drawn = draw_logistic_precision(np.full((200, 200), residual), np.random.default_rng(0))
    assert np.all(drawn > 0)
    for t in (0.3, 2.0, 10.0):
        parts = np.exp(-t * drawn)
        want = np.cosh(residual / 2) ** 2 / np.cosh(np.sqrt(residual**2 / 4 + t / 2)) ** 2
        assert parts.mean() == pytest.approx(want, abs=4.5 * parts.std() / 200)
        # The control: of PG(1, r) it is the root of this.
        assert abs(parts.mean() - np.sqrt(want)) > 20 * parts.std() / 200


def test_the_logistic_density_is_the_mixture():
    rng = np.random.default_rng(1)
    precision = draw_logistic_precision(np.zeros(200_000), rng)
    for r in (0.0, 1.0, 2.5):
        parts = 0.25 * np.exp(-0.5 * precision * r**2)
        want = stats.logistic.pdf(r)
        assert parts.mean() == pytest.approx(want, abs=1e-9 + 4.5 * parts.std() / np.sqrt(2e5))
    assert integrate.quad(stats.logistic.pdf, -40, 40)[0] == pytest.approx(1.0)
