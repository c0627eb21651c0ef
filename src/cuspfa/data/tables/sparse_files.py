"""Sparse matrices in files: MatrixMarket, SciPy's npz, and a layer of h5ad; nothing is unpickled.

Sizes that a file states are compared with its bytes before anything of that size is made.
"""

from __future__ import annotations

import io
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import mmread

from cuspfa._utils.optional import needed
from cuspfa._utils.spelling import Spell, as_argument
from cuspfa.data.out_of_core.memory import allowed_bytes, check_fits
from cuspfa.data.tables.notes import Note
from cuspfa.data.tables.source_bytes import check_expanded_size, source_bytes
from cuspfa.errors import DataError, InputError

SPARSE_SUFFIXES = (".mtx", ".npz", ".h5ad")
"""Files of sparse matrices."""
BYTES_OF_A_CELL = 16
"""Of a stored cell in memory."""
_ROW_FILES, _COLUMN_FILES = ("barcodes", "cells", "rows"), ("features", "genes", "cols", "columns")
"""Beginnings of the names of files beside a MatrixMarket file that name its rows and columns."""


@dataclass(frozen=True, eq=False)
class SparseTable:
    """A sparse matrix, its observations in rows."""

    source: str
    kind: str
    x: Any
    """(n, p) CSR"""
    names: list[str] | None = None
    ids: list[str] | None = None
    """Names of the rows."""
    notes: tuple[Note, ...] = ()
    columns: dict[str, Any] | None = None
    """Further columns of numbers of the rows, such as those of `obs`."""
    layer: str | None = None
    """Of h5ad; None is X."""


def sparse_suffix(path: Any) -> str:
    """The suffix of a file of a sparse matrix; empty of other files."""
    suffixes = [one.lower() for one in Path(path).suffixes]
    if len(suffixes) > 1 and suffixes[-1] in (".gz", ".bz2", ".xz"):
        suffixes = suffixes[:-1] if suffixes[-2] == ".mtx" else []
    return suffixes[-1] if suffixes and suffixes[-1] in SPARSE_SUFFIXES else ""


def read_sparse(
    path: str, *, layer: str | None = None, transpose: bool = False, spell: Spell = as_argument
) -> SparseTable:
    """The sparse matrix in a file.

    Beside a MatrixMarket file of 10x Genomics are files with the names of genes and cells; its rows
    are genes then, and are made columns. `transpose` makes the rows of other files columns.
    """
    kind = sparse_suffix(path)
    if layer is not None and kind != ".h5ad":
        raise InputError(f"{spell('layer')} is for h5ad files, and {path} is none.")
    if kind == ".h5ad":
        found = _of_h5ad(path, layer, spell)
    elif kind == ".npz":
        found = SparseTable(path, "sparse npz", _of_npz(source_bytes(path), path))
    else:
        found = _with_names(SparseTable(path, "MatrixMarket", _of_mtx(source_bytes(path), path)))
    if not transpose:
        return found
    turned = sparse.csr_matrix(found.x.T)
    return SparseTable(
        path, found.kind, turned, found.ids, found.names, found.notes, layer=found.layer
    )


# --- MatrixMarket ---


def _of_mtx(raw: bytes, source: str) -> Any:
    head, rows, columns, cells = _mtx_sizes(raw, source)
    coordinate = "coordinate" in head
    if not coordinate:
        cells = rows * columns
    if cells * (4 if coordinate else 2) > len(raw) + 2:
        raise DataError(f"{source} is cut off: it states {cells:,} cells, and has fewer.")
    needs = BYTES_OF_A_CELL * (cells + rows + columns)
    check_fits(needs, allowed_bytes(None), source, "Give a file with a part of the rows.")
    try:
        found = mmread(io.BytesIO(raw))
    except (ValueError, OverflowError, TypeError, OSError, EOFError) as error:
        raise DataError(f"{source} is no right MatrixMarket file: {error}") from None
    if found.dtype.kind == "c":
        raise DataError(f"{source} holds complex numbers, which are no counts.")
    return _csr(found)


def _mtx_sizes(raw: bytes, source: str) -> tuple[str, int, int, int]:
    """The first line, and rows, columns and cells as stated."""
    lines = raw[: 1 << 20].split(b"\n")
    head = lines[0].decode("latin1").lower()
    if not head.startswith("%%matrixmarket matrix"):
        raise DataError(f"{source} does not begin with %%MatrixMarket matrix.")
    for line in lines[1:]:
        words = line.split()
        if not words or words[0].startswith(b"%"):
            continue
        try:
            sizes = [int(word) for word in words]
        except ValueError:
            break
        if len(sizes) in (2, 3) and all(0 <= size < 2**31 for size in sizes[:2]):
            return head, sizes[0], sizes[1], max(sizes[2], 0) if len(sizes) == 3 else 0
        break
    raise DataError(f"{source} does not state how many rows and columns it has.")


def _with_names(found: SparseTable) -> SparseTable:
    """The matrix with the names of files beside it, its observations in rows."""
    place = Path(found.source)
    features, barcodes = _beside(place, _COLUMN_FILES), _beside(place, _ROW_FILES)
    if features is None or barcodes is None:
        return found
    names, ids = _lines(features), _lines(barcodes)
    n, p = found.x.shape
    if (len(names), len(ids)) == (n, p):
        return SparseTable(
            found.source,
            found.kind,
            sparse.csr_matrix(found.x.T),
            names,
            ids,
            (Note("features_in_rows", detail=features.name),),
        )
    if (len(ids), len(names)) == (n, p):
        return SparseTable(found.source, found.kind, found.x, names, ids)
    raise DataError(
        f"{found.source} has {n} rows and {p} columns, and {features.name} and {barcodes.name} "
        f"beside it have {len(names)} and {len(ids)} names. Move them, or correct them."
    )


