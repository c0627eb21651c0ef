"""The sampler as a whole: against a literal one, for every seed and store, and its posterior."""

import _thread
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cuspfa
from cuspfa import (
    CuspFactorAnalysis,
    CuspPrior,
    EmpiricalBayesSlab,
    GaussianSlab,
    Gibbs,
    InverseGammaSlab,
    datasets,
)
from cuspfa._utils.fit_warning import ChainsNotConverged
from cuspfa._utils.fit_warning_text import python_text
from cuspfa.diagnostics.mcmc import convergence, r_hat_text
from cuspfa.errors import ConvergenceWarning, DataError, FileError, InputError
from cuspfa.inference._kernels import kernel
from cuspfa.inference.engine import engine_settings
from cuspfa.inference.gibbs import chain
from cuspfa.inference.gibbs.compiled_chain import sweep_compiled
from cuspfa.posterior.sampled import Diagnostics
from oracles import gibbs as oracle
from support import sampled_model

SHORT = {"n_draws": 40, "n_chains": 2, "burn_in": 60, "thin": 1, "start_adapt": 30}


def fitted(rows, seed=0, prior=None, n_factors="auto", standardize=True, n_jobs=None, **settings):
    return sampled_model(
        rows,
        SHORT | settings,
        n_factors=n_factors,
        prior=prior,
        standardize=standardize,
        random_state=seed,
        n_jobs=n_jobs,
    )


@pytest.fixture(scope="module")
def rows():
    return datasets.simulate(80, 6, 2, random_state=1).X


# --- against the literal sampler ---

SLABS = {
    "normal": (("normal", 0.8), GaussianSlab(0.8)),
    "inverse gamma": (("inverse gamma", 2.0, 1.0), InverseGammaSlab(2.0, 1.0)),
}


def batch_error(values):
    """Standard error of the mean along the first axis, by 40 batches.

    Of 20 batches the largest of some twenty quotients is above 4 once in a hundred times by the
    spread of the error itself (Student's distribution), of 40 and 40 once in a thousand.
    """
    length = len(values) // 40 * 40
    batches = values[:length].reshape(40, -1, *values.shape[1:]).mean(axis=1)
    return batches.std(axis=0, ddof=1) / np.sqrt(40)


def distance(ours, theirs):
    """The largest difference of means in standard errors."""
    error = np.hypot(batch_error(ours), batch_error(theirs))
    return float(np.max(np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / error))


CHAINS = 3


def drawn(y, slab, n_draws, rate=2.0, mean="plug-in", seed=0):
    """Ω, number of active columns and means of each draw, averaged over chains."""
    posterior = fitted(
        y,
        seed,
        prior=CuspPrior(alpha=2.0, slab=slab, spike=0.05, noise_shape=3.0, noise_rate=rate),
        standardize=False,
        n_draws=n_draws,
        burn_in=200,
        n_chains=CHAINS,
        adaptive=False,
        max_columns=3,
        mean=mean,
    ).posterior_

    def pooled(values):
        return values.reshape(CHAINS, n_draws, *values.shape[1:]).mean(axis=0)

    draws = posterior.draws
    means = np.zeros_like(draws.noise_variance) if draws.mean is None else draws.mean
    return pooled(draws.covariance), pooled(posterior.active_draws.sum(axis=1)), pooled(means)


def literally(y, slab, sweeps, seed=1, **settings):
    parts = oracle.sample(
        y,
        slab=slab,
        spike=0.05,
        alpha=2.0,
        noise_shape=3.0,
        noise_rate=2.0,
        n_terms=3,
        sweeps=sweeps + 200,
        rng=np.random.default_rng(seed),
        **settings,
    )
    return [part[200:] for part in parts]


LAST_LONG = [(12, 4), pytest.param((4, 6), marks=pytest.mark.long)]


