"""Files of older versions of the format: golden files, read here without the library.

The literal numbers were written down from the files by `entries_of`, which knows zip, JSON and npy
and nothing else.
"""

import ast
import json
import shutil
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

import cuspfa
from cuspfa import CuspFactorAnalysis, Gibbs, Moments, datasets, load
from cuspfa.errors import InputError
from cuspfa.io.posterior_format import FIT_VERSION, check_entries
from cuspfa.posterior.files import POSTERIOR_CLASSES

GOLDEN = Path(__file__).parent / "golden"
X = datasets.simulate(150, 8, 2, random_state=1).X


def npy(data):
    """The array of an npy file, from its bytes."""
    assert data[:6] == b"\x93NUMPY"
    (length,) = struct.unpack("<H", data[8:10])
    about = ast.literal_eval(data[10 : 10 + length].decode("latin1"))
    values = np.frombuffer(data[10 + length :], dtype=about["descr"])
    shape = about["shape"]
    return values.reshape(shape[::-1]).T if about["fortran_order"] else values.reshape(shape)


def entries_of(path):
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        content = json.loads(archive.read("fit.json"))
        arrays = {name[:-4]: npy(archive.read(name)) for name in names if name.endswith(".npy")}
    return content, arrays


LITERALS = {
    "variational_1": {
        "center": (0.04527101418026438, -0.39194382127714944),
        "scale": (0.9467997852775314, 7.163736292989416),
        "statistics": (59.0, 197.03742501495924),
        "loadings_mean": (0.04247160615318991, 0.376143746843748),
        "noise_rate": (29.935968079484685, 127.57860386873722),
    },
    "gibbs_1": {
        "center": (0.04527101418026438, -0.39194382127714944),
        "statistics": (59.0, 197.03742501495924),
        "loadings": (-0.08890821097304384, 14.599640591843947),
        "noise_variance": (0.9010809516307026, 213.941684434769),
        "log_likelihood": (-475.12525550479506, -19049.263596105142),
    },
    "missing_1": {
        "center": (0.0812642113422907, -0.20780099407638616),
        "counts": (55.0, 323.0),
        "location": (-0.00143130352939219, -0.028475041583747095),
        "loadings_mean": (0.031000538618114207, 0.36104895389169556),
        "noise_rate": (27.503185759609753, 113.71083142692413),
    },
    "variational_2": {
        "center": (0.2388833333333333, 0.31123333333333325),
        "scale": (3.4234101795351126, 12.003024125248333),
        "statistics": (59.0, 194.32553470409454),
        "loadings_mean": (0.9471894881075054, 0.9314140231402621),
        "noise_rate": (1.304496236327423, 67.64371896043812),
    },
    "gibbs_2": {
        "center": (0.2388833333333333, 0.31123333333333325),
        "statistics": (59.0, 194.32553470409454),
        "loadings": (2.1516196064798847, 27.918881072342504),
        "noise_variance": (0.8750864339744233, 175.497904503516),
        "log_likelihood": (-417.43366693492646, -16762.050148718998),
    },
    "missing_2": {
        "center": (0.19477966101694916, 0.24261751412429378),
        "counts": (59.0, 358.0),
        "location": (-0.0006459091783950266, 0.00732477612848933),
        "loadings_mean": (0.9658140718707793, 0.3317519545019503),
        "noise_rate": (1.247995699588394, 109.65868220028419),
    },
    "variational_3": {
        "center": (0.2270124928728891, 0.31601814138055717),
        "scale": (3.1105166755613434, 11.08257019494313),
        "statistics": (59.0, 198.9515537138724),
        "loadings_mean": (0.9458497259035314, 0.8246955065356055),
        "noise_rate": (1.7912160293533652, 83.22508292557285),
    },
    "gibbs_3": {
        "center": (0.2270124928728891, 0.31601814138055717),
        "statistics": (59.0, 198.9515537138724),
        "loadings": (1.3891839010323657, 17.016366082962502),
        "noise_variance": (0.6563232708316769, 174.8001897780316),
        "log_likelihood": (-427.4820133691429, -17133.034739762865),
    },
    "missing_3": {
        "center": (0.2858454770593894, 0.5297221999157236),
        "counts": (59.0, 349.0),
        "location": (-0.015206002285987159, -0.07358755251445259),
        "loadings_mean": (0.9399047381975015, 0.7758848842904323),
        "noise_rate": (2.0030550768973514, 81.83850409257977),
    },
}
"""The first entry and the sum of each array."""


