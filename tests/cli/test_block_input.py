"""`cuspfa fit` of tables that are read by blocks."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import cuspfa
from cuspfa import CuspFactorAnalysis, datasets
from cuspfa.cli.app import run_program
from cuspfa.data.tables import read_table as reading
from cuspfa.data.tables.dialect import DEFAULT_READING
from cuspfa.estimator import factor_analysis
from cuspfa.inference.engine import infer
from cuspfa.inference.variational import cost

ITEMS = [f"item{j}" for j in range(8)]


@pytest.fixture(scope="module")
def frame():
    rows = datasets.simulate(900, 8, 2, random_state=0).X
    table = pd.DataFrame(rows, columns=ITEMS)
    table.insert(0, "person_id", np.arange(7, 907))
    table["sex"] = ["f", "m"] * 450
    table["version"] = 3.0
    return table


def fit(path, *options):
    return run_program(["fit", str(path), *options])


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_by_blocks_the_fit_is_the_same(kind, frame, tmp_path, capsys):
    path = tmp_path / f"answers.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    whole, blocks = tmp_path / "whole.cusp", tmp_path / "blocks.cusp"
    assert fit(path, "-o", str(whole), "--quiet") == 0
    capsys.readouterr()
    assert fit(path, "-o", str(blocks), "--memory-limit", "200MB") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Reading{path}byblocks:" in said.replace(" ", "")  # a path may be wrapped anywhere
    assert "summed up in one pass: about" in said
    assert "sex text, such as" in said
    assert "version constant, always 3" in said
    assert "person_id names of rows: distinct whole numbers under the name of an identifier" in said
    one, other = cuspfa.load(whole), cuspfa.load(blocks)
    assert other.names == ITEMS
    assert other.n_rows == 900
    assert_allclose(other.loadings, one.loadings, rtol=1e-6, atol=1e-8)


def test_a_folder_and_json(frame, tmp_path, capsys):
    folder = tmp_path / "answers"
    folder.mkdir()
    frame[:500].to_parquet(folder / "a.parquet")
    frame[500:].to_parquet(folder / "b.parquet")
    assert fit(folder, "--json", "--exclude", "item7", "--factors", "2") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["read"]["n_rows"] == 900
    assert found["read"]["kind"] == "by blocks"
    assert found["left_out"]["excluded"] == ["item7"]
    assert {one["name"] for one in found["left_out"]["columns"]} == {"person_id", "sex", "version"}


def test_a_file_that_does_not_fit_is_read_by_blocks_without_being_told(
    frame, tmp_path, capsys, monkeypatch
):
    path = tmp_path / "answers.csv"
    frame.to_csv(path, index=False)
    assert not reading.reads_by_blocks(str(path), None, DEFAULT_READING)
    monkeypatch.setattr(reading, "COPIES_IN_MEMORY", 10**9)
    assert fit(path, "--factors", "2", "--columns", "1,item1,item2,item3,item4") == 0
    said = capsys.readouterr().out
    assert "by blocks: rows not counted yet, 5 columns" in " ".join(said.split())
    assert "names of rows" not in said  # it was asked for


def test_missing_values_and_wide_tables_by_blocks(frame, tmp_path, capsys):
    broken = frame[ITEMS].copy()
    broken.iloc[77, 3] = np.nan
    path = tmp_path / "missing.csv"
    broken.to_csv(path, index=False)
    assert fit(path, "--factors", "2", "--memory-limit", "100MB", "--quiet") == 0
    assert "2 factors" in capsys.readouterr().out
    assert fit(path, "--factors", "2", "--memory-limit", "40kB") == 2
    told = capsys.readouterr().err
    assert "missing.csv: column 'item3' (index 3) has NaN in row 77" in told
    wide = pd.DataFrame(datasets.simulate(30, 60, 1, random_state=0).X).add_prefix("g")
    for kind in ("csv", "parquet"):
        path = tmp_path / f"wide.{kind}"
        wide.to_csv(path, index=False) if kind == "csv" else wide.to_parquet(path)
        assert fit(path, "--factors", "1", "--memory-limit", "100MB", "--quiet") == 0
        assert "1 factor" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["variational", pytest.param("gibbs", marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_missing_values_are_told_by_blocks_too(kind, method, frame, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    broken = frame[:200].drop(columns="version")
    broken.loc[:29, "item2"] = np.nan
    broken.loc[20:39, "item5"] = np.nan
    broken.to_csv("whole.csv", index=False)
    path, options = "whole.csv", ["--memory-limit", "1GB"]
    if kind == "folder":
        path, options = "answers", []
        (tmp_path / path).mkdir()
        broken[:90].to_parquet("answers/a.parquet")
        broken[90:].to_parquet("answers/b.parquet")
    asked = ["--factors", "2", "--method", method, "--report", "report.html"]
    assert fit(path, *options, *asked) == 0
    told = "50 missing values in 40 of 200 rows: taken as missing at random"
    assert " ".join(capsys.readouterr().out.split()).count(told) == 1
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "(by blocks): 200 rows, 10 columns, 50 missing values in those analysed." in page
    if method == "variational":
        found = []
        for one in ([path, *options], ["whole.csv"]):
            assert fit(*one, "--factors", "2", "--json") == 0
            found.append(json.loads(capsys.readouterr().out))
        assert found[0]["missing"] == found[1]["missing"]
        assert found[0]["missing"]["by_column"] == {"item2": 30, "item5": 20}
        assert found[0]["read"]["n_missing"] == found[1]["read"]["n_missing"] == 50
        assert found[0]["read"]["n_rows"] == found[1]["read"]["n_rows"] == 200


def test_the_answer_outlives_a_file_that_is_gone_after_the_fit(
    frame, tmp_path, capsys, monkeypatch
):
    path = tmp_path / "answers.csv"
    frame[ITEMS].mask(frame[ITEMS] > 2).to_csv(path, index=False)

    def remove_and_infer(*arguments, **settings):
        path.unlink(missing_ok=True)  # the checks fit again
        return infer(*arguments, **settings)

    monkeypatch.setattr(factor_analysis, "infer", remove_and_infer)
    assert fit(path, "--factors", "2", "--memory-limit", "1GB") == 0
    lacking = int((frame[ITEMS] > 2).any(axis=1).sum())
    assert f"in {lacking} of 900 rows" in " ".join(capsys.readouterr().out.split())


def test_what_takes_long_is_told_by_blocks_too(frame, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cost, "ANNOUNCED_SECONDS", 0.0)
    path = tmp_path / "answers.csv"
    frame[ITEMS].mask(frame[ITEMS] > 2).to_csv(path, index=False)
    for options in ([], ["--memory-limit", "1GB"]):
        assert fit(path, "--factors", "2", *options) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert told.count("With missing values in 8 columns and") == 1


@pytest.mark.parametrize("what", ["scores", "impute"])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_rows_of_a_folder(what, kind, frame, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    broken = frame.assign(item3=frame["item3"].mask(frame["item3"] > 1))
    (tmp_path / "answers").mkdir()
    for name, part in (("a", broken[:500]), ("b", broken[500:])):
        part.to_parquet(f"answers/{name}.parquet")
    (tmp_path / "link").symlink_to("answers")
    assert fit("answers", "-o", "fit.cusp", "--factors", "2", "--quiet") == 0
    assert fit("answers", "-o", "answers/fit.cusp", "--factors", "2", "--quiet") == 0
    assert fit("answers", "--loadings", "answers/l.csv", "--factors", "2", "--quiet") == 2
    capsys.readouterr()
    assert run_program([what, "fit.cusp", "answers", "-o", f"out.{kind}"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    lacking = int((frame["item3"] > 1).sum())
    assert (
        said.err == f"{lacking} of 900 rows have missing values.\nWritten 900 rows to out.{kind}\n"
    )
    found = pd.read_csv("out.csv") if kind == "csv" else pd.read_parquet("out.parquet")
    model = CuspFactorAnalysis.from_posterior(cuspfa.load("fit.cusp"))
    expected = model.transform(broken[ITEMS]) if what == "scores" else model.impute(broken[ITEMS])
    assert_allclose(found.to_numpy(), expected, rtol=1e-9, atol=1e-12)
    assert found.columns.tolist() == (["factor1", "factor2"] if what == "scores" else ITEMS)
    for words, message in (
        ([], "-o: answers is read and written by blocks. Give a file that ends in .parquet"),
        (["-o", "out.txt"], "-o: answers is read and written by blocks. Give a file"),
        (["-o", "answers/a.parquet"], "would be one of the files of 'answers', which is the input"),
        (["-o", "answers/new.csv"], "would be one of the files of 'answers', which is the input"),
        (["-o", "link/a.parquet"], "would be one of the files of 'answers', which is the input"),
        (["-o", "out.csv", "--id", "person_id"], "by blocks, where --id cannot be used"),
    ):
        assert run_program([what, "fit.cusp", "answers", *words]) == 2
        told = capsys.readouterr()
        assert message in told.err
        assert told.out == ""
    broken[:500].drop(columns="item5").to_parquet("answers/a.parquet")
    assert run_program([what, "fit.cusp", "answers", "-o", "new.csv"]) == 2
    assert "item5" in capsys.readouterr().err
    assert not (tmp_path / "new.csv").exists()


def test_rows_of_arrays_and_of_fits_without_names(frame, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = frame[ITEMS].to_numpy()
    np.save("rows.npy", rows)
    (tmp_path / "answers").mkdir()
    frame[ITEMS].to_parquet("answers/a.parquet")
    assert fit("rows.npy", "-o", "npy.cusp", "--quiet") == 0
    plain = CuspFactorAnalysis().fit(rows)
    plain.posterior_.save("plain.cusp")
    for saved, data in (("npy.cusp", "rows.npy"), ("plain.cusp", "answers")):
        assert run_program(["scores", saved, data, "-o", "out.tsv"]) == 0
        assert capsys.readouterr().err == "Written 900 rows to out.tsv\n"
        found = pd.read_csv("out.tsv", sep="\t")
        assert_allclose(np.abs(found), np.abs(plain.transform(rows)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("missing", [False, True])
def test_columns_that_count_rows_are_left_out_by_blocks(missing, frame, tmp_path, capsys):
    table = frame[ITEMS].copy()
    if missing:
        table.iloc[5, 2] = np.nan
    table.insert(0, "person", np.arange(1, 901))
    path = tmp_path / "answers.csv"
    table.to_csv(path, index=False)
    for options in ([], ["--memory-limit", "1GB"]):
        assert fit(path, "--json", *options) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["columns"] == ITEMS
        (gone,) = found["left_out"]["columns"]
        assert gone["reason"].startswith("counts the rows from 1 on")
    assert fit(path, "--json", "--memory-limit", "1GB", "--columns", "1-9") == 0
    assert json.loads(capsys.readouterr().out)["columns"] == ["person", *ITEMS]
    folder = tmp_path / "indexed"
    folder.mkdir()
    for name, part in (("a", table[:500]), ("b", table[500:])):
        part[ITEMS].reset_index(drop=True).to_csv(folder / f"{name}.csv")
    assert fit(folder, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["columns"] == ITEMS
    assert found["left_out"]["columns"][0]["name"] == "column1"


def test_codes_are_told_by_blocks(frame, tmp_path, capsys):
    table = frame[ITEMS].copy()
    table.iloc[::50, 2] = -999
    path = tmp_path / "answers.csv"
    table.to_csv(path, index=False)
    assert fit(path, "--memory-limit", "1GB", "--factors", "2") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "-999 occurs 18 times in the first rows, far from all other values, in item2." in said
    assert "add: --missing -999" in said


def test_constant_columns_of_a_wide_folder_are_left_out(tmp_path, capsys):
    rows = pd.DataFrame(datasets.simulate(30, 60, 1, random_state=0).X).add_prefix("g")
    rows["g7"], rows["g9"] = 2.0, np.nan
    (tmp_path / "wide").mkdir()
    rows.to_parquet(tmp_path / "wide" / "a.parquet")
    assert fit(tmp_path / "wide", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["name"] for one in found["left_out"]["columns"]} == {"g7", "g9"}
    assert len(found["columns"]) == 58


def test_columns_without_names_are_called_the_same_with_missing_values(tmp_path, capsys):
    rows = datasets.simulate(200, 6, 1, random_state=0).X
    rows[:7, 2] = np.nan
    np.save(tmp_path / "rows.npy", rows)
    assert fit(tmp_path / "rows.npy", "--factors", "1", "--memory-limit", "1GB", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["columns"] == ["x1", "x2", "x3", "x4", "x5", "x6"]
    assert found["missing"] == {"n": 7, "n_rows": 7, "by_column": {"x3": 7}}


def test_a_wide_table_by_blocks_has_its_rows_and_nothing_missing(tmp_path, capsys):
    rows = pd.DataFrame(datasets.simulate(30, 60, 1, random_state=0).X).add_prefix("g")
    for kind in ("csv", "parquet"):
        path = tmp_path / f"wide.{kind}"
        rows.to_csv(path, index=False) if kind == "csv" else rows.to_parquet(path)
        assert fit(path, "--factors", "1", "--memory-limit", "100MB", "--json") == 0
        said = capsys.readouterr()
        found = json.loads(said.out)
        assert (found["read"]["n_rows"], found["read"]["n_missing"]) == (30, 0)
        assert found["missing"] == {"n": 0, "n_rows": 0, "by_column": {}}
        assert "missing value" not in said.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--memory-limit", "much"], "--memory-limit must be a number of bytes"),
        (["--memory-limit", "1kB"], "may be taken"),
        (["--memory-limit", "1GB", "--factors", "99"], "--factors must be at most the"),
        (["--memory-limit", "1GB", "--columns", "sex"], "has no columns of numbers"),
        (["--memory-limit", "1GB", "--columns", "items1"], "there is no column 'items1'"),
    ],
)
def test_what_is_refused(options, message, frame, tmp_path, capsys):
    path = tmp_path / "answers.parquet"
    frame.to_parquet(path)
    assert fit(path, *options) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_standard_input_has_no_blocks(capsys):
    assert run_program(["fit", "-", "--memory-limit", "1GB"]) == 2
    assert "--memory-limit is for a file" in capsys.readouterr().err
