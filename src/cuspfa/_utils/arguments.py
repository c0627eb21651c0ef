"""Checks of scalar arguments: each returns the ready value or raises an InputError."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from cuspfa._typing import RandomState
from cuspfa.errors import InputError


def must_be(name: str, requirement: str, value: object) -> InputError:
    """The error for an argument: what it must be, and what was given."""
    return InputError(f"{name} must be {requirement}. Got {value!r} instead.")


def is_number(value: Any) -> bool:
    """A real number, and not True or False."""
    if type(value) is float:  # quicker than to ask the abstract class
        return True
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def is_whole(value: Any) -> bool:
    """A whole number, and not True or False."""
    return isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    if not is_number(value):
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
    if not (is_number(value) and low <= float(value) <= high):
        raise must_be(name, requirement, value)
    return float(value)


SMALLEST_HYPERPARAMETER, LARGEST_HYPERPARAMETER = 1e-12, 1e12
"""Range of hyperparameters. Beyond it, digits are lost."""


def store_positive(instance: object, *names: str, label: str = "") -> None:
    """Check hyper-parameters of a frozen dataclass and store them as plain floats."""
    for name in names:
        given = getattr(instance, name)
        value = positive(label + name, given)
        if not SMALLEST_HYPERPARAMETER <= value <= LARGEST_HYPERPARAMETER:
            raise must_be(
                label + name,
                f"between {SMALLEST_HYPERPARAMETER:g} and {LARGEST_HYPERPARAMETER:g}",
                given,
            )
        object.__setattr__(instance, name, value)


def fraction(name: str, value: Any) -> float:
    """A number above 0 and below 1."""
    if not is_number(value):
        raise must_be(name, "a number between 0 and 1", value)
    if not 0.0 < float(value) < 1.0:
        raise must_be(name, "between 0 and 1", value)
    return float(value)


def true_or_false(name: str, value: Any) -> bool:
    """A bool of Python or NumPy."""
    if not isinstance(value, (bool, np.bool_)):
        raise must_be(name, "True or False", value)
    return bool(value)


def whole(name: str, value: Any, minimum: int) -> int:
    """A whole number not below `minimum`."""
    if not is_whole(value) or value < minimum:
        raise must_be(name, f"a whole number not below {minimum}", value)
    return int(value)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of the allowed words."""
    if not isinstance(value, str) or value not in choices:
        words = ", ".join(repr(choice) for choice in choices)
        raise must_be(name, f"one of {words}", value)
    return value


FRESH = 0x66726573
"""First number in the spawn key of generators without a given seed."""


def generator(random_state: RandomState) -> np.random.Generator:
    """Turn any accepted `random_state` into a Generator, without use of global state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    if random_state is None:
        return np.random.default_rng(np.random.SeedSequence(spawn_key=(FRESH,)))
    if not is_whole(random_state):
        raise must_be("random_state", "None, a whole number or a numpy Generator", random_state)
    return np.random.default_rng(whole("random_state", random_state, 0))


def is_fresh(rng: np.random.Generator) -> bool:
    """Was the generator made by `generator(None)`, or spawned from one that was?"""
    key: tuple[int, ...] = getattr(rng.bit_generator.seed_seq, "spawn_key", ())
    return tuple(key[:1]) == (FRESH,)