def values_of(posterior):
    """The same arrays, of a posterior."""
    found = {"center": posterior.center, "scale": posterior.scale}
    if posterior.statistics is not None:
        found["statistics"] = posterior.statistics.rows.T @ posterior.statistics.rows
    if posterior.kind == "gibbs":
        return found | {
            "loadings": posterior.loadings_draws,
            "noise_variance": posterior.noise_variance_draws,
            "log_likelihood": posterior.chain_log_likelihood,
        }
    if posterior.means is not None:
        found |= {"counts": posterior.means.counts, "location": posterior.means.location}
    return found | {
        "loadings_mean": posterior.loadings_distribution.mean,
        "noise_rate": posterior.noise_distribution.rate,
    }


@pytest.mark.parametrize("name", LITERALS)
def test_a_file_of_an_older_version_is_read(name):
    content, arrays = entries_of(GOLDEN / f"{name}.cusp")
    assert content["version"] == int(name[-1]) < FIT_VERSION
    assert ("model_error" in content) == (content["version"] >= 2)
    assert ("presentation" in content) == (content["version"] >= 3)
    assert "degrees_of_freedom" not in content
    posterior = load(GOLDEN / f"{name}.cusp")
    found = values_of(posterior)
    for key, (first, total) in LITERALS[name].items():
        assert arrays[key].flat[0] == first
        assert found[key].ravel()[0] == pytest.approx(first, rel=1e-12)
        assert found[key].sum() == pytest.approx(total, rel=1e-12)
        np.testing.assert_allclose(found[key].reshape(arrays[key].shape), arrays[key], rtol=1e-12)
    error = 0.05 if name == "variational_2" else 0.0
    assert posterior.model_error == error
    assert (posterior.population is None) == (error == 0.0)
    assert posterior.provenance.settings.model_error == error
    assert list(posterior.fit_info.model_errors) == []
    assert posterior.tails.are_normal
    assert posterior.row_weights is None
    assert posterior.provenance.settings.robust is False
    assert posterior.presentation.reversed_factors == ()
    if name == "variational_3":
        assert posterior.factor_names == ["One", "Two"]
        assert posterior.column_labels[0] == "First item"
    else:
        assert posterior.factor_names == [f"Factor {h}" for h in range(1, posterior.n_active + 1)]
    assert ("kinds" in content["provenance"]) == (content["version"] >= 3)
    assert posterior.provenance.kinds == () or content["version"] >= 3
    assert (posterior.summary(n_draws=20).kinds_text == "") == (posterior.provenance.kinds == ())


def test_labels_of_version_2_are_read():
    posterior = load(GOLDEN / "variational_2.cusp")
    assert posterior.column_labels == [f"Wording of item {j}" for j in range(1, 7)]
    assert posterior.value_labels == {"q1": {1.0: "never", 5.0: "always"}}
    other = posterior.with_wording({"q2": "Another"})  # of a user, before that of the file
    assert other.column_labels[:3] == ["Wording of item 1", "Another", "Wording of item 3"]


def test_a_model_of_version_1_gives_the_scores_of_its_file():
    path = GOLDEN / "variational_1.cusp"
    _, arrays = entries_of(path)
    model = CuspFactorAnalysis.from_posterior(load(path))
    assert model.model_error == 0.0
    assert model.model_error_ == 0.0
    # The data are not in the file, but scores are linear: those of rows at center ± scale e_j.
    rows = model.mean_ + np.diag(model.posterior_.scale)
    scores = model.transform(rows)
    loadings = model.components_.T
    omega = loadings @ loadings.T + np.diag(model.noise_variance_)
    np.testing.assert_allclose(
        scores, (rows - model.mean_) @ np.linalg.solve(omega, loadings), atol=1e-12
    )
    np.testing.assert_array_equal(cuspfa.posterior.load_scores(path), arrays["scores"])


@pytest.mark.parametrize("error", [0.05, "auto"])
def test_a_fit_with_model_error_is_written_and_read(tmp_path, error):
    model = CuspFactorAnalysis(model_error=error, n_factors=2, rotation="oblimin").fit(X)
    path = tmp_path / "fit.cusp"
    model.posterior_.save(path)
    content, _ = entries_of(path)
    assert content["version"] == FIT_VERSION
    assert content["model_error"] == model.model_error_
    assert content["provenance"]["settings"]["model_error"] == error
    again = CuspFactorAnalysis.from_posterior(load(path))
    assert again.model_error == error
    assert again.model_error_ == model.model_error_
    assert again.posterior_.fit_info.model_errors == model.posterior_.fit_info.model_errors
    assert (len(again.posterior_.fit_info.model_errors) > 0) == (error == "auto")
    new = X[:20].copy()
    new[0, 3] = np.nan
    np.testing.assert_array_equal(again.get_covariance(), model.get_covariance())
    np.testing.assert_array_equal(again.transform(new), model.transform(new))
    np.testing.assert_array_equal(again.score_samples(new), model.score_samples(new))
    for one in (1, 2):
        drawn = [
            each.posterior_.draw(5, random_state=one, population=True) for each in (model, again)
        ]
        np.testing.assert_array_equal(drawn[0].covariance, drawn[1].covariance)


