"""Names and signs of factors, and the wording of variables, wherever these are shown."""

import json

import numpy as np
import pytest

import cuspfa
from cuspfa import CuspFactorAnalysis, datasets, load
from cuspfa.errors import CuspWarning, DataError, FileError, InputError

BFI = datasets.load_bfi(subset="paper", as_frame=True).data[
    ["N1", "N2", "N3", "N4", "C1", "C2", "C3", "C4"]
]
NAMES = ["Neuroticism", "Conscientiousness"]


@pytest.fixture(scope="module")
def model():
    return CuspFactorAnalysis(n_factors=2, rotation="oblimin").fit(BFI)


@pytest.fixture(scope="module", params=["oblimin", None])
def either(request):
    return CuspFactorAnalysis(n_factors=2, rotation=request.param).fit(BFI)


def test_names_stand_in_tables(model):
    posterior = model.posterior_.with_factor_names(NAMES)
    assert posterior.factor_names == NAMES
    assert model.posterior_.factor_names == ["Factor 1", "Factor 2"]  # it is not changed
    assert list(posterior.to_frame().columns) == ["variable", *NAMES, "communality"]
    aligned = posterior.align(n_draws=20)
    assert aligned.table().to_frame()["factor"].tolist() == NAMES * 8
    assert posterior.align("varimax", n_draws=20).table().factor_names == ()
    named = posterior.interval("explained_variance_ratio", n_draws=20)
    assert named.names == NAMES
    again = CuspFactorAnalysis.from_posterior(posterior).set_output(transform="pandas")
    assert list(again.transform(BFI).columns) == NAMES
    assert [one["name"] for one in posterior.to_dict(n_draws=20)["factors"]] == NAMES
    assert [one["name"] for one in model.posterior_.to_dict(n_draws=20)["factors"]] == [None] * 2
    assert "  Conscientiousness: C4 +0." in str(posterior.summary(n_draws=20))
    assert all(len(line) <= 80 for line in str(posterior.summary(n_draws=20)).splitlines())
    assert "Neuroticism" in posterior._repr_html_()
    assert posterior.with_factor_names(None).factor_names == ["Factor 1", "Factor 2"]


def test_a_reversed_factor_describes_the_same_data(either):
    """Everything that depends on signs changes them; covariance, shares and communality stay."""
    posterior = either.posterior_
    other = posterior.with_reversed_factors(2)
    sign = np.array([1.0, -1.0])
    one, two = posterior.rotated_solution, other.rotated_solution
    np.testing.assert_array_equal(two.loadings, one.loadings * sign)
    np.testing.assert_array_equal(two.correlations, one.correlations * np.outer(sign, sign))
    np.testing.assert_allclose(
        two.loadings @ two.correlations @ two.loadings.T,
        one.loadings @ one.correlations @ one.loadings.T,
        atol=1e-12,
    )
    np.testing.assert_array_equal(other.covariance, posterior.covariance)
    np.testing.assert_allclose(other.explained_variance_ratio, posterior.explained_variance_ratio)
    draws = posterior.draw(60)
    before, after = (each.align(draws=draws) for each in (posterior, other))
    np.testing.assert_allclose(after.loadings, before.loadings * sign, atol=1e-9)
    np.testing.assert_allclose(after.table().lower[:, 1], -before.table().upper[:, 1], atol=1e-6)
    np.testing.assert_allclose(
        after.factor_correlations[:, 0, 1], -before.factor_correlations[:, 0, 1], atol=1e-9
    )
    again = CuspFactorAnalysis.from_posterior(other)
    np.testing.assert_allclose(again.transform(BFI), either.transform(BFI) * sign, atol=1e-9)
    np.testing.assert_allclose(
        again.inverse_transform(again.transform(BFI)),
        either.inverse_transform(either.transform(BFI)),
        atol=1e-9,
    )
    np.testing.assert_array_equal(again.score_samples(BFI), either.score_samples(BFI))
    restored = other.with_reversed_factors([2])
    np.testing.assert_array_equal(restored.rotated_solution.loadings, one.loadings)
    assert other.to_dict(n_draws=20)["reversed_factors"] == [2]


def test_factors_are_reversed_by_name(model):
    named = model.posterior_.with_factor_names(NAMES)
    assert named.with_reversed_factors("neuroticism").presentation.reversed_factors == (1,)
    assert named.with_reversed_factors(["2", 1]).presentation.reversed_factors == (1, 2)


def test_what_was_computed_is_kept(model):
    """The curve takes longer than the fit, and does not depend on names."""
    curve = model.posterior_.model_error_curve
    assert model.posterior_.with_factor_names(NAMES).model_error_curve is curve


