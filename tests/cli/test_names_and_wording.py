"""Names, signs and wording on the command line: --names, --reverse and --wording."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from cuspfa import datasets, load

COLUMNS = ["N1", "N2", "N3", "N4", "C1", "C2", "C3", "C4"]


@pytest.fixture
def data(tmp_path):
    frame = datasets.load_bfi(subset="paper", as_frame=True).data[COLUMNS]
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "items.csv").write_text('N1,Get angry easily.\nC4,"Do things, half"\nE9,No item\n')
    return frame


FIT = ("fit", "t.csv", "--factors", 2, "--rotation", "oblimin")
SHOW = ("--names", 'Neuroticism,"Care, order"', "--reverse", "2", "--wording", "items.csv")


def test_a_fit_keeps_what_it_was_told(cuspfa, data):
    code, out, _ = cuspfa(
        *FIT, *SHOW, "-o", "fit.cusp", "--loadings", "l.csv", "--report", "r.html"
    )
    assert code == 0
    assert "Factors: 1 Neuroticism, 2 Care, order." in out
    assert "N1  Get angry easily." in out
    assert all(len(line) <= 80 for line in out.splitlines())
    posterior = load("fit.cusp")
    assert posterior.factor_names == ["Neuroticism", "Care, order"]
    assert posterior.presentation.reversed_factors == (2,)
    assert posterior.column_labels[0] == "Get angry easily."
    assert posterior.provenance.command.endswith("--reverse 2 --wording items.csv")
    _, told, _ = cuspfa("info", "fit.cusp")
    assert "Factors: 1 Neuroticism" in told
    with open("l.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0][:3] == ["variable", "label", "Neuroticism"]
    assert "Care, order_upper" in rows[0]
    assert rows[1][:2] == ["N1", "Get angry easily."]
    with open("r.html", encoding="utf-8") as file:
        page = file.read()
    assert page.count("Care, order") >= 2
    assert "Get angry easily." in page
    cuspfa("scores", "fit.cusp", "t.csv", "-o", "s.csv")
    assert list(pd.read_csv("s.csv").columns) == ["Neuroticism", "Care, order"]


def test_a_saved_fit_is_shown_otherwise(cuspfa, data):
    cuspfa(*FIT, "-o", "fit.cusp")
    assert cuspfa("report", "fit.cusp", "-o", "r.html", *SHOW)[0] == 0
    with open("r.html", encoding="utf-8") as file:
        assert "Care, order" in file.read()
    assert cuspfa("plot", "fit.cusp", "forest", "-o", "f.svg", *SHOW)[0] == 0
    assert load("fit.cusp").presentation.factor_names == ()


def test_scores_in_a_report_are_reversed_too(cuspfa, data):
    cuspfa(*FIT, "-o", "fit.cusp")
    posterior = load("fit.cusp")
    scores = np.arange(2.0 * len(data)).reshape(-1, 2)
    posterior.save("scored.cusp", scores=scores)
    cuspfa("report", "scored.cusp", "-o", "r.html", "--scores", "--reverse", "1")
    with open("r.html", encoding="utf-8") as file:
        page = file.read()
    found = json.loads(page.split('id="data">')[1].split("</script>")[0])
    np.testing.assert_array_equal(found["scores"], scores * [-1, 1])


def test_json_has_names_and_labels(cuspfa, data):
    code, out, _ = cuspfa(*FIT, *SHOW, "--json")
    found = json.loads(out)
    assert code == 0
    assert [one["name"] for one in found["factors"]] == ["Neuroticism", "Care, order"]
    assert found["labels"] == ["Get angry easily.", *[None] * 6, "Do things, half"]
    assert found["reversed_factors"] == [2]


def test_names_that_do_not_fit(cuspfa, data):
    """Before the fit where the number is given, and afterwards without losing the fit."""
    code, _, err = cuspfa(*FIT, "--names", "A,B,C")
    assert code == 2
    assert "--names must be as many as --factors, 2. Got 3 instead." in err
    code, out, _ = cuspfa("fit", "t.csv", "--names", "A,B,C,D,E", "--reverse", "9", "-o", "f.cusp")
    assert code == 0
    told = " ".join(out.split())
    assert "--names: names must be as many as there are factors" in told
    assert "--reverse: a factor must be a number from 1 to" in told
    assert load("f.cusp").presentation.factor_names == ()
    code, _, err = cuspfa("report", "f.cusp", "-o", "r.html", "--names", "A,B,C,D,E")
    assert code == 2
    assert "--names: names must be" in err


def test_a_wording_file_is_read_before_the_fit(cuspfa, data, tmp_path):
    (tmp_path / "wrong.csv").write_text("a,b\n")
    code, _, err = cuspfa(*FIT, "--wording", "wrong.csv", "-o", "fit.cusp")
    assert code == 2
    assert "wrong.csv has a text for none of the columns" in err
    assert cuspfa(*FIT, "--wording", "none.csv")[0] == 2
    assert not (tmp_path / "fit.cusp").exists()


def test_names_of_a_wording_file_that_are_no_columns_are_told(cuspfa, data):
    told = "Warning: items.csv has texts for names that are not columns of the fit: 'E9'."
    code, out, err = cuspfa(*FIT, "--wording", "items.csv", "-o", "fit.cusp")
    assert (code, err) == (0, "")
    assert " ".join(out.split()).count(told) == 1
    for command in (("table", "-o", "t.md"), ("plot", "loadings", "-o", "p.svg")):
        words = (command[0], "fit.cusp", *command[1:])
        assert told in " ".join(cuspfa(*words, "--wording", "items.csv")[2].split())


def test_labels_of_values_stand_wherever_names_do(cuspfa, data):
    labels = {1: "Very inaccurate", 6: "Very accurate", -9: "no answer"}
    pyreadstat.write_sav(
        data.fillna(-9),
        "t.sav",
        column_labels=dict.fromkeys(COLUMNS, "Wording"),
        variable_value_labels=dict.fromkeys(COLUMNS, labels),
        missing_ranges={key: [-9] for key in COLUMNS},
    )
    fit = ("fit", "t.sav", "--factors", 2, "--no-checks", "-o", "fit.cusp", "--report", "r.html")
    code, out, _ = cuspfa(*fit)
    assert code == 0
    assert "Values: 1 = Very inaccurate, 6 = Very accurate.\n" in out
    with open("r.html", encoding="utf-8") as file:
        page = file.read()
    assert page.count("1 = Very inaccurate, 6 = Very accurate") == 1  # not for each variable
    assert "no answer" not in page
    cuspfa("table", "fit.cusp", "-o", "t.md")
    with open("t.md", encoding="utf-8") as file:
        assert "Answers: 1 = Very inaccurate, 6 = Very accurate." in file.read()
    _, out, _ = cuspfa("fit", "t.sav", "--factors", 1, "--json")
    assert json.loads(out)["value_labels"]["N1"] == {"1": "Very inaccurate", "6": "Very accurate"}


def test_scales_that_differ_are_told_with_their_columns(cuspfa, data):
    values = {name: {1: "no", 6: "yes"} for name in COLUMNS[:4]} | {"C1": {-1: "a", 1: "b"}}
    pyreadstat.write_sav(data, "t.sav", variable_value_labels=values)
    code, out, _ = cuspfa("fit", "t.sav", "--factors", 2, "--no-checks", "--report", "r.html")
    assert code == 0
    assert "Values: 1 = no, 6 = yes (in N1, N2, N3, N4)." in out
    assert "Values: −1 = a, 1 = b (in C1)." in out
    with open("r.html", encoding="utf-8") as file:
        assert "(1 = no, 6 = yes)" in file.read()


def test_tables_with_the_fit_have_its_intervals(cuspfa, data):
    words = ("-o", "f.cusp", "--report", "f.html")
    code, out, _ = cuspfa(*FIT, *words, "--tables", "t.md", "--names", "Left,Right")
    assert code == 0
    assert "Written to t.md\n" in out
    assert out.endswith("The methods, for a paper:\n  cuspfa describe f.cusp\n")
    assert cuspfa("describe", "f.cusp")[0] == 0
    tables = Path("t.md").read_text()
    assert "1 Left" in tables
    assert cuspfa("table", "f.cusp", "-o", "later.md")[0] == 0
    assert Path("later.md").read_text() == tables
    code, _, err = cuspfa(*FIT, "--tables", "t.pdf")
    assert (code, "--tables must end in .docx" in err) == (2, True)
    code, _, err = cuspfa(*FIT, "--report", "t.html", "--tables", "t.html")
    assert (code, "--report and --tables must be two files" in err) == (2, True)


def test_tables_of_incomplete_data_are_exact_with_the_fit(cuspfa, data):
    data.iloc[3, 2] = np.nan
    data.to_csv("t.csv", index=False)
    assert cuspfa(*FIT, "--tables", "t.md", "-o", "f.cusp")[0] == 0
    assert cuspfa("table", "f.cusp", "-o", "later.md")[0] == 0
    inexact = "The data are not part of the saved fit, so that the intervals are approximate"
    assert [inexact in Path(name).read_text() for name in ("t.md", "later.md")] == [False, True]
