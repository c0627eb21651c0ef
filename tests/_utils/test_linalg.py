"""Triangular systems."""

import numpy as np
import pytest

from cuspfa._utils.linalg import solve_lower


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("transposed", [False, True])
def test_triangular_systems(order, transposed):
    rng = np.random.default_rng(0)
    root = np.array(np.tril(rng.standard_normal((6, 6))) + 3.0 * np.eye(6), order=order)
    right = rng.standard_normal((6, 4))
    given = right.copy()
    solved = solve_lower(root, right, transposed=transposed)
    np.testing.assert_allclose((root.T if transposed else root) @ solved, right, atol=1e-12)
    np.testing.assert_array_equal(right, given)
    # What is above the diagonal is not used.
    root[0, 5] = np.nan
    np.testing.assert_array_equal(solve_lower(root, right, transposed=transposed), solved)


def test_systems_without_a_solution_or_without_numbers():
    assert solve_lower(np.zeros((0, 0)), np.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        solve_lower(np.zeros((2, 2)), np.ones((2, 1)))
