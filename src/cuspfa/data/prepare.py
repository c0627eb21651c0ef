"""From a user's data of any kind to a source, column names and warnings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cuspfa._utils.fit_warning import FitWarning
from cuspfa.data.complete import (
    Prepared,
    Scaling,
    prepare_moments,
    prepare_robust,
    prepare_rows,
)
from cuspfa.data.moments import Moments
from cuspfa.data.names import text_names
from cuspfa.data.out_of_core.load import (
    empty_rows,
    find_out_of_core,
    load_data,
    no_rows_to_weigh,
    prepare_loaded,
)
from cuspfa.data.robust_moments import of_table
from cuspfa.data.screening.column_kinds import column_kinds
from cuspfa.data.screening.columns import notes_on_columns
from cuspfa.data.screening.dependent import dependent_columns
from cuspfa.data.screening.near_constant import near_constant
from cuspfa.data.validate import check_table
from cuspfa.errors import DataError
from cuspfa.missing.source import prepare_incomplete


def prepare(
    data: Any,
    names: list[str] | None = None,
    *,
    scaling: Scaling,
    flat_mean: bool,
    check_width: Callable[[int], None],
    robust: bool = False,
) -> Prepared:
    """Read, check and scale data: a source with names and warnings.

    `names` are for data that have none of their own. `scaling` is as in `prepare_rows`.
    `check_width` is called with the number of columns before rows are read. With `robust` rows have
    weights.
    """
    if isinstance(data, Moments):
        if robust:
            raise no_rows_to_weigh()
        return _summed_up(data, scaling, flat_mean, check_width)
    told: tuple[FitWarning, ...] = ()
    view, n_empty, provenance = find_out_of_core(data), 0, None
    if view is not None:
        check_width(view.n_columns)
        loaded = load_data(view)
        names = loaded.names or names
        if not isinstance(loaded.data, np.ndarray):
            prepared = prepare_loaded(loaded, scaling=scaling, flat_mean=flat_mean, robust=robust)
            check_width(prepared.source.p)
            return prepared._replace(names=names)
        data, told, n_empty = loaded.data, loaded.warnings, loaded.n_empty
        provenance = loaded.provenance
    table = check_table(data, names, allow_missing=True)
    check_width(table.rows.shape[1])
    if table.has_missing and not flat_mean:
        raise DataError(
            "X has missing values, and mean='plug-in' would fix the means at those of the observed "
            "values, which is biased. Use mean='flat', or rows without missing values."
        )
    if table.has_missing and robust:
        raise DataError(
            "X has missing values, and a robust fit needs complete rows. Impute them, leave out "
            "these rows, or make a fit that is not robust."
        )
    if table.has_missing:
        prepared = prepare_incomplete(table.rows, table.labels, scaling=scaling)
    elif robust:
        prepared = prepare_robust(of_table(table), scaling=scaling, flat_mean=flat_mean)
    else:
        prepared = prepare_rows(table.rows, scaling=scaling, flat_mean=flat_mean)
    if names is None and view is None:
        # Without missing values, copies are among the dependent columns.
        told += notes_on_columns(table, copies=table.has_missing)
    told += empty_rows(n_empty + len(table.empty), prepared.n)
    hardly_vary = near_constant(table)
    dependent = dependent_columns(prepared.source.dense, prepared.source.n, table.labels)
    told += tuple(one for one in (hardly_vary, dependent) if one is not None)
    return prepared._replace(
        names=table.names,
        warnings=told + prepared.warnings,
        provenance=provenance,
        kinds=column_kinds(table.rows),
    )


def _summed_up(
    moments: Moments, scaling: Scaling, flat_mean: bool, check_width: Callable[[int], None]
) -> Prepared:
    if moments.n < 2:
        raise DataError(f"moments must be of at least 2 rows. Got {moments.n} instead.")
    moments.check_usable()
    check_width(len(moments.mean))
    names = None if moments.names is None else text_names(moments.names)
    prepared = prepare_moments(moments, scaling=scaling, flat_mean=flat_mean)
    return prepared._replace(names=names)
