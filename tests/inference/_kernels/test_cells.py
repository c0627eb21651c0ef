"""The compiled code of single cells against its definitions in NumPy."""

import numpy as np
import pytest

from cuspfa.inference._kernels import kernel
from cuspfa.inference.cellwise import marginal
from cuspfa.inference.cellwise.marginal import DistinctRows, propagate
from cuspfa.model.likelihoods import ordinal, responses
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood
from cuspfa.model.likelihoods.mixed import MixedLikelihood, Part
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood

pytestmark = pytest.mark.skipif(kernel("cells") is None, reason="the compiled core is not built")


def mixed(k, strength, seed=0):
    rng = np.random.default_rng(seed)
    loadings = strength * rng.normal(size=(8, k))
    f = rng.normal(size=(40, k)) @ loadings.T + rng.normal(size=(40, 8))
    rows = np.column_stack([f[:, :2], np.sum(f[:, 2:5, None] > [-1, 0.5], axis=2), f[:, 5:] > 1.0])
    rows = rows.astype(float)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    rows[3] = np.nan
    one = MixedLikelihood(
        (
            Part(ContinuousLikelihood(("a", "b")), np.arange(2)),
            Part(OrdinalLikelihood.of(rows[:, 2:]), np.arange(2, 8)),
        )
    )
    values = one.check(rows)
    return one, values, one.initial(values), loadings


@pytest.mark.parametrize("k", [0, 1, 2, 5])
@pytest.mark.parametrize("strength", [0.5, 4.0])
def test_propagation(k, strength, both_ways):
    one, values, parameters, loadings = mixed(k, strength)

    def call():
        return propagate(values, one, parameters, loadings)

    compiled, plain = both_ways(marginal, call)
    assert compiled.converged == plain.converged
    for name in ("log_probability", "precision", "shift"):
        np.testing.assert_allclose(
            getattr(compiled, name), getattr(plain, name), rtol=1e-8, atol=1e-8
        )
    for a, b in zip(compiled.scores, plain.scores, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    more, same = both_ways(
        marginal, lambda: marginal.corrections(plain, values, one, parameters, loadings)
    )
    np.testing.assert_allclose(more, same, rtol=1e-6, atol=1e-9)
    assert k < 2 or np.max(np.abs(more)) > 1e-5
    # From factors of similar loadings.
    near = 1.02 * loadings
    compiled, plain = both_ways(
        marginal, lambda: propagate(values, one, parameters, near, start=plain)
    )
    np.testing.assert_allclose(compiled.log_probability, plain.log_probability, atol=1e-8)


def test_propagation_far_from_the_values(both_ways):
    one = OrdinalLikelihood(((0, 1, 2),) * 3, tuple("abc"))
    values = np.array([[0.0, 2.0, 1.0], [2.0, np.nan, 0.0]])
    cuts = np.array([[-60.0, -50.0], [-1.0, 45.0], [30.0, 30.5]])
    loadings = np.array([[0.8], [0.5], [-0.9]])
    compiled, plain = both_ways(marginal, lambda: propagate(values, one, cuts, loadings))
    assert np.all(np.isfinite(plain.log_probability))
    np.testing.assert_allclose(compiled.log_probability, plain.log_probability, rtol=1e-8)


def test_truncated_normal_numbers(both_ways):
    rng = np.random.default_rng(0)
    low = np.concatenate([rng.normal(size=200), [-1e6, -1e6, 3.0, -52.0, 40.0, 8.0]])
    high = np.concatenate([low[:200] + rng.exponential(size=200), [1e6, -35, 1e6, -51, 41, 8.1]])
    compiled, plain = both_ways(
        responses, lambda: responses.truncated_normal(low, high, np.random.default_rng(1))
    )
    np.testing.assert_allclose(compiled, plain, rtol=1e-9, atol=1e-9)


def test_draws_of_responses_and_cut_points(both_ways):
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 4, size=(50, 5)).astype(float)
    rows[:, 4] = rows[:, 4] > 1
    rows[rng.random(rows.shape) < 0.1] = np.nan
    one = OrdinalLikelihood.of(rows)
    values = one.check(rows)
    cuts = np.tile(one.initial(values), (3, 1, 1))
    linear = 3 * rng.normal(size=(3, 50, 5))
    linear[0, 0, 0], linear[1, 1, 1] = 60.0, -60.0

    def call():
        after, pseudo = one.draw(values, linear, cuts, np.random.default_rng(3))
        return after, pseudo.values

    (cuts_c, z_c), (cuts_n, z_n) = both_ways(ordinal, call)
    assert np.any(cuts_c != cuts)
    np.testing.assert_allclose(cuts_c, cuts_n)
    np.testing.assert_allclose(z_c, z_n, rtol=1e-8, atol=1e-8)
    before, after = both_ways(ordinal, lambda: one._log_probabilities(values, linear, cuts))
    np.testing.assert_allclose(before, after, rtol=1e-10)


def test_distinct_rows():
    rows = np.array([[1.0, np.nan], [0.0, 1.0], [1.0, np.nan], [1.0, 1.0], [0.0, 1.0]])
    found = DistinctRows.of(rows)
    assert found.counts.sum() == 5
    assert len(found.values) == 3
    np.testing.assert_array_equal(found.values[found.place], rows)
    np.testing.assert_array_equal(found.counts[found.place], [2, 2, 2, 1, 2])
