"""`cuspfa prior-sensitivity`."""

import json

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, GaussianSlab, datasets, prior_sensitivity
from support import answers, write_csv


@pytest.fixture
def data(tmp_path, plain_terminal):
    return write_csv(tmp_path / "answers.csv", "abcdefgh", answers().tolist())


def test_values_of_alpha_and_other_slabs(cuspfa, data):
    code, out, err = cuspfa("prior-sensitivity", "answers.csv")
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "under" in out
    lines = out[out.index("alpha  slab") :].splitlines()[1:7]
    assert [line.split()[:2] for line in lines] == [
        ["1", "default"],
        ["5", "default"],
        ["20", "default"],
        ["5", "gaussian"],
        ["5", "inverse-gamma"],
        ["5", "empirical-bayes"],
    ]
    assert "gaussian: GaussianSlab(variance=1.0)" in out


def test_json_has_the_figures_of_the_library(cuspfa):
    X = datasets.load_bfi(subset="paper").data
    write_csv("paper.csv", [f"i{j}" for j in range(25)], X.tolist())
    words = ("--alpha", "0.05,5", "--slab", "Default,gaussian", "--spike", "0", "--json")
    code, out, err = cuspfa("prior-sensitivity", "paper.csv", *words)
    assert code == 0
    assert "Read paper.csv" in err
    found = json.loads(out)["rows"]
    assert [(one["alpha"], one["slab"]) for one in found] == [
        (0.05, "default"),
        (0.05, "gaussian"),
        (5.0, "default"),
        (5.0, "gaussian"),
    ]
    # docs/priors.md has these numbers
    assert [one["n_factors"] for one in found][0::2] == [4, 5]
    assert found[3]["n_factors"] == 3
    assert found[3]["spike"] is None
    (own,) = prior_sensitivity(CuspFactorAnalysis(), X, slab=[GaussianSlab(1.0)])
    assert found[3]["lower_bound"] == pytest.approx(own.lower_bound)


def test_a_headline_alone(cuspfa, data):
    code, out, _ = cuspfa("prior-sensitivity", "answers.csv", "--alpha", "4,5", "--quiet")
    assert (code, out) == (0, "2 factors under each of 2 priors\n")


def test_a_correlation_matrix(cuspfa):
    correlation = np.corrcoef(answers(), rowvar=False).round(4)
    write_csv("R.csv", "abcdefgh", correlation.tolist())
    words = ("--correlation", "--n", 60, "--alpha", 5, "--json")
    code, out, _ = cuspfa("prior-sensitivity", "R.csv", *words)
    assert code == 0
    assert json.loads(out)["rows"][0]["n_factors"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give a file with data"),
        (["answers.csv", "--alpha", "0"], "--alpha must be positive numbers. Got '0' instead."),
        (["answers.csv", "--alpha", "few"], "--alpha must be numbers with commas between them"),
        (["answers.csv", "--spike", "-1"], "--spike must be 0 or positive"),
        (["answers.csv", "--slab", "flat"], "must be one or more of default, gaussian"),
        (["answers.csv", "--slab", "gaussian", "--spike", "2"], "smaller than the slab's variance"),
        (["answers.csv", "--spike", "0.05"], "--alpha, --slab and --spike: "),
        (["answers.csv", "--n", "60"], "--n is for a matrix"),
    ],
)
def test_mistakes(cuspfa, data, words, message):
    code, _, err = cuspfa("prior-sensitivity", *words)
    assert code == 2
    assert message in err
