"""Counts by the sampler: probabilities of K, draws, diagnostics, new rows, files, errors."""

import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr
from sklearn.base import clone

import cuspfa
from cuspfa import CuspPoissonFactorization, Gibbs, PoissonFactorizationPrior
from cuspfa.errors import ConvergenceWarning, CuspWarning, DataError, FileError, InputError
from cuspfa.inference.gibbs.chain import GibbsProgress
from cuspfa.posterior import SampledFactorizationPosterior
from support import changed_file

RNG = np.random.default_rng(1)
RATES = RNG.gamma(0.3, 3, (40, 2)) @ RNG.gamma(0.3, 3, (2, 12))
X = RNG.poisson(RATES)
SHORT = {"n_draws": 60, "n_chains": 2, "burn_in": 60, "thin": 2}
GOLDEN = Path(__file__).parents[1] / "io" / "golden" / "factorization_gibbs_6.cusp"


def fitted(x=X, *, given=None, prior=None, fit=None, **settings):
    model = CuspPoissonFactorization(
        n_factors="auto" if given is None else given,
        method=Gibbs(**(SHORT | settings)),
        prior=prior,
        random_state=0,
    )
    with warnings.catch_warnings(action="ignore", category=CuspWarning):  # of so few draws
        return model.fit(x, **(fit or {}))


@pytest.fixture(scope="module")
def model():
    return fitted()


def test_it_has_probabilities_of_the_number_of_factors(model):
    posterior = model.posterior_
    assert isinstance(posterior, SampledFactorizationPosterior)
    assert len(posterior.count_draws) == 120
    shares = np.bincount(posterior.count_draws) / 120
    np.testing.assert_allclose(posterior.count_probabilities, shares)
    assert model.n_factors_ == 2 == np.argmax(shares)
    assert posterior.expected_active_factors == pytest.approx(posterior.count_draws.mean())
    assert [one.n_factors for one in model.search_] == sorted(set(posterior.count_draws.tolist()))
    assert {one.status for one in model.search_} == {"drawn"}
    assert posterior.chain_log_likelihood.shape == (2, 60)
    np.testing.assert_array_equal(model.trace_, posterior.log_likelihood)
    assert model.n_iter_ == 60 + 2 * 60


def test_draws_of_k_factors_are_matched_and_those_of_any_number_give_rates(model):
    posterior = model.posterior_
    draws = posterior.draw(10_000)
    assert len(draws) == np.sum(posterior.count_draws == 2)
    assert draws.loadings.shape[1:] == (12, 2)
    np.testing.assert_allclose(draws.shares.sum(axis=1), 1)
    np.testing.assert_allclose(draws.loadings.mean(axis=0).T, model.components_, rtol=1e-6)
    np.testing.assert_allclose(draws.scores.mean(axis=0), posterior.scores, rtol=1e-6)
    assert np.all(np.diff(posterior.shares) <= 0)
    shapes = draws.column_shares
    for h in range(2):  # each factor is the same in all draws
        own = [pearsonr(one[:, h], shapes[0][:, h])[0] for one in shapes]
        assert min(own) > 0.8
    every = posterior.draw(10_000, average_over_k=True)
    assert len(every) == 120
    error = every.rates().mean(axis=0) - RATES
    assert np.mean(error**2) < 0.1 * np.var(RATES)
    low, high = posterior.interval("rates", 0.9, draws=every)
    assert 0.75 < np.mean((low < RATES) & (high > RATES)) < 1
    some = posterior.draw(20, average_over_k=True, random_state=3)
    assert len(some) == 20


def test_the_log_likelihood_and_what_is_monitored_are_those_of_the_draws(model):
    posterior = model.posterior_
    every = posterior.draw(10_000, average_over_k=True)
    rates = every.rates()
    literal = (X * np.log(rates) - rates).sum(axis=(1, 2))
    np.testing.assert_allclose(posterior.log_likelihood, literal, rtol=1e-9)
    chosen = [0, 2, 4, 7, 9, 11]
    own = np.log(np.einsum("sij,sik->sjk", rates, rates)[:, chosen][:, :, chosen] / 40)
    upper = np.triu_indices(6)
    np.testing.assert_allclose(posterior.monitored, own[:, upper[0], upper[1]], rtol=1e-9)
    found = posterior.diagnostics
    assert found.names[:2] == [
        "product of the rates of x0 and x0",
        "product of the rates of x0 and x2",
    ]
    assert found.names[-2:] == ["log-likelihood", "number of factors"]
    assert len(found.r_hat) == 23


