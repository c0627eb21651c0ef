"""New rows against sums over all patterns of answers, and intervals that cover."""

from itertools import product

import numpy as np
import pytest

from cuspfa import CuspPrior, InverseGammaSlab
from cuspfa.errors import DataError
from cuspfa.inference.cellwise.prediction import FittedCells
from cuspfa.inference.cellwise.state import principal_factors
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from oracles import cellwise as literal
from oracles.cell_draws import draw_from_posterior
from oracles.cell_variational import CellModel, run_cells, start_at

LEVELS = ((1, 2, 3), (0, 1), (0, 1), (2, 5))
CUTS = np.array([[-0.5, 0.8], [0.3, np.inf], [-0.2, np.inf], [0.0, np.inf]])
LOADINGS = np.array([[1.0], [0.8], [-0.6], [1.3]])
FIT = FittedCells(OrdinalLikelihood(LEVELS, tuple("abcd")), LOADINGS, CUTS)
EVERY = np.array(list(product(*LEVELS)), dtype=float)


def exact_chances():
    """Of every pattern of answers, by integration."""
    codes = FIT.likelihood.check(EVERY)
    logs = [literal.log_marginal(row[None], LOADINGS, CUTS) for row in codes]
    return np.exp(logs)


def test_probabilities_of_all_patterns():
    chances = exact_chances()
    assert chances.sum() == pytest.approx(1.0, abs=1e-8)
    np.testing.assert_allclose(np.exp(FIT.log_probability(EVERY)), chances, rtol=0.01)
    # With a value missing: the sum over it.
    some = EVERY.copy()
    some[:, 0] = np.nan
    for row, got in zip(EVERY, np.exp(FIT.log_probability(some)), strict=True):
        same = np.all(EVERY[:, 1:] == row[1:], axis=1)
        assert got == pytest.approx(chances[same].sum(), rel=0.01)


def test_missing_values_have_their_conditional_mean():
    chances = exact_chances()
    rows = EVERY.copy()
    rows[:, 3] = np.nan
    filled = FIT.expected(rows)
    np.testing.assert_array_equal(filled[:, :3], EVERY[:, :3])
    rng = np.random.default_rng(0)
    drawn = np.mean([FIT.impute(rows, rng)[:, 3] for _ in range(400)], axis=0)
    for row, expected, average in zip(EVERY, filled[:, 3], drawn, strict=True):
        same = np.all(EVERY[:, :3] == row[:3], axis=1)
        want = chances[same] @ EVERY[same, 3] / chances[same].sum()
        assert expected == pytest.approx(want, abs=0.03)
        assert average == pytest.approx(want, abs=0.35)
    # The control: without the other answers the mean is another one.
    alone = FIT.expected(np.full((1, 4), np.nan))[0, 3]
    assert np.max(np.abs(filled[:, 3] - alone)) > 0.5


def test_samples_have_the_probabilities():
    chances = exact_chances()
    drawn = FIT.sample(20_000, np.random.default_rng(1))
    for row, chance in zip(EVERY, chances, strict=True):
        share = np.mean(np.all(drawn == row, axis=1))
        assert share == pytest.approx(chance, abs=5 * np.sqrt(chance / 20_000))


def test_scores_are_conditional_means():
    rows = EVERY[:6]
    got = FIT.scores(rows)
    t, w = np.polynomial.hermite_e.hermegauss(61)
    codes = FIT.likelihood.check(rows)
    for i, row in enumerate(codes):
        likely = np.array(
            [
                np.exp(
                    sum(
                        literal.log_probability(int(code), LOADINGS[j, 0] * eta, CUTS[j])
                        for j, code in enumerate(row)
                    )
                )
                for eta in t
            ]
        )
        weights = w * likely / (w @ likely)
        assert got.mean[i, 0] == pytest.approx(weights @ t, abs=0.02)
        variance = weights @ t**2 - (weights @ t) ** 2
        assert got.covariance[i, 0, 0] == pytest.approx(variance, rel=0.05)


def test_unseen_categories_of_new_rows_are_named():
    with pytest.raises(DataError, match="Values of d must be categories .* 2, 5. Got 3 instead"):
        FIT.log_probability(np.array([[1.0, 0.0, 1.0, 3.0]]))


def test_intervals_of_latent_correlations_cover():
    covered = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = rng.uniform(0.5, 1.3, size=(6, 1))
        f = rng.normal(size=(200, 1)) @ truth.T + rng.normal(size=(200, 6))
        rows = (f > 0.5).astype(float)
        one = OrdinalLikelihood.of(rows)
        model = CellModel(one.check(rows), one, CuspPrior(slab=InverseGammaSlab(2.0, 0.8)))
        state = run_cells(start_at(principal_factors(model.values, 1), model), model).state
        drawn = draw_from_posterior(state, model.values, one, 240, rng).correlations
        assert drawn.shape == (240, 6, 6)
        omega = truth @ truth.T + np.eye(6)
        want = omega / np.sqrt(np.outer(np.diag(omega), np.diag(omega)))
        low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
        off = np.triu_indices(6, 1)
        covered.append(np.mean((low[off] < want[off]) & (want[off] < high[off])))
        width = np.mean(high[off] - low[off])
        assert 0.1 < width < 0.7
    assert 0.7 < np.mean(covered) < 1.0  # 90 percent are meant; three sets
