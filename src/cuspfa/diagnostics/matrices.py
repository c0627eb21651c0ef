"""Checks of correlation and loading matrices that a caller gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.validate import check_correlations, check_rows, dense_rows, symmetric
from cuspfa.errors import DataError
from cuspfa.rotation.gpa import LARGEST_LOADING

SMALLEST_EIGENVALUE = 1e-10
"""A correlation matrix with an eigenvalue below this is called singular."""


def correlation_matrix(name: str, value: Any) -> Array:
    """A symmetric matrix of at least two variables with a unit diagonal, or a DataError."""
    r = dense_rows(check_rows(value).rows)
    if r.shape[0] != r.shape[1] or len(r) < 2:
        raise DataError(
            f"{name} must be a square matrix of two or more variables. Got shape {r.shape} "
            "instead; of rows of data, pass numpy.corrcoef(X, rowvar=False)."
        )
    r = symmetric(name, r)
    check_correlations(name, r, "divide a covariance matrix by its standard deviations first.")
    return r


def loading_matrix(name: str, value: Any) -> Array:
    """A finite matrix (p, K), K = 0 included, or a DataError."""
    result = dense_rows(check_rows(value).rows)
    if not len(result):
        raise DataError(f"{name} must have a row for each variable. Got none.")
    if np.any(np.abs(result) > LARGEST_LOADING):
        raise DataError(
            f"{name} must be at most {LARGEST_LOADING:g}. Divide them by a common number."
        )
    return result


def check_definite(name: str, matrix: Array) -> Array:
    """The eigenvalues, if none is at or below zero."""
    values = np.linalg.eigvalsh(matrix)
    if values[0] < SMALLEST_EIGENVALUE:
        raise DataError(
            f"{name} must be positive definite. Got {values[0]:.3g} as its smallest eigenvalue: "
            "some variables are given by others, there are no more rows than variables, or the "
            "entries come from different rows. Drop variables, or use complete rows."
        )
    return np.asarray(values)
