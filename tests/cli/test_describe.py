"""`cuspfa describe`: the methods of a saved fit, as the report has them, and what to cite."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from cuspfa import CuspFactorAnalysis, __version__, datasets, load
from support import answers, with_missing, write_csv

CITATION = Path(__file__).parents[2] / "CITATION.cff"


@pytest.fixture
def saved(cuspfa, tmp_path):
    rows = [[30 + i % 7, *row] for i, row in enumerate(answers().tolist())]
    write_csv(tmp_path / "answers.csv", ["age", *"abcdefgh"], rows)
    assert cuspfa("fit", "answers.csv", "-o", "fit.cusp", "--quiet")[0] == 0
    return "fit.cusp"


def test_a_paragraph_and_references_in_80_columns(cuspfa, saved):
    code, out, err = cuspfa("describe", saved)
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines())
    said = " ".join(out.split())
    for sentence in (
        "The data are answers.csv (CSV): 60 rows, 9 columns, 0 missing values. 60 rows and 8 "
        "columns were analysed. 1 column was left out: age.",
        "No value was missing in the rows that were analysed.",
        "each of the 8 variables is a weighted sum of 2 common factors",
        "cumulative shrinkage process (Legramanti, Durante & Dunson, 2020) with α = 5",
        "Loadings of an active factor (the slab) are normal with a variance of the factor's own, "
        "which is inverse gamma with parameters estimated from all factors; those of others (the "
        "spike) are zero.",
        "variational inference (Legramanti, 2020); numbers of factors from",
        "95 % credible intervals from 1000 draws",
        "rotation none (principal axes), seed 0.",
        f"cuspfa {__version__}, numpy ",
        "arXiv:2008.05310.",
        "Biometrika 107(3), 745–752.",
    ):
        assert sentence in said
    assert "--include" not in said  # advice for the next fit is no part of a paper
    assert "Wu" not in said


def test_the_report_has_the_same_words(cuspfa, saved):
    code, out, _ = cuspfa("describe", saved, "--json")
    found = json.loads(out)
    assert code == 0
    assert cuspfa("report", saved, "-o", "report.html")[0] == 0
    page = Path("report.html").read_text(encoding="utf-8")
    page = page.replace("&amp;", "&").replace("&#39;", "'")
    seen = re.sub(r"\s+", " ", re.sub("</?span[^>]*>", "", page))  # options are marked
    for one in [*found["methods"], *found["references"]]:
        assert one["text"] in seen
    terms = [one["term"] for one in found["methods"]]
    assert "Left out and assumed" in terms
    kept = [one["text"] for one in found["methods"] if one["term"] != "Left out and assumed"]
    assert found["paragraph"] == " ".join(kept)
    assert found["versions"]["cuspfa"] == __version__


def test_bibtex_is_what_the_repository_asks_to_cite(cuspfa, saved):
    code, out, _ = cuspfa("describe", saved, "--bibtex")
    assert code == 0
    assert re.findall(r"^@(\w+)\{(\w+),$", out, re.MULTILINE) == [
        ("misc", "cuspfa"),
        ("misc", "legramanti2020variational"),
        ("article", "legramanti2020cumulative"),
    ]
    assert out.count("{") == out.count("}")
    assert f"version {__version__}" in out
    asked = CITATION.read_text(encoding="utf-8")
    for doi in re.findall(r"doi: (\S+)", asked):
        assert f"{{{doi}}}" in out
    for title in re.findall(r'^ +title: "(.*)"', asked, re.MULTILINE):
        assert title in re.sub(r"[{}]", "", " ".join(out.split()))


def test_missing_values_model_error_and_a_sampler(cuspfa):
    cells = [["" if x != x else x for x in row] for row in with_missing(answers(), 0.1).tolist()]
    write_csv("missing.csv", "abcdefgh", cells)
    words = ("--factors", 2, "--model-error", 0.05, "-o", "error.cusp", "--quiet")
    assert cuspfa("fit", "missing.csv", *words)[0] == 0
    said = " ".join(cuspfa("describe", "error.cusp")[1].split())
    assert re.search(r"\d+ of 480 values \(\d+\.\d %\), in 8 columns, were missing\.", said)
    assert "RMSEA 0.05 (Wu & Browne, 2015), which was given." in said
    assert "the number of factors was given" in said
    assert "Psychometrika 80(3), 571–600." in said
    assert "10.1007/s11336-015-9451-3" in cuspfa("describe", "error.cusp", "--bibtex")[1]
    X = datasets.simulate(60, 5, 1, random_state=1).X
    CuspFactorAnalysis(method="gibbs", random_state=0).fit(X).posterior_.save("gibbs.cusp")
    said = " ".join(cuspfa("describe", "gibbs.cusp")[1].split())
    assert "The posterior was drawn by a Gibbs sampler with 4 chains; converged." in said
    assert "R-hat is at most 1.0" in said


def test_versions_are_those_of_the_fit(cuspfa, saved):
    posterior = load(saved)
    assert posterior.provenance is not None
    assert dict(posterior.provenance.versions)["cuspfa"] == __version__
    old = dataclasses.replace(posterior.provenance, versions=(("cuspfa", "0.0.1"),))
    dataclasses.replace(posterior, provenance=old).save("old.cusp")
    assert "version 0.0.1" in cuspfa("describe", "old.cusp", "--bibtex")[1]
    assert "The software was cuspfa 0.0.1." in " ".join(cuspfa("describe", "old.cusp")[1].split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["answers.csv"], "not a fit saved by cuspfa"),
        (["fit.csp"], "Did you mean 'fit.cusp'?"),
        (["fit.cusp", "--bibtex", "--json"], "Give --bibtex or --json"),
        (["fit.cusp", "more"], "one word too many"),
    ],
)
def test_mistakes(cuspfa, saved, words, message):
    code, out, err = cuspfa("describe", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1