def _beside(place: Path, beginnings: tuple[str, ...]) -> Path | None:
    """A file of names in the same folder, with what stands before "matrix" in the file's name."""
    prefix = place.name.partition("matrix")[0] if "matrix" in place.name else ""
    for word in beginnings:
        for suffix in (".tsv", ".tsv.gz", ".txt", ".txt.gz"):
            found = place.with_name(f"{prefix}{word}{suffix}")
            if found.is_file():
                return found
    return None


def _lines(path: Path) -> list[str]:
    """One name a line: the second cell if all of these are different, else the first."""
    text = source_bytes(str(path)).decode("utf-8", "replace")
    cells = [line.split("\t") for line in text.splitlines() if line.strip()]
    for column in (1, 0):
        found = [one[column].strip() for one in cells if len(one) > column]
        if len(found) == len(cells) and len(set(found)) == len(found):
            return found
    raise DataError(f"{path} must have a different name in each line.")


# --- npz ---


def _of_npz(raw: bytes, source: str) -> Any:
    if not raw.startswith(b"PK"):
        raise DataError(f"{source} is no npz file.")
    check_expanded_size(raw, source)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        inside = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    form = _array(inside, "format", source).item()
    form = form.decode() if isinstance(form, bytes) else str(form)
    parts = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}
    if form not in parts:
        raise DataError(f"{source} has the format {form[:20]!r}. Save it as CSR, CSC or COO.")
    shape = tuple(int(size) for size in _array(inside, "shape", source).ravel())
    if len(shape) != 2 or not all(0 <= size < 2**31 for size in shape):
        raise DataError(f"{source} must have two dimensions. Got the shape {shape}.")
    data, one, two = (_array(inside, name, source) for name in ("data", *parts[form]))
    if data.dtype.kind not in "fiub" or one.dtype.kind not in "iu" or two.dtype.kind not in "iu":
        raise DataError(f"{source} must hold numbers, and whole numbers as positions.")
    needs = BYTES_OF_A_CELL * (len(data) + sum(shape))
    check_fits(needs, allowed_bytes(None), source, "Give a file with a part of the rows.")
    try:
        if form == "coo":
            return _csr(sparse.coo_matrix((data, (one, two)), shape))
        made = sparse.csr_matrix if form == "csr" else sparse.csc_matrix
        found = made((data, one, two), shape)
        found.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise DataError(f"{source} is damaged: {error}") from None
    return _csr(found)


def _array(inside: dict[str, bytes], name: str, source: str) -> Any:
    """An array of an npz file, whose header is compared with its bytes."""
    if name not in inside:
        raise DataError(
            f"{source} is no sparse matrix as scipy.sparse.save_npz writes it: it has no {name!r}."
        )
    stream = io.BytesIO(inside[name])
    try:
        major, _ = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0
        if major == 2:
            read = np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
        if dtype.hasobject or (fortran and len(shape) > 1):
            raise ValueError("its arrays are not plain")
        rest = inside[name][stream.tell() :]
        if math.prod(shape) * dtype.itemsize != len(rest):
            raise ValueError("its sizes are wrong")
        return np.frombuffer(rest, dtype).reshape(shape).copy()
    except (ValueError, TypeError, SyntaxError, EOFError) as error:
        raise DataError(f"{source} is damaged ({name}: {error}).") from None


# --- h5ad ---


def _of_h5ad(path: str, layer: str | None, spell: Spell) -> SparseTable:
    anndata_io = needed("anndata.io", "Reading h5ad files", "anndata")
    h5py = needed("h5py", "Reading h5ad files", "anndata")
    try:
        with h5py.File(path, "r") as file:
            layers = sorted(file.get("layers", {}))
            if layer is not None and layer not in layers:
                known = ", ".join(map(repr, layers)) or "none"
                raise InputError(f"{spell('layer')} must be one of those in {path}: {known}.")
            found = file["X"] if layer is None else file["layers"][layer]
            held = found["data"] if isinstance(found, h5py.Group) else found
            needs = BYTES_OF_A_CELL * math.prod(held.shape)
            advice = "Read it by blocks: RowStream." if layer is None else "Use fewer rows."
            check_fits(needs, allowed_bytes(None), path, advice)
            x = anndata_io.read_elem(found)
            names, obs = (anndata_io.read_elem(file[one]) for one in ("var", "obs"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path!r}.") from None
    except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path} cannot be read as h5ad: {error}") from error
    numbers = {name: obs[name].to_numpy() for name in obs if obs[name].dtype.kind in "fiub"}
    what = "h5ad" if layer is None else f"h5ad, layer {layer}"
    return SparseTable(
        path, what, _csr(sparse.csr_matrix(x)), list(map(str, names.index)),
        list(map(str, obs.index)), columns=numbers, layer=layer,
    )  # fmt: skip


def _csr(found: Any) -> Any:
    return sparse.csr_matrix(found, dtype=float)
