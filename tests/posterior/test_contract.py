"""One contract: what a posterior can be asked does not depend on the engine that made it."""

import inspect
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cuspfa import (
    CuspFactorAnalysis,
    CuspPoissonFactorization,
    Gibbs,
    datasets,
    factor_congruence,
)
from cuspfa.errors import CuspWarning, InputError
from cuspfa.posterior import (
    FactorizationPosterior,
    LatentPosterior,
    Posterior,
    SampledLatentPosterior,
    SampledPosterior,
    VariationalPosterior,
)
from cuspfa.posterior.draws import N_DRAWS

UNITS = np.geomspace(0.1, 100.0, 8)
X = datasets.simulate(150, 8, 2, random_state=0).X


def fitted(method, rows):
    engine = Gibbs(n_draws=300, n_chains=2, burn_in=200) if method == "gibbs" else "variational"
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        return CuspFactorAnalysis(method=engine, random_state=0).fit(rows).posterior_


@pytest.fixture(scope="module", params=["variational", "gibbs"])
def posterior(request):
    return fitted(request.param, X)


@pytest.fixture(scope="module")
def gibbs():
    return fitted("gibbs", X)


def test_shapes(posterior):
    k = posterior.n_active
    assert k == 2
    assert posterior.loadings.shape == (8, k)
    assert posterior.standardized_loadings.shape == (8, k)
    assert posterior.components.shape == (k, 8)
    assert posterior.active.shape == (k,)
    assert np.all((posterior.active > 0.5) & (posterior.active <= 1))
    assert posterior.noise_variance.shape == posterior.mean.shape == (8,)
    assert isinstance(posterior.expected_active_factors, float)
    assert posterior.column_names == [f"x{j}" for j in range(8)]
    draws = posterior.draw(20)
    assert draws.loadings.shape[:2] == (20, 8)
    assert draws.loadings.shape[2] >= k


def test_units_are_the_users(posterior):
    other = fitted(posterior.kind, X * UNITS)
    assert_allclose(other.loadings, posterior.loadings * UNITS[:, None], rtol=1e-4, atol=1e-4)
    assert_allclose(other.noise_variance, posterior.noise_variance * UNITS**2, rtol=1e-4)
    assert_allclose(other.active, posterior.active, atol=1e-6)
    one, two = posterior.draw(50).noise_variance, other.draw(50).noise_variance
    assert_allclose(two.mean(axis=0), one.mean(axis=0) * UNITS**2, rtol=1e-4)


def test_loadings_and_noise_make_up_the_covariance(posterior):
    product = posterior.loadings @ posterior.loadings.T + np.diag(posterior.noise_variance)
    assert_allclose(product, posterior.covariance)
    drawn = posterior.draw(600, average_over_k=True).covariance.mean(axis=0)
    assert_allclose(posterior.covariance, drawn, atol=0.25)
    other = np.diag(posterior.noise_variance)  # it can tell
    assert np.max(np.abs(other - drawn)) > 0.5


def test_the_signature_of_draw_is_one():
    wanted = inspect.signature(Posterior.draw).parameters
    for kind in (VariationalPosterior, SampledPosterior, LatentPosterior, SampledLatentPosterior):
        found = inspect.signature(kind.draw).parameters
        for name, parameter in wanted.items():
            assert found[name].default == parameter.default
            assert found[name].kind == parameter.kind
        own = [name for name in found if name not in wanted]
        assert all(found[name].default in (None, False) for name in own)


def test_one_default_number_of_draws_and_one_seed():
    methods = ["draw", "interval", "summary", "to_dict", "align", "to_arviz", "n_major_factors"]
    for call in [*(getattr(Posterior, name) for name in methods), factor_congruence]:
        found = inspect.signature(call).parameters
        assert found["n_draws"].default == N_DRAWS
        assert found["random_state"].default == 0


def shared_methods(kind):
    """Public methods that a class and `Posterior` both have."""
    names = [name for name in dir(kind) if not name.startswith("_") and hasattr(Posterior, name)]
    return [name for name in names if inspect.isfunction(getattr(kind, name))]


@pytest.mark.parametrize("kind", [LatentPosterior, SampledLatentPosterior, FactorizationPosterior])
def test_arguments_of_other_models_are_called_alike(kind):
    methods = shared_methods(kind)
    assert {"draw", "interval", "summary", "to_dict", "to_frame", "save", "report"} <= set(methods)
    for name in methods:
        wanted = inspect.signature(getattr(Posterior, name)).parameters
        found = inspect.signature(getattr(kind, name)).parameters
        shared = [one for one in found if one in wanted]
        assert shared == [one for one in wanted if one in found], name
        for one in shared:
            assert found[one].kind == wanted[one].kind
            # A draw of counts has the scores of all rows, so that there are fewer by default.
            if one != "n_draws" or kind is not FactorizationPosterior:
                assert found[one].default == wanted[one].default, (name, one)


def test_shapes_of_counts():
    rows = np.random.default_rng(0).poisson(2.0, (30, 6))
    posterior = CuspPoissonFactorization(n_factors=2, random_state=0).fit(rows).posterior_
    assert posterior.n_active == 2
    assert posterior.loadings.shape == posterior.column_shares.shape == (6, 2)
    assert posterior.components.shape == (2, 6)
    draws = posterior.draw(5)
    assert draws.loadings.shape == draws.column_shares.shape == (5, 6, 2)
    assert posterior.interval("loadings", draws=draws).lower.shape == (6, 2)
    assert_allclose(posterior.column_shares.sum(axis=0), 1.0)
    assert_allclose(posterior.factor_shares.sum(axis=1), 1.0)
    assert_array_equal(posterior.draw(5).loadings, draws.loadings)  # the same call, the same draws


def test_the_same_call_gives_the_same_draws(posterior):
    one, two = posterior.draw(30), posterior.draw(30, random_state=0)
    assert_array_equal(one.loadings, two.loadings)
    assert not np.array_equal(one.loadings, posterior.draw(30, random_state=1).loadings)
    fresh = [posterior.draw(30, random_state=None).loadings for _ in range(2)]
    assert not np.array_equal(*fresh)


def test_draws_are_given_the_number_of_factors_unless_averaged(gibbs):
    given, averaged = gibbs.draw(10_000), gibbs.draw(10_000, average_over_k=True)
    assert np.all(given.factors.sum(axis=1) == gibbs.n_active)
    assert len(averaged) == len(gibbs.draws) == 600
    assert len(given) == round(600 * gibbs.count_probabilities[gibbs.n_active]) < 600
    assert set(averaged.factors.sum(axis=1)) > {gibbs.n_active}


def test_active_of_a_sampler_counts_draws(gibbs):
    counts = gibbs.active_draws.sum(axis=1)
    assert_allclose(gibbs.active, [np.mean(counts >= 1), np.mean(counts >= 2)])


def test_wrong_arguments_are_refused_alike(posterior):
    for wrong in ({"n_draws": 0}, {"average_over_k": "yes"}, {"random_state": "x"}):
        with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
            posterior.draw(**wrong)