def test_the_same_seed_gives_the_same_chains(model):
    again = fitted()
    np.testing.assert_array_equal(again.components_, model.components_)
    np.testing.assert_array_equal(again.trace_, model.trace_)
    other = clone(again).set_params(random_state=1, method=Gibbs(**SHORT))
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        assert not np.array_equal(other.fit(X).trace_, model.trace_)


def test_short_chains_warn_once():
    method = Gibbs(n_draws=10, n_chains=2, burn_in=0, thin=1)
    with pytest.warns(ConvergenceWarning) as caught:
        CuspPoissonFactorization(n_factors=2, method=method, random_state=0).fit(X)
    (one,) = caught
    assert "For longer chains, n_draws=500: method=Gibbs(burn_in=0, n_chains=2" in str(one.message)
    assert one.filename == __file__


def test_a_given_number_of_factors_is_kept():
    model = fitted(given=3, n_draws=20)
    assert model.n_factors_ == 3
    assert set(model.posterior_.count_draws) == {3}
    assert "Number of factors" not in str(model.posterior_.summary())
    assert "3 factors asked for" in str(model.posterior_.summary()).lower()


def test_missing_cells_and_exposures():
    table, s = X.astype(float), np.linspace(0.5, 2, 40)
    table[:20, 5] = np.nan
    model = fitted(table, fit={"exposure": s}, n_draws=30)
    every = model.posterior_.draw(1000, average_over_k=True)
    rates = every.rates()
    seen = ~np.isnan(table)
    expected = rates * s[:, None]
    literal = np.where(seen, np.nan_to_num(table) * np.log(rates) - expected, 0).sum(axis=(1, 2))
    np.testing.assert_allclose(model.posterior_.log_likelihood, literal, rtol=1e-9)
    assert model.transform(table, exposure=s).shape == (40, model.n_factors_)
    assert model.posterior_.totals.n_missing == 20


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_spike_above_zero_has_labels(adaptive):
    prior = PoissonFactorizationPrior(spike=0.02, n_terms=6)
    model = fitted(prior=prior, adaptive=adaptive, start_adapt=10)
    posterior = model.posterior_
    assert model.n_factors_ == 2
    draws = posterior.draw(1000)
    assert draws.loadings.shape[2] == 2
    assert draws.inactive[1].shape[2] == (4 if not adaptive else draws.inactive[1].shape[2]) > 0
    # Rates have the columns of the spike too: their sum is that of the counts.
    assert draws.rates().sum(axis=(1, 2)).mean() == pytest.approx(X.sum(), rel=0.02)
    some = draws.some(np.array([1, 4]))
    np.testing.assert_allclose(some.rates([3], [2]), draws.rates()[[1, 4], 3:4, 2:3], rtol=1e-12)
    np.testing.assert_allclose(draws.shares.sum(axis=1), 1)


def test_counts_of_zero_and_limits():
    model = fitted(np.zeros((9, 4)), n_draws=20, max_columns=3)
    assert model.posterior_.count_draws.max() <= 2
    assert model.posterior_.summary().n_events == 0
    with pytest.warns(CuspWarning, match="max_columns=2 allows"):
        CuspPoissonFactorization(
            method=Gibbs(max_columns=2, init="random", **SHORT), random_state=0
        ).fit(X)


def test_time_ends_a_sampler():
    method = Gibbs(max_time=0.5, n_draws=10**6, burn_in=1, thin=1, init="random")
    model = CuspPoissonFactorization(method=method, random_state=0)
    with pytest.warns(ConvergenceWarning, match="Out of time"):
        model.fit(X)
    assert "out of time" in model.status_
    assert not model.converged_


def test_time_that_ends_before_the_first_draw_is_an_error():
    """The start of a chain is no draw of the number of factors."""
    model = CuspPoissonFactorization(
        method=Gibbs(max_time=0.2, burn_in=10**6, init="random"), random_state=0
    )
    with pytest.raises(
        InputError, match=r"max_time ended before a chain had its first draw, after \d+ sweeps"
    ):
        model.fit(X)
    assert not hasattr(model, "posterior_")


def test_one_row_is_refused():
    with pytest.raises(DataError, match="needs two rows or more. Got 1 row"):
        CuspPoissonFactorization().fit(X[:1])


