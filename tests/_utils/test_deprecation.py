"""A deprecated name works, and warns at the caller's line."""

import inspect

import pytest

from cuspfa._utils.deprecation import deprecated, warn_deprecated


@deprecated(instead="new(x)", removed_in="0.9")
def old(x: int, *, times: int = 1) -> int:
    """Multiply."""
    return x * times


def test_the_old_name_works_and_says_what_replaces_it_and_until_when():
    message = r"^old\(\) is deprecated and will be removed in 0\.9\. Use new\(x\)\.$"
    with pytest.warns(FutureWarning, match=message) as caught:
        assert old(3, times=2) == 6
    assert caught[0].filename == __file__


def test_signature_and_docstring_stay():
    assert old.__name__ == "old"
    assert old.__doc__ == "Multiply."
    assert list(inspect.signature(old).parameters) == ["x", "times"]


def test_parameters_and_values_can_be_deprecated_too():
    with pytest.warns(FutureWarning, match=r"^mean='plugged-in' is deprecated .* 0\.9\. Use "):
        warn_deprecated("mean='plugged-in'", instead="mean='plug-in'", removed_in="0.9")
