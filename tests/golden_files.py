"""Files as this release writes them, for all later ones to read: `python tests/golden_files.py`.

Makes tests/io/golden/<version>: a saved fit of each kind, moments, a folder of chains, and
expected.json with what the fitted models answered before they were saved.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cuspfa
from cuspfa import CuspFactorAnalysis, CuspPoissonFactorization, Gibbs, Moments

GOLDEN = Path(__file__).parent / "io" / "golden"
N, P = 60, 6
NAMES = [f"q{j}" for j in range(1, P + 1)]
CHAINS: dict[str, Any] = {"n_chains": 2, "burn_in": 40, "start_adapt": 20, "thin": 1}
CHAIN_DRAWS = 20


def rows() -> np.ndarray:
    """Two factors and noise, from sines, so that no generator of random numbers is needed."""
    i, j = np.arange(1.0, N + 1)[:, None], np.arange(P)
    scores = np.sqrt(2.0) * np.sin(i * np.array([1.0, 2.6]))
    loadings = np.array([[0.9, 0.8, 0.7, 0.1, 0.0, 0.2], [0.0, 0.2, 0.1, 0.8, 0.9, 0.7]])
    return np.asarray(scores @ loadings + 0.8 * np.sin(i * (3.7 + 1.3 * j) + j))


def incomplete() -> np.ndarray:
    """The same with missing values."""
    values = rows()
    values[(np.arange(N)[:, None] + 3 * np.arange(P)) % 17 == 0] = np.nan
    return values


def answers() -> np.ndarray:
    """Four ordered categories."""
    return np.asarray(np.digitize(rows(), [-1.0, 0.0, 1.0]) + 1.0)


def counts() -> np.ndarray:
    """Whole numbers from 0."""
    return np.asarray(np.floor(np.exp(0.6 * rows() + 0.5)))


def mixed() -> np.ndarray:
    """Three numbers, two answers, one count."""
    return np.column_stack([rows()[:, :3], answers()[:, 3:5], counts()[:, 5]])


KINDS = {
    **dict.fromkeys(NAMES[:3], "gaussian"),
    **dict.fromkeys(NAMES[3:5], "ordinal"),
    "q6": "poisson",
}
FITS: dict[str, tuple[Any, np.ndarray]] = {
    "gaussian": (CuspFactorAnalysis(n_factors=2, rotation="oblimin"), rows()),
    "model_error": (CuspFactorAnalysis(n_factors=2, model_error=0.05), rows()),
    "missing": (CuspFactorAnalysis(n_factors=2), incomplete()),
    "robust": (CuspFactorAnalysis(n_factors=2, robust=True), rows()),
    "gibbs": (CuspFactorAnalysis(method=Gibbs(n_draws=CHAIN_DRAWS, **CHAINS)), rows()),
    "gibbs_missing": (
        CuspFactorAnalysis(method=Gibbs(n_draws=CHAIN_DRAWS, **CHAINS)),
        incomplete(),
    ),
    "ordinal": (CuspFactorAnalysis(n_factors=1, likelihood="ordinal"), answers()),
    "mixed": (CuspFactorAnalysis(n_factors=1, likelihood=KINDS), mixed()),
    "ordinal_gibbs": (
        CuspFactorAnalysis(likelihood="ordinal", method=Gibbs(n_draws=CHAIN_DRAWS, **CHAINS)),
        answers(),
    ),
    "counts": (CuspPoissonFactorization(n_factors=2), counts()),
}
"""Models and their rows, by the name of the file."""


def answered(model: Any, table: pd.DataFrame) -> dict[str, Any]:
    """What a fitted model, or one that was read, says."""
    posterior, first = model.posterior_, table[:5]
    found = {
        "kind": posterior.kind,
        "n_active": int(posterior.n_active),
        "columns": list(model.feature_names_in_),
        "factors": list(posterior.factor_names),
        "scores": np.asarray(model.transform(first)).tolist(),
        "log_densities": model.score_samples(first).tolist(),
    }
    if hasattr(model, "get_covariance"):
        found["covariance"] = model.get_covariance().tolist()
    return found


def chains(folder: Path, n_draws: int = CHAIN_DRAWS) -> np.ndarray:
    """Draws of noise variances, by chain; those in the folder are read."""
    method = Gibbs(n_draws=n_draws, checkpoint_dir=folder, **CHAINS)
    model = CuspFactorAnalysis(standardize=False, method=method, random_state=0).fit(whole())
    return np.asarray(model.posterior_.noise_variance_draws.reshape(2, n_draws, P))


def whole() -> np.ndarray:
    """Whole numbers with means of 0: their sums are the same with every BLAS."""
    half = answers()[: N // 2] - 2.0
    return np.vstack([half, -half])


def main() -> None:
    """Make the folder, once for a version."""
    folder = GOLDEN / cuspfa.__version__
    if folder.exists():
        raise SystemExit(f"{folder} is there: files of a release are never replaced.")
    folder.mkdir()
    warnings.simplefilter("ignore")  # R-hat of few draws
    expected = {}
    for name, (model, values) in FITS.items():
        table = pd.DataFrame(values, columns=NAMES)
        model.set_params(random_state=0).fit(table)
        model.posterior_.save(folder / f"{name}.cusp")
        expected[name] = answered(model, table)
    Moments.from_rows(whole(), names=NAMES).save(folder / "moments.cusp")
    expected["chains"] = {"noise_variance": chains(folder / "chains").tolist()}
    text = json.dumps(expected, indent=1)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
