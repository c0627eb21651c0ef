"""Rows by blocks give the sums, the mode and the evidence that rows held together give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuspfa import CuspPrior
from cuspfa.inference.cellwise import row_sums
from cuspfa.inference.cellwise.engine import fits_at_once
from cuspfa.inference.cellwise.evidence import ProposedDensity
from cuspfa.inference.cellwise.marginal import DistinctRows, propagate
from cuspfa.inference.cellwise.row_sums import RowBlocks, numbers_of_a_row, propagated_at
from cuspfa.inference.cellwise.search import fit_cells, search_cells
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood
from cuspfa.model.likelihoods.mixed import MixedLikelihood, Part
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood

N, P = 210, 5


def table() -> tuple[Any, MixedLikelihood]:
    """Four items coded from 3 on and a measurement, one factor, with missing values."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(N, 1)) @ np.array([[1.2, 0.9, 0.8, 1.0, 0.9]]) + rng.normal(size=(N, P))
    rows = 3.0 + np.searchsorted([-0.6, 0.7], z.ravel()).reshape(z.shape)
    rows[:, 4] = z[:, 4]
    rows[rng.random(rows.shape) < 0.05] = np.nan
    items = OrdinalLikelihood(((3, 4, 5),) * 4, tuple("abcd"))
    parts = (Part(items, np.arange(4)), Part(ContinuousLikelihood(("e",)), np.array([4])))
    return rows, MixedLikelihood(parts)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sums, "NUMBERS_OF_A_BLOCK", 10_000)  # about 50 rows


def test_sums_are_derivatives_of_the_log_likelihood() -> None:
    rows, one = table()
    blocks, values = RowBlocks(rows, one), one.check(rows)
    assert len(list(blocks._blocks(1))) > 3
    parameters = one.initial(values)
    loadings, packed = np.full((P, 1), 0.7), one.pack(parameters)

    def total(numbers: Any) -> float:
        found = propagate(values, one, one.unpack(numbers[P:]), numbers[:P, None])
        return float(found.log_probability.sum())

    there = np.concatenate([loadings.ravel(), packed])
    at = blocks.propagated(parameters, loadings)
    assert at.log_likelihood == pytest.approx(total(there), abs=1e-7)
    step = 1e-5 * np.eye(len(there))
    numeric = [(total(there + one_step) - total(there - one_step)) / 2e-5 for one_step in step]
    assert at.gradients.gradient == pytest.approx(numeric, abs=2e-3)
    other = blocks.propagated(parameters, 0.8 * loadings)
    with pytest.raises(AssertionError):  # those of other loadings
        assert other.gradients.gradient == pytest.approx(numeric, abs=2e-3)
    held = propagated_at(DistinctRows.of(values), one, parameters, loadings)
    sums = held.sums(one, parameters, loadings)
    assert at.gradients.information == pytest.approx(sums.information, abs=1e-7)
    assert blocks.counted == pytest.approx(np.mean(np.sum(~np.isnan(rows), axis=0)))


def test_blocks_hold_so_many_rows_as_their_numbers_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, one = table()
    blocks = RowBlocks(rows, one)
    numbers = numbers_of_a_row(one, P, 2)
    for size in (1, 40, N, 10**6):
        monkeypatch.setattr(row_sums, "NUMBERS_OF_A_BLOCK", size * numbers + numbers - 1)
        found = [np.arange(N)[at] for at in blocks._blocks(2)]
        assert np.concatenate(found).tolist() == list(range(N))
        assert {len(at) for at in found[:-1]} <= {size}
        assert len(found[0]) == min(size, N)
    monkeypatch.setattr(row_sums, "NUMBERS_OF_A_BLOCK", 0)  # a row at a time at the least
    assert len(list(blocks._blocks(2))) == N
    # The memory of all rows at once, in bytes.
    assert fits_at_once(rows, one, 2, 8 * N * numbers)
    assert not fits_at_once(rows, one, 2, 8 * N * numbers - 1)


def test_a_fit_by_blocks_starts_at_evenly_spaced_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, one = table()
    values = one.check(rows)
    for most, step in ((N, 1), (N - 1, 2), (N // 2, 2), (60, 4), (1, N)):
        monkeypatch.setattr(row_sums, "MOST_START_ROWS", most)
        np.testing.assert_array_equal(RowBlocks(rows, one).start_rows, values[::step])


def test_rotated_sums_are_those_of_rotated_loadings() -> None:
    rows, one = table()
    blocks, parameters = RowBlocks(rows, one), one.initial(one.check(rows))
    rng = np.random.default_rng(0)
    loadings, axes = rng.normal(size=(P, 2)), np.linalg.qr(rng.normal(size=(2, 2)))[0]
    turned = blocks.propagated(parameters, loadings).rotated(axes)
    want = blocks.propagated(parameters, loadings @ axes)
    assert turned.log_likelihood == pytest.approx(want.log_likelihood, abs=1e-6)
    assert turned.gradients.gradient == pytest.approx(want.gradients.gradient, abs=1e-5)
    assert turned.gradients.information == pytest.approx(want.gradients.information, abs=1e-5)


def test_the_mode_and_the_evidence_are_those_of_rows_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuspfa.inference.cellwise.evidence.MOST_CORRECTED", 0)
    rows, one = table()
    values, prior = one.check(rows), CuspPrior()
    held, blocks = fit_cells(values, one, prior, 1), fit_cells(RowBlocks(rows, one), one, prior, 1)
    assert blocks.state is None
    assert blocks.mode.at.converged
    assert blocks.laplace == pytest.approx(held.laplace, abs=1e-3)
    assert blocks.mode.loadings == pytest.approx(held.mode.loadings, abs=1e-3)
    assert blocks.mode.packed == pytest.approx(held.mode.packed, abs=1e-3)
    one_draw, other = (
        ProposedDensity(found.mode).draw(4, np.random.default_rng(0))[0] for found in (held, blocks)
    )
    assert one_draw == pytest.approx(other, abs=5e-3)
    found = search_cells(RowBlocks(rows, one), one, prior, largest=1, bridge=True)
    assert found.best.n_factors == 1
    assert all(candidate.bridged is None for candidate in found.candidates)
