"""Draws for ArviZ 0.x and 1.x: names, chains, missing factors, R-hat, plots."""

import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from cuspfa import CuspFactorAnalysis, Gibbs, datasets
from cuspfa.errors import DataError, InputError
from cuspfa.posterior.draws import Draws

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it announces its next version
    try:
        arviz = pytest.importorskip("arviz", reason="the extra cuspfa[arviz] is not installed")
    except OSError as error:
        pytest.skip(f"ArviZ needs a folder to write to: {error}", allow_module_level=True)

NEW = int(arviz.__version__.split(".")[0]) >= 1
X = pd.DataFrame(
    datasets.simulate(150, 8, 2, random_state=3).X, columns=[f"item {j}" for j in range(8)]
)


@pytest.fixture(scope="module")
def posterior():
    return CuspFactorAnalysis(n_factors=2, rotation="oblimin").fit(X).posterior_


@pytest.fixture(scope="module")
def data(posterior):
    return posterior.to_arviz(n_draws=400, chains=4)


def groups(data):
    return set(data.children) if NEW else set(data.groups())


def test_it_is_what_this_arviz_uses(data):
    if NEW:
        import xarray

        assert sys.version_info >= (3, 12)
        assert isinstance(data, xarray.DataTree)
    else:
        assert isinstance(data, arviz.InferenceData)
    assert groups(data) == {"posterior"}


def test_names_and_values(posterior, data):
    found = data["posterior"]
    loadings = found["loadings"]
    assert loadings.dims == ("chain", "draw", "feature", "factor")
    assert loadings.shape == (4, 100, 8, 2)
    assert list(loadings.coords["feature"].values) == list(X.columns)
    assert list(loadings.coords["factor"].values) == ["factor1", "factor2"]
    aligned = posterior.align(n_draws=400)
    assert_allclose(loadings.values.reshape(400, 8, 2), aligned.loadings)
    phi = found["factor_correlations"].values.reshape(400, 2, 2)
    assert_allclose(phi, aligned.factor_correlations)
    assert_allclose(found["communality"].values.reshape(400, 8), aligned.draws.communality)
    assert_allclose(
        found["explained_variance_ratio"].values.reshape(400, 2), aligned.explained_variance_ratio
    )
    assert np.all(found["n_factors"].values == 2)
    assert "present" not in found
    one = float(loadings.sel(feature="item 3", factor="factor2").mean())
    assert one == pytest.approx(posterior.rotated_solution.loadings[3, 1], abs=0.05)


def test_some_columns_and_other_axes(posterior):
    found = posterior.to_arviz("varimax", columns=["item 5", "item 1"], n_draws=20)["posterior"]
    assert list(found["loadings"].coords["feature"].values) == ["item 5", "item 1"]
    assert "factor_correlations" not in found
    aligned = posterior.align("varimax", n_draws=20)
    assert_allclose(found["loadings"].values[0], aligned.loadings[:, [5, 1]])


def test_rows_are_inside_only_when_asked_for(posterior):
    data = posterior.to_arviz(n_draws=20, observed=X)
    assert groups(data) == {"posterior", "observed_data"}
    assert_allclose(data["observed_data"]["observed"].values, X)
    with pytest.raises(DataError, match="8 features"):
        posterior.to_arviz(n_draws=20, observed=X.to_numpy()[:, :3])


def test_draws_with_fewer_factors_are_masked(posterior):
    drawn = posterior.draw(40, random_state=0)
    loadings = drawn.loadings.copy()
    loadings[:10] = 0.0
    loadings[:10, :, :1] = posterior.loadings[:, :1]  # one factor alone
    found = posterior.to_arviz(draws=Draws(loadings, drawn.noise_variance))["posterior"]
    present = found["present"].values[0]
    assert present[:10].sum(axis=1).tolist() == [1] * 10
    assert present[10:].all()
    empty = np.isnan(found["loadings"].values[0])
    assert np.array_equal(empty.all(axis=1), ~present)
    assert np.array_equal(empty.any(axis=1), ~present)
    assert found["n_factors"].values[0].tolist() == [1] * 10 + [2] * 30


def largest_r_hat(data, names):
    found = arviz.rhat(data, var_names=names)
    found = found["posterior"] if "posterior" in getattr(found, "children", {}) else found
    return {name: float(found[name].max()) for name in names}


def test_r_hat_of_aligned_chains_with_axes_of_their_own(posterior):
    """Chains that differ in nothing but axes: R-hat sees them where they are not aligned."""
    drawn = posterior.draw(400, random_state=0)
    angles = np.repeat([0.0, 0.7, 1.9, 3.0], 100)
    spins = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]])
    start = posterior.align(None, draws=drawn)
    turned = start.draws.loadings @ start.rotations @ spins.transpose(2, 0, 1)
    chains = Draws(turned, drawn.noise_variance)
    data = posterior.to_arviz(draws=chains, chains=4)
    names = ["loadings", "communality", "explained_variance_ratio"]
    rhat = largest_r_hat(data, names)
    for name in names:
        assert rhat[name] < 1.05
    raw = {"raw": turned.reshape(4, 100, 8, 2)}
    unaligned = arviz.from_dict({"posterior": raw}) if NEW else arviz.from_dict(posterior=raw)
    assert largest_r_hat(unaligned, ["raw"])["raw"] > 1.5


def test_tables_and_plots_of_arviz_take_it(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it thinks of its own dependencies
        table = arviz.summary(data, var_names=["communality", "explained_variance_ratio"])
        assert len(table) == 10
        assert "communality[item 0]" in table.index
        arviz.plot_forest(data, var_names=["communality"])
        trace = arviz.plot_trace if not NEW else arviz.plot_trace_dist
        trace(data, var_names=["explained_variance_ratio"])
    plt.close("all")


def test_chains_must_divide_the_draws(posterior):
    with pytest.raises(InputError, match="chains must be a divisor of the 30 draws"):
        posterior.to_arviz(n_draws=30, chains=7)


def test_without_arviz_the_message_says_what_to_install(posterior, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(InputError, match=r"pip install 'cuspfa\[arviz\]'"):
        posterior.to_arviz(n_draws=10)


def test_chains_of_the_sampler():
    """Aligned across chains, so that R-hat of loadings is that of one mode."""
    data = datasets.simulate(200, 10, 2, random_state=0).X
    sampler = Gibbs(n_draws=200, n_chains=2)
    model = CuspFactorAnalysis(method=sampler, rotation="varimax", random_state=0).fit(data)
    assert model.posterior_.align().quality > 0.9
    loadings = model.posterior_.to_arviz().posterior["loadings"].to_numpy()
    assert loadings.shape == (2, 200, 10, 2)
    means = loadings.mean(axis=1)
    spread = loadings.std(axis=1).mean(axis=0)
    assert np.all(np.abs(means[0] - means[1]) < spread)
    unaligned = model.posterior_.loadings_draws.reshape(2, 200, 10, -1)[..., :2]
    apart = np.abs(unaligned.mean(axis=1) - model.loadings_)  # negative control
    assert apart.max() > np.abs(means - model.loadings_).max() + 0.1


def test_a_fit_without_factors():
    rows = np.random.default_rng(0).normal(size=(200, 6))
    model = CuspFactorAnalysis().fit(rows)
    assert model.n_factors_ == 0
    found = model.posterior_.to_arviz()
    assert found.posterior["noise_variance"].shape[-1] == 6