@pytest.mark.parametrize("shape", LAST_LONG, ids=["n ≥ p", "p > n"])
@pytest.mark.parametrize(
    "slab",
    [
        pytest.param(slab, marks=() if name == "inverse gamma" else pytest.mark.long, id=name)
        for name, slab in SLABS.items()
    ],
)
def test_agrees_with_a_literal_sampler(slab, shape):
    n, p = shape
    y = datasets.simulate(n, p, 1, random_state=3).X
    y -= y.mean(axis=0)
    omega, counts, _ = literally(y, slab[0], 3000)
    found, active, _ = drawn(y, slab[1], 1600)
    assert distance(found, omega) < 4
    assert distance(active[:, None], counts[:, None]) < 4
    # The comparison can fail: another prior of the noise is another posterior.
    wrong, _, _ = drawn(y, slab[1], 800, rate=2.6)
    assert distance(wrong, omega) > 4


@pytest.mark.long
@pytest.mark.parametrize("shape", [(14, 4), (6, 7)], ids=["n ≥ p", "p > n"])
def test_agrees_with_a_literal_sampler_of_data_with_missing_values(shape):
    n, p = shape
    y = datasets.simulate(n, p, 1, random_state=3).X
    y -= y.mean(axis=0)
    seen = np.random.default_rng(0).random(shape) > 0.25
    seen[:2] = True
    incomplete = np.where(seen, y, np.nan)
    slab = SLABS["inverse gamma"]
    given = np.where(seen, y, 0.0)
    omega, counts, means = literally(given, slab[0], 3000, mask=seen, free_means=True)
    found, active, places = drawn(incomplete, slab[1], 1000, mean="flat")
    assert distance(found, omega) < 4
    assert distance(active[:, None], counts[:, None]) < 4
    assert distance(places, means) < 4
    # It can fail: observed values around their own mean, zeros for missing ones, are other data.
    around = given - np.where(seen, given.sum(axis=0) / seen.sum(axis=0), 0.0)
    wrong, _, _ = drawn(around, slab[1], 800)
    assert distance(wrong, omega) > 4


# --- the same every time ---


def test_the_same_seed_gives_the_same_draws_however_many_threads(rows):
    one, same, other = fitted(rows, 3), fitted(rows, 3), fitted(rows, 4)
    assert_array_equal(one.posterior_.loadings_draws, same.posterior_.loadings_draws)
    assert not np.array_equal(one.posterior_.noise_variance, other.posterior_.noise_variance)
    wide = datasets.simulate(220, 210, 1, random_state=0).X  # each chain by itself
    few = {"n_draws": 3, "burn_in": 2, "init": "random", "max_columns": 3}
    alone = fitted(wide, 3, **few, n_chains=4)
    for n_jobs in (2, 3):  # one or more chains to a thread
        parallel = fitted(wide, 3, **few, n_chains=4, n_jobs=n_jobs)
        assert_array_equal(alone.posterior_.loadings_draws, parallel.posterior_.loadings_draws)


def test_chains_are_different(rows):
    drawn = fitted(rows).posterior_.noise_variance_draws.reshape(2, 40, -1)
    assert not np.any(np.all(drawn[0] == drawn[1], axis=1))


# --- the store ---


def test_a_store_changes_nothing_and_a_longer_run_goes_on(rows, tmp_path):
    plain = fitted(rows, n_draws=700).posterior_
    stored = fitted(rows, n_draws=700, checkpoint_dir=tmp_path / "a").posterior_
    assert_array_equal(plain.loadings, stored.loadings)
    again = fitted(rows, n_draws=700, checkpoint_dir=tmp_path / "a").posterior_  # only read
    assert_array_equal(plain.loadings, again.loadings)
    fitted(rows, n_draws=400, checkpoint_dir=str(tmp_path / "b"))
    longer = fitted(rows, n_draws=700, checkpoint_dir=str(tmp_path / "b")).posterior_
    assert_array_equal(plain.noise_variance_draws, longer.noise_variance_draws)
    assert_array_equal(plain.active, longer.active)
    text = (tmp_path / "a" / "chains.json").read_text()
    assert json.loads(text)["version"] == 1


CODE = """
import sys, warnings
warnings.simplefilter("ignore")
from cuspfa import CuspFactorAnalysis, Gibbs, datasets
X = datasets.simulate(80, 6, 2, random_state=1).X
method = Gibbs(
    n_draws=4000, n_chains=2, burn_in=60, thin=1, start_adapt=30, checkpoint_dir=sys.argv[1]
)
CuspFactorAnalysis(method=method, random_state=0).fit(X)
"""


