"""Count, mean and centred cross-products: the sufficient statistics of complete rows."""

from __future__ import annotations

import reprlib
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import issparse

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be, whole
from cuspfa._utils.fit_warning import EmptyRows
from cuspfa._utils.fit_warning_text import python_text
from cuspfa._utils.warn import warn
from cuspfa.data.in_memory import row_blocks
from cuspfa.data.out_of_core.screened import doubts_of, read_screened
from cuspfa.data.out_of_core.stream import as_stream
from cuspfa.data.sums import Sums
from cuspfa.data.validate import check_correlations, check_rows, dense_rows, symmetric
from cuspfa.errors import DataError
from cuspfa.io import moments_format

CORRELATION_ROUNDING = 0.0029
"""Standard deviation of the rounding error of correlations with two decimals."""
LARGEST_CHECKED = 2000
"""Columns up to which the eigenvalues of given moments are checked."""
RAISED_TO = 1e-8
"""Eigenvalue that takes the place of negative ones, on the correlation scale."""


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Sufficient statistics of complete rows; those of several sets of rows add up.

    Named columns are matched by name; a sum has the order of its first term.

    Attributes
    ----------
    n : int
        Number of rows.
    mean : ndarray (p,)
        Column means ȳ.
    cross_products : ndarray (p, p)
        Σ_i (y_i − ȳ)(y_i − ȳ)ᵀ.
    names : list of str or None
        Column names, each once.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> both = Moments.from_rows(X[:40]) + Moments.from_rows(X[40:])
    >>> bool(np.allclose(both.covariance, np.cov(X, rowvar=False)))
    True
    """

    n: int
    mean: Array
    cross_products: Array
    names: list[str] | None = None

    def __post_init__(self) -> None:
        whole("n", self.n, 1)
        for name in ("mean", "cross_products"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))
        p = self.mean.size
        if p < 1:
            raise DataError("Moments must be of at least one column. Got none.")
        if self.mean.shape != (p,) or self.cross_products.shape != (p, p):
            raise must_be(
                "cross_products",
                "a square matrix with a row for each mean",
                (self.mean.shape, self.cross_products.shape),
            )
        if not (np.all(np.isfinite(self.mean)) and np.all(np.isfinite(self.cross_products))):
            raise DataError("Moments must be finite; are there NaN, or values above 1e150?")
        if self._is_asymmetric():
            raise must_be("cross_products", "symmetric", "a matrix that is not")
        if self.names is not None:
            object.__setattr__(self, "names", _checked_names(self.names, p))

    def __repr__(self) -> str:
        """Numbers of rows and columns."""
        return f"<Moments of {self.n} rows, {len(self.mean)} columns>"

    @property
    def covariance(self) -> Array:
        """The sample covariance, divisor n − 1."""
        return self.cross_products / max(self.n - 1, 1)

    def _is_asymmetric(self) -> bool:
        """Is the matrix asymmetric? By blocks of rows, to save memory."""
        root = np.sqrt(np.abs(np.diag(self.cross_products)))
        for first in range(0, len(root), 256):
            rows, columns = self.cross_products[first : first + 256], self.cross_products.T
            apart = np.abs(rows - columns[first : first + 256])
            allowed = 1e-8 * np.outer(root[first : first + 256], root) + np.finfo(float).tiny
            if np.any(apart > allowed):
                return True
        return False

    def _size(self) -> Array:
        root = np.sqrt(np.abs(np.diag(self.cross_products)))
        return np.asarray(np.outer(root, root) + np.finfo(float).tiny)

    def check_usable(self) -> None:
        """Raise a DataError if a column is constant or the cross-products are indefinite."""
        constant = np.diag(self.cross_products) <= self.n * (1e-12 * self.mean) ** 2
        if constant.any():
            j = int(np.argmax(constant))
            name = "" if self.names is None else f" ({self.names[j]!r})"
            raise DataError(f"column {j}{name} of the moments is constant. Drop it.")
        if len(self.mean) <= LARGEST_CHECKED:
            values = np.asarray(np.linalg.eigvalsh(self.cross_products / self._size()), float)
            rank = rank_of(values)
            if rank > self.n - 1:
                raise DataError(
                    f"n must be larger: {self.n} rows have cross-products of rank {self.n - 1} at "
                    f"most, and these are of rank {rank}. Were the rows more, or is the matrix "
                    "made of pairs of columns?"
                )
            lowest = float(values[0])
            if lowest < -1e-8:
                raise DataError(
                    "the cross-products are not positive semi-definite (smallest eigenvalue "
                    f"{lowest:.3g} on the correlation scale); use Moments.from_covariance, which "
                    "repairs them."
                )

    @classmethod
    def from_rows(cls, rows: Any, names: list[str] | None = None) -> Self:
        """Sum up an array or data frame by blocks of rows, each centred at its own mean.

        Merging centred blocks (Chan, Golub & LeVeque) keeps the digits that Σy² − nȳ² would lose
        where means are large.
        """
        table = check_rows(rows, fitted=True)
        if issparse(table.rows):
            raise DataError("Moments are made of dense rows; fit a sparse matrix directly.")
        if table.empty:
            warn(python_text(EmptyRows(len(table.empty), len(table.rows))))
        return cls.from_checked_rows(table.rows, table.names if names is None else names)

    @classmethod
    def from_checked_rows(cls, rows: Any, names: list[str] | None = None) -> Self:
        """From a dense array of finite numbers."""
        sums = Sums(rows.shape[1])
        for block in row_blocks(rows):
            sums.add(block)
        return cls.from_sums(sums, names)

    @classmethod
    def from_sums(cls, sums: Sums, names: list[str] | None = None) -> Self:
        """From sums of blocks of rows."""
        with np.errstate(over="ignore", invalid="ignore"):  # large sums are refused by the class
            return cls(sums.n, sums.mean, sums.cross, names)

    @classmethod
    def from_stream(cls, data: Any) -> Self:
        """Sum up rows that are not in memory, in one pass.

        Parameters
        ----------
        data : RowStream, path, iterator of batches, or array on disk
            Anything that `RowStream` reads.

        Examples
        --------
        >>> import numpy as np
        >>> from cuspfa import Moments
        >>> rng = np.random.default_rng(0)
        >>> Moments.from_stream(rng.normal(size=(1000, 3)) for _ in range(5)).n
        5000
        """
        stream = as_stream(data)
        found = read_screened(stream, sums=True)
        assert isinstance(found.data, Sums)
        told = doubts_of([*stream.reader.notes, *found.notes], found.dropped)
        told += (EmptyRows(found.n_empty, found.data.n),) if found.n_empty else ()
        if told:
            warn(" ".join(map(python_text, told)))
        return cls.from_sums(found.data, found.names)

    @classmethod
    def from_covariance(
        cls,
        covariance: Any,
        n: int,
        *,
        mean: Any = None,
        names: list[str] | None = None,
    ) -> Self:
        """From a published covariance matrix (divisor n − 1) and the number of rows."""
        s, own_names = _square_matrix("covariance", covariance)
        names = own_names if names is None else names
        whole("n", n, 2)
        center = np.zeros(len(s)) if mean is None else np.atleast_1d(np.asarray(mean, dtype=float))
        return cls(n, center, _positive_definite("covariance", s) * (n - 1), names)

    @classmethod
    def from_correlation(cls, correlation: Any, n: int, *, names: list[str] | None = None) -> Self:
        """From a published correlation matrix and the number of rows.

        Means and units of the data are lost: do not add such moments to those of rows.

        Rounded entries, or entries from different rows, can make a matrix indefinite. Its negative
        eigenvalues are then raised to a small positive number, with a warning of the change.
        """
        r, own_names = _square_matrix("correlation", correlation)
        names = own_names if names is None else names
        whole("n", n, 2)
        advice = "use from_covariance for a covariance matrix."
        check_correlations("correlation", r, advice)
        return cls(n, np.zeros(len(r)), _positive_definite("correlation", r) * (n - 1), names)

    def save(self, path: Any) -> None:
        """Write to a file, whole or not at all, without pickle.

        Sites can exchange sufficient statistics instead of rows: each saves its own, and one site
        loads and adds all. Moments of few rows may reveal these rows, with a warning. Moments of
        nearly the same rows reveal the rows in which they differ, and a column in which one row
        differs from all others reveals that row: see docs/large_data.md.

        Parameters
        ----------
        path : str or os.PathLike
            The file.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from cuspfa import Moments
        >>> rng = np.random.default_rng(0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for site in ("north", "south"):
        ...         rows = rng.normal(size=(100, 3))
        ...         Moments.from_rows(rows).save(Path(folder) / f"{site}.moments")
        ...     parts = [Moments.load(path) for path in sorted(Path(folder).iterdir())]
        >>> sum(parts).n
        200
        """
        moments_format.save_moments(self.n, self.mean, self.cross_products, self.names, path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read what `save` wrote; a file that is damaged or of another kind is a FileError."""
        return cls(**moments_format.load_moments(path))

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        other = other._in_order_of(self)
        n = self.n + other.n
        shift = other.mean - self.mean
        between = np.outer(shift, shift * (self.n * other.n / n))
        return Moments(
            n,
            self.mean + shift * (other.n / n),
            self.cross_products + other.cross_products + between,
            self.names,
        )

    def __radd__(self, other: Any) -> Moments:
        """Makes `sum` work, which starts at 0."""
        return self if type(other) is int and other == 0 else NotImplemented

    def _in_order_of(self, first: Moments) -> Moments:
        """These moments with columns in the order of `first`."""
        if self.names == first.names and len(self.mean) == len(first.mean):
            return self
        if self.names is None or first.names is None or set(self.names) != set(first.names):
            raise DataError(
                f"Moments of different columns cannot be added: {_columns_differ(first, self)}."
            )
        places = {name: place for place, name in enumerate(self.names)}
        order = np.array([places[name] for name in first.names])
        cross = self.cross_products[np.ix_(order, order)]
        return Moments(self.n, self.mean[order], cross, first.names)


def _columns_differ(first: Moments, second: Moments) -> str:
    """How their columns differ, in words."""
    if first.names is None or second.names is None:
        named = ["without names" if one.names is None else "with names" for one in (first, second)]
        sizes = len(first.mean), len(second.mean)
        return f"{sizes[0]} {named[0]} and {sizes[1]} {named[1]}"
    first_alone = [name for name in first.names if name not in set(second.names)]
    second_alone = [name for name in second.names if name not in set(first.names)]
    told = [
        f"{which} alone has {reprlib.repr(alone)}"
        for which, alone in (("the first", first_alone), ("the second", second_alone))
        if alone
    ]
    return ", ".join(told)


def _checked_names(names: Any, p: int) -> list[str]:
    given = [] if isinstance(names, str) else list(names)
    if len(given) != p:
        raise must_be("names", f"a list of {p} names", names)
    (most, times), *_ = Counter(given).most_common(1)
    if times > 1:
        raise DataError(f"names must be different. Got {most!r} {times} times.")
    return given


def _square_matrix(name: str, matrix: Any) -> tuple[Array, list[str] | None]:
    rows, names, *_ = check_rows(matrix)
    result = dense_rows(rows)
    if result.shape[0] != result.shape[1] or result.size == 0:
        raise must_be(name, "a square matrix", result.shape)
    return symmetric(name, result), names


def rank_of(eigenvalues: Array) -> int:
    """The rank of a correlation matrix whose entries may be rounded.

    That moves the eigenvalues of p variables by about twice the error of an entry times √p.
    """
    rounding = 2 * CORRELATION_ROUNDING * np.sqrt(len(eigenvalues))
    return int(np.sum(eigenvalues > rounding))


class Repaired(NamedTuple):
    """A matrix with the same diagonal and no negative eigenvalue."""

    matrix: Array
    lowest: float
    """The smallest eigenvalue before, on the correlation scale."""
    change: Array
    """(p, p) sizes of the changes, on the correlation scale."""


def repaired(matrix: Array) -> Repaired | None:
    """A matrix whose negative eigenvalues are raised to a small number; None if there are none.

    Its diagonal must be positive.
    """
    sd = np.sqrt(np.diag(matrix))
    scale = np.outer(sd, sd)
    values, vectors = np.linalg.eigh(matrix / scale)
    if values[0] >= -1e-10:
        return None
    found = (vectors * np.maximum(values, RAISED_TO)) @ vectors.T
    root = np.sqrt(np.diag(found))
    found = found / np.outer(root, root)
    return Repaired(found * scale, float(values[0]), np.abs(found - matrix / scale))


def _positive_definite(name: str, matrix: Array) -> Array:
    """The matrix or, with a warning, one with the same diagonal and no negative eigenvalue."""
    diagonal = np.diag(matrix)
    if np.any(diagonal <= 0):
        j = int(np.argmin(diagonal))
        raise DataError(f"{name} must have a positive diagonal. Got {diagonal[j]!r} at index {j}.")
    found = repaired(matrix)
    if found is None:
        return matrix
    change = float(np.abs(found.matrix - matrix).max())
    warn(
        f"{name} is not positive semi-definite (smallest eigenvalue {found.lowest:.3g} on the "
        f"correlation scale); its negative eigenvalues were raised to {RAISED_TO:g}, which changed "
        f"entries by up to {change:.3g}. Use more digits, or one set of complete rows."
    )
    return found.matrix
