"""The compiled sweeps against the NumPy code that defines them, with the same random numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cuspfa import CuspPrior, EmpiricalBayesSlab, GaussianSlab, InverseGammaSlab
from cuspfa.data.in_memory import RotatedRows, RowMatrix
from cuspfa.inference import compiled_sweeps as module
from cuspfa.inference._kernels import kernel
from cuspfa.inference.compiled_sweeps import core_knows, log_likelihoods, sweep_chains
from cuspfa.inference.gibbs.chain import Model, begin, sweep, sweep_repeatedly
from cuspfa.inference.gibbs.compiled_chain import can_sweep
from cuspfa.inference.gibbs.data_kernels import CompleteDataKernel
from cuspfa.inference.kernels import (
    Chains,
    first_scales,
    gram,
    squared_norms,
    sweep_complete,
)
from cuspfa.model.likelihoods.gaussian import marginal_log_likelihoods

pytestmark = pytest.mark.skipif(
    kernel("sweeps") is None or kernel("gibbs") is None, reason="the compiled core is not built"
)

PRIOR = CuspPrior(noise_shape=1.0, noise_rate=0.3)
SLABS = {
    "fixed": GaussianSlab(0.7),
    "inverse gamma": InverseGammaSlab(2.0, 0.4),
    "pooled": InverseGammaSlab(2.0, 0.4, pooled=True),
    "plug-in": EmpiricalBayesSlab(),
    "one plug-in": EmpiricalBayesSlab(shared=True),
}
SHAPES = [
    # n, p, K, B
    (9, 2, 1, 1),
    (30, 7, 2, 3),
    (13, 13, 5, 50),
    (15, 13, 5, 6),
    (12, 40, 5, 3),
    (200, 25, 13, 4),
    (90, 70, 4, 3),
    (300, 50, 34, 2),
]


def statistics(n, p, rng):
    y = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + rng.standard_normal((n, p))
    y /= y.std(axis=0)
    return RotatedRows(y.T @ y, None, float(n)) if n >= p else RowMatrix(y, float(n)).statistics()


def start(slab, p, k, size, rng):
    loadings = 0.5 * rng.standard_normal((p, size, k))
    noise = rng.uniform(0.3, 1.0, (p, size))
    return Chains(loadings, noise, first_scales(squared_norms(gram(loadings)), slab, p, rng))


def arrays(chains):
    return [
        chains.loadings,
        chains.noise,
        chains.scales.variances,
        *(chains.scales.hyperparameters or ()),
    ]


def assert_same(one, other):
    for a, b in zip(arrays(one), arrays(other), strict=True):
        assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("n", "p", "k", "size"), SHAPES)
@pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS)
def test_compiled_sweeps_are_those_of_numpy(slab, n, p, k, size):
    rng = np.random.default_rng(0)
    data, before = statistics(n, p, rng), start(slab, p, k, size, rng)
    assert core_knows(before, slab)
    kept = [array.copy() for array in arrays(before)]
    defined, compiled = before, before
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    for number in (1, 29):
        for _ in range(number):
            defined = sweep_complete(defined, data, slab, PRIOR, one)
        compiled = sweep_chains(compiled, data, slab, PRIOR, number, other)
        assert_same(defined, compiled)
        assert one.bit_generator.state == other.bit_generator.state
    for array, first in zip(arrays(before), kept, strict=True):
        assert np.array_equal(array, first)


def test_columns_that_are_not_drawn_stay_as_they_are():
    rng = np.random.default_rng(0)
    slab = SLABS["pooled"]
    data, chains = statistics(60, 9, rng), start(slab, 9, 4, 5, rng)
    free = rng.random((5, 4)) < 0.5
    free[:, 0] = True
    chains = chains._replace(scales=chains.scales._replace(free=free))
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    defined = sweep_complete(chains, data, slab, PRIOR, one)
    compiled = sweep_chains(chains, data, slab, PRIOR, 1, other)
    assert_same(defined, compiled)
    assert np.array_equal(compiled.scales.variances[~free], chains.scales.variances[~free])


def test_another_slab_would_be_noticed():
    rng = np.random.default_rng(0)
    data, chains = statistics(60, 9, rng), start(SLABS["inverse gamma"], 9, 4, 5, rng)
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    defined = sweep_complete(chains, data, SLABS["pooled"], PRIOR, one)
    compiled = sweep_chains(chains, data, SLABS["inverse gamma"], PRIOR, 1, other)
    with pytest.raises(AssertionError):
        assert_same(defined, compiled)


def test_a_slab_that_the_core_does_not_know_is_swept_by_numpy(monkeypatch):
    rng = np.random.default_rng(0)
    slab = SLABS["inverse gamma"]
    data, chains = statistics(60, 9, rng), start(slab, 9, 4, 5, rng)
    monkeypatch.setattr(InverseGammaSlab, "kernel_form", lambda slab: None)
    called = []

    def counted(*args):
        called.append(args)
        return sweep_complete(*args)

    monkeypatch.setattr(module, "sweep_complete", counted)
    sweep_chains(chains, data, slab, PRIOR, 3, rng)
    assert len(called) == 3


def test_a_matrix_without_a_root_is_an_error_in_both():
    rng = np.random.default_rng(0)
    slab = SLABS["fixed"]
    data, chains = statistics(60, 9, rng), start(slab, 9, 4, 5, rng)
    broken = chains._replace(noise=np.full_like(chains.noise, np.nan))
    for call in (
        lambda: sweep_complete(broken, data, slab, PRIOR, rng),
        lambda: sweep_chains(broken, data, slab, PRIOR, 1, rng),
        lambda: log_likelihoods(broken.loadings, broken.noise, data),
    ):
        with pytest.raises(np.linalg.LinAlgError):
            call()


@pytest.mark.parametrize(("n", "p", "k", "size"), SHAPES)
def test_compiled_likelihoods_are_those_of_numpy(n, p, k, size):
    rng = np.random.default_rng(0)
    data, chains = statistics(n, p, rng), start(SLABS["fixed"], p, k, size, rng)
    found = log_likelihoods(chains.loadings, chains.noise, data)
    assert_allclose(
        found, marginal_log_likelihoods(chains.loadings, chains.noise, data), rtol=1e-12
    )


# --- the Gibbs sampler ---


def gibbs_start(slab, n, p, width, size, *, start_adapt, every, columns, seed=0):
    rng = np.random.default_rng(seed)
    prior = CuspPrior(slab=slab, noise_shape=1.0, noise_rate=0.3)
    data = CompleteDataKernel(statistics(n, p, rng))
    model = Model(data, prior, 0.05, p + 1, start_adapt, (-0.3, -5e-4), every)
    loadings = 0.4 * rng.standard_normal((p, size, width))
    noise = rng.uniform(0.3, 1.0, (p, size))
    active = np.zeros((size, width), dtype=bool) if columns else None
    return begin(loadings, noise, active, model, rng), model


def assert_same_state(one, other):
    assert_same(one.chains, other.chains)
    assert (one.columns is None) == (other.columns is None)
    if one.columns is not None:
        assert np.array_equal(one.columns.active, other.columns.active)
        assert np.array_equal(one.chains.scales.free, other.chains.scales.free)
        assert np.array_equal(one.columns.terms, other.columns.terms)
        assert one.columns.terms.dtype == other.columns.terms.dtype
        assert_allclose(
            np.exp(one.columns.log_survivors), np.exp(other.columns.log_survivors), atol=1e-10
        )


@pytest.mark.parametrize(
    ("n", "p", "width", "size"), [(9, 2, 2, 1), (126, 25, 12, 4), (12, 40, 9, 3)]
)
@pytest.mark.parametrize(
    ("start_adapt", "every", "columns"),
    [(1, 0, True), (10, 3, True), (None, 1, True), (None, 0, False), (None, 2, False)],
)
@pytest.mark.parametrize("name", ["fixed", "inverse gamma", "pooled"])
def test_compiled_sweeps_of_the_sampler_are_those_of_numpy(
    name, n, p, width, size, start_adapt, every, columns
):
    state, model = gibbs_start(
        SLABS[name], n, p, width, size, start_adapt=start_adapt, every=every, columns=columns
    )
    assert can_sweep(state, model)
    defined, compiled, at = state, state, 1
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    widths = set()
    for number in (1, 29, 40):
        for step in range(number):
            defined = sweep(defined, at + step, model, one)
            widths.add(defined.chains.loadings.shape[2])
        compiled = sweep_repeatedly(compiled, at, number, model, other)
        at += number
        assert_same_state(defined, compiled)
        assert one.bit_generator.state == other.bit_generator.state
    if start_adapt is not None and p > 2:
        assert len(widths) > 1


def test_the_number_of_sweeps_in_a_call_does_not_change_the_chains():
    state, model = gibbs_start(
        SLABS["inverse gamma"], 126, 25, 12, 4, start_adapt=5, every=4, columns=True
    )
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    together = sweep_repeatedly(state, 1, 60, model, one)
    for at in range(1, 61):
        state = sweep_repeatedly(state, at, 1, model, other)
    assert_same_state(together, state)
    assert np.array_equal(together.chains.loadings, state.chains.loadings)


def test_another_rate_of_adaptation_would_be_noticed():
    state, model = gibbs_start(
        SLABS["inverse gamma"], 126, 25, 12, 4, start_adapt=1, every=0, columns=True
    )
    other_model = model._replace(adapt_rate=(-3.0, 0.0))
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    defined = state
    for at in range(1, 31):
        defined = sweep(defined, at, model, one)
    compiled = sweep_repeatedly(state, 1, 30, other_model, other)
    with pytest.raises(AssertionError):
        assert_same_state(defined, compiled)