def test_a_killed_run_goes_on_as_if_it_had_not_been(rows, tmp_path):
    folder = tmp_path / "chains"
    run = subprocess.Popen([sys.executable, "-c", CODE, str(folder)])
    head = folder / "chains-0.json"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (head.exists() and "sweep" in head.read_text()):
        time.sleep(0.01)
    run.kill()
    assert run.wait() != 0  # not done before it was killed
    reached = json.loads(head.read_text())["sweep"]
    assert 0 < reached < 900
    resumed = fitted(rows, n_draws=900, checkpoint_dir=folder).posterior_
    plain = fitted(rows, n_draws=900).posterior_
    assert_array_equal(plain.loadings, resumed.loadings)
    assert_array_equal(plain.log_likelihood, resumed.log_likelihood)


def test_a_store_of_other_chains_is_refused(rows, tmp_path):
    fitted(rows, checkpoint_dir=tmp_path / "a")
    with pytest.raises(InputError, match="holds chains of other data"):
        fitted(rows + np.sin(rows), checkpoint_dir=tmp_path / "a")
    with pytest.raises(InputError, match="other burn_in = 60 instead of 70"):
        fitted(rows, checkpoint_dir=tmp_path / "a", burn_in=70)
    with pytest.raises(InputError, match="other start_adapt = 30 instead of 35"):
        fitted(rows, checkpoint_dir=tmp_path / "a", start_adapt=35)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="holds other files"):
        fitted(rows, checkpoint_dir=tmp_path / "b")
    with pytest.raises(InputError, match="must be a folder"):
        fitted(rows, checkpoint_dir=tmp_path / "b" / "letter.txt")
    (tmp_path / "a" / "chains.json").write_text('{"format": "x"}')
    with pytest.raises(FileError, match="format 'x'"):
        fitted(rows, checkpoint_dir=tmp_path / "a")


def test_a_store_of_another_random_state_is_refused(rows, tmp_path):
    plain = fitted(rows, checkpoint_dir=tmp_path / "a").posterior_
    for other in (77, np.random.default_rng(77), np.random.RandomState(0)):
        with pytest.raises(InputError, match="chains of another random_state"):
            fitted(rows, other, n_draws=60, checkpoint_dir=tmp_path / "a")
    same = fitted(rows, np.random.default_rng(0), checkpoint_dir=tmp_path / "a").posterior_
    assert_array_equal(plain.loadings, same.loadings)
    read = fitted(rows, None, checkpoint_dir=tmp_path / "a").posterior_  # no seed: the folder's
    assert_array_equal(plain.loadings, read.loadings)


def test_a_store_without_a_seed_goes_on(rows, tmp_path):
    short = fitted(rows, None, checkpoint_dir=tmp_path / "a").posterior_.log_likelihood.reshape(
        2, -1
    )
    longer = fitted(rows, None, n_draws=60, checkpoint_dir=tmp_path / "a").posterior_
    assert_array_equal(longer.log_likelihood.reshape(2, -1)[:, :40], short)
    with pytest.raises(InputError, match="chains of another random_state"):
        fitted(rows, 0, checkpoint_dir=tmp_path / "a")
    other = fitted(rows, None, checkpoint_dir=tmp_path / "b").posterior_.log_likelihood.reshape(
        2, -1
    )
    assert not np.any(other == short)


def test_fewer_draws_than_a_store_has_are_the_first(rows, tmp_path):
    fitted(rows, n_draws=500, checkpoint_dir=tmp_path)
    files = {file: file.read_bytes() for file in tmp_path.iterdir()}
    for n_draws in (30, 400):
        model, plain = (
            fitted(rows, n_draws=n_draws, checkpoint_dir=tmp_path),
            fitted(rows, n_draws=n_draws),
        )
        assert_array_equal(model.posterior_.loadings_draws, plain.posterior_.loadings_draws)
        assert_array_equal(model.posterior_.active_draws, plain.posterior_.active_draws)
        assert_array_equal(model.posterior_.log_likelihood, plain.posterior_.log_likelihood)
        assert model.n_iter_ == plain.n_iter_
        assert model.status_ == plain.status_
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == files


