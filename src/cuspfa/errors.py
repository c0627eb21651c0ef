"""Everything cuspfa raises or warns about: one root each, children by stage."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuspfa._utils.sklearn_compat import ConvergenceWarning as ConvergenceWarning

__all__ = [
    "ConvergenceWarning",
    "CuspError",
    "CuspWarning",
    "DataError",
    "DataTypeError",
    "FileError",
    "InputError",
    "PerformanceWarning",
]


class CuspError(Exception):
    """Root of all errors raised by cuspfa."""


class InputError(CuspError, ValueError):
    """An argument is out of range; the message names it, what was received and what to do."""


class DataError(InputError):
    """The data cannot be analysed as they are; the message names the column or row."""


class DataTypeError(DataError, TypeError):
    """The data hold objects that are no numbers at all."""


class FileError(InputError):
    """A file is not a fit saved by cuspfa, is damaged, or of a newer version; it says which."""


class CuspWarning(UserWarning):
    """Root of all warnings issued by cuspfa."""


class PerformanceWarning(CuspWarning):
    """Results are right and take longer than they need to; the message says what is missing."""


def __getattr__(name: str) -> Any:
    if name == "ConvergenceWarning":  # also one of scikit-learn's, which is slow to load
        return import_module("cuspfa._utils.sklearn_compat").ConvergenceWarning
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
