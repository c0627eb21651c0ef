"""One set of axes everywhere: attributes, scores, files, figures and the program."""

import contextlib
import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from cuspfa import (
    CuspFactorAnalysis,
    Rotation,
    check_assumptions,
    datasets,
    fit_indices,
    load,
    plots,
    rotate,
    select_n_factors,
)
from cuspfa.cli.app import run_program
from cuspfa.errors import FileError, InputError
from cuspfa.io import posterior_format
from cuspfa.posterior.files import POSTERIOR_CLASSES

METHODS = ["varimax", "oblimin", "promax", "geomin"]
SIM = datasets.simulate(200, 9, 3, random_state=4)
X = SIM.X * np.geomspace(0.1, 100.0, 9) + 5.0
NAMES = [f"item {j}" for j in range(9)]


def fit(rotation, X=X):
    return CuspFactorAnalysis(n_factors=3, rotation=rotation).fit(X)


@pytest.fixture(scope="module")
def plain():
    return fit(None)


@pytest.fixture(scope="module", params=METHODS)
def model(request):
    return fit(request.param)


def test_without_a_rotation_all_is_as_it_was(plain):
    for matrix in (plain.factor_correlations_, plain.rotation_matrix_):
        np.testing.assert_array_equal(matrix, np.eye(3))
    np.testing.assert_array_equal(plain.structure_, plain.loadings_)
    inner = plain.loadings_.T @ plain.loadings_
    assert_allclose(inner, np.diag(np.diag(inner)), atol=1e-10)


def test_loadings_are_the_rotation_of_principal_axes(plain, model):
    found = rotate(plain.loadings_, model.rotation)
    assert_allclose(model.loadings_, found.loadings, atol=1e-7)
    assert_allclose(model.loadings_ @ model.rotation_matrix_.T, plain.loadings_, atol=1e-10)
    turn = model.rotation_matrix_
    assert_allclose(turn.T @ turn, model.factor_correlations_, atol=1e-10)
    assert np.abs(model.loadings_ - plain.loadings_).max() > 0.1


def test_structure_is_the_pattern_times_the_correlations(model):
    assert np.array_equal(model.structure_, model.loadings_ @ model.factor_correlations_)
    if model.rotation == "varimax":
        np.testing.assert_array_equal(model.factor_correlations_, np.eye(3))
    else:
        assert np.abs(model.factor_correlations_ - np.eye(3)).max() > 0.02


def test_structure_holds_the_correlations_of_samples(model):
    # Of many new rows with their factors: the covariance of y with f is ΛΦ.
    rng = np.random.default_rng(0)
    f = rng.multivariate_normal(np.zeros(3), model.factor_correlations_, size=100_000)
    y = f @ model.components_ + rng.normal(size=(100_000, 9)) * np.sqrt(model.noise_variance_)
    found = np.corrcoef(np.hstack([y, f]), rowvar=False)
    assert_allclose(found[:9, 9:], model.structure_, atol=0.015)
    sd = np.sqrt(np.diag(model.get_covariance()))
    assert_allclose(found[:9, :9], model.get_covariance() / sd / sd[:, None], atol=0.015)


def test_scores_are_those_of_conditioning_a_joint_normal(model):
    """E[f | y] and its covariance from the joint covariance of rows and factors."""
    pattern, phi = model.components_.T, model.factor_correlations_
    omega = pattern @ phi @ pattern.T + np.diag(model.noise_variance_)
    assert_allclose(omega, model.get_covariance(), rtol=1e-9)
    weights = np.linalg.solve(omega, pattern @ phi)
    assert_allclose(model.transform(X), (X - X.mean(axis=0)) @ weights, atol=1e-9)
    scores = model.factor_scores(X)
    assert_allclose(scores.covariance, phi - (pattern @ phi).T @ weights, atol=1e-9)
    assert_allclose(scores.mean, model.transform(X))


def test_what_does_not_depend_on_axes(plain, model):
    assert_allclose(model.get_covariance(), plain.get_covariance(), rtol=1e-9)
    assert_allclose(model.get_precision(), plain.get_precision(), rtol=1e-8, atol=1e-12)
    assert_allclose(model.score_samples(X), plain.score_samples(X), rtol=1e-9)
    there = model.inverse_transform(model.transform(X))
    assert_allclose(there, plain.inverse_transform(plain.transform(X)), rtol=1e-9)
    assert_allclose(model.transform(X), plain.transform(X) @ model.rotation_matrix_, atol=1e-9)
    assert_allclose(model.sample(5, random_state=0).shape, plain.sample(5, random_state=0).shape)
    assert list(model.get_feature_names_out()) == ["factor1", "factor2", "factor3"]


