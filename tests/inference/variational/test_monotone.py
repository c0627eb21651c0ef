"""The bound never falls, after any step, whatever the data, the slab and the spike."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import bridge
from cuspfa.inference.variational.elbo import lower_bound
from cuspfa.inference.variational.init import draw_start
from cuspfa.inference.variational.run import ITERATION
from cuspfa.inference.variational.steps import step_converge_labels
from cuspfa.missing.patterns import IncompleteRows
from cuspfa.missing.source import MissingDataSource
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import EmpiricalBayesSlab, GaussianSlab, InverseGammaSlab
from support import factor_rows

positive = st.floats(0.05, 20.0)


@st.composite
def slabs(draw):
    kind = draw(st.sampled_from(["gaussian", "inverse gamma", "pooled", "learned", "common"]))
    if kind == "gaussian":
        return GaussianSlab(draw(positive))
    if kind in ("inverse gamma", "pooled"):
        return InverseGammaSlab(draw(positive), draw(positive), pooled=kind == "pooled")
    return EmpiricalBayesSlab(shared=kind == "common")


@st.composite
def problems(draw):
    n, p = draw(st.integers(2, 30)), draw(st.integers(1, 15))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k = draw(st.integers(0, 4))
    y = factor_rows(n, p, k, rng)
    y = (y - y.mean(axis=0)) * draw(st.sampled_from([1e-2, 1.0, 50.0]))
    if draw(st.booleans()):
        y[:, -1] = y[:, 0]  # a duplicated column
    slab = draw(slabs())
    spike = draw(st.sampled_from([None, 1e-8, 1e-6, 1e-3]))
    if isinstance(slab, EmpiricalBayesSlab) or getattr(slab, "pooled", False):
        spike = None
    prior = CuspPrior(
        alpha=draw(positive),
        slab=slab,
        spike=spike,
        noise_shape=draw(positive),
        noise_rate=draw(positive),
        stick_shape=draw(st.floats(0.5 if spike is None else 0.05, 20.0)),
    )
    n_terms = draw(st.integers(1, p + 1))
    return y, prior, n_terms, draw(st.integers(0, n_terms - 1)), rng


def check_no_step_lowers_the_bound(state, source, prior):
    last = -np.inf
    for number in range(4):
        for step in (*ITERATION, step_converge_labels):
            state = step(state, source, prior)
            terms = lower_bound(state, source, prior)
            if number == 0 and step is ITERATION[0]:
                continue  # the start is a point mass; its labels are not yet a distribution of q
            assert np.isfinite(terms.total)
            assert terms.total >= last - 1e-10 * sum(map(abs, terms)), step.__name__
            last = terms.total


@settings(max_examples=200, deadline=None)
@given(problems())
def test_bound_never_falls_after_any_step(problem):
    y, prior, n_terms, k, rng = problem
    source = bridge.source_of(y)
    check_no_step_lowers_the_bound(draw_start(source, prior, n_terms, rng, k), source, prior)


@settings(max_examples=60, deadline=None)
@given(problems(), st.floats(0.0, 0.6))
def test_bound_never_falls_with_missing_values(problem, part):
    y, prior, n_terms, k, rng = problem
    seen = rng.random(y.shape) >= part
    seen[rng.integers(len(y), size=2), :] = True  # no column without a value
    y = np.where(seen, y, np.nan)
    y = np.where(seen, y - np.nanmean(y, axis=0), 0.0)
    source = MissingDataSource(IncompleteRows(y, seen))
    if np.any(source.counts < 1) or np.any(source.squares <= 0):
        return  # a column with a single value is refused before
    check_no_step_lowers_the_bound(draw_start(source, prior, n_terms, rng, k), source, prior)
