"""All uses of private modules of scikit-learn, and the warning that inherits from its own.

`cuspfa.errors` loads `ConvergenceWarning` when it is first used: scikit-learn takes much longer to
load than `import cuspfa` may.
"""

from __future__ import annotations

from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions

from cuspfa.errors import CuspWarning, InputError

__all__ = ["ConvergenceWarning", "Interval", "StrOptions", "check_parameters"]


class ConvergenceWarning(CuspWarning, SklearnConvergenceWarning):  # type: ignore[misc]
    """A fit stopped before it had converged; the message says what to raise."""

    __module__ = "cuspfa.errors"


def check_parameters(estimator: BaseEstimator) -> None:
    """Raise an InputError that names the parameter its `_parameter_constraints` do not allow.

    Nothing is checked under scikit-learn's setting `skip_parameter_validation`.
    """
    if get_config()["skip_parameter_validation"]:
        return
    try:
        estimator._validate_params()
    except InvalidParameterError as error:
        raise InputError(str(error)) from None
    for name, allowed in estimator._parameter_constraints.items():
        value = getattr(estimator, name)
        # To Python, and to scikit-learn's intervals, True is the number 1.
        if isinstance(value, bool) and "boolean" not in allowed:
            raise InputError(
                f"The {name!r} parameter of {type(estimator).__name__} must not be True or False. "
                f"Got {value!r} instead."
            )