@pytest.fixture(scope="module")
def chains(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("store") / "chains"
    fitted(rows, n_draws=500, checkpoint_dir=folder)
    return folder


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def other_arrays(file):
    with open(file, "wb") as out:
        np.savez(out, other=np.zeros(3))


def one_array(file):
    with open(file, "wb") as out:
        np.save(out, np.zeros(3))


def flipped(file):
    content = bytearray(file.read_bytes())
    content[300] ^= 255  # in the loadings
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", [os.remove, cut, other_arrays, one_array, flipped])
@pytest.mark.parametrize("name", ["draws-0", "draws-1", "state-2"])
def test_a_damaged_store_is_an_error_that_names_the_file(rows, tmp_path, chains, name, damage):
    folder = shutil.copytree(chains, tmp_path / "a")
    damage(folder / f"chains-0-{name}.npz")
    with pytest.raises(FileError, match=rf"chains-0-{name}\.npz.*Delete the folder.*another"):
        fitted(rows, n_draws=600, checkpoint_dir=folder)


def test_a_store_with_draws_of_another_file_is_an_error(rows, tmp_path, chains):
    folder = shutil.copytree(chains, tmp_path / "a")
    shutil.copy(folder / "chains-0-draws-0.npz", folder / "chains-0-draws-1.npz")
    with pytest.raises(FileError, match=r"draws-1\.npz.*the 250 draws that were written"):
        fitted(rows, n_draws=600, checkpoint_dir=folder)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"draws": [190, 250, 60]}', '{"draws": [190, "250"]}', '{"draws": 3}'],
)
def test_a_store_that_does_not_know_how_far_it_is_is_an_error(rows, tmp_path, chains, text):
    folder = shutil.copytree(chains, tmp_path / "a")
    (folder / "chains-0.json").write_text(text)
    with pytest.raises(FileError, match=r"chains-0\.json.*Delete the folder"):
        fitted(rows, n_draws=600, checkpoint_dir=folder)


def test_checkpoints_without_draws_are_not_missed(rows, tmp_path):
    settings = {"burn_in": 520, "n_draws": 3, "thin": 260}
    plain = fitted(rows, **settings).posterior_
    fitted(rows, checkpoint_dir=tmp_path, **(settings | {"n_draws": 2}))
    assert not (tmp_path / "chains-0-draws-0.npz").exists()
    longer = fitted(rows, checkpoint_dir=tmp_path, **settings).posterior_
    assert_array_equal(plain.loadings, longer.loadings)


# --- how long ---


@pytest.mark.parametrize(("burn_in", "thin", "n_draws"), [(0, 1, 7), (5, 3, 8), (20, 7, 5)])
def test_sweeps_stop_at_what_is_kept_and_at_checkpoints(burn_in, thin, n_draws, monkeypatch):
    monkeypatch.setattr(chain, "SWEEPS_PER_CHECKPOINT", 12)
    plan = chain.SweepPlan(n_draws, burn_in, thin)
    kept = {burn_in + thin * (number + 1) for number in range(n_draws)}
    assert plan.sweeps == max(kept)
    assert {at for at in range(plan.sweeps + 1) if plan.keeps(at)} == kept
    stops = kept | set(range(12, plan.sweeps, 12))
    for at in range(plan.sweeps):
        assert plan.next_stop(at) == min(stop for stop in stops if stop > at)


