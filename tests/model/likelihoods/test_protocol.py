"""What every likelihood must keep: packed parameters, and moves with pseudo-data."""

import numpy as np
import pytest

from cuspfa.model.likelihoods.continuous import ContinuousLikelihood
from cuspfa.model.likelihoods.mixed import MixedLikelihood, Part
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(n, 1)) + rng.normal(size=(n, 4))
    rows = np.column_stack(
        [
            np.sum(f[:, :1] > [-0.7, 0.2, 1.0], axis=1),
            f[:, 1] > 0.4,
            10 + 3 * f[:, 2],
            np.sum(f[:, 3:] > [-0.2, 0.6], axis=1),
        ]
    ).astype(float)
    rows[0, 0] = rows[1, 2] = rows[2, 3] = np.nan
    return rows


def make(kind, rows):
    """A likelihood and the columns of the table that it is for."""
    if kind in ("probit", "logit"):
        return OrdinalLikelihood.of(rows[:, [0, 1, 3]], link=kind, cut_sd=2.0), [0, 1, 3]
    if kind == "continuous":
        return ContinuousLikelihood(("x",), 1.5, 0.3), [2]
    if kind == "fixed":
        return ContinuousLikelihood(("x",), 1.5, 0.3, True), [2]
    parts = (
        Part(OrdinalLikelihood.of(rows[:, [0, 3]]), np.array([0, 3])),
        Part(OrdinalLikelihood.of(rows[:, [1]], link="logit"), np.array([1])),
        Part(ContinuousLikelihood.of(rows[:, [2]]), np.array([2])),
    )
    return MixedLikelihood(parts), [0, 1, 2, 3]


KINDS = ("probit", "logit", "continuous", "fixed", "mixed")


def numerical(function, at, step=1e-5):
    """Derivatives of a function of packed parameters, along the first axis."""
    found = []
    for i in range(len(at)):
        moved = [at.copy(), at.copy()]
        moved[0][i] -= step
        moved[1][i] += step
        found.append((function(moved[1]) - function(moved[0])) / (2 * step))
    return np.array(found)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_parameters(kind):
    rows = table()
    one, columns = make(kind, rows)
    values = one.check(rows[:, columns])
    parameters, scale = one.start(values, np.full(len(columns), 0.4))
    assert np.all(scale > 0)
    packed = one.pack(parameters)
    assert packed.shape == (one.n_packed,)
    rng = np.random.default_rng(1)
    mean, variance = rng.normal(size=values.shape), rng.uniform(0.2, 1.0, size=values.shape)
    before = one.tilted(values, mean, variance, parameters).log_normalizer
    after = one.tilted(values, mean, variance, one.unpack(packed)).log_normalizer
    np.testing.assert_allclose(after, before, atol=1e-10)
    many = packed + 0.3 * rng.normal(size=(5, len(packed)))
    np.testing.assert_allclose(one.pack(one.unpack(many)), many, atol=1e-8)
    for numbers, want in zip(many, one.log_packed_prior(many), strict=True):
        assert one.log_packed_prior(numbers) == pytest.approx(want)

    def normalizers(at):
        return one.tilted(values, mean, variance, one.unpack(at)).log_normalizer.sum(axis=1)

    got = one.tilted_gradient(values, mean, variance, one.unpack(many[0]))
    np.testing.assert_allclose(got, numerical(normalizers, many[0]).T, atol=2e-5)
    gradient, curvature = one.packed_prior_derivatives(many[0])
    np.testing.assert_allclose(gradient, numerical(one.log_packed_prior, many[0]), atol=1e-6)
    assert np.linalg.eigvalsh(curvature).min() > -1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_further_derivatives(kind):
    rows = table()
    one, columns = make(kind, rows)
    values = one.check(rows[:, columns])
    parameters = one.initial(values)
    rng = np.random.default_rng(4)
    mean, variance = rng.normal(size=values.shape), rng.uniform(0.2, 1.0, size=values.shape)
    step = 1e-3
    below, here, above = (
        one.tilted(values, mean + d, variance, parameters).curvature for d in (-step, 0.0, step)
    )
    third, fourth = one.tilted_further(values, mean, variance, parameters)
    observed = ~np.isnan(values)
    np.testing.assert_allclose(third[observed], ((above - below) / (2 * step))[observed], atol=1e-5)
    second = (above + below - 2 * here) / step**2
    np.testing.assert_allclose(fourth[observed], second[observed], atol=1e-4)


