"""The sampler with model error as an engine of its own: settings, posterior, files, refusals.

Whether its draws are right is in `test_exact_rows.py` and `test_model_error_agreement.py`.
"""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cuspfa
from cuspfa import CuspFactorAnalysis, Gibbs, Moments, Variational
from cuspfa.data import in_memory
from cuspfa.errors import ConvergenceWarning, CuspWarning, DataError, InputError
from cuspfa.model.model_error import ModelError, Sample, log_marginal_density
from model_error_data import rows_near_model
from support import sampled_model, with_missing

SHORT = {"n_draws": 40, "n_chains": 3, "burn_in": 60, "thin": 1, "start_adapt": 30}
SIZE = 0.08


def fitted(rows, seed=0, n_factors="auto", model_error=SIZE, n_jobs=None, **settings):
    return sampled_model(
        rows,
        SHORT | settings,
        n_factors=n_factors,
        model_error=model_error,
        random_state=seed,
        n_jobs=n_jobs,
    )


@pytest.fixture(scope="module")
def rows():
    return 50.0 + rows_near_model(150, 6, 2, SIZE, 1) * [1.0, 2.0, 0.5, 3.0, 1.0, 1.0]


@pytest.fixture(scope="module")
def model(rows):
    return fitted(rows)


# --- what comes out ---


@pytest.mark.parametrize(
    "settings",
    [{}, {"adaptive": False}, {"n_factors": 2}, {"scale_rotation_every": 0}, {"init": "random"}],
    ids=["adaptive", "plain", "given", "without moves", "random start"],
)
def test_every_kind_of_sampler(rows, settings):
    model = fitted(rows, **settings)
    assert model.model_error_ == SIZE
    assert model.posterior_.loadings_draws.shape[0] == 120
    assert np.all(np.isfinite(model.posterior_.log_likelihood))
    assert len(np.unique(model.posterior_.noise_variance_draws[:, 0])) == 120


def test_no_factors_are_possible(rows):
    assert fitted(rows, n_factors=0).get_covariance().shape == (6, 6)


def test_trace_is_the_marginal_density_of_the_draws(rows, model):
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    sample = Sample(standard.T @ standard, len(rows) - 1.0)
    draws = model.posterior_.draws
    scale = model.posterior_.scale
    omega = draws.covariance / scale[:, None] / scale
    expected = log_marginal_density(omega, sample, ModelError.of_size(SIZE, 6))
    assert_allclose(model.trace_, expected, rtol=1e-9)


def test_the_population_is_that_of_the_draws(rows, model):
    posterior = model.posterior_
    drawn = posterior.draw(10**6, population=True, average_over_k=True)
    assert drawn.population.shape == (120, 6, 6)
    # E[Σ̃] is a weighted mean of the data and E[Ω], each entry near that of its draws.
    m = ModelError.of_size(SIZE, 6).degrees
    centred = rows - rows.mean(axis=0)
    omega = posterior.draws.covariance.mean(axis=0)
    expected = (centred.T @ centred + m * omega) / (149 + m - 7)
    sd = np.sqrt(np.diag(expected))
    found = model.get_covariance()
    assert_allclose(np.diag(found), np.diag(expected))
    assert_allclose(found / sd[:, None] / sd, expected / sd[:, None] / sd, atol=0.03)
    spread = drawn.population.std(axis=0) / np.sqrt(120)
    assert np.all(np.abs(drawn.population.mean(axis=0) - expected) < 5 * spread)
    lower, upper = posterior.interval("correlation")
    of_model = np.quantile(posterior.draw(10**6).correlation, [0.025, 0.975], axis=0)
    pairs = np.triu_indices(6, 1)
    # The data say more about the population than about a model that is only near it.
    assert np.mean((upper - lower)[pairs]) < 0.8 * np.mean((of_model[1] - of_model[0])[pairs])


def test_new_rows_are_those_of_the_population(rows, model):
    assert np.isfinite(model.score(rows))
    assert model.transform(rows).shape == (150, model.n_factors_)
    many = model.sample(200_000, random_state=0)
    assert_allclose(np.cov(many.T), model.get_covariance(), atol=0.1)
    assert model.impute(with_missing(rows, 0.1, 0), n_draws=3).shape == (3, 150, 6)


def test_moments_give_the_same_draws(rows, model):
    again = CuspFactorAnalysis(method=Gibbs(**SHORT), model_error=SIZE, random_state=0)
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        again.fit_moments(Moments.from_rows(rows))
    assert_allclose(again.posterior_.noise_variance_draws, model.posterior_.noise_variance_draws)