def test_wording(model, tmp_path):
    posterior = model.posterior_.with_wording({"N1": "Get angry\n easily.", "C4": "Do things"})
    assert posterior.column_labels == ["Get angry easily.", *[""] * 6, "Do things"]
    frame = posterior.to_frame()
    assert frame.loc[0, "label"] == "Get angry easily."
    assert "label" not in model.posterior_.to_frame()
    assert posterior.to_dict(n_draws=20)["labels"][:2] == ["Get angry easily.", None]
    more = posterior.with_wording({"N2": "Get irritated"})
    assert more.column_labels[:2] == ["Get angry easily.", "Get irritated"]


@pytest.mark.parametrize(
    "text",
    [
        'item,wording\nN1,"Get angry, easily"\n',
        "N1;Get angry, easily\nC1;Do my work",
        "N1\tGet angry, easily\nC1\tDo my work",
        "N1,Get angry, easily\nC1,Do my work",  # without quotes
        'N1,"Get angry, easily",5\nC1,Do my work,6',  # more columns
    ],
)
def test_wording_of_files(model, tmp_path, text):
    path = tmp_path / "items.csv"
    path.write_text(text, encoding="utf-8-sig")
    posterior = model.posterior_.with_wording(path)
    assert posterior.column_labels[0] == "Get angry, easily"


def test_names_of_a_file_that_are_no_columns_are_told(model, tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("Q8,unknown\nN1,Get angry\nQ9,unknown\nC9\n")
    with pytest.warns(CuspWarning, match="not columns of the fit: 'Q8', 'Q9', 'C9'.$"):
        posterior = model.posterior_.with_wording(path)
    assert posterior.column_labels[0] == "Get angry"


def test_wording_of_a_workbook(model, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["name", "text"], ["N1", "Get angry, easily"], ["C2", "Continue"]):
        book.active.append(row)
    book.save(tmp_path / "items.xlsx")
    labels = model.posterior_.with_wording(tmp_path / "items.xlsx").column_labels
    assert (labels[0], labels[5]) == ("Get angry, easily", "Continue")


def test_wrong_wording_is_refused(model, tmp_path):
    path = tmp_path / "items.csv"
    for text, said in (
        ("a,b\nc,d\n", "a text for none of the columns N1, N2"),
        ("N1,one text\nN1,another\n", "two texts for 'N1'"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=said):
            model.posterior_.with_wording(path)
    with pytest.raises(InputError, match="no column 'n1'. Did you mean 'N1'"):
        model.posterior_.with_wording({"n1": "x"})
    with pytest.raises(InputError, match="wording must be"):
        model.posterior_.with_wording(["x"])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["A"], "as many as there are factors, 2. Got 1 name instead: 'A'"),
        (["A", "a"], "all different"),
        (["A", " \n"], "not empty"),
        (["A", 3], "texts"),
        ("AB", "a list of names"),
        (["A", "Communality"], "none of variable"),
    ],
)
def test_wrong_names_are_refused(model, names, said):
    with pytest.raises(InputError, match=said):
        model.posterior_.with_factor_names(names)


@pytest.mark.parametrize("factors", [0, 3, "Openness", [1, 4], 1.5, True])
def test_wrong_factors_are_refused(model, factors):
    with pytest.raises(InputError, match="a number from 1 to 2"):
        model.posterior_.with_reversed_factors(factors)


@pytest.mark.parametrize("method", ["variational", cuspfa.Gibbs(n_draws=200, n_chains=2)])
def test_files_keep_them(tmp_path, method):
    posterior = CuspFactorAnalysis(n_factors=2, method=method, random_state=0).fit(BFI).posterior_
    shown = posterior.with_factor_names(NAMES).with_reversed_factors(1)
    shown = shown.with_wording({"N1": "Get angry easily."})
    shown.save(tmp_path / "fit.cusp")
    again = load(tmp_path / "fit.cusp")
    assert again.presentation == shown.presentation
    np.testing.assert_array_equal(again.rotated_solution.loadings, shown.rotated_solution.loadings)
    assert json.dumps(again.to_dict(n_draws=20)) == json.dumps(shown.to_dict(n_draws=20))


def test_contradictions_in_files_are_refused(model, tmp_path, rewritten):
    path = tmp_path / "fit.cusp"
    model.posterior_.save(path)
    plain: dict[str, list[str]] = {"factor_names": [], "reversed_factors": [], "wording": []}
    for wrong in (
        {"factor_names": ["A"]},
        {"factor_names": ["A", ""]},
        {"reversed_factors": [3]},
        {"reversed_factors": [1, 1]},
        {"reversed_factors": ["1"]},
        {"wording": [["N1", "x"]]},
        {"more": 1},
    ):
        rewritten(path, tmp_path / "bad.cusp", {"presentation": {**plain, **wrong}})
        with pytest.raises(FileError, match="is damaged"):
            load(tmp_path / "bad.cusp")


@pytest.fixture
def rewritten():
    import zipfile

    def rewrite(path, target, entries):
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as written:
            for item in source.infolist():
                data = source.read(item)
                if item.filename == "fit.json":
                    data = json.dumps({**json.loads(data), **entries}).encode()
                written.writestr(item.filename, data)

    return rewrite
