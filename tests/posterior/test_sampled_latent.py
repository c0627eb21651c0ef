"""Draws of the sampler for ordinal and mixed columns: what they are asked, and their files."""

from __future__ import annotations

import json
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cuspfa import CuspFactorAnalysis, Gibbs, load
from cuspfa.errors import CuspWarning, FileError, InputError
from cuspfa.io.archive import write_archive
from cuspfa.model.likelihoods.kinds import ColumnLikelihood, LikelihoodTable
from cuspfa.posterior import SampledLatentPosterior
from cuspfa.posterior.latent import LatentDraws, LatentParameters
from cuspfa.posterior.sampled_latent import point_of_draws

N = 187


def mixed(n: int = N) -> pd.DataFrame:
    """Items of two factors, a binary column and measurements in large units."""
    rng = np.random.default_rng(5)
    loadings = np.zeros((8, 2))
    loadings[:4, 0] = loadings[4:, 1] = 0.8
    z = rng.normal(size=(n, 2)) @ loadings.T + 0.6 * rng.normal(size=(n, 8))
    frame = pd.DataFrame({f"Q{j}": 1 + np.searchsorted([-0.7, 0.5], z[:, j]) for j in range(6)})
    frame["yes"] = np.searchsorted([0.2], z[:, 6])
    frame["height"] = 170 + 10 * z[:, 7]
    return frame.mask(rng.random(frame.shape) < 0.03)


@pytest.fixture(scope="module")
def model() -> CuspFactorAnalysis:
    method = Gibbs(n_draws=100, n_chains=2, burn_in=100, thin=2, start_adapt=50)
    kinds = {"height": "gaussian"}
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        return CuspFactorAnalysis(method=method, likelihood=kinds, random_state=0).fit(mixed())


@pytest.fixture(scope="module")
def posterior(model: CuspFactorAnalysis) -> SampledLatentPosterior:
    assert isinstance(model.posterior_, SampledLatentPosterior)
    return model.posterior_


def test_probabilities_of_the_number(
    model: CuspFactorAnalysis, posterior: SampledLatentPosterior
) -> None:
    counts = posterior.active_draws.sum(axis=1)
    assert model.n_factors_ == np.argmax(np.bincount(counts)) == 2
    weights = {one.n_factors: one.weight for one in model.search_}
    assert weights == {k: np.mean(counts == k) for k in np.unique(counts)}
    assert model.expected_active_factors_ == pytest.approx(counts.mean())
    assert len(posterior.draw()) == np.sum(counts == 2)
    assert len(posterior.draw(average_over_k=True)) == 200
    assert posterior.draw(17).thresholds is not None
    assert len(posterior.draw(17, random_state=3)) == 17


def test_convergence_is_looked_at(
    model: CuspFactorAnalysis, posterior: SampledLatentPosterior
) -> None:
    found = posterior.diagnostics
    assert found.names[-1] == "number of factors"
    assert "correlation of Q0 and Q1" in found.names
    assert "threshold 2 of Q5" in found.names
    assert np.all(np.isfinite(found.r_hat[:-1]))
    assert posterior.chain_log_likelihood.shape == (2, 100)
    assert np.array_equal(model.trace_, posterior.log_likelihood)


def test_the_point_has_the_correlations_of_the_draws(
    model: CuspFactorAnalysis, posterior: SampledLatentPosterior
) -> None:
    omega = model.get_covariance()
    sd = np.sqrt(np.diag(omega))
    drawn = posterior.draw(average_over_k=True)
    off = np.triu_indices(8, 1)
    mean = drawn.correlation.mean(axis=0)
    assert (omega / np.outer(sd, sd))[off] == pytest.approx(mean[off], abs=0.06)
    assert model.noise_variance_[:7] == pytest.approx(1.0)
    assert model.mean_[7] == pytest.approx(mixed()["height"].mean(), abs=1.0)
    assert sd[7] == pytest.approx(mixed()["height"].std(), rel=0.1)
    lower, upper = posterior.interval("thresholds")
    assert np.all(lower < np.concatenate(model.thresholds_))
    assert np.all(np.concatenate(model.thresholds_) < upper)
    table = posterior.category_probabilities().to_frame()
    assert np.allclose(table["observed"], table["predicted"], atol=0.04)


