"""Files of fits to ordinal and mixed columns, and to counts."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cuspfa import CuspFactorAnalysis, Ordinal, load
from cuspfa.errors import FileError
from cuspfa.io.posterior_format import FIT_VERSION
from cuspfa.posterior import LatentPosterior
from support import changed_file, fewer_cell_draws

GOLDEN = Path(__file__).parent / "golden" / "latent_4.cusp"
GOLDEN_COUNTS = Path(__file__).parent / "golden" / "latent_6.cusp"
N = 61


def mixed() -> pd.DataFrame:
    """Five columns of one factor: words, answers with missing ones, and numbers."""
    rng = np.random.default_rng(4)
    z = 0.8 * rng.normal(size=(N, 1)) + 0.6 * rng.normal(size=(N, 5))
    answers = np.searchsorted([-0.8, 0.5], z[:, 1]) - 1.0
    answers[:4] = np.nan
    words = pd.Categorical.from_codes(
        np.searchsorted([-0.5, 0.6], z[:, 0]), ["low", "middle", "high"], ordered=True
    )
    return pd.DataFrame(
        {
            "words": words,
            "answers": answers,
            "yes": np.searchsorted([0.2], z[:, 2]),
            "height": 170 + 10 * z[:, 3],
            "income": np.round(np.exp(8 + z[:, 4]), 2),
        }
    )


@pytest.fixture(autouse=True, scope="module")
def few_draws() -> Iterator[None]:
    with fewer_cell_draws(8):
        yield


@pytest.fixture(scope="module")
def model() -> CuspFactorAnalysis:
    kinds = {"income": "normal_scores", "yes": Ordinal("logit")}
    return CuspFactorAnalysis(n_factors=1, likelihood=kinds, rotation="varimax").fit(mixed())


@pytest.fixture
def saved(model: CuspFactorAnalysis, tmp_path: Path) -> Path:
    path = tmp_path / "fit.cusp"
    model.posterior_.save(path)
    return path


def test_a_saved_fit_gives_the_same_answers(model: CuspFactorAnalysis, saved: Path) -> None:
    own, found = model.posterior_, load(saved)
    assert isinstance(own, LatentPosterior)
    assert isinstance(found, LatentPosterior)
    again, frame = CuspFactorAnalysis.from_posterior(found), mixed()
    assert again.get_params()["likelihood"] == model.get_params()["likelihood"]
    assert again.likelihoods_ == model.likelihoods_
    assert found.cells is None
    assert found.has_exact_draws
    assert np.array_equal(again.transform(frame), model.transform(frame))
    assert np.array_equal(again.score_samples(frame), model.score_samples(frame))
    assert again.impute(frame).equals(model.impute(frame))
    drawn = again.impute(frame, n_draws=1)[0]
    assert drawn.equals(model.impute(frame, n_draws=1)[0])
    one, two = own.draw(20, random_state=1), found.draw(20, random_state=1)
    assert np.array_equal(one.loadings, two.loadings)
    assert np.array_equal(one.thresholds, two.thresholds)
    assert str(own.summary()) == str(found.summary())
    assert own.threshold_table() == found.threshold_table()
    assert own.category_probabilities() == found.category_probabilities()


def test_no_row_is_in_a_file(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        content = json.loads(archive.read("fit.json"))
        for name in archive.namelist():
            if name.endswith(".npy"):
                assert N not in np.load(archive.open(name)).shape
    assert content["version"] == FIT_VERSION
    assert [one["kind"] for one in content["likelihoods"]] == [
        "ordinal", "ordinal", "ordinal", "gaussian", "normal_scores",
    ]  # fmt: skip


def test_correlations_of_the_data_can_be_left_out(
    model: CuspFactorAnalysis, tmp_path: Path
) -> None:
    model.posterior_.save(tmp_path / "fit.cusp", statistics=False)
    found = load(tmp_path / "fit.cusp")
    assert found.sample_correlation is None
    assert len(found.draw()) == 40


def _levels(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    content["likelihoods"][1]["levels"] = [2, 1, 3]


def _kind(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    content["likelihoods"][3]["kind"] = "normal_scores"


def _order(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["draws_thresholds.npy"][:, :2] = arrays["draws_thresholds.npy"][:, 1::-1]


def _knots(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["knots.npy"] = arrays["knots.npy"][:, ::-1].copy()


def _noise(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["mode_noise_variance.npy"][0] = -1.0


def _labels(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    content["categories"][0]["labels"] = ["low"]


def _word(content: dict[str, Any], arrays: dict[str, Any]) -> None:
    content["provenance"]["settings"]["likelihood"] = "weibull"


@pytest.mark.parametrize("change", [_levels, _kind, _order, _knots, _noise, _labels, _word])
def test_files_that_contradict_themselves_are_refused(
    saved: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]
) -> None:
    load(changed_file(saved, lambda content, arrays: None))
    with pytest.raises(FileError):
        load(changed_file(saved, change))


def test_a_file_of_version_four_is_read() -> None:
    """Written once, and never again: the numbers are those that were printed then."""
    with zipfile.ZipFile(GOLDEN) as archive:
        assert json.loads(archive.read("fit.json"))["version"] == 4
        mode = np.load(archive.open("loadings_mode.npy"))
        unit = np.load(archive.open("scale.npy"))[3]  # of height, in whose unit its density is
    found = load(GOLDEN)
    assert isinstance(found, LatentPosterior)
    assert np.array_equal(found.loadings_mode, mode)
    assert {
        "loading": pytest.approx(float(found.rotated_solution.loadings[0, 0])),
        "threshold": pytest.approx(float(found.thresholds[1][0])),
        "draws": pytest.approx(float(found.draw().loadings.sum())),
        "mean": pytest.approx(float(found.mean[3])),
    } == LITERALS
    model = CuspFactorAnalysis.from_posterior(found)
    score = STANDARDIZED_SCORE - np.log(unit)
    assert model.score_samples(mixed().iloc[:1])[0] == pytest.approx(score, abs=1e-6)


LITERALS: dict[str, float] = {
    "loading": 0.7335672953520118,
    "threshold": -0.8001273184380614,
    "draws": -519.2156907679682,
    "mean": 169.19449990579452,
}
STANDARDIZED_SCORE = -2.5729506384439524


def test_a_file_of_counts_of_version_six_is_read() -> None:
    """Written once, and never again: the numbers are those that were printed then."""
    with zipfile.ZipFile(GOLDEN_COUNTS) as archive:
        content = json.loads(archive.read("fit.json"))
        dispersions = np.load(archive.open("draws_dispersion.npy"))
    assert content["version"] == 6
    found = load(GOLDEN_COUNTS)
    assert isinstance(found, LatentPosterior)
    assert {
        "loading": pytest.approx(float(found.loadings_mode[0, 0])),
        "dispersion": pytest.approx(float(found.parameters.dispersion[0])),
        "draws": pytest.approx(float(found.draw().dispersion.sum())),
        "offset": pytest.approx(found.mean_offset),
    } == COUNT_LITERALS
    assert dispersions.sum() == pytest.approx(COUNT_LITERALS["draws"])
    model = CuspFactorAnalysis.from_posterior(found)
    assert model.offset == "effort"
    row = pd.DataFrame([[2, 0, 0, 1, 2, 0.0]], columns=["s0", "s1", "s2", "s3", "s4", "effort"])
    assert model.score_samples(row)[0] == pytest.approx(COUNT_SCORE, abs=1e-6)
    assert len(found.count_table()) == 5


COUNT_LITERALS: dict[str, float] = {
    "loading": 0.46850035616960833,
    "dispersion": 6.9194885655458975,
    "draws": 1420.735460232847,
    "offset": 0.19061547465398493,
}
COUNT_SCORE = -7.4122797432421805
