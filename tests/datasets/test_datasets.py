import gzip
import hashlib
from dataclasses import FrozenInstanceError
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from cuspfa import datasets
from cuspfa.datasets import load_bfi, simulate
from cuspfa.errors import DataError, InputError
from support import run_python

DESIGNS = ["dense", "laplace", "sparse", "falling"]
ITEMS = [f"{trait}{i}" for trait in "ACENO" for i in range(1, 6)]
REVERSED = ["A1", "C4", "C5", "E1", "E2", "O2", "O5"]


def test_bfi_full():
    bfi = load_bfi()
    assert bfi.data.shape == (2800, 28)
    assert bfi.data.dtype == np.float64
    assert bfi.feature_names == [*ITEMS, "gender", "education", "age"]
    assert bfi.frame is None
    assert "psych" in bfi.DESCR
    assert "GPL" in bfi.DESCR
    # The first person in the R data set.
    first = [2, 4, 3, 4, 4, 2, 3, 3, 4, 4, 3, 3, 3, 4, 4, 3, 4, 2, 2, 3, 3, 6, 3, 4, 3]
    np.testing.assert_array_equal(bfi.data[0], [*first, 1, np.nan, 16])
    assert np.isnan(bfi.data[:, 26]).sum() == 223
    assert not np.isnan(bfi.data[:, [25, 27]]).any()


def test_bfi_file_is_the_one_described():
    content = (files("cuspfa") / "datasets" / "_bfi.csv.gz").read_bytes()
    assert hashlib.sha256(gzip.decompress(content)).hexdigest() in load_bfi().DESCR
    assert content[4:8] == bytes(4)  # no time stamp


def test_bfi_items():
    items = load_bfi(subset="items")
    assert items.feature_names == ITEMS
    assert items.data.shape == (2800, 25)
    assert np.isnan(items.data).sum() == 508
    answers = items.data[~np.isnan(items.data)]
    np.testing.assert_array_equal(np.unique(answers), np.arange(1, 7))


def test_bfi_paper():
    paper = load_bfi(subset="paper")
    assert paper.data.shape == (126, 25)
    assert paper.feature_names == ITEMS
    full = load_bfi().data
    rows = [row for row in full if not np.isnan(row).any() and row[27] > 50]
    raw = np.array(rows)[:, :25]
    # A changed sign, once centred, is the reverse scoring 7 - answer of the 1-to-6 scale.
    for j, name in enumerate(ITEMS):
        scored = 7 - raw[:, j] if name in REVERSED else raw[:, j]
        np.testing.assert_allclose(paper.data[:, j], scored - scored.mean(), atol=1e-12)
    np.testing.assert_allclose(paper.data.mean(axis=0), 0, atol=1e-13)


def test_bfi_damaged_file_is_refused():
    with pytest.raises(DataError, match=r"must be 126 x 25\. Got 0 x 25 instead"):
        datasets._paper_rows(np.full((10, 28), 3.0))


def test_bfi_calls_do_not_share_memory():
    load_bfi().data[:] = 0
    assert load_bfi().data[0, 0] == 2


def test_bfi_frame():
    import pandas

    bfi = load_bfi(subset="items", as_frame=True)
    assert isinstance(bfi.frame, pandas.DataFrame)
    assert bfi.data is bfi.frame
    assert list(bfi.frame.columns) == ITEMS
    np.testing.assert_array_equal(bfi.frame.to_numpy(), load_bfi(subset="items").data)


def test_bfi_without_pandas():
    code = """
import sys
sys.modules["pandas"] = None  # as if not installed
from cuspfa.datasets import load_bfi
assert load_bfi().data.shape == (2800, 28)
try:
    load_bfi(as_frame=True)
except ImportError as error:
    print(error)
"""
    run = run_python("-c", code, check=True)
    assert "load_bfi(as_frame=True) needs pandas" in run.stdout
    assert "pip install pandas" in run.stdout


@pytest.mark.parametrize("subset", ["Paper", "all", 3])
def test_bfi_bad_subset(subset):
    with pytest.raises(InputError, match=r"^subset must be one of None, 'paper', 'items'\. Got "):
        load_bfi(subset=subset)


def relative_error(estimate, truth):
    return np.linalg.norm(estimate - truth) / np.linalg.norm(truth)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("n_factors", [0, 1, 4])
def test_sample_covariance_approaches_truth(design, n_factors):
    sim = simulate(40_000, 12, n_factors, design=design, mean=5.0, random_state=1)
    sample = np.cov(sim.X.T)
    assert relative_error(sample, sim.covariance) < 0.03
    np.testing.assert_allclose(sim.X.mean(axis=0), 5, atol=0.1)
    # Negative control: another draw of the same model is far away.
    other = simulate(1, 12, n_factors, design=design, random_state=2)
    assert relative_error(sample, other.covariance) > 0.2


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("n_factors", [0, 3])
def test_simulation_parts(design, n_factors):
    sim = simulate(50, 8, n_factors, design=design, random_state=0)
    assert sim.X.shape == (50, 8)
    assert sim.loadings.shape == (8, n_factors)
    assert sim.scores.shape == (50, n_factors)
    assert sim.noise_variance.shape == sim.mean.shape == (8,)
    assert sim.n_factors == n_factors
    expected = sim.loadings @ sim.loadings.T + np.diag(sim.noise_variance)
    np.testing.assert_array_equal(sim.covariance, expected)
    assert sim.covariance is sim.covariance
    frozen: Any = sim
    with pytest.raises(FrozenInstanceError):
        frozen.X = expected


