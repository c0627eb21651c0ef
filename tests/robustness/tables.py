"""Tables of every kind, each from a recipe short enough to stand in a test.

A recipe says what is in the table and in what it is wrapped; `plain` makes the numbers, as float64
with NaN for missing, `wrapped` what a user would pass. So a table can be compared with itself in
another wrapping, and `is_good` says without the help of the package whether it can be analysed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st
from scipy import sparse

DTYPES = (
    "float64",
    "float32",
    "float16",
    "longdouble",
    ">f8",
    "int64",
    "int8",
    "uint8",
    "bool",
    "object",
)
WRAPPINGS = (
    "array",
    "fortran",
    "strided",
    "reversed",
    "read-only",
    "subclass",
    "list",
    "masked",
    "csr",
    "csc",
    "coo",
    "unsorted csr",
    "pandas",
    "pandas nullable",
    "pandas arrow",
    "pandas sparse",
    "polars",
    "arrow",
    "arrow batch",
)
NOT_NUMBERS = ("text", "categorical", "date", "complex", "mixed objects", "nested")
SPARSE = ("csr", "csc", "coo", "unsorted csr", "pandas sparse")
FRAMES = ("pandas", "pandas nullable", "pandas arrow", "pandas sparse", "polars", "arrow")
RELATIONS = (
    "none",
    "duplicate",
    "negated",
    "near duplicate",
    "collinear",
    "all alike",
    "one differs",
    "constant",
    "outlier",
    "disjoint",
)
MISSING_WORDS = ("none", "few", "many", "a row", "a column", "one value a row", "all", "staircase")
NAMES = ("plain", "unicode", "long", "empty", "numbers", "mixed", "doubled")


@dataclass(frozen=True)
class Recipe:
    """What a table is made of."""

    n: int = 30
    p: int = 6
    factors: int = 2
    seed: int = 0
    kind: str = "normal"
    relation: str = "none"
    scale: float = 1.0
    spread: float = 0.0
    """Powers of ten by which the sizes of the columns differ."""
    offset: float = 0.0
    missing: str = "none"
    infinite: bool = False
    dtype: str = "float64"
    wrapping: str = "array"
    names: str = "plain"
    odd: str = "none"
    """A column that holds no numbers."""


def plain(recipe: Recipe) -> np.ndarray:
    """The numbers, as float64: those that the type of the recipe can hold."""
    rng = np.random.default_rng(recipe.seed)
    n, p, k = recipe.n, recipe.p, recipe.factors
    rows = rng.standard_normal((n, k)) @ rng.standard_normal((k, p)) + rng.standard_normal((n, p))
    if recipe.kind == "five points":
        rows = np.clip(np.round(rows), -2, 2)
    elif recipe.kind == "heavy":
        rows = rng.standard_cauchy((n, p)) ** 3
    elif recipe.kind == "counts":
        rows = rng.poisson(0.3, (n, p)).astype(float)
    elif recipe.kind == "exact":
        rows = rng.standard_normal((n, k)) @ rng.standard_normal((k, p))
    rows = _related(rows, recipe.relation, rng)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = rows * recipe.scale * 10.0 ** (recipe.spread * np.linspace(-1, 1, p) / 2)
        rows = np.nan_to_num(rows + recipe.offset * recipe.scale, nan=np.inf)
    if recipe.infinite and rows.size:
        rows.flat[rng.integers(rows.size)] = rng.choice([np.inf, -np.inf])
    rows = _as_type_holds(rows, recipe.dtype)
    with_missing(rows, recipe.missing, rng)
    if recipe.dtype not in HOLDS_MISSING and recipe.wrapping not in NULLS:
        rows = np.nan_to_num(rows, nan=0.0, posinf=np.inf, neginf=-np.inf)
    return rows


HOLDS_MISSING = ("float64", "float32", "float16", "longdouble", ">f8", "object")
NULLS = ("masked", "pandas nullable", "pandas arrow", "polars", "arrow", "arrow batch")


def _related(rows: np.ndarray, relation: str, rng: np.random.Generator) -> np.ndarray:
    n, p = rows.shape
    if not n or not p:
        return rows
    first, last = rows[:, 0].copy(), p - 1
    if relation == "duplicate":
        rows[:, last] = first
    elif relation == "negated":
        rows[:, last] = -first
    elif relation == "near duplicate":
        rows[:, last] = first * (1 + 1e-13 * rng.standard_normal(n))
    elif relation == "collinear":
        rows[:, last] = rows[:, :last].sum(axis=1) if p > 1 else first
    elif relation == "all alike":
        rows[:] = first[:, None]
    elif relation == "one differs":
        rows[:, last] = 0.0
        rows[0, last] = 1.0
    elif relation == "constant":
        rows[:, last] = 3.0
    elif relation == "outlier":
        rows[0, last] = 1e9
    elif relation == "disjoint":
        rows[:] = 0.0
        rows[np.arange(n), np.arange(n) % p] = 1.0
    return rows


def _as_type_holds(rows: np.ndarray, dtype: str) -> np.ndarray:
    if dtype in ("float64", "object", "longdouble", ">f8"):
        return rows
    if dtype == "bool":
        return (rows > 0).astype(float)
    if dtype in ("float32", "float16"):
        with np.errstate(all="ignore"):
            return rows.astype(dtype).astype(float)
    about = np.iinfo(dtype)
    low, high = (about.min, about.max) if dtype != "int64" else (-(2**53), 2**53)
    finite = np.nan_to_num(rows, nan=0.0, posinf=high, neginf=low)
    held: np.ndarray = np.clip(np.round(finite), low, high)
    return held


def with_missing(rows: np.ndarray, missing: str, rng: np.random.Generator) -> None:
    n, p = rows.shape
    if not rows.size or missing == "none":
        return
    if missing in ("few", "many"):
        rows[rng.random((n, p)) < (0.05 if missing == "few" else 0.6)] = np.nan
    elif missing == "a row":
        rows[rng.integers(n)] = np.nan
    elif missing == "a column":
        rows[:, rng.integers(p)] = np.nan
    elif missing == "one value a row":
        rows[np.arange(n)[:, None] % p != np.arange(p)] = np.nan
    elif missing == "all":
        rows[:] = np.nan
    else:
        rows[np.arange(n)[:, None] * p > (np.arange(p) + 1) * n] = np.nan


def is_good(recipe: Recipe, rows: np.ndarray) -> bool | None:
    """Can these numbers be analysed? None where they are so near the edge that both are right."""
    n, p = rows.shape
    if recipe.odd != "none" and p:
        return False
    if n < 2 or p < 1 or np.isinf(rows).any():
        return False
    missing = np.isnan(rows)
    if missing.any() and recipe.wrapping in SPARSE:
        # A fit drops rows without any value; the methods for new rows refuse NaN in sparse rows.
        whole_rows = np.array_equal(missing.any(axis=1), missing.all(axis=1))
        return None if whole_rows and not missing.all() else False
    if not missing.all():  # rows without any value are left out of a fit
        rows, missing = rows[~missing.all(axis=1)], missing[~missing.all(axis=1)]
        if len(rows) < 2:
            return False
    if missing.all(axis=0).any():
        return False
    with np.errstate(all="ignore"):
        low, high = np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
        largest = np.maximum(np.abs(low), np.abs(high))
        width = high - low
    if (width == 0).any():
        return False
    if recipe.names in ("mixed", "doubled") and recipe.wrapping in (*FRAMES, "arrow batch"):
        return None  # what a frame does of these differs between libraries
    if (largest > 1e150).any() or (width < 1e-150).any() or (width < 1e-11 * largest).any():
        return None
    if recipe.wrapping in SPARSE and (width < 1e-3 * largest).any():
        return None  # may not be centred without loss
    return True


def column_names(recipe: Recipe) -> list[Any]:
    p = recipe.p
    if recipe.names == "unicode":
        return [f"Größe {j} 心拍\u202e🙂" for j in range(p)]
    if recipe.names == "long":
        return ["x" * 3000 + str(j) for j in range(p)]
    if recipe.names == "empty":
        return ["", *(" " * j for j in range(1, p))][:p]
    if recipe.names == "numbers":
        return list(range(p))
    if recipe.names == "mixed":
        return [j if j % 2 else f"c{j}" for j in range(p)]
    if recipe.names == "doubled":
        return ["twice" if j < 2 else f"c{j}" for j in range(p)]
    return [f"c{j}" for j in range(p)]


def wrapped(recipe: Recipe):
    """What a user would pass."""
    rows = plain(recipe)
    if recipe.odd != "none" and recipe.p:
        return _with_odd(recipe, rows)
    typed = _typed(rows, recipe)
    make = _WRAP.get(recipe.wrapping)
    if make is not None:
        return make(typed)
    return _frame(recipe, rows, typed)


def _typed(rows: np.ndarray, recipe: Recipe) -> np.ndarray:
    if recipe.dtype in HOLDS_MISSING:
        with np.errstate(all="ignore"):
            return rows.astype(recipe.dtype)
    finite: np.ndarray = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
    return finite.astype(recipe.dtype)


def _strided(rows: np.ndarray) -> np.ndarray:
    wide = np.zeros((2 * rows.shape[0], 3 * rows.shape[1]), rows.dtype)
    wide[::2, ::3] = rows
    return wide[::2, ::3]


def _read_only(rows: np.ndarray) -> np.ndarray:
    rows.flags.writeable = False
    return rows


def _numbers(rows: np.ndarray) -> np.ndarray:
    return rows.astype(float) if rows.dtype.kind in "O" or rows.dtype.itemsize in (2, 16) else rows


def _unsorted(rows: np.ndarray):
    matrix = sparse.csr_array(_native(rows))
    for i in range(matrix.shape[0]):
        part = slice(matrix.indptr[i], matrix.indptr[i + 1])
        matrix.indices[part] = matrix.indices[part][::-1].copy()
        matrix.data[part] = matrix.data[part][::-1].copy()
    matrix.has_sorted_indices = False
    return matrix


def _native(rows: np.ndarray) -> np.ndarray:
    rows = _numbers(rows)
    return rows.astype(rows.dtype.newbyteorder("="))


_WRAP: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda rows: rows,
    "fortran": np.asfortranarray,
    "strided": _strided,
    "reversed": lambda rows: rows[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": _read_only,
    "subclass": lambda rows: rows.view(type("Mine", (np.ndarray,), {})),
    "list": lambda rows: rows.tolist(),
    "csr": lambda rows: sparse.csr_matrix(_native(rows)),
    "csc": lambda rows: sparse.csc_array(_native(rows)),
    "coo": lambda rows: sparse.coo_array(_native(rows)),
    "unsorted csr": _unsorted,
}


def _frame(recipe: Recipe, rows: np.ndarray, typed: np.ndarray):
    missing = np.isnan(rows)
    if recipe.wrapping == "masked":
        return np.ma.MaskedArray(typed, mask=missing)
    labels = column_names(recipe)
    if recipe.wrapping.startswith("pandas"):
        typed = _numbers(typed) if recipe.wrapping != "pandas" else typed
        if recipe.wrapping == "pandas":
            return pd.DataFrame(typed, columns=labels)
        frame = pd.DataFrame(_native(typed), columns=labels)
        if recipe.wrapping == "pandas sparse":
            kind = frame.to_numpy().dtype
            return frame.astype(pd.SparseDtype(kind, kind.type(0))) if recipe.p else frame
        backend = "pyarrow" if recipe.wrapping == "pandas arrow" else "numpy_nullable"
        with np.errstate(invalid="ignore"):  # pandas tries whether infinity is a whole number
            frame = frame.convert_dtypes(dtype_backend=backend)
        return frame.mask(missing) if missing.any() else frame
    columns = [
        [None if gone else value for gone, value in zip(missing[:, j], column, strict=True)]
        for j, column in enumerate(_native(typed).T.tolist())
    ]
    texts = [str(label) for label in labels]
    if recipe.wrapping == "polars":
        if recipe.names == "doubled":
            texts = [f"{text}{j}" for j, text in enumerate(texts)]
        return pl.DataFrame(dict(zip(texts, columns, strict=True)))
    table = pa.table([pa.array(column) for column in columns], names=texts)
    if recipe.wrapping == "arrow batch":
        return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=texts)
    return table


def _with_odd(recipe: Recipe, rows: np.ndarray):
    """A frame or array of which the last column holds no numbers."""
    n = recipe.n
    if recipe.odd == "complex":
        return rows + 1j
    if recipe.odd == "text":
        return np.array([[f"v{value}" for value in row] for row in rows]).reshape(rows.shape)
    odd = {
        "categorical": lambda: pd.Categorical(["low", "high"] * (n // 2) + ["low"] * (n % 2)),
        "date": lambda: pd.date_range("2020-01-01", periods=n),
        "mixed objects": lambda: [object(), "a", None, 10**400][:n] + ["b"] * max(n - 4, 0),
        "nested": lambda: [[1, 2]] * n,
    }[recipe.odd]()
    frame = pd.DataFrame(rows).copy()
    frame.columns = [f"c{j}" for j in range(recipe.p)]
    frame[f"c{recipe.p - 1}"] = odd
    return frame


def copied(table):
    """A deep copy to compare with afterwards."""
    if isinstance(table, (pl.DataFrame, pa.Table, pa.RecordBatch)):
        return table  # these cannot be changed in place by numbers
    if sparse.issparse(table) or isinstance(table, (np.ndarray, pd.DataFrame)):
        return table.copy()
    return [list(row) for row in table]


def same(one, two) -> bool:
    """Bit for bit, also the order in which a sparse matrix holds its numbers."""
    if isinstance(one, pd.DataFrame):
        return one.equals(two) and list(one.columns) == list(two.columns)
    if sparse.issparse(one):
        parts = ("data", "indices", "indptr") if one.format in ("csr", "csc") else ("data",)
        return all(np.array_equal(getattr(one, a), getattr(two, a), equal_nan=True) for a in parts)
    if isinstance(one, np.ma.MaskedArray):
        return np.array_equal(one.mask, two.mask) and _same_array(one.data, two.data)
    if isinstance(one, np.ndarray):
        return _same_array(one, two)
    return one is two or repr(one) == repr(two)


def _same_array(one: np.ndarray, two: np.ndarray) -> bool:
    if one.dtype.kind in "OUS":
        return repr(one.tolist()) == repr(two.tolist())
    return np.array_equal(one, two, equal_nan=True)


# --- which recipes there are ---

SIZES = (0, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 35, 40, 45, 50)
SCALES = (
    1e-308,
    1e-200,
    1e-155,
    1e-149,
    1e-140,
    1e-30,
    1e-8,
    1e8,
    1e30,
    1e140,
    1e149,
    1e155,
    1e300,
)
USUAL = 0.8
"""How often each ingredient is the usual one, so that about half of the tables can be analysed."""
CHOICES = {
    "factors": (2, (0, 1, 3, 4)),
    "kind": ("normal", ("five points", "heavy", "counts", "exact")),
    "relation": ("none", RELATIONS[1:]),
    "scale": (1.0, SCALES),
    "spread": (0.0, (4.0, 12.0, 100.0)),
    "offset": (0.0, (10.0, 1e5, 1e9, 1e13)),
    "missing": ("none", MISSING_WORDS[1:]),
    "infinite": (False, (False, False, True)),
    "dtype": ("float64", DTYPES[1:]),
    "names": ("plain", NAMES[1:]),
    "odd": ("none", ("none",) * 4 + NOT_NUMBERS),
}


def random_recipe(rng: np.random.Generator) -> Recipe:
    """For thousands of cases, each independent of the last."""
    n, p = (int(value) for value in rng.choice(SIZES, 2))
    chosen = {
        name: usual if rng.random() < USUAL else others[rng.integers(len(others))]
        for name, (usual, others) in CHOICES.items()
    }
    wrapping = WRAPPINGS[rng.integers(len(WRAPPINGS))]
    return Recipe(n=n, p=p, seed=int(rng.integers(2**31)), wrapping=wrapping, **chosen)


def recipes() -> st.SearchStrategy[Recipe]:
    """The same for Hypothesis, which makes what fails smaller."""
    chosen = {
        name: st.sampled_from([usual] * 8 + list(others))
        for name, (usual, others) in CHOICES.items()
    }
    return st.builds(
        Recipe,
        n=st.sampled_from(SIZES[2:] + SIZES),
        p=st.sampled_from(SIZES[2:] + SIZES),
        seed=st.integers(0, 2**31),
        wrapping=st.sampled_from(WRAPPINGS),
        **chosen,
    )
