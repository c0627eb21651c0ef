"""The same seed, the same bits: twice, in many threads, in other processes; and no growth."""

import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from cuspfa import CuspFactorAnalysis, Gibbs, Variational, datasets
from support import with_missing

# Once for all threads: Python's catch_warnings is for one.
pytestmark = pytest.mark.filterwarnings("ignore::cuspfa.errors.CuspWarning")

ROWS = datasets.simulate(60, 6, 2, random_state=1).X
SHORT = {"n_draws": 20, "n_chains": 2, "burn_in": 20, "thin": 1}


CASES: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "search": (ROWS, {}),
    "missing values": (with_missing(ROWS, 0.1)[:30, :4], {"n_factors": 1}),
    "more columns than rows": (datasets.simulate(12, 25, 1, random_state=2).X, {"n_factors": 1}),
    "random starts": (ROWS, {"method": Variational(init="random", n_init=3)}),
    "gibbs": (ROWS, {"method": Gibbs(**SHORT)}),
    "rotated": (ROWS, {"rotation": "oblimin", "n_factors": 2}),
}


def answer(name, seed=3, **settings):
    """Everything of a fit in one line of bytes."""
    rows, own = CASES[name]
    model = CuspFactorAnalysis(random_state=seed, **{**own, **settings}).fit(rows)
    draws = model.posterior_.draw(5, random_state=1)
    parts = (model.components_, model.noise_variance_, model.mean_, model.trace_, draws.loadings)
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


@pytest.mark.parametrize("name", CASES)
def test_same_seed_same_bits(name):
    assert answer(name) == answer(name)


@pytest.mark.parametrize("name", ["random starts", "gibbs"])
def test_another_seed_other_bits(name):
    assert answer(name) != answer(name, seed=4)


@pytest.mark.parametrize("name", ["random starts", "gibbs"])
def test_number_of_processes_changes_no_bit(name):
    assert answer(name, n_jobs=1) == answer(name, n_jobs=2)


@pytest.mark.long
def test_eight_threads_at_once_give_what_one_after_another_gives():
    names = list(CASES) * 3
    expected = {name: answer(name) for name in CASES}
    before = [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(answer, names))
    assert [name for name, got in zip(names, found, strict=True) if got != expected[name]] == []
    assert [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()] == before


def test_more_blas_threads_change_no_more_than_rounding():
    rows = datasets.simulate(300, 60, 3, random_state=1).X
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            results.append(CuspFactorAnalysis(n_factors=3).fit(rows).get_covariance())
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=1e-8)


@pytest.mark.long
def test_many_fits_do_not_grow():
    """A thousand of them are in benchmarks/robustness.py."""

    def fits(number, keep=None):
        for seed in range(number):
            rows = np.random.default_rng(seed).standard_normal((20, 4))
            model = CuspFactorAnalysis(n_factors=1).fit(rows + rows[:, :1])
            model.transform(rows)
            if keep is not None:
                keep.append(model)

    def growth(keep=None):
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        fits(12, keep)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    fits(3)
    tracemalloc.start()
    try:
        growth()
        assert growth() < 20_000
        kept: list[CuspFactorAnalysis] = []
        assert growth(kept) > 30_000  # so much would be seen
    finally:
        tracemalloc.stop()