def test_a_callback_sees_each_sweep():
    seen: list[GibbsProgress] = []
    model = fitted(n_draws=3, burn_in=2, thin=1, callback=seen.append)
    assert [(one.sweep, one.chains) for one in seen[:6]] == [
        *((k, (0, 1)) for k in range(1, 6)),
        (1, (1, 2)),
    ]
    assert seen[0].n_sweeps == 5
    assert model.posterior_.n_chains == 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "mcmc"}, "method"),
        ({"method": Gibbs(thin=0)}, "thin"),
        ({"method": Gibbs(), "fractions": True}, "fractions must be False"),
        ({"method": Gibbs(checkpoint_dir="here")}, "checkpoint_dir must be None"),
        ({"prior": PoissonFactorizationPrior(spike=0.1, n_terms=4)}, "spike of the prior must be"),
    ],
)
def test_wrong_settings_are_named(parameters, message):
    with pytest.raises(InputError, match=message):
        CuspPoissonFactorization(**parameters).fit(X)


# --- text and files ---


def test_results_tell_of_the_sampler(model, tmp_path):
    posterior = model.posterior_
    text = " ".join(str(posterior.summary()).split())
    assert "Number of factors, by probability: 2 (" in text
    assert "2 chains of 180 sweeps; " in text
    content = posterior.to_dict()
    assert content["number_probabilities"] == pytest.approx(posterior.count_probabilities)
    assert "SampledFactorizationPosterior of 2 factors, 40 rows" in repr(posterior)
    posterior.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Probabilities of the numbers of factors" in page
    assert "two scores for each further factor" not in page
    assert "sampled by 2 Gibbs chains of 180 sweeps" in page
    assert "method=Gibbs(burn_in=60, n_chains=2, n_draws=60, thin=2)" in page.replace("&#39;", "'")
    assert "2 factors" in posterior._repr_html_()


@pytest.fixture
def saved(model, tmp_path):
    path = tmp_path / "fit.cusp"
    model.posterior_.save(path)
    return path


def test_a_saved_fit_gives_the_same_answers(model, saved, tmp_path):
    own, found = model.posterior_, cuspfa.load(saved)
    assert isinstance(found, SampledFactorizationPosterior)
    again = CuspPoissonFactorization.from_posterior(found)
    assert again.method.get_params() == model.method.get_params()
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    np.testing.assert_array_equal(found.count_probabilities, own.count_probabilities)
    np.testing.assert_array_equal(found.diagnostics.r_hat, own.diagnostics.r_hat)
    assert str(found.summary()) == str(own.summary())
    assert str(found.to_dict()) == str(own.to_dict())
    with pytest.raises(InputError, match="average_over_k=True with the posterior of the fit"):
        found.draw(average_over_k=True)
    found.save(tmp_path / "again.cusp")
    assert (tmp_path / "again.cusp").read_bytes() == saved.read_bytes()
    with zipfile.ZipFile(saved) as archive:
        for name in archive.namelist()[1:]:
            assert 40 not in np.load(archive.open(name)).shape


def changed(name, value):
    def change(content, arrays):
        if f"{name}.npy" in arrays:
            arrays[f"{name}.npy"][:] = value
        else:
            content[name] = value

    return change


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count_draws", 1.0),
        ("count_draws", -1.0),
        ("count_draws", 1.5),
        ("count_draws", 1e9),
        ("log_likelihood", np.nan),
        ("monitored", np.inf),
        ("n_chains", 0),
        ("n_chains", 7),
        ("n_sampled", 3),
        ("engine", {"name": "gibbs", "values": {"surprise": 1}}),
        ("kind", "poisson_factorization"),
    ],
)
def test_files_that_contradict_themselves_are_refused(saved, name, value):
    with pytest.raises(FileError):
        cuspfa.load(changed_file(saved, changed(name, value)))


def test_a_file_of_version_six_is_read():
    """Written once, and never again: the numbers are those that were printed then."""
    found = cuspfa.load(GOLDEN)
    assert {
        "component": pytest.approx(float(found.components[0, 0])),
        "probability": pytest.approx(float(found.count_probabilities[2])),
        "draws": pytest.approx(float(found.draw().loadings.sum())),
    } == LITERALS
    CuspPoissonFactorization.from_posterior(found).transform(X)


LITERALS: dict[str, float] = {
    "component": 0.01057107424431011,
    "probability": 1.0,
    "draws": 751.2754505169024,
}
