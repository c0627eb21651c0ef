"""The one way from a user's data to a source: rows, sparse, on disk, distributed or summed up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuspfa.data.complete import Prepared, prepare_moments, prepare_rows
from cuspfa.data.moments import Moments
from cuspfa.data.names import text_names
from cuspfa.data.out_of_core.load import find_out_of_core, load_data
from cuspfa.data.out_of_core.stream import reading_warnings
from cuspfa.data.screening.near_constant import near_constant
from cuspfa.data.validate import check_table
from cuspfa.errors import DataError
from cuspfa.missing.source import never_co_observed, prepare_incomplete, single_values


def prepare(
    data: Any,
    names: list[str] | None = None,
    *,
    scaling: str,
    flat_mean: bool,
    check_width: Callable[[int], None],
) -> Prepared:
    """Read, check and scale; a source with names and warnings.

    `names` are for data that have none of their own, `scaling` is as in `prepare_rows`, and
    `check_width` is called with the number of columns before rows are read.
    """
    if isinstance(data, Moments):
        return _summed_up(data, scaling, flat_mean, check_width)
    view, note, n_empty = find_out_of_core(data), None, 0
    if view is not None:
        check_width(view.n_columns)
        loaded = load_data(view, scaling=scaling, flat_mean=flat_mean)
        names = loaded.names or names
        if loaded.prepared is not None:
            check_width(loaded.prepared.source.p)
            return loaded.prepared._replace(names=names)
        data, note, n_empty = loaded.rows, loaded.note, loaded.empty
    table = check_table(data, names, allow_missing=True)
    check_width(table.rows.shape[1])
    if table.has_missing and not flat_mean:
        raise DataError(
            "X has missing values, and mean='plug-in' would take the means of what was observed as "
            "known, which is biased. Use mean='flat', or rows without missing values."
        )
    ready = prepare_incomplete if table.has_missing else prepare_rows
    prepared = ready(table.rows, scaling=scaling, flat_mean=flat_mean)
    found = (
        *reading_warnings(note, n_empty + len(table.empty), prepared.n),
        near_constant(table),
        never_co_observed(prepared.source, table.labels),
        single_values(prepared.source),
    )
    warnings = tuple(one for one in found if one is not None)
    return prepared._replace(names=table.names, warnings=warnings)


def _summed_up(
    moments: Moments, scaling: str, flat_mean: bool, check_width: Callable[[int], None]
) -> Prepared:
    if moments.n < 2:
        raise DataError(f"moments must be of at least 2 rows. Got {moments.n} instead.")
    moments.check_usable()
    check_width(len(moments.mean))
    names = None if moments.names is None else text_names(moments.names)
    prepared = prepare_moments(moments, scaling=scaling, flat_mean=flat_mean)
    return prepared._replace(names=names)