def test_units_do_not_change_the_axes(model):
    other = fit(model.rotation, SIM.X)
    assert_allclose(other.loadings_, model.loadings_, atol=1e-6)
    assert_allclose(other.transform(SIM.X), model.transform(X), atol=1e-6)


def test_sparse_rows_and_frames(model):
    from scipy.sparse import csr_matrix

    assert_allclose(model.transform(csr_matrix(X)), model.transform(X), atol=1e-9)
    frame = pd.DataFrame(X, columns=NAMES)
    named = fit("oblimin", frame).set_output(transform="pandas")
    assert list(named.transform(frame).columns) == ["factor1", "factor2", "factor3"]


def test_scikit_learn_can_copy_and_set_it():
    settings = Rotation("target", target=np.eye(3)[[0, 0, 0, 1, 1, 1, 2, 2, 2]])
    copy = clone(CuspFactorAnalysis(n_factors=3, rotation=settings))
    assert copy.rotation == settings
    assert copy.set_params(rotation="varimax").fit(X).posterior_.rotation == Rotation("varimax")


def test_bad_rotations_are_refused_before_the_fit():
    with pytest.raises(InputError, match="'rotation' parameter"):
        fit("infomax")
    with pytest.raises(InputError, match="'rotation' parameter"):
        fit("target")
    target = Rotation("target", target=np.zeros((9, 2)))
    with pytest.raises(InputError, match="of 9 rows.*Got '9 × 2 with n_factors=3'"):
        fit(target)
    with pytest.raises(InputError, match="n_factors='auto'"):
        CuspFactorAnalysis(rotation=target).fit(X)


def test_how_many_and_misfit_do_not_depend_on_axes():
    small = SIM.X[:80]
    found = [
        select_n_factors(CuspFactorAnalysis(rotation=one), small, n_folds=2, n_splits=2)
        for one in (None, "oblimin")
    ]
    assert str(found[0]) == str(found[1])
    models = [CuspFactorAnalysis(rotation=one).fit(small) for one in (None, "oblimin")]
    assert check_assumptions(models[0], small) == check_assumptions(models[1], small)


@pytest.mark.parametrize("k", [0, 1])
def test_few_factors(k):
    found = CuspFactorAnalysis(n_factors=k, rotation="oblimin").fit(X)
    assert found.factor_correlations_.shape == (k, k)
    assert found.transform(X).shape == (len(X), k)
    assert found.posterior_.align(n_draws=20).table().mean.shape == (9, k)


def test_determinacy_of_correlated_factors(model):
    pattern, phi = model.loadings_, model.factor_correlations_
    noise = 1 - np.sum(pattern * model.structure_, axis=1)
    omega = pattern @ phi @ pattern.T + np.diag(noise)
    literal = np.sqrt(np.diag(model.structure_.T @ np.linalg.solve(omega, model.structure_)))
    found = fit_indices.determinacy(pattern, noise, factor_correlations=phi)
    assert_allclose(found, literal, rtol=1e-9)
    if model.rotation != "varimax":
        assert np.abs(fit_indices.determinacy(pattern, noise) - literal).max() > 1e-3
    with pytest.raises(InputError, match="factor_correlations must be of 3 factors"):
        fit_indices.determinacy(pattern, noise, factor_correlations=np.eye(2))


def test_summary_and_json_are_of_the_rotated_factors(model):
    content = model.posterior_.to_dict(n_draws=100)
    assert content["rotation"] == model.rotation
    assert_allclose(content["loadings"], model.loadings_)
    assert_allclose(content["factor_correlations"], model.factor_correlations_)
    lower, upper = np.array(content["loadings_interval"])
    assert np.mean((lower < model.loadings_) & (model.loadings_ < upper)) > 0.9
    json.dumps(content, allow_nan=False)
    shares = [factor["share"] for factor in content["factors"]]
    strength = np.sum(model.loadings_ * model.structure_, axis=0) / 9
    assert_allclose(shares, strength, atol=0.02)
    # What is counted are the factors in the table.
    assert content["n_large_factors"] == sum(share > 0.03 for share in shares)


