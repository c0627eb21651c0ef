"""Column names by scikit-learn's rules: which are kept, and whether new data have the same.

scikit-learn's own check misses some kinds of data frames in some versions, so that columns in
another order would be accepted. The messages are those of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from cuspfa._utils.warn import warn
from cuspfa._utils.wording import listed
from cuspfa.errors import DataError, DataTypeError

NAMES_IN_MESSAGE = 5
"""Names that a message lists."""


def column_label(index: int, labels: list[Any] | None) -> str:
    """Name of a column in messages."""
    return f"column {index}" if labels is None else f"column {labels[index]!r} (index {index})"


def text_names(labels: list[Any]) -> list[str] | None:
    """The names, if all are text; None if none is, as with the default names of pandas."""
    texts = [str(label) for label in labels if isinstance(label, str)]
    if texts and len(texts) < len(labels):
        types = sorted({type(label).__qualname__ for label in labels})
        raise DataTypeError(
            "Feature names are only supported if all input features have string names, but your "
            f"input has {types} as feature name / column name types. If you want feature names to "
            "be stored and validated, you must convert them all to strings, by using X.columns = "
            "X.columns.astype(str) for example. Otherwise you can remove feature / column names "
            "from your input data, or convert them all to a non-string data type."
        )
    return texts or None


def check_same_names(model: str, fitted: list[str] | None, names: list[str] | None) -> None:
    """Refuse columns other than those of the fit; warn if either has no names."""
    if fitted == names:
        return
    if fitted is None:
        warn(f"X has feature names, but {model} was fitted without feature names")
    elif names is None:
        warn(f"X does not have valid feature names, but {model} was fitted with feature names")
    else:
        raise DataError(_difference(fitted, names))


def check_same_columns(file: str, own: Container[str], first: str, names: Sequence[str]) -> None:
    """Refuse a file without all columns of the first one."""
    missing = [name for name in names if name not in own]
    if missing:
        shown = listed([repr(name) for name in missing], NAMES_IN_MESSAGE)
        raise DataError(
            f"{file!r} has no column {shown}, which {first!r} has. All files must have the same "
            "columns."
        )


def check_same_width(model: str, fitted: int, width: int) -> None:
    """Refuse another number of columns than that of the fit."""
    if width != fitted:
        raise DataError(
            f"X has {width} features, but {model} is expecting {fitted} features as input."
        )


def _difference(fitted: list[str], names: list[str]) -> str:
    message = "The feature names should match those that were passed during fit.\n"
    unseen, missing = sorted(set(names) - set(fitted)), sorted(set(fitted) - set(names))
    if unseen:
        message += "Feature names unseen at fit time:\n" + _bullets(unseen)
    if missing:
        message += "Feature names seen at fit time, yet now missing:\n" + _bullets(missing)
    if not unseen and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    return message


def _bullets(names: list[str]) -> str:
    more = "- ...\n" if len(names) > NAMES_IN_MESSAGE else ""
    return "".join(f"- {name}\n" for name in names[:NAMES_IN_MESSAGE]) + more
