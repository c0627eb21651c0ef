"""The settings of a page: columns, number of factors, axes, tolerated error."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from cuspfa._utils.arguments import is_number, must_be, one_of, whole
from cuspfa.cli.options import (
    FitOptions,
    LikelihoodOption,
    ReadingOptions,
    RotationName,
    ShowOptions,
)
from cuspfa.errors import InputError
from cuspfa.model.model_error import LARGEST_MODEL_ERROR

ROTATIONS: tuple[RotationName, ...] = get_args(RotationName)
LIKELIHOODS: tuple[str, ...] = get_args(LikelihoodOption)
LONGEST_FACTOR_NAME, MOST_NAMES = 200, 1000
"""Letters of the name of a factor, and names, that a page may send."""


@dataclass(frozen=True)
class PageSettings:
    """What the user chose on the page."""

    columns: tuple[str, ...] = ()
    """Those that are selected, in the order of the table."""
    rotation: RotationName | None = "oblimin"
    n_factors: int | None = None
    """None to find it."""
    model_error: float | Literal["auto"] = 0.0
    likelihood: LikelihoodOption = "gaussian"
    names: tuple[str, ...] = ()
    """Of the factors; none for numbers."""

    @property
    def fitted(self) -> PageSettings:
        """Without what can be changed after the fit."""
        return replace(self, rotation=None, names=())

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "columns": list(self.columns),
            "rotation": self.rotation,
            "n_factors": self.n_factors,
            "model_error": self.model_error,
            "likelihood": self.likelihood,
            "names": list(self.names),
        }


def checked_settings(values: Any) -> PageSettings:
    """Settings that a page or a file has sent, or an error that names what is wrong."""
    if not isinstance(values, dict):
        raise must_be("settings", "an object", type(values).__name__)
    unknown = set(values) - set(PageSettings().as_json())
    if unknown:
        raise InputError(f"settings has an unknown entry {sorted(map(str, unknown))[0]!r}.")
    rotation = values.get("rotation", PageSettings.rotation)
    if rotation is not None:
        one_of("rotation", rotation, ROTATIONS)
    likelihood = values.get("likelihood", "gaussian")
    one_of("likelihood", likelihood, LIKELIHOODS)
    number = values.get("n_factors")
    size = values.get("model_error", 0.0)
    if size != "auto" and not (is_number(size) and 0 <= size <= LARGEST_MODEL_ERROR):
        raise must_be("model_error", f"auto or a number from 0 to {LARGEST_MODEL_ERROR}", size)
    return PageSettings(
        columns=_texts("columns", values.get("columns", [])),
        rotation=rotation,
        n_factors=None if number is None else whole("n_factors", number, 0),
        model_error=size if size == "auto" else float(size),
        likelihood=likelihood,
        names=_texts("names", values.get("names", []), MOST_NAMES, LONGEST_FACTOR_NAME),
    )


def _texts(name: str, found: Any, most: int = 100_000, longest: int = 10_000) -> tuple[str, ...]:
    right = isinstance(found, list) and len(found) <= most
    if not right or not all(isinstance(one, str) and len(one) <= longest for one in found):
        raise must_be(name, "a list of texts that are not too long", type(found).__name__)
    return tuple(found)


def fit_options(
    settings: PageSettings,
    data: str | None,
    every: Sequence[str],
    selected: Sequence[str],
    missing: str,
) -> FitOptions:
    """The command line of `cuspfa fit` for these settings.

    Parameters
    ----------
    settings : PageSettings
        What is asked.
    data : str or None
        The name of the file; None for the example.
    every, selected : list of str
        All columns of the table, and those that the program analyses by itself.
    missing : str
        Codes for missing values, with commas between them.
    """
    chosen, usual = set(settings.columns), set(selected)
    left_out = [name for name in every if name in usual and name not in chosen]
    added = [name for name in every if name in chosen and name not in usual]
    return FitOptions(
        data=data,
        example="bfi" if data is None else None,
        exclude=[_with_commas(left_out)] if left_out else None,
        include=[_with_commas(added)] if added else None,
        read=ReadingOptions(missing=[missing] if missing else None),
        factors=settings.n_factors,
        rotation=settings.rotation,
        model_error=settings.model_error,
        likelihood=settings.likelihood,
        show=ShowOptions(names=_with_commas(settings.names) if settings.names else None),
    )


def _with_commas(names: Sequence[str]) -> str:
    """Names as one option, as `csv` reads them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()
