"""The sampler and incomplete data: what comes out, and that no value of a row does.

Whether its draws are right is in `test_settings.py` and `test_chain.py`.
"""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cuspfa
from cuspfa import CuspFactorAnalysis, datasets
from cuspfa.errors import ConvergenceWarning, InputError
from support import sampled_model, with_missing

N = 97
SHORT = {"n_draws": 60, "n_chains": 2, "burn_in": 80, "thin": 1, "start_adapt": 30}


def fitted(rows, seed=0, n_factors="auto", n_jobs=None, **settings):
    return sampled_model(
        rows,
        SHORT | settings,
        ignored=ConvergenceWarning,
        n_factors=n_factors,
        random_state=seed,
        n_jobs=n_jobs,
    )


def simulated(n, p, k, share=0.15, seed=0):
    rows = 50.0 + 3.0 * datasets.simulate(n, p, k, random_state=seed).X
    return with_missing(rows, share, seed)


@pytest.fixture(scope="module")
def rows():
    return simulated(N, 7, 2)


@pytest.fixture(scope="module")
def model(rows):
    return fitted(rows, n_draws=300, burn_in=200)


def test_both_engines_answer_alike(rows, model):
    other = CuspFactorAnalysis(n_factors=2, random_state=0).fit(rows)
    assert model.n_factors_ == 2
    sd = np.sqrt(np.diag(other.get_covariance()))
    assert_allclose(model.mean_, other.mean_, atol=0.1 * sd.min())
    gap = (model.get_covariance() - other.get_covariance()) / sd[:, None] / sd
    assert np.max(np.abs(gap)) < 0.15
    filled, std = model.impute(rows, return_std=True)
    theirs, their_std = other.impute(rows, return_std=True)
    assert_allclose(filled, theirs, atol=0.3 * sd.max())
    assert_allclose(std, their_std, rtol=0.2)
    one, two = (
        found.posterior_.interval("correlation", random_state=0) for found in (model, other)
    )
    assert_allclose(one.lower, two.lower, atol=0.15)  # of 300 draws
    assert_allclose(one.upper, two.upper, atol=0.15)


def test_means_are_those_of_the_draws(rows, model):
    posterior = model.posterior_
    draws = posterior.draw(50, random_state=0)
    assert draws.mean.shape == (50, 7)
    assert posterior.draw_means(draws, np.random.default_rng(0)) is draws.mean
    assert_allclose(posterior.draws.mean.mean(axis=0), model.mean_)
    assert_array_equal(posterior.column_counts, np.sum(~np.isnan(rows), axis=0))
    tables = model.impute(rows, n_draws=5, random_state=0)
    seen = ~np.isnan(rows)
    assert np.all(tables[:, seen] == rows[seen])
    assert np.all(np.std(tables[:, ~seen], axis=0) > 0)


def test_every_number_of_factors_and_shape(rows):
    assert fitted(rows, n_factors=3).posterior_.active_draws.all()
    none = fitted(rows, n_factors=0, n_draws=20)
    assert none.n_factors_ == 0
    assert np.all(np.isfinite(none.mean_))
    wide = fitted(simulated(12, 30, 1), init="random", max_columns=3)
    assert np.all(np.isfinite(wide.posterior_.loadings_draws))


def test_the_same_draws_in_any_number_of_processes_and_from_a_store(tmp_path):
    large = simulated(4500, 10, 1, share=0.02)  # each chain by itself
    few = {"n_draws": 3, "burn_in": 2, "init": "random", "max_columns": 3}
    alone, parallel = fitted(large, **few), fitted(large, **few, n_jobs=2)
    assert_array_equal(alone.posterior_.loadings_draws, parallel.posterior_.loadings_draws)
    assert_array_equal(alone.posterior_.mean_draws, parallel.posterior_.mean_draws)
    small = simulated(60, 5, 1)
    plain = fitted(small, n_draws=400).posterior_
    fitted(small, n_draws=200, checkpoint_dir=tmp_path)
    longer = fitted(small, n_draws=400, checkpoint_dir=tmp_path).posterior_
    assert_array_equal(plain.mean_draws, longer.mean_draws)
    assert_array_equal(plain.log_likelihood, longer.log_likelihood)
    other = small.copy()
    other[~np.isnan(small)] = np.roll(small[~np.isnan(small)], 1)
    with pytest.raises(InputError, match="holds chains of other data"):
        fitted(other, n_draws=400, checkpoint_dir=tmp_path)


def held(value):
    """All arrays inside of an object, however deep."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from held(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from held(one)
    elif hasattr(value, "__dict__"):
        yield from held(vars(value))


def test_no_value_of_a_row_is_in_posterior_file_or_store(rows, tmp_path):
    model = fitted(rows, checkpoint_dir=tmp_path / "chains")
    model.posterior_.save(tmp_path / "fit.cuspfa")
    arrays = list(held(model.posterior_))
    assert len(arrays) > 5
    for part in (tmp_path / "chains").glob("*.npz"):
        with np.load(part) as content:
            arrays += [content[name] for name in content.files]
    n_missing = int(np.isnan(rows).sum())
    assert not any(size in array.shape for array in arrays for size in (N, N - 1, n_missing))
    standard = (rows - np.nanmean(rows, axis=0)) / np.nanstd(rows, axis=0, ddof=1)
    known = np.concatenate([rows[~np.isnan(rows)], standard[~np.isnan(standard)]])
    found = np.concatenate([array.ravel() for array in arrays if array.dtype.kind == "f"])
    assert not np.any(np.isclose(found[:, None], known[::7], rtol=1e-12, atol=0).any())


def test_a_saved_fit_is_the_same(model, tmp_path):
    posterior = model.posterior_
    posterior.save(tmp_path / "fit.cuspfa")
    back = cuspfa.load(tmp_path / "fit.cuspfa")
    for name in ("mean_draws", "counts", "correlation", "loadings"):
        assert_array_equal(getattr(back, name), getattr(posterior, name))
    assert str(back.summary()) == str(posterior.summary())
    assert json.dumps(back.to_dict())
    posterior.save(tmp_path / "bare.cuspfa", statistics=False)
    assert cuspfa.load(tmp_path / "bare.cuspfa").sample_correlation is None
    object.__setattr__(back, "counts", -posterior.counts)
    with pytest.raises(InputError, match=r"numbers in counts\.npy that cannot be there"):
        back.save(tmp_path / "wrong.cuspfa")


def test_plugged_in_means_are_refused(rows):
    with pytest.raises(InputError, match="Use mean='flat'"):
        fitted(rows, mean="plug-in")