def test_the_curvature_of_priors():
    rows = table()
    one, _ = make("continuous", rows)
    at = np.array([0.3, -0.2])
    second = numerical(lambda x: one.packed_prior_derivatives(x)[0], at)
    np.testing.assert_allclose(one.packed_prior_derivatives(at)[1], -second, atol=1e-6)
    # Of the first cut-points it is exact too; the logarithms of differences have another part.
    one, _ = make("probit", rows)
    at = one.pack(one.initial(one.check(rows[:, [0, 1, 3]])))
    second = numerical(lambda x: one.packed_prior_derivatives(x)[0], at)
    own = one.packed_prior_derivatives(at)[1]
    first = [0, 3, 4]
    np.testing.assert_allclose(own[np.ix_(first, first)], -second[np.ix_(first, first)], atol=1e-6)
    np.testing.assert_allclose(own[0, 1:3], -second[0, 1:3], atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_moves_with_pseudo_data(kind):
    rows = table()
    one, columns = make(kind, rows)
    values = one.check(rows[:, columns])
    rng = np.random.default_rng(2)
    numbers = one.pack(one.initial(values)) + 0.1 * rng.normal(size=(3, one.n_packed))
    parameters = one.unpack(numbers)
    law = one.response_prior(parameters)
    linear = rng.normal(size=(3, *values.shape))
    if kind != "fixed":
        amount = 0.4 * rng.normal(size=(3, len(columns)))
        moved = one.shifted(parameters, amount)
        np.testing.assert_allclose(
            one.log_density(values, linear + amount[:, None, :], moved),
            one.log_density(values, linear, parameters),
            atol=1e-8,
        )
        change = one.log_packed_prior(one.pack(moved)) - one.log_packed_prior(numbers)
        want = -np.sum(0.5 * law.precision * amount**2 + law.towards * amount, axis=1)
        np.testing.assert_allclose(change, want, atol=1e-8)
    else:
        assert np.all(np.isinf(law.precision))
    factor = np.where(law.scaled, rng.uniform(0.7, 1.4, size=(3, len(columns))), 1.0)
    moved = one.rescaled(parameters, factor)
    # The packed density has the logarithms of differences; a first cut-point has its own factor.
    change = one.log_packed_prior(one.pack(moved)) - one.log_packed_prior(numbers)
    first = np.where(law.scaled, np.log(factor), 0.0).sum(axis=1)
    want = np.sum(law.power * np.log(factor) - 0.5 * (factor**2 - 1) * law.squares, axis=1)
    np.testing.assert_allclose(change + first, want, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_shapes_of_the_protocol(kind):
    rows = table()
    one, columns = make(kind, rows)
    values = one.check(rows[:, columns])
    rng = np.random.default_rng(3)
    parameters = one.unpack(np.tile(one.pack(one.initial(values)), (3, 1)))
    linear = rng.normal(size=(3, *values.shape))
    known, pseudo = one.draw(values, linear, parameters, rng)
    assert one.pack(known).shape == (3, one.n_packed)
    assert pseudo.values.shape == linear.shape
    assert np.all(np.isfinite(pseudo.values))
    by_cell = kind in ("logit", "mixed")
    want = linear.shape if by_cell else (3, len(columns))
    assert pseudo.precision.shape == want
    assert np.all(pseudo.precision > 0)
    assert one.response_variance(known).shape == (3, len(columns))
    # Values are those of the responses.
    if kind in ("probit", "logit"):
        lower, upper = one.limits(np.broadcast_to(values, linear.shape), known)
        assert np.all((pseudo.values >= lower) & (pseudo.values <= upper))


def test_standardised_columns_come_back():
    rows = table()[:, [2]]
    one = ContinuousLikelihood.of(rows, ("x",))
    values = one.check(rows)
    np.testing.assert_allclose([np.nanmean(values), np.nanstd(values)], [0, 1], atol=1e-12)
    parameters = one.initial(values)
    linear = np.zeros((4000, 1))
    drawn = one.sample(linear, parameters, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(np.nanmean(rows), abs=0.3)
    assert drawn.std() == pytest.approx(np.nanstd(rows), rel=0.1)
    np.testing.assert_allclose(one.mean(linear, linear, parameters), np.nanmean(rows), atol=1e-10)
