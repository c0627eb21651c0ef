"""`cuspfa fit --likelihood`, and what a saved fit of ordinal columns answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cuspfa import CuspFactorAnalysis, load
from support import fewer_cell_draws

Program = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def few_draws() -> Iterator[None]:
    with fewer_cell_draws(16):
        yield


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """Five items of one factor, two of them with two answers, and a measurement."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(250, 1)) + 0.8 * rng.normal(size=(250, 6))
    frame = pd.DataFrame(
        {f"Q{j + 1}": np.searchsorted([-1.0, 0.0, 1.2], z[:, j]) + 1 for j in range(3)}
        | {f"yes{j}": np.searchsorted([0.3], z[:, j]) for j in (3, 4)}
        | {"length": np.round(100 + 15 * z[:, 5], 2)}
    ).astype(object)
    frame.iloc[3, 0] = ""
    path = tmp_path / "answers.csv"
    frame.to_csv(path, index=False)
    return path


def test_a_fit_says_what_it_made_of_the_columns(cuspfa: Program, answers: Path) -> None:
    code, out, err = cuspfa(
        "fit", answers, "--likelihood", "ordinal", "--exclude", "length", "--factors", 1,
        "-o", "fit.cusp", "--report", "fit.html",
    )  # fmt: skip
    assert code == 0, err
    assert max(map(len, out.splitlines())) <= 80
    text = " ".join(out.split())
    assert "All columns are ordered categories (probit link)" in text
    assert "treated as Gaussian" not in text
    assert "Thresholds of latent responses" in text
    assert "(sum of the answers)" in text
    assert "Converged: the mode of the posterior was found." in text
    found = load("fit.cusp")
    assert found.provenance is not None
    assert found.provenance.settings.likelihood == "ordinal"
    assert "--likelihood ordinal" in found.provenance.command
    code, again, _ = cuspfa("info", "fit.cusp")
    assert code == 0
    assert "Thresholds of latent responses" in again
    code, _, err = cuspfa("scores", "fit.cusp", answers, "-o", "scores.csv")
    assert code == 0, err
    assert len(pd.read_csv("scores.csv")) == 250
    code, _, err = cuspfa("impute", "fit.cusp", answers, "-o", "filled.csv")
    assert code == 0, err
    assert pd.read_csv("filled.csv")["Q1"].iloc[3] in (1, 2, 3, 4)
    report = Path("fit.html").read_text(encoding="utf-8")
    assert "latent responses" in report


@pytest.fixture
def plots(tmp_path: Path) -> Path:
    """Counts of one factor on plots of different sizes."""
    rng = np.random.default_rng(2)
    area = np.log(rng.choice([0.5, 2.0], 60))
    rate = np.exp(1.0 + area[:, None] + 0.8 * rng.normal(size=(60, 1)) * np.ones(4))
    frame = pd.DataFrame(rng.poisson(rate), columns=list("abcd")).astype(object)
    frame.iloc[3, 0] = ""
    path = tmp_path / "plots.csv"
    frame.assign(log_area=area).to_csv(path, index=False)
    return path


