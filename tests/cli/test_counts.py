"""`cuspfa fit --model poisson-factorization`, and what a saved fit of counts answers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import mmwrite

from cuspfa import CuspPoissonFactorization, Gibbs, load
from cuspfa.cli.commands import fit_counts
from cuspfa.posterior import factorization

Program = Callable[..., tuple[int, str, str]]
MODEL = ("--model", "poisson-factorization")
N, P = 70, 8


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factorization, "N_COUNT_DRAWS", 50)


@pytest.fixture
def counts(tmp_path: Path) -> pd.DataFrame:
    """Species on plots of different area; one row is empty, and one cell."""
    rng = np.random.default_rng(1)
    area = rng.uniform(0.5, 2.0, N).round(3)
    rates = rng.gamma(0.5, 2, (N, 2)) @ rng.gamma(0.5, 2, (2, P))
    frame = pd.DataFrame(
        rng.poisson(area[:, None] * rates).astype(float), columns=[f"sp{j}" for j in range(P)]
    )
    frame.insert(0, "plot", [f"P{i}" for i in range(N)])
    frame["area"] = area
    frame.iloc[3, 1:-1] = np.nan
    frame.iloc[5, 1] = np.nan
    frame.to_csv(tmp_path / "trees.csv", index=False, float_format="%g")
    return frame


def test_a_fit_of_a_table(cuspfa: Program, counts: pd.DataFrame) -> None:
    code, out, err = cuspfa(
        "fit", "trees.csv", *MODEL, "--factors", 2, "--exposure", "area", "--id", "plot",
        "-o", "fit.cusp", "--report", "fit.html", "--loadings", "loadings.csv",
        "--names", "Hill,Creek",
    )  # fmt: skip
    assert code == 0, err
    assert max(map(len, out.splitlines()[:-1])) <= 80
    text = " ".join(out.split())
    assert "Left out 1 row without any value" in text
    assert "2 factors asked for" in text
    assert "1 missing cell" in text
    assert "Hill" in text
    assert "Residual dispersion" in text
    assert out.splitlines()[-1].strip() == "cuspfa scores fit.cusp trees.csv -o fit-scores.csv"
    # The same as in Python.
    rows = counts.drop(index=3)
    model = CuspPoissonFactorization(n_factors=2, random_state=0)
    model.fit(rows.filter(like="sp"), exposure=rows["area"].to_numpy())
    found = load("fit.cusp")
    np.testing.assert_allclose(found.components, model.components_, rtol=1e-9)
    assert found.column_names == [f"sp{j}" for j in range(P)]
    assert found.factor_names == ["Hill", "Creek"]
    assert found.provenance.settings.exposure_column == "area"
    table = pd.read_csv("loadings.csv")
    np.testing.assert_allclose(table["Hill"], model.components_[0], rtol=1e-4)
    assert np.all(table["Hill_lower"] <= table["Hill_upper"])
    assert "Poisson factorization of trees.csv" in Path("fit.html").read_text(encoding="utf-8")
    # The command that is kept repeats the fit.
    again = shlex.split(found.provenance.command)[1:]
    Path("fit.cusp").unlink()
    code, _, err = cuspfa(*again)
    assert code == 0, err
    np.testing.assert_array_equal(load("fit.cusp").components, found.components)


def test_a_fit_by_the_sampler(
    cuspfa: Program, counts: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("fit", "trees.csv", *MODEL, "--exposure", "area", "--method", "gibbs")
    code, _, err = cuspfa(*words, "--max-time", "0.1", "-o", "fit.cusp")
    assert code == 2
    assert "before a chain had its first draw" in " ".join(err.split())
    assert not Path("fit.cusp").exists()
    monkeypatch.setattr(fit_counts, "Gibbs", partial(Gibbs, burn_in=1))  # it is long for a test
    code, out, err = cuspfa(*words, "--max-time", "1.5", "-o", "fit.cusp", "--json")
    assert code == 0, err
    content = json.loads(out)
    assert content["settings"]["method"] == "gibbs"
    assert sum(content["number_probabilities"]) == pytest.approx(1)
    assert [one["code"] for one in content["warnings"]][-1] == "sampler_out_of_time"
    found = load("fit.cusp")
    assert found.n_chains == 4
    assert found.engine.values == {"max_time": 1.5, "burn_in": 1}
    assert found.count_probabilities[found.n_active] == max(content["number_probabilities"])
    for command in (("info", "fit.cusp"), ("report", "fit.cusp", "-o", "fit.html")):
        code, out, err = cuspfa(*command)
        assert code == 0, err
    code, out, err = cuspfa("describe", "fit.cusp")
    assert code == 0, err
    assert "sampled by 4 Gibbs chains" in " ".join(out.split())
    code, out, err = cuspfa("scores", "fit.cusp", "trees.csv", "-o", "scores.csv")
    assert code == 0, err


def test_commands_know_a_saved_fit(cuspfa: Program, counts: pd.DataFrame) -> None:
    cuspfa("fit", "trees.csv", *MODEL, "--factors", 2, "--exposure", "area", "-o", "fit.cusp")
    code, out, _ = cuspfa("info", "fit.cusp")
    assert code == 0
    assert "50 draws of them" in out
    assert str(load("fit.cusp").summary()).splitlines()[1] in out
    code, out, _ = cuspfa("describe", "fit.cusp")
    assert "Exposures are those of the column area." in " ".join(out.split())
    code, out, _ = cuspfa("describe", "fit.cusp", "--json")
    assert json.loads(out)["references"][2]["key"] == "gopalan2015scalable"
    code, out, err = cuspfa("report", "fit.cusp", "-o", "r.html", "--names", "A,B")
    assert code == 0, err
    assert ">A: " in Path("r.html").read_text(encoding="utf-8")
    code, _, err = cuspfa("report", "fit.cusp", "-o", "r.html", "--reverse", "1")
    assert code == 2
    assert "--reverse has no effect" in err
    for words in (("table", "fit.cusp", "-o", "t.html"), ("impute", "fit.cusp", "trees.csv")):
        code, _, err = cuspfa(*words)
        assert code == 2
        assert "holds a Poisson factorization of counts" in err


def test_scores_of_new_rows(cuspfa: Program, counts: pd.DataFrame) -> None:
    cuspfa("fit", "trees.csv", *MODEL, "--factors", 2, "--exposure", "area", "-o", "fit.cusp")
    columns = counts.columns[::-1]  # in any order
    counts.iloc[:5][columns].to_csv("new.csv", index=False)
    code, out, err = cuspfa("scores", "fit.cusp", "new.csv", "--id", "plot")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "plot,factor1,factor2"
    model = CuspPoissonFactorization.from_posterior(load("fit.cusp"))
    rows = counts.iloc[:5]
    expected = model.transform(rows.filter(like="sp"), exposure=rows["area"].to_numpy())
    found = np.array([line.split(",")[1:] for line in lines[1:]], dtype=float)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    counts.drop(columns="sp1").to_csv("less.csv", index=False)
    code, _, err = cuspfa("scores", "fit.cusp", "less.csv")
    assert code == 2
    assert "has no column 'sp1'" in err


def test_json_and_the_search(cuspfa: Program, counts: pd.DataFrame) -> None:
    code, out, err = cuspfa("fit", "trees.csv", *MODEL, "--json", "--exclude", "area")
    assert code == 0, err
    found = json.loads(out)
    assert found["n_factors"] == len(found["factors"]) >= 1
    assert [one["n_factors"] for one in found["search"]][:2] == [0, 1]
    assert found["read"]["n_rows"] == N
    assert found["left_out"]["columns"][0]["name"] == "plot"
    assert found["settings"]["model"] == "poisson-factorization"
    code, out, _ = cuspfa(
        "fit", "trees.csv", *MODEL, "--quiet", "--factors", 1, "--exclude", "area"
    )
    assert out == "1 factor asked for\n"


@pytest.mark.parametrize("form", ["mtx", "npz", "h5ad"])
def test_sparse_files(cuspfa: Program, tmp_path: Path, form: str) -> None:
    rng = np.random.default_rng(0)
    x = sparse.csr_matrix(rng.poisson(rng.gamma(0.5, 2, (N, 1)) @ rng.gamma(0.5, 2, (1, P))))
    path, options = tmp_path / f"a.{form}", []
    if form == "mtx":
        mmwrite(path, x.T)
        options = ["--transpose"]
    elif form == "npz":
        sparse.save_npz(path, x)
    else:
        anndata = pytest.importorskip("anndata")
        adata = anndata.AnnData(np.log1p(x.toarray()))
        adata.layers["counts"] = x
        adata.obs_names = [f"cell{i}" for i in range(N)]
        adata.write_h5ad(path)
        options = ["--layer", "counts"]
    code, out, err = cuspfa("fit", path, *MODEL, "--factors", 1, *options, "-o", "fit.cusp")
    assert code == 0, err
    assert f"{N} rows, {P} columns, {x.nnz} cells stored" in " ".join(out.split())
    expected = CuspPoissonFactorization(n_factors=1, random_state=0).fit(x)
    np.testing.assert_allclose(load("fit.cusp").components, expected.components_, rtol=1e-9)
    again = ["--transpose"] if form == "mtx" else []
    code, out, err = cuspfa("scores", "fit.cusp", path, *again)
    assert code == 0, err
    lines = [line.split(",") for line in out.splitlines()]
    assert lines[0] == (["row", "factor1"] if form == "h5ad" else ["factor1"])
    assert lines[1][0] == "cell0" or form != "h5ad"
    found = np.array([line[-1] for line in lines[1:]], dtype=float)
    np.testing.assert_allclose(found, expected.transform(x)[:, 0], rtol=1e-4)


def test_large_tables_are_read_by_blocks(cuspfa: Program, counts: pd.DataFrame) -> None:
    code, out, err = cuspfa(
        "fit", "trees.csv", *MODEL, "--factors", 1, "--exclude", "area,plot",
        "--memory-limit", "10kB", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert "temporary file, which is read in each iteration" in " ".join(err.split())
    rows = counts.filter(like="sp")
    expected = CuspPoissonFactorization(n_factors=1, random_state=0).fit(rows)
    np.testing.assert_allclose(json.loads(out)["loadings"], expected.components_, rtol=1e-9)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("trees.csv", "--exposure", "area"), "--exposure is for --model poisson-factorization"),
        (("trees.csv", *MODEL, "--rotation", "varimax"), "--rotation has no effect"),
        (("trees.csv", *MODEL, "--exposure", "plot"), "does not hold numbers"),
        (("trees.csv", *MODEL, "--exposure", "sp0"), "must be positive in each row"),
        (("trees.csv", *MODEL, "--exposure", "size"), "size"),
        (("trees.csv", *MODEL, "--layer", "x"), "--layer is for sparse matrices"),
        (("trees.csv", *MODEL, "--factors", "0"), "--factors must be a whole number"),
        (("trees.csv", *MODEL, "--include", "area"), "not whole numbers"),
        (("none.mtx", *MODEL), "there is no file"),
        (("none.mtx",), "is a sparse matrix"),
        (("--example", "bfi", *MODEL), "--example has no counts"),
        (MODEL, "give a file with data"),
        (("trees.csv", *MODEL, "--method", "mcmc"), "--method must be"),
        (("trees.csv", *MODEL, "--max-time", "3"), "--max-time is for --method gibbs"),
        (("trees.csv", *MODEL, "--method", "gibbs", "--max-time", "0"), "max_time"),
    ],
)
def test_mistakes_are_named(
    cuspfa: Program, counts: pd.DataFrame, words: tuple[str, ...], message: str
) -> None:
    code, _, err = cuspfa("fit", *words)
    assert code == 2
    assert message in " ".join(err.split())