def test_time_and_interruption_leave_what_was_drawn(rows):
    late = fitted(rows, n_draws=10**6, max_time=0.5)
    assert "out of time" in late.status_
    assert not late.converged_
    assert len(late.posterior_.loadings_draws) >= 2
    seen = []

    def press(at):
        seen.append(at)
        if at.sweep == 90:
            raise KeyboardInterrupt

    model = CuspFactorAnalysis(method=Gibbs(**SHORT, callback=press), random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(rows)
    assert len(model.posterior_.loadings_draws) == 2 * 30
    assert "interrupted" in model.status_
    assert seen[0].sweep == 1
    assert seen[0].n_sweeps == 100


@pytest.mark.skipif(
    kernel("gibbs") is None, reason="without the compiled core chains are processes"
)
def test_an_interruption_stops_all_threads_and_leaves_what_was_drawn(monkeypatch, request):
    wide = datasets.simulate(220, 210, 1, random_state=0).X
    pressed: list[int] = []
    sweeping: set[threading.Thread] = set()

    def pressing(state, first, number, model, rng):
        sweeping.add(threading.current_thread())
        if first > 50 and not pressed:
            pressed.append(first)
            _thread.interrupt_main()
        return sweep_compiled(state, first, number, model, rng)

    monkeypatch.setattr(chain, "sweep_compiled", pressing)
    # A process that was started in the background may ignore the signal.
    before_it = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before_it))
    method = Gibbs(n_draws=10**6, n_chains=4, burn_in=2, thin=1, init="random", max_columns=3)
    model = CuspFactorAnalysis(method=method, random_state=0, n_jobs=2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(wide)
    assert len(sweeping) == 2
    assert not any(thread.is_alive() for thread in sweeping)
    assert "interrupted" in model.status_
    assert model.posterior_.n_chains == 2  # those that had begun
    assert 2 < len(model.posterior_.loadings_draws) < 10**6
    assert not np.any(np.all(model.posterior_.loadings_draws == 0, axis=(1, 2)))


@pytest.mark.skipif(
    kernel("gibbs") is None, reason="without the compiled core chains are processes"
)
def test_an_error_in_one_thread_stops_the_others(monkeypatch):
    wide = datasets.simulate(220, 210, 1, random_state=0).X
    failed: list[int] = []

    def failing(state, first, number, model, rng):
        if first > 50 and not failed:  # the other chain goes on, for days
            failed.append(first)
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        return sweep_compiled(state, first, number, model, rng)

    monkeypatch.setattr(chain, "sweep_compiled", failing)
    with pytest.raises(DataError, match="not positive definite"):
        fitted(wide, n_draws=10**6, n_chains=4, init="random", max_columns=3, n_jobs=2)


def test_chains_that_have_not_met_are_a_warning(rows):
    few = Gibbs(n_draws=4, n_chains=2, burn_in=0, thin=1)
    with pytest.warns(ConvergenceWarning, match="For longer chains, n_draws=500: method=Gibbs"):
        CuspFactorAnalysis(method=few, random_state=0).fit(rows)


def test_advice_keeps_the_other_settings():
    odd = Gibbs(n_draws=100, n_chains=3, burn_in=0, thin=1, callback=print)
    warning = ChainsNotConverged(1.3, "log-likelihood", odd.n_draws, odd.thin)
    said = python_text(warning, engine_settings(odd))
    advice = eval(said.partition("method=")[2].removesuffix("."), {"Gibbs": Gibbs})
    assert advice.get_params() == {**odd.get_params(), "thin": 4, "callback": None}


@pytest.mark.parametrize("n_chains", [1, 4])
@pytest.mark.parametrize("n_draws", [1, 2, 3, 4, 5])
def test_few_draws_are_no_warning_of_numpy(rows, n_draws, n_chains):
    few = Gibbs(n_draws=n_draws, n_chains=n_chains, burn_in=0, thin=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = CuspFactorAnalysis(method=few, random_state=0).fit(rows)
        assert np.isnan(model.posterior_.diagnostics.worst_r_hat) == (n_draws < 4)
        assert str(model.posterior_.summary())
    assert [one.category for one in caught] == [ConvergenceWarning]
    assert "For longer chains, n_draws=500: method=Gibbs(" in str(caught[0].message)


@pytest.mark.parametrize("init", ["variational", "random"])
def test_out_of_time_names_max_time(rows, init):
    short = Gibbs(max_time=0.0001, init=init)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CuspFactorAnalysis(method=short, random_state=0).fit(rows)
    assert [one.category for one in caught] == [ConvergenceWarning]
    text = str(caught[0].message)
    assert "Out of time" in text
    assert "raise max_time=0.0001 or leave it out" in text
    assert "longer chains" not in text


def test_an_r_hat_of_chains_that_do_not_move():
    rng = np.random.default_rng(0)
    stuck = np.repeat([[2.0], [3.0], [3.0], [5.0]], 50, axis=1)
    moving = rng.standard_normal((4, 50))
    values = np.stack([stuck, moving, np.full((4, 50), 0.1)], axis=2)
    found, sizes = convergence(values)
    assert found[0] == np.inf
    assert 0.9 < found[1] < 1.2
    assert np.isnan(found[2])
    assert Diagnostics(["a", "b", "c"], found, sizes).worst_r_hat == np.inf
    assert r_hat_text(np.inf, 2) == r_hat_text(3372237941944279.0, 3) == "above 100"
    assert r_hat_text(1.0512, 2) == "1.05"


# --- what comes out ---


def test_the_posterior_answers_what_every_posterior_answers(rows, tmp_path):
    model = fitted(rows, n_draws=150, burn_in=200)
    posterior = model.posterior_
    covariance = model.components_.T @ model.components_ + np.diag(model.noise_variance_)
    assert_allclose(covariance, model.get_covariance())
    exact = posterior.draws.covariance.mean(axis=0)
    assert_allclose(np.diag(covariance), np.diag(exact))
    assert_allclose(covariance, exact, atol=0.05)
    assert model.n_factors_ == 2
    assert sum(entry.weight for entry in model.search_) == pytest.approx(1.0)
    counts = posterior.active_draws.sum(axis=1)
    assert posterior.count_probabilities[2] == np.mean(counts == 2)
    assert model.expected_active_factors_ == pytest.approx(counts.mean())
    lower, upper = posterior.interval("correlation")
    assert np.all(lower <= upper)
    assert len(posterior.interval("explained_variance_ratio").lower) == 2
    assert posterior.n_major_factors() == 2
    page = str(posterior.summary())
    assert "2 factors" in page
    assert json.dumps(posterior.to_dict())
    assert len(posterior.draw(17, random_state=0)) == 17
    assert "probability by number of factors" in model._repr_html_inner()
    posterior.save(tmp_path / "fit.cuspfa", scores=model.transform(rows))
    back = cuspfa.load(tmp_path / "fit.cuspfa")
    for name in ("loadings_draws", "noise_variance_draws", "active_draws", "log_likelihood"):
        assert_array_equal(getattr(back, name), getattr(posterior, name))
    assert back.fit_info.status == posterior.fit_info.status
    assert back.prior == posterior.prior
    assert repr(back) == repr(posterior)
    assert str(back.summary()) == page


def test_a_given_number_of_factors(rows):
    model = fitted(rows, n_factors=3, prior=CuspPrior())  # also a pooled slab
    assert model.n_factors_ == 3
    assert model.posterior_.active_draws.all()
    none = fitted(rows, n_factors=0)
    assert none.n_factors_ == 0
    assert none.get_covariance().shape == (6, 6)


def test_no_row_is_in_the_posterior(rows):
    posterior = fitted(rows, n_draws=41).posterior_
    held = [value for value in vars(posterior).values() if isinstance(value, np.ndarray)]
    assert not any(80 in array.shape for array in held)


def test_log_likelihood_is_that_of_the_rows(rows):
    posterior = fitted(rows, mean="plug-in", standardize=False).posterior_
    centred = rows - rows.mean(axis=0)
    omega = posterior.draws.covariance[7] / posterior.scale[:, None] / posterior.scale
    centred = centred / posterior.scale
    quadratic = np.einsum("ij,ij->", centred @ np.linalg.inv(omega), centred)
    log_det = np.linalg.slogdet(2 * np.pi * omega)[1]
    assert_allclose(posterior.log_likelihood[7], -0.5 * (80 * log_det + quadratic))


# --- the spike ---


def test_many_columns_make_no_factors():
    strong = datasets.simulate(2000, 400, 3, random_state=0).X
    settings = {"n_draws": 30, "burn_in": 120, "n_chains": 1, "start_adapt": 20}
    assert fitted(strong, **settings).n_factors_ == 3
    wide = fitted(strong, prior=CuspPrior.gibbs_paper(), **settings)
    assert wide.n_factors_ > 3  # with the paper's wide spike they do


def test_five_thousand_columns():
    data = datasets.simulate(60, 5000, 2, random_state=0).X
    model = fitted(data, n_draws=10, burn_in=30, n_chains=1, start_adapt=5)
    assert model.n_factors_ == 2
    assert np.all(np.isfinite(model.posterior_.loadings_draws))


@pytest.mark.parametrize("p", [2, 10, 100, 5000])
def test_the_automatic_spike_is_below_what_makes_factors(p):
    default = CuspPrior().slab
    assert isinstance(default, InverseGammaSlab)
    for slab in (InverseGammaSlab(2.0, 0.4), InverseGammaSlab(2.0, 2.0), default):
        spike = slab.automatic_spike(500.0, p)
        assert spike <= 0.2 * math.e * slab.rate / p
        assert spike < slab.mode
    assert GaussianSlab(2.0).automatic_spike(500.0, p) == pytest.approx(0.1)


def test_each_limit_of_the_automatic_spike():
    """A twentieth of the rate, half the mode, and a tenth of what makes factors: 2e b/p."""
    for shape, p, want in ((2.0, 2, 0.02), (30.0, 2, 0.4 / 31 / 2), (2.0, 400, 0.2 * math.e / 1e3)):
        spike = InverseGammaSlab(shape, 0.4).automatic_spike(500.0, p)
        assert spike == pytest.approx(want, rel=1e-12)
    pooled = InverseGammaSlab(2.0, 0.4, pooled=True).automatic_spike(1e6, 100)
    assert pooled == pytest.approx(0.25 / (100 + 2 * 1e4))


# --- bad input ---


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_draws": 0}, "'n_draws' parameter of Gibbs must be"),
        ({"thin": 1.5}, "'thin' parameter of Gibbs must be"),
        ({"adaptive": 1}, "'adaptive'"),
        ({"init": "zero"}, "'init'"),
        ({"adapt_rate": (1.0,)}, "adapt_rate must be two finite numbers"),
        ({"adapt_rate": (-1.0, 0.1)}, "so that the rate falls"),
        ({"max_time": 0}, "'max_time'"),
    ],
)
def test_settings_are_checked(rows, settings, message):
    with pytest.raises(InputError, match=message):
        fitted(rows, **settings)


