"""Checks of scalar arguments: each returns the ready value or raises an InputError."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from cuspfa._typing import RandomState
from cuspfa.errors import InputError


def must_be(name: str, requirement: str, value: object) -> InputError:
    """Build the one message form used for arguments."""
    return InputError(f"{name} must be {requirement}. Got {value!r} instead.")


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise must_be(name, "a positive number", value)
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not (math.isfinite(result) and result > 0):
        raise must_be(name, "a positive number", value)
    return result


def between(name: str, value: Any, low: float, high: float) -> float:
    """A number from `low` to `high`."""
    requirement = f"a number between {low:g} and {high:g}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise must_be(name, requirement, value)
    if not low <= float(value) <= high:
        raise must_be(name, requirement, value)
    return float(value)


SMALLEST, LARGEST = 1e-12, 1e12
"""Hyper-parameters beyond these would only lose digits."""


def store_positive(instance: object, *names: str, label: str = "") -> None:
    """Check hyper-parameters of a frozen dataclass and store them as plain floats."""
    for name in names:
        given = getattr(instance, name)
        value = positive(label + name, given)
        if not SMALLEST <= value <= LARGEST:
            raise must_be(label + name, f"between {SMALLEST:g} and {LARGEST:g}", given)
        object.__setattr__(instance, name, value)


def whole(name: str, value: Any, minimum: int) -> int:
    """A whole number not below `minimum`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise must_be(name, f"a whole number not below {minimum}", value)
    result = int(value)
    if result < minimum:
        raise must_be(name, f"a whole number not below {minimum}", value)
    return result


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        words = ", ".join(repr(choice) for choice in choices)
        raise must_be(name, f"one of {words}", value)
    return value


FRESH = 0x66726573
"""First number in the spawn key of generators that nobody gave a seed."""


def generator(random_state: RandomState) -> np.random.Generator:
    """Turn any accepted `random_state` into a Generator, without touching global state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    if random_state is None:
        return np.random.default_rng(np.random.SeedSequence(spawn_key=(FRESH,)))
    if isinstance(random_state, (bool, np.bool_)) or not isinstance(random_state, numbers.Integral):
        raise must_be("random_state", "None, a whole number or a numpy Generator", random_state)
    return np.random.default_rng(whole("random_state", random_state, 0))


def is_fresh(rng: np.random.Generator) -> bool:
    """Does it come from `random_state=None`, by `generator` and any number of spawns?"""
    key: tuple[int, ...] = getattr(rng.bit_generator.seed_seq, "spawn_key", ())
    return tuple(key[:1]) == (FRESH,)