@pytest.mark.parametrize(
    "rotation",
    [
        "oblimin",
        Rotation("geomin", oblique=False, normalize=True, delta=0.02, n_starts=3),
        Rotation("target", target=np.where(np.arange(27).reshape(9, 3) % 4, 0.0, np.nan)),
    ],
)
def test_a_saved_fit_keeps_its_axes(rotation, tmp_path):
    model = fit(rotation)
    model.posterior_.save(tmp_path / "fit.cusp")
    again = load(tmp_path / "fit.cusp")
    assert again.rotation == model.posterior_.rotation
    np.testing.assert_array_equal(again.rotated_solution.loadings, model.loadings_)
    np.testing.assert_array_equal(again.components, model.components_)


def test_a_changed_rotation_in_a_file_is_refused(tmp_path):
    fit(None).posterior_.save(tmp_path / "fit.cusp")
    with zipfile.ZipFile(tmp_path / "fit.cusp") as file:
        content = json.loads(file.read("fit.json"))
    assert content["rotation"] is None
    posterior_format.check_entries(json.dumps(content).encode(), POSTERIOR_CLASSES)
    without = {key: value for key, value in content.items() if key != "rotation"}
    for wrong in (content | {"rotation": {"method": "infomax"}}, without):
        with pytest.raises(FileError, match="damaged"):
            posterior_format.check_entries(json.dumps(wrong).encode(), POSTERIOR_CLASSES)


def test_the_program_means_the_same_factors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(X, columns=NAMES).to_csv("data.csv", index=False)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        words = ["fit", "data.csv", "--factors", "3", "--rotation", "oblimin", "-o", "fit.cusp"]
        assert run_program(words) == 0
        assert run_program(["scores", "fit.cusp", "data.csv", "-o", "scores.csv"]) == 0
    model = CuspFactorAnalysis(n_factors=3, rotation="oblimin", random_state=0)
    model.fit(pd.read_csv("data.csv"))
    assert_allclose(pd.read_csv("scores.csv"), model.transform(pd.read_csv("data.csv")), atol=1e-5)
    text = out.getvalue()
    assert "Loadings (oblimin, correlation scale)" in text
    block = text[text.index("Correlations of the factors:") :].splitlines()[2:5]
    assert_allclose(float(block[2].split()[1]), model.factor_correlations_[2, 0], atol=0.0051)
    with contextlib.redirect_stderr(io.StringIO()) as err:
        assert run_program(["fit", "data.csv", "--rotation", "infomax"]) == 2
    assert "rotation" in err.getvalue()


def test_figures_show_the_rotated_factors(model):
    import matplotlib.pyplot as plt

    ax = plots.plot_loadings(model.posterior_)
    assert ax.get_xlabel() == f"factor ({model.rotation})"
    assert_allclose(np.sort(ax.images[0].get_array().ravel()), np.sort(model.loadings_.ravel()))
    forest = plots.plot_forest(model.posterior_, 2, n_draws=50)
    (points,) = (one for one in forest.collections if not hasattr(one, "get_segments"))
    assert_allclose(np.asarray(points.get_offsets())[:, 0], np.sort(model.loadings_[:, 1])[::-1])
    axes = plots.plot_correlation(model.posterior_)
    fitted = axes[1].images[0].get_array()
    sd = np.sqrt(np.diag(model.get_covariance()))
    expected = model.get_covariance() / sd / sd[:, None]
    assert_allclose(np.sort(np.ravel(fitted)), np.sort(expected.ravel()), atol=1e-9)
    plt.close("all")


def test_rows_with_missing_values_have_scores_on_the_same_axes(model):
    """By conditioning the joint normal on the columns that a row shows."""
    incomplete = X[:6].copy()
    incomplete[0, :3] = incomplete[1, 4] = incomplete[2, [0, 8]] = np.nan
    found = model.factor_scores(incomplete)
    pattern, phi = model.components_.T, model.factor_correlations_
    for row, mean, covariance in zip(incomplete, found.mean, found.covariance, strict=True):
        seen = ~np.isnan(row)
        own = pattern[seen]
        omega = own @ phi @ own.T + np.diag(model.noise_variance_[seen])
        weights = np.linalg.solve(omega, own @ phi)
        assert_allclose(mean, (row - model.mean_)[seen] @ weights, atol=1e-9)
        assert_allclose(covariance, phi - (own @ phi).T @ weights, atol=1e-9)
    assert_allclose(model.transform(incomplete), found.mean)
    plain = fit(None)
    assert_allclose(model.impute(incomplete), plain.impute(incomplete), rtol=1e-9)
    assert_allclose(model.score_samples(incomplete), plain.score_samples(incomplete), rtol=1e-9)