def test_residuals_are_the_noise():
    sim = simulate(50_000, 5, 2, noise=[0.1, 0.2, 0.4, 0.8, 1.6], mean=range(5), random_state=3)
    residual = sim.X - sim.mean - sim.scores @ sim.loadings.T
    np.testing.assert_array_equal(sim.mean, range(5))
    np.testing.assert_allclose(residual.var(axis=0), sim.noise_variance, rtol=0.03)
    np.testing.assert_allclose(np.cov(sim.scores.T), np.eye(2), atol=0.03)


@pytest.mark.parametrize("strength", [1.0, 0.5])
def test_loading_scale_and_shape(strength):
    def draw(design):
        return simulate(1, 20_000, 5, design=design, strength=strength, random_state=0).loadings

    for design in ("dense", "laplace", "sparse"):
        np.testing.assert_allclose(draw(design).var(axis=0), strength**2, rtol=0.1)
    falling = strength * np.linspace(1, 0.35, 5)
    np.testing.assert_allclose(draw("falling").std(axis=0), falling, rtol=0.03)
    # E|x| / sd is sqrt(2 / pi) for the normal distribution and sqrt(1 / 2) for Laplace's.
    for design, ratio in (("dense", np.sqrt(2 / np.pi)), ("laplace", np.sqrt(1 / 2))):
        np.testing.assert_allclose(np.abs(draw(design)).mean() / strength, ratio, rtol=0.01)


@pytest.mark.parametrize(("p", "loaded"), [(1, 1), (2, 2), (3, 3), (15, 3), (16, 4), (100, 20)])
def test_sparse_factors_load_on_enough_variables(p, loaded):
    loadings = simulate(1, p, 6, design="sparse", random_state=0).loadings
    np.testing.assert_array_equal((loadings != 0).sum(axis=0), loaded)
    if p > 3:
        assert len(np.unique(loadings != 0, axis=1).T) > 1  # not all on the same variables


def test_noise_forms():
    def variances(noise, p=1000):
        return simulate(1, p, 0, noise=noise, random_state=0).noise_variance

    drawn = variances((0.3, 1.0))
    assert 0.3 <= drawn.min() < 0.31
    assert 0.99 < drawn.max() <= 1.0
    np.testing.assert_array_equal(variances(0.7), np.full(1000, 0.7))
    np.testing.assert_array_equal(variances([0.2, 0.4], p=2), [0.2, 0.4])  # per column
    assert (variances((0.2, 0.4), p=2) < 0.4).all()  # a range
    np.testing.assert_array_equal(variances((0.2, 0.4, 0.6), p=3), [0.2, 0.4, 0.6])


@pytest.mark.parametrize("design", DESIGNS)
def test_same_seed_same_result(design):
    def draw(random_state):
        return simulate(20, 6, 2, design=design, random_state=random_state)

    one = draw(4)
    for again in (draw(4), draw(np.int64(4)), draw(np.random.default_rng(4))):
        for part in ("X", "loadings", "noise_variance", "scores"):
            np.testing.assert_array_equal(getattr(one, part), getattr(again, part))
    assert not np.array_equal(one.X, draw(5).X)
    assert not np.array_equal(draw(None).X, draw(None).X)
    generator = np.random.default_rng(4)
    assert not np.array_equal(draw(generator).X, draw(generator).X)


def test_global_state_is_untouched():
    before = np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002
    simulate(20, 6, 2)
    np.testing.assert_array_equal(np.random.get_state(legacy=False)["state"]["key"], before)  # noqa: NPY002


def test_inputs_are_not_shared():
    noise = np.ones(3)
    sim = simulate(2, 3, 1, noise=noise)
    noise[:] = 9
    np.testing.assert_array_equal(sim.noise_variance, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("n", v) for v in (0, -1, 2.0, "5", None, True)),
        *(("p", v) for v in (0, 1.5, True)),
        *(("n_factors", v) for v in (-1, 1.0, None)),
        *(("design", v) for v in ("Dense", None, 1)),
        *(("strength", v) for v in (0, -1.0, np.nan, np.inf, "1", True, [1.0])),
        *(("noise", v) for v in (0, -0.5, np.nan, None, "1", True, [0.3, 1.0], [[1.0] * 4])),
        *(("noise", v) for v in ((1.0, 0.3), (0, 1), (0.1, np.inf), ("a", 1), (np.nan, 1), ())),
        *(("noise", v) for v in ([1, 1, 1, 0], [1, 1, 1, np.inf], [1, [2, 3], 1, 1], ["a"] * 4)),
        *(("mean", v) for v in (np.nan, [0.0, 1.0], "0", None, [0, 0, 0, np.inf])),
        *(("random_state", v) for v in (-1, 1.5, "a", True)),
    ],
)
def test_bad_arguments_are_named(name, value):
    arguments = {"n": 5, "p": 4, "n_factors": 1, name: value}
    with pytest.raises(InputError, match=rf"^{name}\b.* must .*Got .* instead\.$") as caught:
        simulate(**arguments)
    assert repr(value) in str(caught.value)
