"""Saved posteriors: the protocol of their files, and the entries that every kind has.

`PosteriorEntries` is the protocol. Each kind of posterior has an implementation of its own; what
both share is below it. The checks of single values are in `cuspfa.io.schema`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.in_memory import RotatedRows
from cuspfa.errors import FileError, InputError
from cuspfa.inference.kernels import Statistics
from cuspfa.io import plausibility, records, schema
from cuspfa.io.records import PLAIN, Codec
from cuspfa.missing.saturated import Effective
from cuspfa.model.row_tails import RowTails
from cuspfa.posterior.fit_info import (
    FitInfo,
    ModelErrorEntry,
    ModelErrorPath,
    SearchEntry,
    SearchPath,
)
from cuspfa.posterior.model_entries import PRIOR, ROTATION, as_model_error
from cuspfa.posterior.presentation import Presentation
from cuspfa.posterior.provenance_entries import PROVENANCE

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior


class PosteriorEntries(ABC):
    """What the files of one kind of posterior hold, how it is written, checked and read."""

    kinds: ClassVar[dict[str, schema.JsonKind]]
    """The entries of `fit.json`, each with its check."""

    @abstractmethod
    def describe(
        self, posterior: Any, *, statistics: bool
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays of a posterior, with or without statistics of the data."""

    @abstractmethod
    def check(self, content: dict[str, Any]) -> None:
        """Raise a FileError where values contradict each other."""

    @abstractmethod
    def shapes(self, content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        """The arrays of a file and their shapes, in their order."""

    @abstractmethod
    def values(self, content: dict[str, Any], arrays: dict[str, Array]) -> list[dict[str, Any]]:
        """Fields of the posterior, then those of its alternatives; arrays have their shapes."""


# --- as JSON has them ---


def shared_out(posterior: Posterior, **own: Any) -> dict[str, Any]:
    """The entries of every posterior of a factor analysis, then those of its own kind."""
    return {
        "n_rows": int(posterior.n_rows),
        "n_columns": len(posterior.scale),
        "names": None if posterior.names is None else list(posterior.names),
        "prior": PRIOR.out(posterior.prior),
        "model_error": schema.number_out(posterior.model_error),
        "degrees_of_freedom": schema.number_out(posterior.tails.degrees_of_freedom),
        "rotation": _OPTIONAL_ROTATION.out(posterior.rotation),
        "provenance": _OPTIONAL_PROVENANCE.out(posterior.provenance),
        "presentation": PRESENTATION.out(posterior.presentation),
        "kind": posterior.kind,
        **own,
    }


def _statistics_out(statistics: Statistics) -> tuple[dict[str, Any], Array]:
    """What kind they are, and their numbers."""
    if statistics.gram is not None:
        array, word = statistics.gram, "gram"
    else:
        array, word = statistics.rows, "rows"
    return {"type": word, "n_rows": len(array), "n": schema.number_out(statistics.n)}, array


# --- as they are read ---


def _statistics(name: str, value: Any) -> dict[str, Any]:
    kinds = {
        "type": schema.word("gram", "rows"),
        "n_rows": schema.as_count,
        "n": schema.as_positive,
    }
    return schema.fields(name, value, kinds)


def _degrees_of_freedom(name: str, value: Any) -> float:
    found = schema.as_number(name, value)
    if not found > 0:  # infinite for normal rows
        raise schema.wrong(name, value)
    return found


def missing_in(name: str, value: Any) -> dict[str, Any]:
    """What is kept of incomplete data, checked."""
    kinds: dict[str, schema.JsonKind] = {
        "correlation": schema.as_flag,
        "effective": schema.nullable(schema.list_of(schema.as_positive, 2)),
    }
    found = schema.fields(name, value, kinds)
    known = found["effective"]
    if known is not None and (len(known) < 2 or not found["correlation"]):
        raise schema.wrong(name, known)
    return found


class FitInfoEntries:
    """How a fit went: plain fields, lists of entries, and a trace, which is an array."""

    def __init__(self, kind: type, **lists: tuple[type, type]) -> None:
        """`lists` are the fields that hold entries: the type of an entry, and that of the list."""
        self._kind, self._lists = kind, {name: made for name, (_, made) in lists.items()}
        self._plain = records.field_codecs(kind, PLAIN, leave_out=("trace", *lists))
        self._entries = {name: records.record_codec(one) for name, (one, _) in lists.items()}
        self.codec = records.optional(Codec(self._out, self._check))

    def _out(self, fit_info: Any) -> dict[str, Any]:
        found = {**records.fields_out(fit_info, self._plain), "n_trace": len(fit_info.trace)}
        for name, codec in self._entries.items():
            found[name] = [codec.out(one) for one in getattr(fit_info, name)]
        return found

    def _check(self, name: str, value: Any) -> dict[str, Any]:
        lists = {name: schema.list_of(codec.check) for name, codec in self._entries.items()}
        expected = {**records.checks(self._plain), "n_trace": schema.as_count, **lists}
        return schema.fields(name, value, expected)

    def read(self, known: dict[str, Any] | None, trace: Array | None) -> Any:
        """The record, from checked values."""
        if known is None:
            return None
        plain = {name: known[name] for name in self._plain}
        lists = {name: made(known[name]) for name, made in self._lists.items()}
        return self._kind(**plain, **lists, trace=trace)


FIT_INFO = FitInfoEntries(
    FitInfo, search=(SearchEntry, SearchPath), model_errors=(ModelErrorEntry, ModelErrorPath)
)
_OPTIONAL_ROTATION, _OPTIONAL_PROVENANCE = records.optional(ROTATION), records.optional(PROVENANCE)
PRESENTATION = records.record_codec(Presentation)
FILE_KINDS: dict[str, schema.JsonKind] = {
    "format": schema.as_text,
    "kind": schema.as_text,
    "version": schema.as_count,
    "library": schema.as_text,
    "n_rows": schema.as_count,
    "n_columns": schema.as_count,
    "names": schema.nullable(schema.list_of(schema.as_text)),
    "presentation": PRESENTATION.check,
    "scores": schema.as_flag,
}
"""Entries that files of every kind have."""
SHARED_KINDS: dict[str, schema.JsonKind] = {
    **FILE_KINDS,
    "prior": PRIOR.check,
    "model_error": as_model_error,
    "degrees_of_freedom": _degrees_of_freedom,
    "n_row_weights": schema.nullable(schema.as_count),
    "rotation": _OPTIONAL_ROTATION.check,
    "provenance": _OPTIONAL_PROVENANCE.check,
    "statistics": schema.nullable(_statistics),
    "missing": schema.nullable(missing_in),
}
"""Entries that posteriors of every kind of factor analysis have."""


def data_out(
    posterior: Posterior, counts: Array | None, *, statistics: bool
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Entries and arrays on the data; `counts` are those of incomplete columns."""
    if not statistics and posterior.population is not None:
        raise InputError(
            "statistics must be True for a fit with model error: its population covariance is made "
            "of the cross-products of the data. Got False instead."
        )
    about: dict[str, Any] = {"statistics": None, "missing": None, "n_row_weights": None}
    arrays: dict[str, Array] = {}
    if counts is not None:
        correlation = posterior.sample_correlation if statistics else None
        known = None
        arrays["counts"] = counts
        if correlation is not None:
            arrays["correlation"] = correlation
            if posterior.effective is not None:
                known = [schema.number_out(value) for value in posterior.effective]
        about["missing"] = {"correlation": correlation is not None, "effective": known}
    if statistics and posterior.row_weights is not None:
        arrays["row_weights"] = posterior.row_weights
        about["n_row_weights"] = len(posterior.row_weights)
    if statistics and posterior.statistics is not None:
        about["statistics"], arrays["statistics"] = _statistics_out(posterior.statistics)
    return about, arrays


def data_shapes(content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of `data_out`, in their order."""
    p, missing, statistics = (content[name] for name in ("n_columns", "missing", "statistics"))
    found: dict[str, tuple[int, ...]] = {}
    if content["n_row_weights"] is not None:
        found["row_weights"] = (content["n_row_weights"],)
    if missing is not None:
        found["counts"] = (p,)
        if missing["correlation"]:
            found["correlation"] = (p, p)
    if statistics is not None:
        found["statistics"] = (statistics["n_rows"], p)
    return found


def further_shapes(content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of the last arrays of a file: the trace of the fit, and scores."""
    found: dict[str, tuple[int, ...]] = {}
    if content["fit_info"] is not None:
        found["trace"] = (content["fit_info"]["n_trace"],)
    if content["scores"]:
        found["scores"] = (content["n_rows"], content["n_factors"])
    return found


def check_chains(content: dict[str, Any]) -> None:
    """Raise a FileError without draws, or with chains of different lengths."""
    if not content["n_chains"] or not content["n_draws"]:
        raise FileError("is damaged: it holds no draws")
    if content["n_draws"] % content["n_chains"]:
        raise FileError("is damaged: its chains are of different lengths")


def shared_fields(content: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """Fields that every posterior of a factor analysis and its alternatives have."""
    statistics, missing = content["statistics"], content["missing"]
    effective = None if missing is None else missing["effective"]
    kept = None
    if statistics is not None:
        rows, is_gram = arrays["statistics"], statistics["type"] == "gram"
        plausibility.check_statistics(rows, is_gram=is_gram)
        kept = RotatedRows(rows if is_gram else None, None if is_gram else rows, statistics["n"])
    _check_row_weights(content, arrays.get("row_weights"))
    return {
        "prior": content["prior"],
        "tails": RowTails(content["degrees_of_freedom"]),
        "row_weights": arrays.get("row_weights"),
        "model_error": content["model_error"],
        "statistics": kept,
        "center": arrays["center"],
        "scale": arrays["scale"],
        "n_rows": content["n_rows"],
        "names": content["names"],
        "correlation": arrays.get("correlation"),
        "effective": None if effective is None else Effective(*effective),
    }


def _check_row_weights(content: dict[str, Any], weights: Array | None) -> None:
    """Weights must be positive, one for each row that was analysed, and NaN for others."""
    if weights is None:
        return
    seen = weights[~np.isnan(weights)]
    if len(seen) != content["n_rows"] or not np.all((seen > 0) & np.isfinite(seen)):
        raise FileError("has numbers in row_weights.npy that cannot be there")


def presented_fields(content: dict[str, Any], n_factors: int) -> dict[str, Any]:
    """Axes, provenance and presentation of a posterior of so many factors."""
    return {
        "rotation": content["rotation"],
        "provenance": content["provenance"],
        "presentation": read_presentation(content, n_factors),
    }


def read_presentation(content: dict[str, Any], n_factors: int) -> Presentation:
    """Names and signs of so many factors, and the wording of columns, from checked values."""
    shown: Presentation = content["presentation"]
    try:
        shown.check(n_factors)
    except InputError as error:
        raise FileError(f"is damaged: {str(error).removesuffix('.')}") from None
    return shown
