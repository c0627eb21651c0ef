"""What tests of several folders share: simulated rows, tables in files, posteriors."""

import csv
import json
import os
import re
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, Gibbs, datasets
from cuspfa.data.protocols import CompleteMatrix, CompleteSource, DataSource
from cuspfa.errors import CuspWarning
from cuspfa.inference.cellwise import engine as cell_engine
from cuspfa.io.archive import write_archive
from cuspfa.missing.patterns import IncompleteRows
from cuspfa.posterior import VariationalPosterior

posix = pytest.mark.skipif(os.name != "posix", reason="needs devices, pipes or signals of POSIX")


def variational_posterior(model: CuspFactorAnalysis) -> VariationalPosterior:
    assert isinstance(model.posterior_, VariationalPosterior)
    return model.posterior_


def matrix_of(source: DataSource) -> CompleteMatrix:
    """The layout of complete data in a source."""
    assert isinstance(source, CompleteSource)
    return source._matrix


# --- simulated rows ---


def factor_rows(n: int, p: int, k: int, rng: np.random.Generator, noise: float = 1.0) -> np.ndarray:
    """Rows of k factors with standard normal loadings, not centred."""
    rows: np.ndarray = rng.normal(size=(n, k)) @ rng.normal(size=(k, p))
    return rows + noise * rng.normal(size=(n, p))


def random_walks(n: int, p: int) -> np.ndarray:
    """Columns for which there is no small number of factors."""
    walks: np.ndarray = np.cumsum(np.random.default_rng(0).standard_normal((n, p)), axis=0)
    return walks


def with_missing(rows: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    """A copy in which each value is missing with this probability."""
    lacking = np.random.default_rng(seed).random(rows.shape) < share
    return np.where(lacking, np.nan, rows)


def complete_rows(rows: np.ndarray) -> np.ndarray:
    complete: np.ndarray = rows[~np.isnan(rows).any(axis=1)]
    return complete


def incomplete_rows(rows: np.ndarray) -> IncompleteRows:
    observed = ~np.isnan(rows)
    return IncompleteRows(np.where(observed, rows, 0.0), observed)


# --- tables in files ---


def answers(n: int = 60, p: int = 8, k: int = 2, seed: int = 1) -> np.ndarray:
    """Rows of a questionnaire, with three decimals."""
    return datasets.simulate(n, p, k, random_state=seed).X.round(3)


def write_csv(
    path: str | Path,
    names: Sequence[str] | None,
    rows: Iterable[Iterable[object]],
    separator: str = ",",
) -> Path:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator)
        if names is not None:
            writer.writerow(names)
        writer.writerows(rows)
    return Path(path)


def column_numbers(table: Any) -> list[Any]:
    """The numbers of each column of a table that was read; None for a column of text."""
    return [None if one.numbers is None else one.numbers.tolist() for one in table.columns]


# --- posteriors and loadings ---


def posterior_of(rows: np.ndarray, names: Any = None, **settings: Any) -> Any:
    """The posterior of a fit with these column names, of whichever engine."""
    return CuspFactorAnalysis(random_state=0, **settings)._fit(rows, names).posterior_


def sampled_model(
    rows: Any,
    settings: dict[str, Any],
    *,
    ignored: type[Warning] = CuspWarning,
    **parameters: Any,
) -> CuspFactorAnalysis:
    """A model fitted by the Gibbs sampler, whose short chains need not converge."""
    model = CuspFactorAnalysis(method=Gibbs(**settings), **parameters)
    with warnings.catch_warnings(action="ignore", category=ignored):
        return model.fit(rows)


def column_congruence(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Tucker's congruence of each column of one matrix with the same column of another."""
    lengths = np.sqrt(np.sum(a**2, axis=0) * np.sum(b**2, axis=0))
    congruence: np.ndarray = np.sum(a * b, axis=0) / lengths
    return congruence


# --- processes ---


def run_python(
    *arguments: str, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own, and what it prints."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=check,
        **options,
    )


def changed_file(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """The file of a saved fit, with other entries or arrays."""
    with zipfile.ZipFile(path) as archive:
        content = json.loads(archive.read("fit.json"))
        arrays = {name: np.load(archive.open(name)) for name in archive.namelist()[1:]}
    change(content, arrays)
    plain = {name.removesuffix(".npy"): array for name, array in arrays.items()}
    write_archive(path, json.dumps(content).encode(), plain, "")
    return path


def module_of_page(name: str) -> ModuleType:
    """The Python code of a page for developers as a module, like a file of its own."""
    page = Path(__file__).parents[1] / "docs" / "dev" / name
    module = ModuleType(page.stem)
    sys.modules[module.__name__] = module
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, str(page), "exec"), module.__dict__)
    return module


@contextmanager
def fewer_cell_draws(chains: int) -> Iterator[None]:
    """Fits to single cells with so many chains and five draws of each, for time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_engine, "CHAINS", chains)
        patch.setattr(cell_engine, "FEWEST_DRAWS", 5 * chains)
        yield
