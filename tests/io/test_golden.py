"""Files of each release are read, and the models in them answer as they did."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import golden_files
from cuspfa import CuspFactorAnalysis, CuspPoissonFactorization, Moments, load
from golden_files import CHAIN_DRAWS, FITS, GOLDEN, NAMES, answered, chains, whole

RELEASES = sorted(path.parent for path in GOLDEN.glob("*/expected.json"))
FILES = [path for folder in RELEASES for path in sorted(folder.glob("*.cusp"))]


def expected(folder, name):
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))[name]


def same(found, wanted):
    """Are numbers equal to four digits, and all else exactly?"""
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        if isinstance(value, list) and not isinstance(value[0], str):
            np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-6, err_msg=key)
        else:
            assert found[key] == value, key


def test_there_are_files_of_the_first_release():
    (first, *_) = RELEASES
    assert first.name == "0.2.0"
    names = {path.stem for path in FILES if path.parent == first}
    assert names == {"moments"} | {
        *("gaussian", "model_error", "missing", "robust", "gibbs", "gibbs_missing"),
        *("ordinal", "mixed", "ordinal_gibbs", "counts"),
    }


@pytest.mark.parametrize(
    "path",
    [one for one in FILES if one.stem != "moments"],
    ids=lambda p: f"{p.parent.name}-{p.stem}",
)
def test_a_fit_answers_as_it_did(path):
    _, values = FITS[path.stem]
    posterior = load(path)
    kind = CuspPoissonFactorization if path.stem == "counts" else CuspFactorAnalysis
    found = answered(kind.from_posterior(posterior), pd.DataFrame(values, columns=NAMES))
    same(found, expected(path.parent, path.stem))
    posterior.summary()
    posterior.to_dict()


def test_other_numbers_are_noticed():
    wanted = expected(RELEASES[0], "gaussian")
    for change in ({"scores": [[0.0, 0.0]] * 5}, {"n_active": 3}, {"factors": ["One", "Two"]}):
        with pytest.raises(AssertionError):
            same(wanted | change, wanted)


@pytest.mark.parametrize("folder", RELEASES, ids=lambda path: path.name)
def test_moments_add_up(folder):
    moments = Moments.load(folder / "moments.cusp")
    assert moments.names == NAMES
    np.testing.assert_allclose(moments.covariance * 59, whole().T @ whole(), rtol=1e-14)
    assert (moments + Moments.from_rows(whole(), names=NAMES)).n == 120


@pytest.mark.filterwarnings("ignore:R-hat")  # of so few draws
@pytest.mark.parametrize("folder", RELEASES, ids=lambda path: path.name)
def test_chains_go_on(folder, tmp_path):
    shutil.copytree(folder / "chains", tmp_path / "chains")
    wanted = expected(folder, "chains")["noise_variance"]
    longer = chains(tmp_path / "chains", CHAIN_DRAWS + 5)
    np.testing.assert_array_equal(longer[:, :CHAIN_DRAWS], wanted)


def test_files_of_a_release_are_not_replaced():
    with pytest.raises(SystemExit, match="never replaced"):
        golden_files.main()