def test_without_statistics_there_is_no_population(tmp_path):
    model = CuspFactorAnalysis(model_error=0.05, n_factors=2).fit(X)
    with pytest.raises(InputError, match="statistics must be True"):
        model.posterior_.save(tmp_path / "fit.cusp", statistics=False)
    assert not (tmp_path / "fit.cusp").exists()
    CuspFactorAnalysis(n_factors=2).fit(X).posterior_.save(tmp_path / "fit.cusp", statistics=False)


def test_a_wrong_model_error_in_a_file_is_refused(tmp_path):
    path = tmp_path / "fit.cusp"
    CuspFactorAnalysis(model_error=0.05, n_factors=2).fit(X).posterior_.save(path)
    content, _ = entries_of(path)
    for wrong in (-0.1, 1.5, "auto", None):
        bad = tmp_path / "bad.cusp"
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(bad, "w") as target:
            for item in source.infolist():
                data = source.read(item)
                if item.filename == "fit.json":
                    data = json.dumps({**content, "model_error": wrong}).encode()
                target.writestr(item.filename, data)
        with pytest.raises(cuspfa.errors.FileError):
            load(bad)


def test_what_was_read_in_version_1_is_completed(tmp_path):
    """Entries as version 1 had them, of a fit to a file."""
    path, saved = tmp_path / "t.csv", tmp_path / "t.cusp"
    lines = [",".join(f"{value:.3f}" for value in row) for row in X]
    path.write_text("\n".join([",".join("abcdefgh"), *lines]))
    table = cuspfa.read_table(path, missing=-99)
    CuspFactorAnalysis(n_factors=1).fit(table).posterior_.save(saved)
    content, _ = entries_of(saved)
    now = check_entries(json.dumps(content).encode(), POSTERIOR_CLASSES)["provenance"].data
    content["version"] = 1
    del content["presentation"]
    del content["model_error"], content["provenance"]["settings"]["model_error"]
    for part in (content, *content.get("parts", [])):
        if part.get("fit_info"):
            del part["fit_info"]["model_errors"]
    data = content["provenance"]["data"]
    for name in ("labels", "answers"):
        del data[name]
    for name in ("sheet", "order", "n", "means", "sds"):
        del data["options"][name]
    assert check_entries(json.dumps(content).encode(), POSTERIOR_CLASSES)["provenance"].data == now


# --- moments and checkpoints ---


HALF = np.array([[(i * (j + 2) + i // (j + 1)) % 5 - 2.0 for j in range(6)] for i in range(30)])
WHOLE_NUMBERS = np.vstack([HALF, -HALF])
"""Means are 0 and sums whole numbers, so that they are the same with every BLAS."""


def test_moments_of_version_1_are_read():
    path = GOLDEN / "moments_1.cusp"
    with zipfile.ZipFile(path) as archive:
        assert {"mean.npy", "cross_products.npy"} < set(archive.namelist())
        stored = npy(archive.read("cross_products.npy"))
    rows = WHOLE_NUMBERS[:, :4]
    np.testing.assert_array_equal(stored, rows.T @ rows)
    moments = Moments.load(path)
    assert (moments.n, moments.names) == (60, ["a", "b", "c", "d"])
    np.testing.assert_allclose(moments.covariance * (60 - 1), stored, rtol=1e-14)
    both = moments + Moments.from_rows(rows + 1.0, names=["a", "b", "c", "d"])
    assert both.n == 120
    np.testing.assert_allclose(both.mean, 0.5, rtol=1e-14)


@pytest.mark.filterwarnings("ignore:R-hat")  # of so few draws
def test_chains_of_version_1_go_on(tmp_path):
    def posterior(n_draws):
        method = Gibbs(
            n_draws=n_draws,
            n_chains=2,
            burn_in=40,
            start_adapt=20,
            thin=1,
            checkpoint_dir=tmp_path / "chains",
        )
        model = CuspFactorAnalysis(standardize=False, method=method, random_state=0)
        return model.fit(WHOLE_NUMBERS).posterior_

    shutil.copytree(GOLDEN / "chains_1", tmp_path / "chains")
    read = posterior(20).noise_variance_draws
    assert read[0, 0] == 1.3644515092063707
    assert read.sum() == pytest.approx(404.10010811137613, rel=1e-14)
    longer = posterior(30).noise_variance_draws.reshape(2, 30, 6)
    np.testing.assert_array_equal(longer[:, :20], read.reshape(2, 20, 6))
    assert not np.any(longer[:, 20:] == longer[:, 19:29])
