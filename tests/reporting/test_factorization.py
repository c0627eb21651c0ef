"""Summary, JSON, methods and report of a fit to counts."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from cuspfa import CuspPoissonFactorization
from cuspfa.posterior.factorization_results import CountSearchEntry, CountSearchPath
from cuspfa.reporting.factorization_methods import count_again, count_paragraph, count_references
from cuspfa.reporting.factorization_summary import search_text

RNG = np.random.default_rng(8)
SHARES = np.array([[6.0, 3, 1, 0, 0, 0], [0, 0, 0, 1, 2, 7]])
X = RNG.poisson(RNG.gamma(1.0, 2.0, (80, 2)) @ SHARES)
HOSTILE = ["<script>alert(1)</script>", "a" * 60, "c", "d", "e\x07", "漢字漢字"]


@pytest.fixture(scope="module")
def posterior():
    import pandas as pd

    frame = pd.DataFrame(X, columns=HOSTILE)
    return CuspPoissonFactorization(n_factors=2, random_state=0).fit(frame).posterior_


def test_the_summary_is_at_most_80_wide_and_has_the_true_shares(posterior):
    found = posterior.summary()
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "2 factors asked for"
    zeros = 100 * np.mean(X == 0)
    assert f"80 rows, 6 columns, {X.sum():,} events; {zeros:.0f} % of the cells" in " ".join(lines)
    for one in found.factors:
        assert one.lower < one.share < one.upper
        names = [item.name for item in one.items[:3]]
        h = 0 if HOSTILE[0] in names else 1
        order = np.argsort(-SHARES[h])[:3]
        assert names == [HOSTILE[j] for j in order]
        for item, j in zip(one.items[:3], order, strict=True):
            assert item.share == pytest.approx(SHARES[h, j] / SHARES[h].sum(), abs=0.07)
            assert item.lower < item.share < item.upper
            assert item.of_column > 0.9  # each column is in one factor
    assert sum(one.share for one in found.factors) == pytest.approx(1, abs=0.01)


def test_json_has_no_nan_once_written(posterior):
    found = posterior.to_dict(n_draws=20)
    assert found["n_factors"] == 2
    assert np.shape(found["loadings"]) == (2, 6)
    assert found["n_draws"] == 20
    assert json.loads(json.dumps(found))["columns"] == HOSTILE


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.elements, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.seen.append(data)


def test_the_report_is_one_page_without_scripts(posterior, tmp_path):
    path = tmp_path / "report.html"
    posterior.report(path, title="Words <b>")
    text = path.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    assert not [one for one in reader.elements if one[0] == "script"]
    assert HOSTILE[0] in reader.seen
    for _, attributes in reader.elements:
        assert not re.match("https?:", str(attributes.get("src", attributes.get("href", ""))))
    joined = " ".join(" ".join(reader.seen).split())
    summary = posterior.summary()
    assert summary.dispersion_text.replace(" %", "\N{NO-BREAK SPACE}%") in joined
    assert "The model is Poisson factorization" in joined
    assert "The number of factors was given." in joined
    posterior.report(path, title="Words <b>")
    assert path.read_text(encoding="utf-8") == text


def test_the_report_shows_the_search(tmp_path):
    fitted = CuspPoissonFactorization(random_state=0).fit(X)
    fitted.posterior_.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Data thinning" in text
    assert "2 (chosen)" in text
    assert search_text(fitted.search_, 2) in " ".join(text.split())


def test_the_search_is_told_in_words():
    nan = float("nan")
    path = CountSearchPath(
        [
            CountSearchEntry(1, -10.0, nan, nan, nan, 3, "converged"),
            CountSearchEntry(2, -9.0, 12.34, 0.5, nan, 3, "converged"),
            CountSearchEntry(3, -9.5, -3.21, 0.5, 1.25, 3, "converged"),
        ]
    )
    assert search_text(path, 2) == (
        "Number of factors: the last factor raises the log evidence by 12.3 ± 0.5 nats; the next "
        "factor raises the log-likelihood of events held out by 1.2 nats and lowers the log "
        "evidence by 3.2 ± 0.5 nats."
    )
    bare = CountSearchPath([one._replace(evidence_gain=nan, held_out_gain=nan) for one in path])
    assert "by the bound alone" in search_text(bare, 2)
    assert search_text(CountSearchPath(path[:1]), 1) == ""


def test_methods_can_be_repeated_and_cited(posterior):
    text = count_paragraph(posterior)
    assert "80 rows and 6 columns" in text
    assert "α = 5" in text
    code = dict(count_again(posterior))["Python"]
    scope = {"X": X}
    exec(code.replace("model.posterior_.report", "# "), scope)
    np.testing.assert_allclose(scope["model"].components_, posterior.components, rtol=1e-9)
    keys = [one.key for one in count_references(posterior)]
    assert keys == ["cuspfa", "legramanti2020cumulative", "gopalan2015scalable"]


def test_overdispersed_counts_are_told():
    x = RNG.poisson(5.0 * RNG.gamma(0.5, 2.0, (80, 6)))
    found = CuspPoissonFactorization(n_factors=1, random_state=0).fit(x).posterior_.summary()
    assert found.dispersion > 1.5
    assert "upper limit" in found.dispersion_text
    assert len(found.most_dispersed) >= 4
