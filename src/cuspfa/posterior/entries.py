"""Saved posteriors: the protocol of their files, and the entries that every kind has.

`PosteriorEntries` is the protocol. Each kind of posterior has an implementation of its own; what
both share is below it. The checks of single values are in `cuspfa.io.schema`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from cuspfa._typing import Array
from cuspfa.data.in_memory import RotatedRows
from cuspfa.errors import FileError, InputError
from cuspfa.inference.kernels import Statistics
from cuspfa.io import plausibility, records, schema
from cuspfa.io.records import PLAIN, Codec
from cuspfa.missing.saturated import Effective
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
    """The entries that posteriors of every kind have, then those of its own."""
    return {
        "n_rows": int(posterior.n_rows),
        "n_columns": len(posterior.scale),
        "names": None if posterior.names is None else list(posterior.names),
        "prior": PRIOR.out(posterior.prior),
        "model_error": schema.number_out(posterior.model_error),
        "rotation": _OPTIONAL_ROTATION.out(posterior.rotation),
        "provenance": _OPTIONAL_PROVENANCE.out(posterior.provenance),
        "presentation": _PRESENTATION.out(posterior.presentation),
        "kind": posterior.kind,
        **own,
    }


def _statistics_out(statistics: Statistics) -> tuple[dict[str, Any], Array]:
    """What kind they are, and their numbers."""
    if not isinstance(statistics, RotatedRows):
        raise InputError(
            f"Statistics of type {type(statistics).__name__} cannot be saved. Leave them out: "
            "statistics=False."
        )
    if statistics.gram is not None:
        array, word = statistics.gram, "gram"
    else:
        array, word = statistics.rows, "rows"
    return {"type": word, "n_rows": len(array), "n": schema.number_out(statistics.n)}, array


def _fit_info_out(fit_info: FitInfo) -> dict[str, Any]:
    """How a fit went, without its trace."""
    search = [records.fields_out(entry, _ENTRY) for entry in fit_info.search]
    errors = [records.fields_out(entry, _ERROR_ENTRY) for entry in fit_info.model_errors]
    return {
        **records.fields_out(fit_info, _FIT_INFO),
        "n_trace": len(fit_info.trace),
        "search": search,
        "model_errors": errors,
    }


# --- as they are read ---


def _statistics(name: str, value: Any) -> dict[str, Any]:
    kinds = {
        "type": schema.word("gram", "rows"),
        "n_rows": schema.as_count,
        "n": schema.as_positive,
    }
    return schema.fields(name, value, kinds)


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


def _fit_info_in(name: str, value: Any) -> dict[str, Any]:
    """How a fit went, checked; its trace is an array."""
    expected = {
        **records.checks(_FIT_INFO),
        "n_trace": schema.as_count,
        "search": _list_of_entries(_ENTRY),
        "model_errors": _list_of_entries(_ERROR_ENTRY),
    }
    return schema.fields(name, value, expected)


def _list_of_entries(codecs: records.Codecs) -> schema.JsonKind:
    expected = records.checks(codecs)
    return schema.list_of(lambda name, value: schema.fields(name, value, expected))


_ENTRY = records.field_codecs(SearchEntry, PLAIN)
_ERROR_ENTRY = records.field_codecs(ModelErrorEntry, PLAIN)
_FIT_INFO = records.field_codecs(FitInfo, PLAIN, leave_out=("trace", "search", "model_errors"))
FIT_INFO = records.optional(Codec(_fit_info_out, _fit_info_in))
_OPTIONAL_ROTATION, _OPTIONAL_PROVENANCE = records.optional(ROTATION), records.optional(PROVENANCE)
_PRESENTATION = records.record_codec(Presentation)
SHARED_KINDS: dict[str, schema.JsonKind] = {
    "format": schema.as_text,
    "kind": schema.as_text,
    "version": schema.as_count,
    "library": schema.as_text,
    "n_rows": schema.as_count,
    "n_columns": schema.as_count,
    "names": schema.nullable(schema.list_of(schema.as_text)),
    "prior": PRIOR.check,
    "model_error": as_model_error,
    "rotation": _OPTIONAL_ROTATION.check,
    "provenance": _OPTIONAL_PROVENANCE.check,
    "presentation": _PRESENTATION.check,
    "statistics": schema.nullable(_statistics),
    "missing": schema.nullable(missing_in),
    "scores": schema.as_flag,
}
"""Entries that posteriors of every kind have."""


def data_out(
    posterior: Posterior, counts: Array | None, *, statistics: bool
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Entries and arrays on the data; `counts` are those of incomplete columns."""
    if not statistics and posterior.population is not None:
        raise InputError(
            "statistics must be True for a fit with model error: its population covariance is made "
            "of the cross-products of the data. Got False instead."
        )
    about: dict[str, Any] = {"statistics": None, "missing": None}
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
    if statistics and posterior.statistics is not None:
        about["statistics"], arrays["statistics"] = _statistics_out(posterior.statistics)
    return about, arrays


def data_shapes(content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of `data_out`, in their order."""
    p, missing, statistics = (content[name] for name in ("n_columns", "missing", "statistics"))
    found: dict[str, tuple[int, ...]] = {}
    if missing is not None:
        found["counts"] = (p,)
        if missing["correlation"]:
            found["correlation"] = (p, p)
    if statistics is not None:
        found["statistics"] = (statistics["n_rows"], p)
    return found


def shared_fields(content: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """Fields that a posterior of every kind and its alternatives have, from checked values."""
    statistics, missing = content["statistics"], content["missing"]
    effective = None if missing is None else missing["effective"]
    kept = None
    if statistics is not None:
        rows, is_gram = arrays["statistics"], statistics["type"] == "gram"
        plausibility.check_statistics(rows, is_gram=is_gram)
        kept = RotatedRows(rows if is_gram else None, None if is_gram else rows, statistics["n"])
    return {
        "prior": content["prior"],
        "model_error": content["model_error"],
        "statistics": kept,
        "center": arrays["center"],
        "scale": arrays["scale"],
        "n_rows": content["n_rows"],
        "names": content["names"],
        "correlation": arrays.get("correlation"),
        "effective": None if effective is None else Effective(*effective),
    }


def read_presentation(content: dict[str, Any], n_factors: int) -> Presentation:
    """Names and signs of so many factors, and the wording of columns, from checked values."""
    shown: Presentation = content["presentation"]
    try:
        shown.check(n_factors)
    except InputError as error:
        raise FileError(f"is damaged: {str(error).removesuffix('.')}") from None
    return shown


def read_fit_info(known: dict[str, Any] | None, trace: Array | None) -> FitInfo | None:
    """How a fit went, from checked values."""
    if known is None:
        return None
    search = SearchPath(SearchEntry(**entry) for entry in known["search"])
    errors = ModelErrorPath(ModelErrorEntry(**entry) for entry in known["model_errors"])
    values = {name: value for name, value in known.items() if name != "n_trace"}
    return FitInfo(**values | {"trace": trace, "search": search, "model_errors": errors})
