"""What is asked of each program, and what it answers.

A program that is not installed, or that cannot run beside the packages that are, is left out; the
section says so.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import numpy as np


class GaussianFit(NamedTuple):
    """A factor model of continuous columns."""

    n_factors: int
    mean: np.ndarray
    covariance: np.ndarray
    interval: tuple[np.ndarray, np.ndarray] | None = None
    """95 % intervals of the correlations, where a program has them."""

    def held_out(self, test: np.ndarray) -> float:
        """Mean log density of a test row."""
        root = np.linalg.cholesky(self.covariance)
        scaled = np.linalg.solve(root, (test - self.mean).T)
        log_det = 2.0 * np.sum(np.log(np.diag(root)))
        p = test.shape[1]
        return float(-0.5 * (np.mean(np.sum(scaled**2, axis=0)) + log_det + p * np.log(2 * np.pi)))


class CountFit(NamedTuple):
    """A factor model of counts: the expected count of each cell."""

    n_factors: int
    rates: np.ndarray


class LoadingsFit(NamedTuple):
    """A factor model of ordinal columns."""

    loadings: np.ndarray
    """Standardised, of latent responses."""
    seconds: float
    version: str
    log_likelihood: float = np.nan


class NotHere(Exception):
    """The program is not installed, or cannot run with the packages that are."""


def installed(package: str) -> str:
    """The version of a Python package, or `NotHere`."""
    try:
        return version(package)
    except PackageNotFoundError:
        raise NotHere("not installed") from None


class FromR(NamedTuple):
    """What a fit in R gave."""

    numbers: dict[str, np.ndarray]
    seconds: float
    version: str


def in_r(package: str, rows: np.ndarray, fit: str, results: dict[str, str]) -> FromR:
    """Run a fit of a package of R to the data frame X; `results` are expressions by name.

    `NotHere` without Rscript or the package.
    """
    if shutil.which("Rscript") is None:
        raise NotHere("Rscript is not installed")
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.csv" for name in ("rows", "facts", *results)}
        np.savetxt(paths["rows"], rows, fmt="%.17g", delimiter=",")
        writes = "\n".join(
            f'write.table({expression}, "{paths[name]}", sep = ",", row.names = FALSE, '
            "col.names = FALSE)"
            for name, expression in results.items()
        )
        code = f"""
            if (!requireNamespace("{package}", quietly = TRUE)) quit(status = 9)
            options(mc.cores = 1)
            suppressMessages(library({package}))
            X <- read.csv("{paths["rows"]}", header = FALSE)
            began <- proc.time()
            suppressMessages(suppressWarnings({{ {fit} }}))
            spent <- sum((proc.time() - began)[c(1, 2, 4, 5)])
            {writes}
            cat(spent, as.character(packageVersion("{package}")), file = "{paths["facts"]}")
        """
        done = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=False)
        if done.returncode == 9:
            raise NotHere("not installed")
        if done.returncode:
            raise RuntimeError(done.stderr)
        spent, number = paths["facts"].read_text().split()
        found = {name: np.loadtxt(paths[name], delimiter=",", ndmin=2) for name in results}
    return FromR(found, float(spent), number)
