"""The compiled descent of rotations against the NumPy code that defines it."""

import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cuspfa.inference._kernels import kernel
from cuspfa.rotation import gpa
from cuspfa.rotation.criteria import Geomin, Quartic, Target

pytestmark = pytest.mark.skipif(kernel("rotation") is None, reason="the compiled core is not built")

CRITERIA: dict[str, tuple[Any, bool]] = {
    "quartimax": (Quartic(1.0, 0.0), False),
    "varimax": (Quartic(1.0 - 1 / 12, 1 / 12), False),
    "equamax": (Quartic(1.0 - 3 / 24, 3 / 24), False),
    "quartimin": (Quartic(1.0, 0.0), True),
    "oblimin": (Quartic(1.0, 0.0, -0.7), True),
    "oblique equamax": (Quartic(1.0 - 3 / 24, 3 / 24), True),
    "geomin": (Geomin(0.01), True),
    "orthogonal geomin": (Geomin(0.02), False),
}


def loadings(size, k=3, seed=0):
    """Clear structure with cross-loadings, each matrix on axes of its own."""
    rng = np.random.default_rng(seed)
    simple = np.kron(np.eye(k), np.linspace(0.5, 0.9, 4)[:, None])
    stack = simple + 0.08 * rng.standard_normal((size, 4 * k, k))
    return stack @ np.linalg.qr(rng.standard_normal((size, k, k)))[0]


def starts(size, k=3):
    return np.broadcast_to(np.eye(k), (size, k, k))


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize("k", [2, 3, 6])
def test_the_same_axes(name, k):
    criterion, oblique = CRITERIA[name]
    problem = (loadings(7, k), starts(7, k), criterion, oblique)
    quick, plain = gpa.descend(*problem, 1e-9), gpa.descend_by_definition(*problem, 1e-9)
    assert quick.converged.all()
    assert plain.converged.all()
    assert_allclose(quick.values, plain.values, rtol=1e-10)
    assert_allclose(quick.matrices, plain.matrices, atol=1e-6)
    # It is a descent: the axes that it began at are worse.
    before = criterion(problem[0])[0]
    assert np.all(quick.values < before)


def test_steps_are_the_same_one_by_one(monkeypatch):
    """After few steps, before rounding errors have grown."""
    for steps in (1, 2, 5):
        monkeypatch.setattr(gpa, "MAX_ROTATION_STEPS", steps)
        for criterion, oblique in CRITERIA.values():
            problem = (loadings(4), starts(4), criterion, oblique, 1e-9)
            quick, plain = gpa.descend(*problem), gpa.descend_by_definition(*problem)
            assert not quick.converged.any()
            assert_allclose(quick.matrices, plain.matrices, rtol=1e-9, atol=1e-9)


def test_a_target_is_left_to_numpy():
    stack = loadings(2)
    target = Target(np.zeros((12, 3)), np.ones((12, 3), dtype=bool))
    quick = gpa.descend(stack, starts(2), target, False, 1e-7)
    plain = gpa.descend_by_definition(stack, starts(2), target, False, 1e-7)
    assert_allclose(quick.matrices, plain.matrices, atol=0)


def test_axes_that_cannot_be_inverted():
    """NumPy says so, as without the core."""
    singular = np.ones((1, 3, 3)) / np.sqrt(3)
    criterion, oblique = CRITERIA["quartimin"]
    with pytest.raises(np.linalg.LinAlgError):
        gpa.descend(loadings(1), singular, criterion, oblique, 1e-7)


def test_what_is_given_is_not_changed():
    stack, axes = loadings(3), np.array(starts(3))
    kept = stack.copy()
    gpa.descend(stack, axes, *CRITERIA["oblimin"], 1e-7)
    assert np.array_equal(stack, kept)
    assert np.array_equal(axes, starts(3))


def test_the_keyboard_ends_it():
    """Between steps: a rotation of many matrices is one call, which would take many seconds."""
    stack = np.tile(loadings(50, 12), (1500, 1, 1))
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    began = time.process_time()
    with pytest.raises(KeyboardInterrupt):
        gpa.descend(stack, starts(len(stack), 12), *CRITERIA["quartimin"], 1e-9)
    assert time.process_time() - began < 3.0
    timer.join()