def test_counts_with_offsets(cuspfa: Program, plots: Path) -> None:
    code, out, err = cuspfa(
        "fit", plots, "--likelihood", "negative_binomial", "--offset", "log_area", "--factors", 1,
        "-o", "fit.cusp", "--report", "fit.html",
    )  # fmt: skip
    assert code == 0, err
    text = " ".join(out.split())
    assert "60 rows, 4 columns" in text
    assert "All columns are negative binomial counts" in text
    assert "Dispersions r of negative binomial columns" in text
    posterior = load("fit.cusp")
    assert posterior.provenance is not None
    assert "--offset log_area" in posterior.provenance.command
    code, again, _ = cuspfa("info", "fit.cusp")
    assert code == 0
    assert "Dispersions r" in again
    assert "thresholds" not in again
    code, _, err = cuspfa("scores", "fit.cusp", plots, "-o", "scores.csv")
    assert code == 0, err
    model = CuspFactorAnalysis.from_posterior(posterior)
    scores = pd.read_csv("scores.csv").to_numpy()
    assert scores == pytest.approx(model.transform(pd.read_csv(plots)), abs=1e-4)
    code, _, err = cuspfa("impute", "fit.cusp", plots, "-o", "filled.csv")
    assert code == 0, err
    assert pd.read_csv("filled.csv")["a"].iloc[3] > 0
    assert "Offsets of log rates are the column log_area" in Path("fit.html").read_text("utf-8")
    pd.read_csv(plots).drop(columns="log_area").to_csv("without.csv", index=False)
    code, _, err = cuspfa("scores", "fit.cusp", "without.csv")
    assert code != 0
    assert "has no column 'log_area'" in " ".join(err.split())


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--offset", "log_area"], "Give --likelihood negative_binomial or poisson too"),
        (["--likelihood", "poisson", "--offset", "area"], "Got 'area' instead"),
        (["--likelihood", "poisson"], "log_area must be whole"),
    ],
)
def test_wrong_offsets_are_refused(
    cuspfa: Program, plots: Path, words: list[str], error: str
) -> None:
    code, _, err = cuspfa("fit", plots, *words)
    assert code != 0
    assert error in " ".join(err.split())


def test_a_sampler(cuspfa: Program, answers: Path) -> None:
    # Time ends it at once: one draw of each chain, and a warning.
    code, out, err = cuspfa(
        "fit", answers, "--likelihood", "ordinal", "--exclude", "length", "--factors", 1,
        "--method", "gibbs", "--max-time", 0.3, "-o", "fit.cusp",
    )  # fmt: skip
    assert code == 0, err
    assert "Out of time" in out
    assert "Probabilities of the number of factors: 1.00 for 1" in " ".join(out.split())
    code, again, _ = cuspfa("info", "fit.cusp")
    assert code == 0
    assert "draws from 4 chains" in again


def test_columns_of_several_kinds(cuspfa: Program, answers: Path) -> None:
    code, out, err = cuspfa(
        "fit", answers, "--likelihood", "gaussian", "--ordinal", "Q1-Q3,yes*", "--link", "logit",
        "--factors", 1, "--json",
    )  # fmt: skip
    assert code == 0, err
    found = json.loads(out)
    kinds = [(one["kind"], one["link"]) for one in found["likelihoods"]]
    assert kinds == [("ordinal", "logit")] * 5 + [("gaussian", "")]
    assert len(found["thresholds"]) == 3 * 3 + 2
    assert {"column", "below", "above", "threshold", "lower", "upper"} == set(
        found["thresholds"][0]
    )
    shares = [one["observed"] for one in found["categories"] if one["column"] == "Q2"]
    assert sum(shares) == pytest.approx(1.0)
    assert found["settings"]["link"] == "logit"
    assert found["checks"] is None


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--likelihood", "weibull"], "must be one of gaussian, ordinal"),
        (["--link", "logit"], "--link is for ordinal columns"),
        (
            ["--likelihood", "ordinal", "--method", "gibbs", "--model-error", "0.05"],
            "--model-error must be left out with --method gibbs",
        ),
        (["--likelihood", "ordinal", "--model-error", "auto"], "--model-error must be a number"),
        (["--likelihood", "ordinal", "--memory-limit", "1kB"], "needs about"),
        (["--ordinal", "Z1"], "--ordinal: "),
        (["--likelihood", "ordinal"], "length must have whole numbers"),
    ],
)
def test_what_is_refused(cuspfa: Program, answers: Path, words: list[str], error: str) -> None:
    code, _, err = cuspfa("fit", answers, *words)
    assert code != 0
    assert error in " ".join(err.split())


def test_std_of_ordinal_columns_is_refused_in_words_of_the_program(
    cuspfa: Program, answers: Path
) -> None:
    assert cuspfa("fit", answers, "--likelihood", "auto", "--factors", 1, "-o", "f.cusp")[0] == 0
    code, _, err = cuspfa("impute", "f.cusp", answers, "--std")
    assert code == 2
    assert "--std is for fits whose columns are all Gaussian" in err
    assert "--draws" in err