def test_a_slab_that_cannot_be_drawn_is_named(rows):
    with pytest.raises(InputError, match=r"EmpiricalBayesSlab.*method='variational'"):
        fitted(rows, prior=CuspPrior(slab=EmpiricalBayesSlab()))


def test_published_settings():
    model = CuspFactorAnalysis.as_published("gibbs")
    assert model.method.burn_in + model.method.n_draws * model.method.thin == 15_000
    assert model.prior == CuspPrior.gibbs_paper()
    with pytest.raises(InputError, match="search must be False"):
        CuspFactorAnalysis.as_published("gibbs", search=True)


# --- R-hat and effective sizes ---


def test_effective_sizes_of_known_chains():
    rng = np.random.default_rng(0)
    independent = rng.standard_normal((4, 2000, 20))
    assert_allclose(convergence(independent).effective_size, 8000, rtol=0.2)
    slow = np.empty((4, 2000, 20))  # x_t = φ x_{t−1} + e has size S (1 − φ)/(1 + φ)
    slow[:, 0] = independent[:, 0] / np.sqrt(1 - 0.9**2)
    for t in range(1, 2000):
        slow[:, t] = 0.9 * slow[:, t - 1] + independent[:, t]
    assert_allclose(np.mean(convergence(slow).effective_size), 8000 * 0.1 / 1.9, rtol=0.15)
    assert np.all(convergence(independent).r_hat < 1.01)
    apart = independent + np.arange(4)[:, None, None]
    assert np.all(convergence(apart).r_hat > 1.3)
    wider = independent * np.array([1, 1, 1, 3])[:, None, None]
    assert np.all(convergence(wider).r_hat > 1.1)
    assert np.isnan(convergence(np.ones((2, 10, 1))).r_hat).all()


def test_r_hat_and_effective_sizes_are_those_of_arviz():
    arviz = pytest.importorskip("arviz", reason="the extra arviz is not installed")
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((4, 301, 6))  # an odd number: the middle draw is in no half
    values = np.empty_like(noise)
    values[:, 0] = noise[:, 0]
    for t in range(1, values.shape[1]):
        values[:, t] = np.linspace(-0.5, 0.97, 6) * values[:, t - 1] + noise[:, t]
    values[0, :, 1] += 0.5
    values[:, :, 2] = np.round(values[:, :, 2])  # ties
    values[:, :, 3] = rng.standard_cauchy((4, 301))
    data = arviz.convert_to_dataset({"x": values})
    assert_allclose(convergence(values).r_hat, arviz.rhat(data)["x"].values, rtol=1e-6)
    assert_allclose(convergence(values).effective_size, arviz.ess(data)["x"].values, rtol=1e-6)
