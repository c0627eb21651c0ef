"""The report: what it holds is what the posterior says, and it can be sent to anybody."""

import base64
import csv
import hashlib
import io
import json
import re
import shlex
import sys
import warnings
import zipfile
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from cuspfa import CuspFactorAnalysis, Gibbs, Moments, datasets, load, plots
from cuspfa.cli.app import run_program
from cuspfa.errors import CuspWarning, FileError, InputError
from cuspfa.io import posterior_format
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.files import POSTERIOR_CLASSES
from cuspfa.posterior.sampled import SampledPosterior
from cuspfa.reporting.figures.variables import draw_matrix
from cuspfa.reporting.headline import LargeShare
from cuspfa.reporting.html import content as contents
from cuspfa.reporting.html import narrative, page
from cuspfa.reporting.html.svg import as_svg
from cuspfa.reporting.labels import shortened
from cuspfa.reporting.recipe import python_recipe
from support import complete_rows, posterior_of

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "<!-- ' & {{ 7 * 7 }} ]]>",
    "=HYPERLINK(1)",
    "名前の長い列",
    "an item with a very long wording, of which only the end is its own, number 7",
    "h",
]
ADDRESSES = ("src", "href", "action", "formaction", "data", "poster", "srcset", "xlink:href")


class Reader(HTMLParser):
    """Elements, text of scripts and styles, and what a reader sees."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.inside, self.text, self.stack = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.inside.append([tag, dict(attrs), ""])
            self.stack.append(tag)

    def handle_endtag(self, tag):
        if self.stack and self.stack[-1] == tag:
            self.stack.pop()

    def handle_data(self, data):
        if self.stack:
            self.inside[-1][2] += data
        else:
            self.text.append(data)

    @property
    def seen(self):
        return " ".join("".join(self.text).split())

    def numbers(self):
        return json.loads(next(t for _, a, t in self.inside if a.get("id") == "data"))


def faults(text):
    """All that a page which needs nothing and runs nothing foreign must not have."""
    found, reader = [], Reader(text)
    for tag, attributes in reader.elements:
        for name, value in attributes.items():
            if name in ADDRESSES and not (value or "").startswith(("#", "data:")):
                found.append(f"address {value!r}")
            if name.startswith("on") or name == "style":
                found.append(f"attribute {name} of {tag}")
    kinds = [(tag, attributes.get("type")) for tag, attributes, _ in reader.inside]
    if kinds != [("style", None), ("script", "application/json"), ("script", None)]:
        found.append(f"scripts and styles {kinds}")
    metas = [a for tag, a in reader.elements if tag == "meta"]
    policy = next(
        (a["content"] for a in metas if a.get("http-equiv") == "Content-Security-Policy"), ""
    )
    if not policy.startswith("default-src 'none';") or "unsafe" in policy or "http" in policy:
        found.append(f"policy {policy!r}")
    for tag, attributes, inside in reader.inside:
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        if attributes.get("type") is None and f"{tag}-src 'sha256-{digest}'" not in policy:
            found.append(f"{tag} that the policy does not know")
    return found


def numbers_of(text, size=None):
    found = np.frombuffer(base64.b64decode(text), dtype="<i2") / 10_000
    return found if size is None else found.reshape(size)


def written(posterior, tmp_path, **settings):
    path = tmp_path / "report.html"
    posterior.report(path, **settings)
    return path.read_text(encoding="utf-8")


def sampled(rows, names=None, **settings):
    # So few draws have not converged.
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        return posterior_of(
            rows, names, method=Gibbs(n_draws=40, n_chains=3, burn_in=40), **settings
        )


def few(posterior, number=60):
    if isinstance(posterior, SampledPosterior):
        return posterior.draw(number, random_state=0)
    return posterior.draw(number, random_state=0, sweeps=0)


@pytest.fixture(scope="module")
def posteriors():
    X = datasets.simulate(200, 8, 2, random_state=1).X
    items = datasets.load_bfi(subset="items")
    complete = complete_rows(items.data)[:600]
    return {
        "hostile": posterior_of(X, HOSTILE),
        "bfi": posterior_of(complete, items.feature_names, n_factors=5, rotation="oblimin"),
        "none": posterior_of(np.random.default_rng(1).normal(size=(300, 6))),
        "one": posterior_of(X, n_factors=1),
        "missing": posterior_of(items.data[:200], items.feature_names, n_factors=3),
        "gibbs": sampled(X),
        "wide": posterior_of(datasets.simulate(40, 2500, 2, design="sparse", random_state=0).X),
    }


@pytest.fixture(scope="module")
def pages(posteriors, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    return {key: written(one, folder, draws=few(one)) for key, one in posteriors.items()}


# --- nothing foreign ---


@pytest.mark.parametrize("key", ["hostile", "bfi", "none", "one", "missing", "gibbs", "wide"])
def test_a_page_needs_nothing_and_runs_nothing_foreign(pages, key):
    assert faults(pages[key]) == []
    assert Reader(pages[key]).numbers()["names"]


def test_faults_are_found():
    good = (
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; {}\">"
        "<style></style><script type=application/json></script><script>1</script>"
    )
    known = [
        f"{tag}-src 'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
        for tag, text in (("style", b""), ("script", b"1"))
    ]
    page_text = good.format("; ".join(known))
    assert faults(page_text) == []
    assert faults(page_text.replace("<script>1", "<script>2"))
    assert faults(page_text + "<script>alert(1)</script>")
    assert faults(page_text + "<img src='http://elsewhere/a.png'>")
    assert faults(page_text + "<p onclick='alert(1)'>")
    assert faults(page_text.replace("default-src 'none'", "default-src *"))


def test_names_are_shown_and_not_run(posteriors, pages):
    reader = Reader(pages["hostile"])
    assert reader.numbers()["names"] == HOSTILE
    assert "<script>alert(1)</script>" in reader.seen
    title = next(t for t in HOSTILE if t.startswith('"'))
    assert title in reader.seen
    assert "49" not in re.findall(r"<!-- ' & (\S+)", reader.seen)


def test_without_escapes_they_would_be_run(posteriors, monkeypatch):
    monkeypatch.setattr(page.templates(), "autoescape", False)
    text = page.templates().from_string("<p>{{ name }}</p>").render(name=HOSTILE[0])
    assert ("script", {}) in Reader(text).elements  # the test above can fail


def test_a_page_can_be_made_without_any_row(tmp_path):
    rows = datasets.simulate(60, 6, 1, random_state=3).X
    model = CuspFactorAnalysis(random_state=0)
    pages = [
        Reader(written(one.posterior_, tmp_path)).numbers()
        for one in (model.fit(rows), CuspFactorAnalysis().fit_moments(Moments.from_rows(rows)))
    ]
    for first, second in zip(*(_flat(one) for one in pages), strict=True):
        assert_allclose(first, second, atol=2e-4)
    assert pages[0].keys() == pages[1].keys()
    assert pages[0]["scores"] is None


def _flat(found):
    """All packed numbers of a page."""
    for one in found["axes"]:
        yield from (numbers_of(one[key]) for key in ("mean", "lower", "upper", "sign"))
    yield from map(numbers_of, found["communality"])
    yield from (numbers_of(found["correlation"][key]) for key in ("sample", "fitted"))


def test_scores_are_inside_when_they_are_asked_for(tmp_path):
    rows = datasets.simulate(60, 6, 1, random_state=3).X
    model = CuspFactorAnalysis(random_state=0).fit(rows)
    scores = model.transform(rows)
    asked = Reader(written(model.posterior_, tmp_path, scores=scores))
    assert_allclose(asked.numbers()["scores"], scores, atol=5e-5)
    assert "as requested" in asked.seen
    assert "no row of the data and no score" in Reader(written(model.posterior_, tmp_path)).seen
    with pytest.raises(InputError, match="scores must be of shape"):
        model.posterior_.report(tmp_path / "a.html", scores=scores[:5])


# --- what it says is what the posterior says ---


@pytest.mark.parametrize("key", ["bfi", "hostile", "missing", "gibbs"])
def test_loadings_on_all_axes(posteriors, pages, key):
    posterior, found = posteriors[key], Reader(pages[key]).numbers()
    draws = few(posterior)
    own = "oblimin" if key == "bfi" else "principal"
    assert found["axes"][0]["key"] == own
    assert {one["key"] for one in found["axes"]} == {"principal", "varimax", "oblimin"}
    for one in found["axes"]:
        word = None if one["key"] == "principal" else one["key"]
        aligned = posterior.align(word, draws=draws)
        table, shape = aligned.table(), aligned.reference.loadings.shape
        assert_allclose(numbers_of(one["mean"], shape), aligned.reference.loadings, atol=6e-5)
        assert_allclose(numbers_of(one["lower"], shape), table.lower, atol=6e-5)
        assert_allclose(numbers_of(one["upper"], shape), table.upper, atol=6e-5)
        assert_allclose(numbers_of(one["sign"], shape), table.false_sign_rate, atol=6e-5)
        order = np.frombuffer(base64.b64decode(one["order"]), dtype="<i2")
        assert_array_equal(np.sort(order), np.arange(shape[0]))
        if one["key"] == "oblimin":
            assert_allclose(one["correlations"], aligned.reference.correlations, atol=6e-5)
    assert_allclose(
        numbers_of(found["communality"][0]), np.median(draws.communality, axis=0), atol=6e-5
    )


def test_correlations_are_those_of_data_and_model(posteriors, pages):
    posterior, found = posteriors["bfi"], Reader(pages["bfi"]).numbers()["correlation"]
    lower = np.tril_indices(25)
    omega = posterior.covariance
    sd = np.sqrt(np.diag(omega))
    assert_allclose(numbers_of(found["fitted"]), (omega / np.outer(sd, sd))[lower], atol=6e-5)
    assert_allclose(numbers_of(found["sample"]), posterior.sample_correlation[lower], atol=6e-5)


def test_small_tables(posteriors, pages):
    tables = Reader(pages["bfi"]).numbers()["tables"]
    summary = posteriors["bfi"].summary()
    assert [row[0] for row in tables["factors"][1:]] == [1, 2, 3, 4, 5]
    assert dict(tables["fit"][1:])["srmr"] == pytest.approx(summary.fit.srmr, rel=1e-6)
    assert dict(tables["rules"][1:])["parallel analysis"] == summary.parallel
    assert dict(tables["rules"][1:])["this model"] == 5


def test_answer_first(pages):
    seen = Reader(pages["bfi"]).seen
    assert "5 factors" in seen.partition("How strong")[0]
    assert "5 factors asked for; 7 can be told from chance" in seen
    assert "The number of factors was given" in seen
    for part in ("Do the rules agree?", "What is in each factor", "How to cite", "Legramanti"):
        assert part in seen


def test_the_number_by_tolerated_error(pages, posteriors):
    seen = Reader(pages["bfi"]).seen
    assert "How wrong may the model be?" in seen
    data = Reader(pages["bfi"]).numbers()["tables"]["model_error"]
    curve = posteriors["bfi"].model_error_curve
    assert data[0] == ["model_error", "n_factors", "tied", "log_evidence", "error"]
    assert [row[:2] for row in data[1:]] == [[one[0], one[1]] for one in curve.points]
    assert "those of the factor model, Ω" in seen
    assert "How wrong may the model be?" not in Reader(pages["wide"]).seen


def test_the_next_step_is_on_the_page(tmp_path):
    items = complete_rows(datasets.load_bfi(subset="items").data)[:500]
    posterior = posterior_of(items)
    text = written(posterior, tmp_path, draws=few(posterior))
    seen = Reader(text).seen
    assert "The 5 factors at RMSEA 0.05, with loadings to interpret" in seen
    assert "CuspFactorAnalysis(model_error=0.05, rotation='oblimin'" in seen
    with_error = posterior_of(items, model_error=0.05)
    seen = Reader(written(with_error, tmp_path, draws=few(with_error))).seen
    assert "with loadings to interpret" not in seen
    assert "may differ from that of the factor model by an error of RMSEA 0.05" in seen
    assert "are those of the factor model alone; predictive p allows for its error" in seen


def test_no_factors_and_one(pages):
    none, one = Reader(pages["none"]).seen, Reader(pages["one"]).seen
    assert "No factors" in none
    assert "Map of all loadings" not in none
    assert "It explains more than 3" in one
    assert "Axes of the factors" not in one  # a single factor has no other axes


@pytest.mark.parametrize("kept", [True, False])
def test_no_factors_as_given(kept, tmp_path):
    posterior = posterior_of(datasets.simulate(100, 6, 1, random_state=0).X, n_factors=0)
    if not kept:  # as in files from before origins were saved
        object.__setattr__(posterior, "provenance", None)
    seen = Reader(written(posterior, tmp_path)).seen
    assert "No factors asked for; 1 can be told from chance" in seen
    assert "Their number was given" in seen
    assert "No correlation that factors would explain" not in seen
    assert "The number of factors was given, not found." in seen


def test_a_number_given_to_the_sampler_has_no_probability(tmp_path):
    posterior = sampled(datasets.simulate(100, 6, 1, random_state=0).X, n_factors=1)
    seen = Reader(written(posterior, tmp_path, draws=few(posterior))).seen
    assert "The number of factors was given, not found." in seen
    assert "Posterior probability of this number" not in seen


def test_correlations_that_were_left_out_on_request(posteriors, pages, tmp_path):
    posteriors["one"].save(tmp_path / "fit.cusp", statistics=False)
    again = load(tmp_path / "fit.cusp")
    told = "the data or on request"
    assert told in Reader(written(again, tmp_path, draws=few(again))).seen
    assert told in Reader(pages["wide"]).seen
    assert told not in Reader(pages["one"]).seen


def test_chains(posteriors, pages):
    seen, text = Reader(pages["gibbs"]).seen, pages["gibbs"]
    assert "draws with each number of factors" in seen
    assert "Chains that have converged look alike" in seen
    assert text.count("<title>chain ") == 3
    assert "Posterior probability of this number" in seen
    assert "R-hat is at most" in seen
    assert "<title>chain " not in pages["bfi"]


def test_a_sampled_fit_is_saved_with_where_it_came_from(posteriors, tmp_path):
    posteriors["gibbs"].save(tmp_path / "fit.cusp")
    provenance = load(tmp_path / "fit.cusp").provenance
    assert provenance == posteriors["gibbs"].provenance
    assert "Gibbs(burn_in=40, n_chains=3, n_draws=40)" in python_recipe(provenance)


def test_missing_values(posteriors, pages):
    lacking = posteriors["missing"].n_rows - posteriors["missing"].means.counts
    seen = Reader(pages["missing"]).seen
    assert "Missing values by column." in seen
    assert f"{int(lacking.sum())} of 5000 values" in seen
    assert "Missing values by column." not in Reader(pages["bfi"]).seen


def test_a_sampled_fit_tells_of_missing_values_its_spike_and_its_intervals(tmp_path):
    rows = datasets.simulate(100, 6, 1, random_state=0).X
    rows[:9, [1, 2]] = np.nan
    rows[9:15, 2] = np.nan
    posterior = sampled(rows, list("abcdef"))
    posterior.save(tmp_path / "fit.cusp")
    for one in (posterior, load(tmp_path / "fit.cusp")):
        seen = Reader(written(one, tmp_path, draws=few(one))).seen
        assert contents.gather(one, few(one)).missing.by_column == [("c", 15), ("b", 9)]
        assert "Missing values by column." in seen
        assert "24 of 600 values (4.0 %), in 2 columns, were missing. None was filled in" in seen
        assert "too narrow" not in seen  # its draws are saved
        assert f"others (the spike) are normal with variance {posterior.spike:g}." in seen
        assert "draws of the posterior, given the number of factors." in seen


def test_intervals_and_spike_with_the_number_given(posteriors, pages, tmp_path):
    drawn = sampled(datasets.simulate(100, 6, 1, random_state=0).X, n_factors=1)
    for seen in (Reader(pages["bfi"]).seen, Reader(written(drawn, tmp_path)).seen):
        assert "draws of the posterior, given the number of factors." in seen
        assert "those of others (the spike) are zero." in seen
        assert "No value was missing in the rows that were analysed." in seen


def test_patterns_of_missing_values_that_few_rows_have_are_not_told(tmp_path):
    rows = datasets.simulate(100, 6, 1, random_state=0).X
    rows[:9, [1, 2]] = np.nan
    rows[9:15, 2] = np.nan
    rows[15:19, 4] = np.nan  # four rows alone
    posterior = posterior_of(rows, list("abcdef"), n_factors=1)
    found = contents.gather(posterior, few(posterior)).missing
    assert found.by_column == [("c", 15), ("b", 9), ("e", 4)]
    assert found.together == [(["b", "c"], 9), (["c"], 6)]
    assert found.n_complete == 81
    text = written(posterior, tmp_path, draws=few(posterior))
    assert "81 of 100 rows are complete" in Reader(text).seen
    assert "b, c: 9 rows" in text
    posterior.save(tmp_path / "fit.cusp")
    again = load(tmp_path / "fit.cusp")
    assert contents.gather(again, few(again)).missing.together == []


def test_a_saved_fit_with_missing_values_says_that_its_intervals_are_narrow(posteriors, tmp_path):
    posteriors["missing"].save(tmp_path / "fit.cusp")
    again = load(tmp_path / "fit.cusp")
    told = "too narrow"
    seen = Reader(written(again, tmp_path, draws=few(again))).seen
    assert told in seen
    assert "--report" not in seen  # the fit was made in Python
    assert told not in Reader(written(posteriors["missing"], tmp_path, draws=few(again))).seen


def test_wide_data_show_what_loads_most(posteriors, pages):
    reader = Reader(pages["wide"])
    names = reader.numbers()["names"]
    assert len(names) == contents.REPORT_VARIABLES
    size = np.max(np.abs(posteriors["wide"].rotated_solution.loadings), axis=1)
    chosen = np.array([int(name[1:]) for name in names])
    assert size[chosen].min() >= np.delete(size, chosen).max()
    assert "500 are not" in reader.seen
    assert reader.numbers()["correlation"]["fitted"] is None


def test_five_hundred_variables_and_twenty_factors_are_less_than_three_megabytes(tmp_path):
    X = datasets.simulate(600, 500, 20, design="sparse", random_state=1).X
    posterior = posterior_of(X, n_factors=20)
    text = written(posterior, tmp_path, draws=few(posterior, 20))
    assert len(text.encode()) < 3e6
    assert faults(text) == []


def test_the_same_fit_gives_the_same_page(posteriors, tmp_path):
    one = posteriors["one"]
    assert written(one, tmp_path) == written(one, tmp_path)


# --- words ---


def case(k=3, large=3, numbers=(3, 3), weights=((3, 1.0),), rotation=None, asked=False, **others):
    entries = [SimpleNamespace(n_factors=n, weight=w) for n, w in weights]
    fit_info = SimpleNamespace(search=entries, method="variational", converged=True, status="ok")
    return SimpleNamespace(
        n_factors=k,
        summary=SimpleNamespace(
            n_large=large, headline="So many", large_share=LargeShare(0.03, False)
        ),
        rules=[SimpleNamespace(number=n) for n in numbers],
        fit_info=fit_info,
        number_given=asked,
        posterior=SimpleNamespace(rotation=rotation),
        **others,
    )


def test_words_of_the_answer():
    assert narrative.answer(case(3, 3)) == (
        "So many. All factors explain more than 3 % of the variance each."
    )
    assert "One factor explains more" in narrative.answer(case(3, 1))
    assert "No factor explains" in narrative.answer(case(3, 0))
    assert "No correlation" in narrative.answer(case(0, 0))
    assert "Their number was given" in narrative.answer(case(0, 0, asked=True))
    assert narrative.sureness(case(asked=True))[0] == "given"
    assert narrative.sureness(case()) == ("–", "No other number of factors was tried.")
    assert narrative.agreement(case(numbers=(3, 3, 3))) == "All 3 rules say 3."
    assert "from 3 to 5" in narrative.agreement(case(5, 3, (5, 3)))
    assert "small factors can be estimated" in narrative.agreement(case(5, 3, (5, 3)))
    assert "fewer factors than other rules" in narrative.agreement(case(3, 3, (3, 6)))
    assert narrative.sureness(case(weights=((3, 0.8), (4, 0.2))))[0] == "0.80"
    assert "0.20 for 4" in narrative.sureness(case(weights=((3, 0.8), (4, 0.2))))[1]


def test_an_unfinished_fit_is_told_once(tmp_path):
    from cuspfa import Variational
    from cuspfa.errors import ConvergenceWarning

    X = datasets.simulate(100, 8, 2, random_state=1).X
    with pytest.warns(ConvergenceWarning):
        posterior = posterior_of(X, n_factors=2, method=Variational(max_iter=2))
    seen = Reader(written(posterior, tmp_path, draws=few(posterior))).seen
    assert seen.count("Not converged: the fit stopped") == 1
    assert "The fit ended before it had converged" not in seen
    silent = replace(posterior.provenance, warnings=())
    object.__setattr__(posterior, "provenance", silent)
    seen = Reader(written(posterior, tmp_path, draws=few(posterior))).seen
    assert seen.count("The fit ended before it had converged") == 1


@pytest.mark.parametrize("settings", [{"rotation": "oblimin", "n_factors": 2}, {"n_factors": 1}])
def test_python_on_the_page_makes_the_same_fit(settings):
    X = datasets.simulate(150, 7, 2, random_state=5).X
    posterior = posterior_of(X, **settings)
    code = python_recipe(posterior.provenance).replace('.report("report.html")', ".summary()")
    place: dict[str, Any] = {"X": X}
    exec(code, place)
    assert_array_equal(place["model"].loadings_, posterior.rotated_solution.loadings)
    assert posterior.provenance.settings.random_state == 0


def test_python_on_the_page_names_and_turns_the_factors(tmp_path):
    X = datasets.simulate(150, 7, 2, random_state=5).X
    posterior = posterior_of(X, n_factors=2).with_factor_names(["A, 'b'", "C"])
    posterior = posterior.with_reversed_factors(["C"])
    seen = Reader(written(posterior, tmp_path, draws=few(posterior))).seen
    code = python_recipe(posterior.provenance, posterior.presentation)
    assert " ".join(code.split()) in " ".join(seen.split())
    place: dict[str, Any] = {"X": X}
    exec(code.replace('.report("report.html")', ""), place)
    assert place["posterior"].presentation == posterior.presentation


def test_a_model_with_everything_set_can_be_written_again():
    from cuspfa import CuspPrior, GaussianSlab, Rotation, Variational

    X = datasets.simulate(150, 7, 2, random_state=5).X
    posterior = posterior_of(
        X,
        n_factors=2,
        prior=CuspPrior(slab=GaussianSlab(1.0), alpha=2.0),
        method=Variational(tol=1e-3, callback=lambda at: None),
        rotation=Rotation("geomin", delta=0.02),
    )
    place: dict[str, Any] = {"X": X}
    exec(python_recipe(posterior.provenance).replace('.report("report.html")', ""), place)
    assert_array_equal(place["model"].loadings_, posterior.rotated_solution.loadings)


# --- files ---


def test_a_page_is_written_whole_or_not_at_all(posteriors, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_):
        raise RuntimeError("no page")

    monkeypatch.setattr(page, "render", fail)
    with pytest.raises(RuntimeError):
        posteriors["one"].report(path)
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_bad_arguments(posteriors, tmp_path):
    posterior = posteriors["one"]
    with pytest.raises(InputError, match="path must be a file. Got the directory"):
        posterior.report(tmp_path)
    with pytest.raises(InputError, match="there is no directory"):
        posterior.report(tmp_path / "nowhere" / "report.html")
    with pytest.raises(InputError, match="title must be None or a text. Got 3"):
        posterior.report(tmp_path / "report.html", title=3)
    with pytest.raises(InputError, match="path must be a text or a path"):
        posterior.report(3)


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_without_a_package_it_says_what_to_install(posteriors, tmp_path, monkeypatch, package):
    for module in ("page", "figures", "svg"):
        monkeypatch.delitem(sys.modules, f"cuspfa.reporting.html.{module}")
    monkeypatch.setitem(sys.modules, package, None)
    told = rf"{package} is not installed. Install it with pip install 'cuspfa\[cli\]'"
    with pytest.raises(ImportError, match=told):
        posteriors["one"].report(tmp_path / "report.html")


def test_where_a_fit_came_from_is_saved_with_it(posteriors, tmp_path):
    path = tmp_path / "fit.cusp"
    posteriors["bfi"].save(path)
    assert load(path).provenance == posteriors["bfi"].provenance


@pytest.mark.parametrize(
    "change",
    [
        {"command": 3},
        {"settings": [["a"]]},
        {"warnings": "none"},
        {"warnings": [{"code": "unheard_of"}]},
        {"warnings": [{"code": "empty_rows", "n_dropped": 3}]},
        {"warnings": [{"code": "empty_rows", "n_dropped": -3, "n_rows": 9}]},
        {"versions": [["numpy"]]},
        {"data": {}},
        {"more": ""},
    ],
)
def test_a_changed_origin_is_refused(posteriors, change, tmp_path):
    posteriors["one"].save(tmp_path / "fit")
    with zipfile.ZipFile(tmp_path / "fit") as file:
        content = json.loads(file.read("fit.json"))
    read = posterior_format.check_entries(json.dumps(content).encode(), POSTERIOR_CLASSES)
    assert read["provenance"] == posteriors["one"].provenance
    content["provenance"] |= change
    with pytest.raises(FileError, match="is damaged"):
        posterior_format.check_entries(json.dumps(content).encode(), POSTERIOR_CLASSES)


# --- pictures ---


def test_pixels_are_the_correlations():
    values = np.corrcoef(np.random.default_rng(0).normal(size=(8, 70)), rowvar=False)
    draw = partial(draw_matrix, values=values, limit=1.0, interpolation="none")
    said = as_svg("a", "Sample", draw, height=300, width=300, bare=True)
    data = re.search(r"data:image/png;base64,([^\"]+)", said).group(1)
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"), dtype=float)
    assert_allclose(image[:, :, 3] / 255, np.abs(values), atol=0.026)  # steps of 1/40
    clear = np.abs(values) > 0.05
    assert_array_equal((image[:, :, 2] > image[:, :, 0])[clear], (values > 0)[clear])


@pytest.mark.parametrize("key", ["bfi", "missing", "gibbs", "wide"])
def test_ids_are_unique_and_what_is_referred_to_is_there(pages, key):
    elements = Reader(pages[key]).elements
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    drawn = [attributes for tag, attributes in elements if tag == "use"]
    clipped = [attributes["clip-path"] for _, attributes in elements if "clip-path" in attributes]
    assert drawn
    assert clipped
    assert {one["href"].removeprefix("#") for one in drawn} <= set(ids)
    assert {one.removeprefix("url(#").removesuffix(")") for one in clipped} <= set(ids)


def test_marks_say_their_values_and_text_is_text(posteriors, pages):
    text = pages["bfi"]
    middle, ends = contents.gather(posteriors["bfi"], few(posteriors["bfi"])).communality
    for j, name in enumerate(posteriors["bfi"].names):
        said = f"{name}: {middle[j]:.2f} ({ends.lower[j]:.2f} – {ends.upper[j]:.2f})"
        assert f"<title>{said}</title></use>" in text
        assert f">{name}</text>" in text


def test_the_users_style_neither_changes_the_page_nor_is_changed(posteriors, tmp_path):
    one = posteriors["one"]
    plain = written(one, tmp_path, draws=few(one))
    with matplotlib.rc_context({"font.size": 30, "text.color": "red", "axes.grid": True}):
        before = dict(matplotlib.rcParams)
        assert written(one, tmp_path, draws=few(one)) == plain
        assert dict(matplotlib.rcParams) == before
        # The negative control: figures that are not for a page have the user's style.
        ax = plots.plot_trace(one)
        assert ax.xaxis.label.get_fontsize() == 30


def test_names_that_cannot_be_drawn(tmp_path):
    names = ["a\x00b", "c\x1bd", "\ud800", "e\u200cf", "$\\frac$", "g\nh"]
    rows = datasets.simulate(60, 6, 1, random_state=3).X
    rows[:9, :2] = np.nan
    text = written(posterior_of(rows, names, n_factors=1), tmp_path)
    assert faults(text) == []
    for shown in ("a�b", "c�d", "e\u200cf", "$\\frac$", "g h"):
        assert f">{shown}</text>" in text


NAMES = st.text(st.characters(categories=["L", "N"], max_codepoint=0x24F), max_size=60)


@given(NAMES, st.integers(3, 40))
def test_short_names_keep_both_ends(name, most):
    found = shortened(name, most)
    assert len(found) <= most
    assert found == name or (name.startswith(found[0]) and name.endswith(found[-1]))


# --- notebook ---


@pytest.mark.parametrize("key", ["hostile", "bfi", "none", "wide"])
def test_a_notebook_shows_a_card(posteriors, key, monkeypatch):
    monkeypatch.setattr(type(posteriors[key]), "draw", None)  # quick: no draw is made
    text = posteriors[key]._repr_html_()
    reader = Reader(text)
    assert "script" not in {tag for tag, _ in reader.elements}
    assert "img" not in {tag for tag, _ in reader.elements}
    assert len(text) < 10_000
    k = posteriors[key].n_active
    assert ("No factors" if k == 0 else f"{k} factors") in reader.seen
    assert sum(tag == "tr" for tag, _ in reader.elements) == min(k, 12)


def test_every_posterior_has_the_methods():
    assert callable(Posterior.report)
    assert callable(Posterior._repr_html_)


# --- the program ---


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = datasets.simulate(80, 6, 2, random_state=1).X.round(3)
    with open("answers.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *HOSTILE[:5], "x, y"])
        writer.writerows([number, *row] for number, row in enumerate(X, 1))
    return tmp_path


def test_the_program_writes_a_page_that_tells_how_to_write_it_again(table, capsys):
    first = ["fit", "answers.csv", "--exclude", '"x, y"', "--rotation", "varimax"]
    first += ["--factors", "2", "-o", "a.cusp", "--report", "a b.html"]
    assert run_program(first) == 0
    assert "Written to a b.html" in capsys.readouterr().out
    text = (table / "a b.html").read_text(encoding="utf-8")
    assert faults(text) == []
    reader = Reader(text)
    assert "Factor analysis of answers.csv" in reader.seen
    assert "id is left out: counts the rows" in reader.seen
    assert "Left out as asked: x, y." in reader.seen
    provenance = load(table / "a.cusp").provenance
    assert provenance.command in "".join(reader.text)
    words = shlex.split(provenance.command)
    assert words[0] == "cuspfa"
    (table / "a b.html").unlink()
    assert run_program(words[1:]) == 0
    assert (table / "a b.html").read_text(encoding="utf-8") == text
    place: dict[str, Any] = {}
    code = python_recipe(provenance)
    assert "table = read_table('answers.csv', exclude=['x, y'])" in code
    exec(code, place)
    assert_array_equal(place["model"].loadings_, load(table / "a.cusp").rotated_solution.loadings)
    assert list(place["model"].feature_names_in_) == HOSTILE[:5]


def test_the_program_writes_a_page_on_a_saved_fit(table, capsys):
    assert (
        run_program(["fit", "answers.csv", "-o", "a.cusp", "--report", "now.html", "--quiet"]) == 0
    )
    assert run_program(["report", "a.cusp", "-o", "later.html"]) == 0
    now, later = (Reader((table / f"{one}.html").read_text("utf-8")) for one in ("now", "later"))
    assert now.numbers() == later.numbers()
    assert run_program(["report", "a.cusp", "-o", "b.html", "--title", "Mine & yours"]) == 0
    assert "Mine & yours" in Reader((table / "b.html").read_text("utf-8")).seen
    capsys.readouterr()


def test_mistakes_at_the_command_line(table, capsys):
    def message(*arguments):
        assert run_program(list(arguments)) == 2
        return capsys.readouterr().err

    assert run_program(["fit", "answers.csv", "-o", "a.cusp", "--quiet"]) == 0
    capsys.readouterr()
    assert "no directory" in message("fit", "answers.csv", "--report", "nowhere/a.html")
    assert "would be lost" in message("fit", "answers.csv", "--report", "answers.csv")
    assert "would be lost" in message("report", "a.cusp", "-o", "a.cusp")
    assert "has no scores" in message("report", "a.cusp", "-o", "a.html", "--scores")
    assert "no file" in message("report", "b.cusp", "-o", "a.html").lower()
    assert not (table / "a.html").exists()


def test_scores_that_were_saved_come_into_the_page_when_asked_for(table, capsys):
    rows = datasets.simulate(60, 6, 1, random_state=3).X
    model = CuspFactorAnalysis(random_state=0).fit(rows)
    model.posterior_.save("a.cusp", scores=model.transform(rows))
    assert run_program(["report", "a.cusp", "-o", "a.html"]) == 0
    assert Reader((table / "a.html").read_text("utf-8")).numbers()["scores"] is None
    assert run_program(["report", "a.cusp", "-o", "a.html", "--scores"]) == 0
    assert len(Reader((table / "a.html").read_text("utf-8")).numbers()["scores"]) == 60


def test_wording_stands_beside_names_and_options_are_not_broken(tmp_path):
    x = datasets.load_bfi(subset="items").data[:300, :10]
    names = [f"q{j}" for j in range(10)]
    posterior = posterior_of(x, names, n_factors=2)
    posterior = posterior.with_wording({name: f"Statement {name} & more" for name in names})
    posterior.report(tmp_path / "r.html", draws=posterior.draw(30, random_state=0, sweeps=0))
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    found = re.findall(r'<span class="item[^>]*><b>(q\d)</b> ([^<]*) <b>', text)
    assert len(found) == 8
    assert all(words == f"Statement {name} &amp; more" for name, words in found)
    communalities = text[text.index("<h3>Communalities</h3>") :]
    assert all(f"{name} Statement {name}" in communalities for name in names)
    assert page._tidy("at 5 % use --model-error auto & more") == (
        'at 5\N{NO-BREAK SPACE}% use <span class="option">--model-error</span> auto &amp; more'
    )
