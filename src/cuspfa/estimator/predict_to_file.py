"""Scores, densities and imputed rows of tables larger than memory, written block by block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be, one_of
from cuspfa._utils.optional import needed
from cuspfa._utils.warn import warn
from cuspfa.data.names import check_same_names, check_same_width
from cuspfa.data.out_of_core.readers import names_columns
from cuspfa.data.out_of_core.stream import RowStream, as_stream
from cuspfa.data.tables.column_names import made_up_names, not_a_formula
from cuspfa.errors import InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.io.atomic import as_path, check_not_read, check_writable, replacing

What = Literal["transform", "score_samples", "impute"]
WRITTEN_SUFFIXES = (".parquet", ".pq", ".csv", ".tsv")


def predict_to_file(model: CuspFactorAnalysis, what: What, X: Any, path: Any) -> int:
    """Write scores, log densities or imputed rows to a file, block by block.

    The file is written whole or not at all: until the last row is written it has another name. If
    anything fails, it is removed, and an old file stays. Needs `cuspfa[files]`.

    Parameters
    ----------
    model : CuspFactorAnalysis
        Fitted.
    what : {"transform", "score_samples", "impute"}
        Scores, log densities, or rows with their missing values filled by expected values.
    X : path, array on disk, iterator of batches or RowStream
        Rows with the columns of the fit; other columns of files are left alone. Missing values
        may be there.
    path : str or os.PathLike
        The file to write, .parquet, .csv or .tsv. Its rows are in the order of the data. In CSV
        and TSV a name that a spreadsheet would take for a formula, such as `=SUM(A1)`, has a
        single quote before it.

    Returns
    -------
    int
        The number of rows written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from cuspfa import CuspFactorAnalysis, datasets, predict_to_file
    >>> X = datasets.simulate(2000, 10, 2, random_state=1).X
    >>> model = CuspFactorAnalysis(n_factors=2).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "rows.npy", X)
    ...     rows, scores = Path(folder) / "rows.npy", Path(folder) / "scores.parquet"
    ...     predict_to_file(model, "transform", rows, scores)
    2000
    """
    return write_blocks(model, what, X, path).rows


class Written(NamedTuple):
    """Rows that were written."""

    rows: int
    lacking: int
    """Of these, with missing values."""
    empty: int
    """Of these, without any value."""


def write_blocks(
    model: CuspFactorAnalysis, what: What, X: Any, path: Any, *, by_position: bool = False
) -> Written:
    """Write as `predict_to_file` does, and count rows with missing values.

    With `by_position` the names of the columns of X are ignored; the model must have none.
    """
    if not isinstance(model, CuspFactorAnalysis):
        raise must_be("model", "a CuspFactorAnalysis", type(model).__name__)
    check_is_fitted(model)
    one_of("what", what, get_args(What))
    stream = _stream(model, X, by_position)
    given = None if by_position else stream.names
    target = _target(path, stream)
    names = {
        "transform": [str(name) for name in model.get_feature_names_out()],
        "score_samples": ["log_density"],
        "impute": model._names() or made_up_names(model.n_features_in_),
    }[what]
    if not names:
        raise InputError("the model has no factors, so there are no scores.")
    doubts = [note.message() for note in stream.reader.notes if note.is_doubt]
    if doubts:
        warn(" ".join(doubts))
    call, counts = getattr(model, what), np.zeros(3, dtype=int)
    with replacing(target) as temporary, _writer(temporary, target.suffix, names) as write:
        for block in stream.blocks(allow_missing=True):
            found = np.asarray(call(_with_names(block.rows, given)), dtype=float)
            write(found.reshape(len(found), -1))
            lacking = np.isnan(block.rows)
            counts += [len(found), lacking.any(axis=1).sum(), lacking.all(axis=1).sum()]
    return Written(*counts.tolist())


def _target(path: Any, stream: RowStream) -> Path:
    target = as_path(path)
    if target.suffix.lower() not in WRITTEN_SUFFIXES:
        raise must_be("path", f"a name that ends in {', '.join(WRITTEN_SUFFIXES)}", str(target))
    check_writable("path", target)
    for source in stream.paths:
        check_not_read("path", target, source)
    return target


def _stream(model: CuspFactorAnalysis, data: Any, by_position: bool) -> RowStream:
    """The rows with the columns of the fit, in their order."""
    fitted = model._names()
    if fitted is not None and names_columns(data):
        stream = RowStream(data, columns=fitted)
    else:
        stream = as_stream(data)
    own = type(model).__name__
    if not by_position:
        check_same_names(own, fitted, stream.names)
    check_same_width(own, model.n_features_in_, stream.n_columns)
    return stream


def _with_names(rows: Array, names: list[str] | None) -> Any:
    if names is None:
        return rows
    pyarrow = needed("pyarrow", "Writing by blocks", "files")
    return pyarrow.table([np.ascontiguousarray(column) for column in rows.T], names=names)


@contextmanager
def _writer(path: Path, suffix: str, names: list[str]) -> Iterator[Any]:
    """A function that appends rows."""
    pyarrow = needed("pyarrow", "Writing by blocks", "files")
    as_text = suffix.lower() in (".csv", ".tsv")
    names = list(map(not_a_formula, names)) if as_text else names
    schema = pyarrow.schema([(name, "float64") for name in names])
    if as_text:
        text = needed("pyarrow.csv", "Writing CSV", "files")
        between = text.WriteOptions(delimiter="\t" if suffix.lower() == ".tsv" else ",")
        opened = text.CSVWriter(path, schema, write_options=between)
    else:
        opened = needed("pyarrow.parquet", "Writing Parquet", "files").ParquetWriter(path, schema)

    def write(values: Array) -> None:
        columns = [np.ascontiguousarray(column) for column in values.T]
        opened.write_table(pyarrow.table(columns, schema=schema))

    with opened:
        yield write
