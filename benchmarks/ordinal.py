"""Ordinal, binary and mixed columns: correlations, the personality items.

Answers that are known, the number of factors and the coverage of intervals are sections of their
own.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy import special
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from benchmarks.ordinal_designs import DESIGNS_NOTE, FIRST_SEED, KINDS, simulated
from benchmarks.record import row, save
from cuspfa import CuspFactorAnalysis, polychoric
from cuspfa.datasets import load_bfi

KEPT_SETS = 3
MODEL_ERRORS = (0.0, 0.025, 0.05)
HIDDEN = 0.1
"""Share of the values of bfi that are hidden."""


# --- correlations and their intervals ---


def kept_lines() -> list[dict[str, Any]]:
    """The share of the true correlations that the posterior mean keeps."""
    lines = []
    for kind in KINDS:
        shares, errors, others = [], [], []
        for seed in range(KEPT_SETS):
            data = simulated(kind, 2000, 15, 3, 1000 + seed)
            model = CuspFactorAnalysis(likelihood="ordinal", n_factors=3)
            mean = model.fit(data.rows).posterior_.draw().correlation.mean(axis=0)
            pairs = np.triu_indices(15, 1)
            true = data.correlations[pairs]
            shares.append(float(mean[pairs] @ true / (true @ true)))
            errors.append(float(np.sqrt(np.mean((mean[pairs] - true) ** 2))))
            # Its tables ask for names of columns; the codes are enough here.
            other = polychoric(data.rows).correlation[pairs]
            others.append(float(np.sqrt(np.mean((other - true) ** 2))))
        kept, error, poly = (float(np.mean(part)) for part in (shares, errors, others))
        lines.append(
            row(
                f"{kind}, n = 2000: share of true latent correlations kept",
                f"{kept:.3f}; error {error:.4f}",
                f"polychoric correlations: error {poly:.4f}; {KEPT_SETS} sets",
                "0.97–1.03, error below polychoric",
                0.97 <= kept <= 1.03 and error < poly,
            )
        )
        print(f"  {lines[-1]['what']}: {lines[-1]['measured']}", flush=True)
    return lines


# --- bfi ---


def bfi_lines() -> list[dict[str, Any]]:
    rows, lines = np.asarray(load_bfi(subset="items").data, dtype=float), []
    for error in MODEL_ERRORS:
        began = time.process_time()
        model = CuspFactorAnalysis(likelihood="ordinal", model_error=error).fit(rows)
        spent, k = time.process_time() - began, model.n_factors_
        scored = [entry.n_factors for entry in model.search_]
        ok = spent <= 60 and (error != 0.05 or 4 <= k <= 6)
        lines.append(
            row(
                f"bfi, 2800 × 25, model error {error:g}: K, time of the whole search",
                f"{k} factors, {spent:.1f} s",
                f"one thread; scores of K = {min(scored)} to {max(scored)}",
                "≤ 60 s" + (", 4 to 6 factors" if error == 0.05 else ""),
                ok,
            )
        )
        print(f"  {lines[-1]['what']}: {lines[-1]['measured']}", flush=True)
    return lines + hidden_lines(rows)


def hidden_lines(rows: np.ndarray) -> list[dict[str, Any]]:
    """Values of bfi that are hidden: their log probability, and how often the category is wrong."""
    rng = np.random.default_rng(FIRST_SEED)
    hidden = ~np.isnan(rows) & (rng.random(rows.shape) < HIDDEN)
    given = np.where(hidden, np.nan, rows)
    who, columns = np.nonzero(hidden)
    truth = rows[hidden].astype(int)
    top = np.where(truth == 6, np.inf, truth + 0.5)
    bottom = np.where(truth == 1, -np.inf, truth - 0.5)
    logs, wrong = {}, {}
    for error in (0.0, 0.05):
        model = CuspFactorAnalysis(likelihood="ordinal", model_error=error).fit(given)
        _, tables = model.impute(given, return_proba=True)
        every = np.array(list(tables.values()))
        chances = every[columns, who]
        name = f"ordinal, model error {error:g} ({model.n_factors_} factors)"
        logs[name] = np.log(chances[np.arange(len(who)), truth - 1])
        wrong[name] = chances.argmax(axis=1) + 1 != truth
        model = CuspFactorAnalysis(model_error=error).fit(given)
        mean, sd = conditional_normal(given, model.mean_, model.get_covariance())
        m, s = mean[hidden], sd[hidden]
        name = f"Gaussian, model error {error:g} ({model.n_factors_} factors)"
        logs[name] = np.log(special.ndtr((top - m) / s) - special.ndtr((bottom - m) / s))
        wrong[name] = np.clip(np.round(m), 1, 6) != truth
    filled = IterativeImputer(random_state=0).fit_transform(given)[hidden]
    wrong["IterativeImputer"] = np.clip(np.round(filled), 1, 6) != truth
    means = {name: float(np.mean(part)) for name, part in logs.items()}
    shares = {name: float(np.mean(part)) for name, part in wrong.items()}
    own, others = _split(means)
    worst, best = min(own, key=own.__getitem__), max(others, key=others.__getitem__)
    error = float(np.std(logs[worst] - logs[best]) / np.sqrt(len(truth)))
    own_wrong, other_wrong = _split(shares)
    return [
        row(
            f"bfi, {len(truth)} values hidden: mean log probability of a value",
            _listed(own, "{:.4f}"),
            f"rounded to categories: {_listed(others, '{:.4f}')}; the smallest difference has an "
            f"error of {error:.4f}",
            "each above each Gaussian",
            own[worst] > others[best],
        ),
        row(
            "the same: share of wrong categories",
            _listed(own_wrong, "{:.1%}"),
            f"rounded: {_listed(other_wrong, '{:.1%}')}",
            "each below all",
            max(own_wrong.values()) < min(other_wrong.values()),
        ),
    ]


def _split(of: dict[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """What belongs to the ordinal models, and the rest."""
    own = {name: part for name, part in of.items() if name.startswith("ordinal")}
    return own, {name: part for name, part in of.items() if name not in own}


def _listed(of: dict[str, float], form: str) -> str:
    return "; ".join(
        f"{name.removeprefix('ordinal, ')}: {form.format(x)}" for name, x in of.items()
    )


def conditional_normal(
    rows: np.ndarray, mean: np.ndarray, omega: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of missing values given the others, 0 where observed."""
    means, sds = np.zeros(rows.shape), np.zeros(rows.shape)
    for i, values in enumerate(rows):
        there = ~np.isnan(values)
        weights = np.linalg.solve(omega[np.ix_(there, there)], omega[np.ix_(there, ~there)])
        means[i, ~there] = mean[~there] + (values[there] - mean[there]) @ weights
        left = np.diag(omega)[~there] - np.sum(omega[np.ix_(there, ~there)] * weights, axis=0)
        sds[i, ~there] = np.sqrt(left)
    return means, sds


def ordinal() -> list[dict[str, Any]]:
    began = time.perf_counter()
    parts = (kept_lines, bfi_lines)
    rows = [one for part in parts for one in part()]
    return save(
        "ordinal",
        "Ordinal, binary and mixed columns",
        rows,
        notes=[
            DESIGNS_NOTE,
            "bfi: 10 % of the values hidden. A model error counts each row n_eff/n times, with "
            "1/n_eff = 1/(n − 1) + ε².",
            "Joint laws of the sweeps, with broken steps, are tests: "
            "tests/inference/cellwise/test_kernels.py.",
        ],
        began=began,
    )
