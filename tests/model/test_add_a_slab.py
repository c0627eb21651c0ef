"""The slab of docs/dev/add_a_slab.md, as it is written there, in all engines."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats
from scipy.optimize import minimize_scalar

from cuspfa import CuspFactorAnalysis, CuspPrior, Gibbs, datasets, load
from cuspfa.errors import InputError
from cuspfa.model.slabs import SLABS, Slab
from support import module_of_page

X = datasets.simulate(150, 9, 2, random_state=0).X
LaplaceSlab = module_of_page("add_a_slab.md").LaplaceSlab
SLAB, P = LaplaceSlab(0.3), 5


def test_the_density_is_the_integral_over_the_variance():
    variance = stats.gamma((P + 1) / 2, scale=2 * 0.3 / (P + 1))
    assert variance.mean() == pytest.approx(0.3)
    for squared_norm in (0.01, 1.0, 30.0):

        def mixture(theta, squared_norm=squared_norm):
            normal = (2 * np.pi * theta) ** (-P / 2) * np.exp(-squared_norm / (2 * theta))
            return normal * variance.pdf(theta)

        parts = [(0.0, 0.1), (0.1, 1.0), (1.0, np.inf)]
        integral = sum(integrate.quad(mixture, *part)[0] for part in parts)
        found = SLAB.log_density(np.array([squared_norm]), P)[0]
        assert found == pytest.approx(np.log(integral), abs=1e-6)
        assert LaplaceSlab(0.4).log_density(np.array([squared_norm]), P)[0] != pytest.approx(found)


def test_the_precision_is_the_slope_of_the_density():
    squared_norm, step = np.array([0.1, 2.0, 9.0]), 1e-6
    up, down = (SLAB.log_density(squared_norm + sign * step, P) for sign in (1, -1))
    assert_allclose(SLAB.precision(squared_norm, P), -2 * (up - down) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize(("n", "p"), [(40, 8), (6, 15), (9, 9)])
def test_the_default_scale_is_the_best(n, p):
    for eigenvalue in (1e-3, 0.5, 30.0, 1e4):
        x = SLAB.px_scale(np.array([eigenvalue]), n, p)[0]

        def loss(log_x, eigenvalue=eigenvalue):
            density = SLAB.log_density(np.array([eigenvalue]) * np.exp(-log_x), p)[0]
            return -(0.5 * (n - p) * log_x - 0.5 * np.exp(log_x) + density)

        best = minimize_scalar(loss, bracket=(np.log(x) - 1, np.log(x) + 1), tol=1e-12)
        assert loss(np.log(x)) <= best.fun + 1e-9 * abs(best.fun)
        assert loss(np.log(1.05 * x)) > loss(np.log(x))


def test_drawn_variances_have_the_expected_precision():
    squared_norm = np.tile([0.2, 1.0, 6.0], (40_000, 1))
    drawn, _ = SLAB.draw_variances(
        squared_norm, (), P, np.random.default_rng(0), active=None, steps=1
    )
    error = (1 / drawn).std(axis=0) / np.sqrt(len(drawn))
    z = np.abs((1 / drawn).mean(axis=0) - SLAB.precision(squared_norm[0], P)) / error
    assert z.max() < 4.5
    other = np.abs((1 / drawn).mean(axis=0) - SLAB.precision(1.1 * squared_norm[0], P)) / error
    assert other.max() > 4.5


def test_every_engine_works_with_it(tmp_path, monkeypatch):
    # The test of the pages may have run the same code before, with a class of the same name.
    monkeypatch.setitem(SLABS, "LaplaceSlab", LaplaceSlab)
    model = CuspFactorAnalysis(prior=CuspPrior(slab=SLAB), random_state=0).fit(X)
    assert model.n_factors_ == 2
    trace = np.asarray(model.posterior_.fit_info.trace)
    assert np.all(np.diff(trace) > -1e-8 * np.abs(trace[1:]))
    model.posterior_.save(tmp_path / "fit")
    assert load(tmp_path / "fit").prior.slab == SLAB
    spiked = CuspFactorAnalysis(prior=CuspPrior(slab=SLAB, spike=1e-3), random_state=0).fit(X)
    assert spiked.n_factors_ == 2
    short = Gibbs(n_draws=200, n_chains=2, burn_in=300, thin=2)
    drawn = CuspFactorAnalysis(prior=CuspPrior(slab=SLAB), method=short, random_state=0).fit(X)
    assert drawn.n_factors_ == 2
    assert_allclose(drawn.get_covariance(), model.get_covariance(), atol=0.1)


def test_a_new_slab_is_registered_by_its_name():
    assert SLABS["LaplaceSlab"].__name__ == "LaplaceSlab"


def test_what_a_slab_does_not_define_has_a_default_or_an_error():
    class Plain(Slab):
        log_density, precision = LaplaceSlab.log_density, LaplaceSlab.precision
        variance = 0.3

    plain, squared_norm = Plain(), np.array([0.1, 2.0])
    assert "Plain" not in SLABS  # a local class could not be found by another process
    assert_allclose(
        plain.scale_freedom(squared_norm, 40.0, P),
        40 - P + 1.5 * np.sqrt((P + 1) / 0.3 * squared_norm),
        rtol=1e-6,
    )
    with pytest.raises(InputError, match="spike must be None with Plain"):
        CuspPrior(slab=plain, spike=0.01)
    with pytest.raises(InputError, match="can be drawn from"):
        CuspFactorAnalysis(prior=CuspPrior(slab=plain), method="gibbs").fit(X)
