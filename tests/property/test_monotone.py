"""The bound never falls, after any block, whatever the data."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import bridge
from cuspfa.prior import CuspPrior, GaussianSlab
from cuspfa.variational.bound import lower_bound
from cuspfa.variational.cycle import blocks
from cuspfa.variational.starts import draw_start

positive = st.floats(0.05, 20.0)


@st.composite
def problems(draw):
    n, p = draw(st.integers(2, 30)), draw(st.integers(1, 15))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k = draw(st.integers(0, 4))
    y = rng.normal(size=(n, k)) @ rng.normal(size=(k, p)) + rng.normal(size=(n, p))
    y = (y - y.mean(axis=0)) * draw(st.sampled_from([1e-2, 1.0, 50.0]))
    if draw(st.booleans()):
        y[:, -1] = y[:, 0]  # a duplicated column
    slab = draw(positive)
    prior = CuspPrior(
        alpha=draw(positive),
        slab=GaussianSlab(slab),
        spike=slab * draw(st.sampled_from([1e-8, 1e-6, 1e-3, 0.3])),
        noise_shape=draw(positive),
        noise_rate=draw(positive),
        stick_shape=draw(positive),
    )
    return y, prior, draw(st.integers(1, p + 1)), rng


@settings(max_examples=150, deadline=None)
@given(problems())
def test_bound_never_falls_after_any_block(problem):
    y, prior, n_terms, rng = problem
    source = bridge.source_of(y)
    state = draw_start(source, prior, n_terms, rng)
    last = -np.inf
    for _ in range(4):
        for after in blocks(state, source, prior):
            bound = lower_bound(after, source, prior).total
            assert np.isfinite(bound)
            assert bound >= last - 1e-10 * (1 + abs(bound))
            state, last = after, bound