def test_files_keep_the_error_and_the_population(rows, model, tmp_path):
    path = tmp_path / "fit.cusp"
    model.posterior_.save(path)
    loaded = CuspFactorAnalysis.from_posterior(cuspfa.load(path))
    assert loaded.model_error == loaded.model_error_ == SIZE
    assert_array_equal(loaded.get_covariance(), model.get_covariance())
    assert_array_equal(loaded.transform(rows), model.transform(rows))
    one, other = (found.posterior_.interval("correlation") for found in (model, loaded))
    assert_array_equal(one.lower, other.lower)
    assert str(loaded.posterior_.summary()) == str(model.posterior_.summary())


# --- chains ---


def test_chains_start_at_a_fit_with_the_same_error(rows, monkeypatch):
    seen = []
    original = Variational.infer

    def noted(self, *given, **named):
        seen.append(named["model_error"])
        return original(self, *given, **named)

    monkeypatch.setattr(Variational, "infer", noted)
    fitted(rows)
    assert seen == [SIZE]


def test_a_store_changes_nothing_and_a_longer_run_goes_on(rows, tmp_path):
    plain = fitted(rows, n_draws=300).posterior_
    fitted(rows, n_draws=200, checkpoint_dir=tmp_path / "a")
    longer = fitted(rows, n_draws=300, checkpoint_dir=tmp_path / "a").posterior_
    assert_array_equal(plain.loadings_draws, longer.loadings_draws)
    assert_array_equal(plain.log_likelihood, longer.log_likelihood)


@pytest.mark.parametrize("other", [0.0, 0.05])
def test_a_store_of_another_error_is_refused(rows, tmp_path, other):
    fitted(rows, checkpoint_dir=tmp_path / "a")
    with pytest.raises(InputError, match=f"other model_error = {SIZE} instead of {other}"):
        fitted(rows, model_error=other, checkpoint_dir=tmp_path / "a")


@pytest.mark.long
def test_chains_in_processes_of_their_own_are_the_same():
    wide = rows_near_model(260, 205, 2, 0.05, 0)  # each chain by itself
    settings = {"n_draws": 3, "burn_in": 3, "n_chains": 2, "n_factors": 2}
    alone, parallel = (fitted(wide, n_jobs=n_jobs, **settings) for n_jobs in (1, 2))
    assert_array_equal(alone.posterior_.loadings_draws, parallel.posterior_.loadings_draws)


def test_slow_chains_are_a_warning():
    many = Moments.from_rows(rows_near_model(20_000, 6, 1, 0.05, 0))
    short = CuspFactorAnalysis(
        n_factors=1,
        method=Gibbs(n_draws=200, n_chains=4, burn_in=50, thin=1),
        model_error=0.05,
        random_state=0,
    )
    with pytest.warns(ConvergenceWarning, match="R-hat = .*longer chains"):
        short.fit_moments(many)
    with warnings.catch_warnings(record=True) as caught:  # without error they are long enough
        warnings.simplefilter("always")
        short.set_params(model_error=0.0).fit_moments(many)
    assert not any("R-hat" in str(one.message) for one in caught)


def test_factors_that_an_error_could_produce_are_not_counted():
    many = rows_near_model(3000, 10, 2, 0.1, 0)
    exact = fitted(many, model_error=0.0, n_draws=200, burn_in=300)
    tolerant = fitted(many, model_error=0.1, n_draws=200, burn_in=300)
    assert exact.n_factors_ == 3
    assert exact.posterior_.count_probabilities[3] > 0.9
    assert tolerant.n_factors_ == 2
    assert tolerant.posterior_.count_probabilities[2] > 0.9


# --- refusals ---


def test_an_error_that_is_to_be_learned_is_refused(rows):
    with pytest.raises(
        InputError, match="model_error must be a number .* Got 'auto' .* model_erro"
    ):
        fitted(rows, model_error="auto")


def test_missing_values_are_refused(rows):
    with pytest.raises(DataError, match=r"model_error=0\.08 .* missing .*method='variational'"):
        fitted(with_missing(rows, 0.1, 0))


def test_too_few_rows_are_refused(rows):
    with pytest.raises(DataError, match=r"model_error=0\.08 .* rows as columns.* Got 5 .* 6 col"):
        fitted(rows[:6])
    assert fitted(rows[:7]).n_features_in_ == 6


def test_statistics_that_are_not_kept_are_refused(rows, monkeypatch):
    monkeypatch.setattr(in_memory.GramMatrix, "statistics", lambda self, largest=0: None)
    with pytest.raises(DataError, match=r"model_error=0\.08 .* cross-products .* Got 6 columns"):
        fitted(rows)


def test_dependent_columns_are_refused(rows):
    with pytest.raises(DataError, match=r"model_error=0\.08 .* independent columns.* drop these"):
        fitted(np.column_stack([rows, rows[:, 0] - rows[:, 1]]))