def test_the_point_of_literal_draws() -> None:
    # Two draws of one factor with opposite signs, one with a column of the spike as well.
    loadings = np.zeros((3, 2, 2))
    loadings[:, :, 0] = [[1.0, 0.5], [-1.0, -0.5], [1.0, 0.5]]
    thresholds, none = np.array([[0.2, 0.4]] * 3), np.zeros((3, 0))
    known = LatentParameters(np.zeros((3, 2)), np.ones((3, 2)), thresholds, none)
    columns = LikelihoodTable(
        ColumnLikelihood(name, "ordinal", "probit", (0, 1), "given") for name in "ab"
    )
    active = np.array([[True, False]] * 3)
    own, found = point_of_draws(LatentDraws(loadings, known, 1), active, columns)
    assert np.abs(own[:, 0]) == pytest.approx([1.0, 0.5])
    assert found.noise_variance == pytest.approx([1.0, 1.0])
    assert found.thresholds == pytest.approx([0.2, 0.4])


def test_new_rows(model: CuspFactorAnalysis) -> None:
    frame = mixed()
    assert model.transform(frame).shape == (N, 2)
    assert np.all(np.isfinite(model.score_samples(frame)))
    assert not model.impute(frame).isna().any().any()
    drawn = model.impute(frame, n_draws=2)
    assert not drawn[1].isna().any().any()
    assert set(np.unique(model.sample(50, random_state=0)[:, 6])) <= {0.0, 1.0}


def test_a_saved_fit_gives_the_same_answers(
    model: CuspFactorAnalysis, posterior: SampledLatentPosterior, tmp_path: Path
) -> None:
    path = tmp_path / "fit.cusp"
    posterior.save(path)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                assert N not in np.load(archive.open(name)).shape
    copied = pickle.loads(pickle.dumps(posterior))
    assert copied.cells is None
    for found in (load(path), copied):
        assert isinstance(found, SampledLatentPosterior)
        assert str(found.summary()) == str(posterior.summary())
        assert np.array_equal(found.draw(30).loadings, posterior.draw(30).loadings)
        assert found.diagnostics.worst_r_hat == posterior.diagnostics.worst_r_hat
        again = CuspFactorAnalysis.from_posterior(found)
        assert np.array_equal(again.transform(mixed()), model.transform(mixed()))
        assert isinstance(again.get_params()["method"], Gibbs)
    page = tmp_path / "fit.html"
    posterior.report(page)
    text = page.read_text(encoding="utf-8")
    assert "Gibbs sampler with 2 chains" in text
    assert "R-hat" in text


def _active(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["active"][0, 0] = 0.5


def _number(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["active"][:] = 0.0


def _thresholds(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["draws_thresholds"][:, :2] = arrays["draws_thresholds"][:, 1::-1]


@pytest.mark.parametrize("change", [None, _active, _number, _thresholds])
def test_a_damaged_file_is_refused(
    posterior: SampledLatentPosterior, tmp_path: Path, change: Any
) -> None:
    path = tmp_path / "fit.cusp"
    posterior.save(path)
    with zipfile.ZipFile(path) as archive:
        content = json.loads(archive.read("fit.json"))
        arrays = {
            name.removesuffix(".npy"): np.load(archive.open(name))
            for name in archive.namelist()[1:]
        }
    if change is not None:
        change(content, arrays)
    write_archive(path, json.dumps(content).encode(), arrays, "")
    if change is None:
        load(path)
        return
    with pytest.raises(FileError):
        load(path)


def test_arviz_has_the_chains(posterior: SampledLatentPosterior) -> None:
    pytest.importorskip("arviz")
    found = posterior.to_arviz()["posterior"]
    assert found["thresholds"].sizes["threshold"] == 13
    averaged = posterior.to_arviz(draws=posterior.draws)["posterior"]
    assert averaged["loadings"].sizes["chain"] == 2


def test_what_is_refused(posterior: SampledLatentPosterior) -> None:
    with pytest.raises(InputError, match="population must be False"):
        posterior.draw(population=True)


def test_a_file_of_version_four_is_read() -> None:
    """Written once, and never again: the numbers are those that were printed then."""
    found = load(GOLDEN)
    assert isinstance(found, SampledLatentPosterior)
    assert {
        "factors": found.n_active,
        "loading": pytest.approx(float(abs(found.rotated_solution.loadings[0, 0]))),
        "draws": pytest.approx(float(found.draws.noise_variance.sum())),
        "r_hat": pytest.approx(found.diagnostics.worst_r_hat, rel=1e-6),
    } == LITERALS


GOLDEN = Path(__file__).parent.parent / "io" / "golden" / "latent_gibbs_4.cusp"
LITERALS: dict[str, float] = {
    "factors": 3,
    "loading": 0.03584588835387553,
    "draws": 1413.9703922843917,
    "r_hat": 2.095709903588758,
}
