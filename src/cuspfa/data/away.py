"""Data that are not in memory, on the way to a source: files, iterators, memory maps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cuspfa._types import Array
from cuspfa.data.batches import is_out_of_core
from cuspfa.data.complete import Prepared, column_scale, counted_rows, prepare_moments
from cuspfa.data.mapped import Mapped, MappedMatrix
from cuspfa.data.moments import Moments
from cuspfa.data.names import column_label
from cuspfa.data.source import CompleteSource
from cuspfa.data.streams import Stream, as_stream, read
from cuspfa.errors import DataError


class Brought(NamedTuple):
    """A ready source, or rows that turned out to fit into memory."""

    prepared: Prepared | None
    rows: Array | None
    names: list[str] | None


def find_stream(data: Any) -> Stream | None:
    """A stream over data that are not in memory; None for those that are."""
    if isinstance(data, Stream) or is_out_of_core(data):
        return as_stream(data)
    return None


def bring(stream: Stream, *, scaling: str, flat_mean: bool) -> Brought:
    """Read a stream as its shape and the memory allow."""
    found = read(stream)
    if isinstance(found, Moments):
        found.check_usable()
        prepared = prepare_moments(found, scaling=scaling, flat_mean=flat_mean)
        return Brought(prepared, None, stream.names)
    if isinstance(found, Mapped):
        return Brought(_prepare_mapped(found, stream, scaling, flat_mean), None, stream.names)
    return Brought(None, found, stream.names)


def _prepare_mapped(found: Mapped, stream: Stream, scaling: str, flat_mean: bool) -> Prepared:
    n, _ = found.shape
    constant = found.squares <= n * (1e-12 * found.center) ** 2
    if constant.any():
        label = column_label(int(np.argmax(constant)), stream.names)
        raise DataError(f"{label} is constant (up to rounding error). Drop it.")
    scale = column_scale(found.squares / (n - 1), scaling)
    matrix = MappedMatrix(
        found.thing,
        found.center,
        scale,
        found.squares / scale**2,
        counted_rows(n, flat_mean),
    )
    return Prepared(CompleteSource(matrix), found.center, scale, n)
