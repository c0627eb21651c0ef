"""The compiled densities of bridge sampling against the NumPy code that defines them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from cuspfa import CuspPrior
from cuspfa.data.complete import prepare_rows
from cuspfa.datasets import simulate
from cuspfa.inference._kernels import kernel
from cuspfa.inference.variational.bridge_proposal import Proposal
from cuspfa.inference.variational.bridge_sampling import principal_norms, root_by_definition
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_given_k import search_given_k

pytestmark = pytest.mark.skipif(kernel("bridge") is None, reason="the compiled core is not built")

SHAPES = [
    # n, p, K: the last two without a shift, as rows are few
    (60, 5, 1),
    (200, 13, 4),
    (90, 25, 7),
    (600, 30, 12),
    (40, 25, 3),
    (20, 40, 2),
]


def proposal_of(n, p, k):
    x = simulate(n, p, k, random_state=n + p).X
    source = prepare_rows(x, scaling="columns", flat_mean=True).source
    search = Search(source, CuspPrior(), tol=1e-3, max_iter=500, max_factors=p)
    search_given_k(search, k)
    return Proposal(search.candidates.best_by_k[k].state, source.statistics())


def draws_of(proposal, size, seed=0):
    """Draws of the proposal, each in a rotation of its own."""
    rng = np.random.default_rng(seed)
    loadings, noise = proposal.draw(size, rng)
    turns = np.linalg.qr(rng.standard_normal((size, *[loadings.shape[2]] * 2)))[0]
    return np.einsum("jbh,bhi->jbi", loadings, turns), noise


@pytest.mark.parametrize("shape", SHAPES)
def test_whitened_draws(shape):
    proposal = proposal_of(*shape)
    assert (proposal.shift is None) == (shape in SHAPES[-2:])
    draws = draws_of(proposal, 30)
    expected = proposal.whitened_by_definition(*draws)
    for found, one in zip(proposal.whitened(*draws), expected, strict=True):
        assert_allclose(found, one, rtol=1e-9, atol=1e-9 * np.abs(one).max())
    far = (draws[0] + 1.0, draws[1])  # negative control: other draws have other densities
    assert np.all(proposal.whitened(*far)[0] > expected[0] + 1.0)


def test_the_rotation_of_draws_far_from_the_mean_and_nearly_singular():
    """Newton's iteration against singular vectors where it takes many steps."""
    proposal = proposal_of(200, 13, 4)
    loadings, noise = draws_of(proposal, 20)
    loadings[:, :, 1] = loadings[:, :, 0] + 1e-6 * loadings[:, :, 1]
    loadings *= np.geomspace(1e-3, 1e3, 20)[:, None]
    expected = proposal.whitened_by_definition(loadings, noise)
    found = proposal.whitened(loadings, noise)
    assert_allclose(found[0], expected[0], rtol=1e-6)


def test_a_draw_without_a_rotation_is_left_to_numpy():
    proposal = proposal_of(200, 13, 4)
    loadings, noise = draws_of(proposal, 3)
    loadings[:, 1] = 0.0
    expected = proposal.whitened_by_definition(loadings, noise)
    assert np.all(np.isfinite(expected[0]))
    assert_allclose(proposal.whitened(loadings, noise)[0], expected[0])


@pytest.mark.parametrize("apart", [0.0, 3.0, 40.0, 900.0])
@pytest.mark.parametrize("start", [None, -2.0, 500.0])
def test_the_root_of_bennetts_equation(apart, start):
    """Against NumPy's and as a root, also where both kinds of draws have nothing in common."""
    rng = np.random.default_rng(0)
    above, below = rng.normal(-apart, 1.0, 100), rng.normal(apart, 2.0, 150)
    begin = np.nan if start is None else start
    found = core().bennett_root(above, below, begin, 1e-8, 200)
    assert found == pytest.approx(root_by_definition(above, below, start), abs=1e-7)
    if apart <= 3.0:
        for shift, sign in ((-1e-6, 1.0), (1e-6, -1.0)):
            excess = np.mean(expit(above - found - shift)) - np.mean(expit(found + shift - below))
            assert np.sign(excess) == sign


def core():
    compiled = kernel("bridge")
    assert compiled is not None
    return compiled


@pytest.mark.parametrize("start", [None, -0.5, 0.5])
def test_the_root_where_all_draws_are_alike(start):
    found = root_by_definition(
        np.full(5, 2.0), np.full(7, 2.0), None if start is None else 2 + start
    )
    assert found == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize("k", [1, 2, 5, 6, 7, 12])
def test_norms_on_principal_axes(k):
    """Eigenvalues of draws, of matrices without rank and of equal eigenvalues, against LAPACK's."""
    rng = np.random.default_rng(k)
    half = rng.standard_normal((40, k, k)) * np.geomspace(1e-3, 1e3, 40)[:, None, None]
    columns = half @ half.transpose(0, 2, 1)
    columns[0], columns[1] = 0.0, np.eye(k)
    columns[2] = np.outer(half[2, 0], half[2, 0])
    expected = np.linalg.eigvalsh(columns)
    assert_allclose(
        np.sort(principal_norms(columns)), expected, atol=1e-12 * np.abs(expected).max()
    )
    if k > 1:  # negative control: the diagonal is not it
        diagonal = np.sort(np.diagonal(columns, axis1=1, axis2=2))
        assert np.abs(diagonal - expected).max() > 1e-3
