"""What a user of scikit-learn would do instead: FactorAnalysis, its K by cross-validation."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.decomposition import FactorAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

from benchmarks.problems import folds, real
from benchmarks.record import row, save
from cuspfa import CuspFactorAnalysis

NUMBERS = 20


def one_fold(train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    begin = time.process_time()
    ours = CuspFactorAnalysis().fit(train)
    ours_done = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        grid = {"n_components": list(range(1, min(NUMBERS, train.shape[1]) + 1))}
        splits = KFold(5, shuffle=True, random_state=0)
        theirs = GridSearchCV(FactorAnalysis(random_state=0), grid, cv=splits).fit(train)
    done = time.process_time()
    return {
        "gaps": ours.score_samples(test) - theirs.best_estimator_.score_samples(test),
        "ours": ours.score(test),
        "sklearn": theirs.best_estimator_.score(test),
        "k_ours": ours.n_factors_,
        "k_sklearn": theirs.best_params_["n_components"],
        "seconds_ours": ours_done - begin,
        "seconds_sklearn": done - ours_done,
    }


def crossval() -> list[dict[str, Any]]:
    began = time.perf_counter()
    rows, details = [], []
    for name, data in real().items():
        done = Parallel(n_jobs=2, batch_size=1)(delayed(one_fold)(*pair) for pair in folds(data))
        gaps = np.concatenate([one.pop("gaps") for one in done])
        by_fold = np.array([one["ours"] - one["sklearn"] for one in done])
        mean = {key: float(np.mean([one[key] for one in done])) for key in done[0]}
        label = f"{name} ({data.shape[0]} × {data.shape[1]})"
        rows.append(
            row(
                f"{label}, log-likelihood of a held-out row",
                f"{mean['ours']:.3f}; difference {gaps.mean():+.3f}, standard error "
                f"{gaps.std(ddof=1) / np.sqrt(len(gaps)):.3f} over rows, "
                f"{by_fold.std(ddof=1) / np.sqrt(len(by_fold)):.3f} over folds",
                f"FactorAnalysis: {mean['sklearn']:.3f}",
            )
        )
        ratio = mean["seconds_sklearn"] / mean["seconds_ours"]
        speed = f"{ratio:.3g}× faster" if ratio >= 1 else f"{1 / ratio:.3g}× slower"
        counts = [", ".join(str(one[key]) for one in done) for key in ("k_ours", "k_sklearn")]
        rows.append(
            row(
                f"{label}, time of a fit, K = {counts[0]} by fold",
                f"{mean['seconds_ours']:.3g} s: {speed}",
                f"FactorAnalysis with K = {counts[1]}: {mean['seconds_sklearn']:.3g} s",
            )
        )
        details += [{"set": name, "fold": number, **one} for number, one in enumerate(done, 1)]
    return save(
        "crossval",
        "scikit-learn's FactorAnalysis with cross-validated K: real data",
        rows,
        notes=[
            "5 folds; training and test rows are standardised by the training rows. "
            "CuspFactorAnalysis() with its default settings is compared with "
            "GridSearchCV(FactorAnalysis()) over K = 1..20 (at most the number of columns), 5 "
            "inner folds and a refit. Differences are paired; positive values are in favour of "
            "CuspFactorAnalysis. Unlike in the section on held-out likelihood, FactorAnalysis "
            "chooses K without the test rows.",
        ],
        began=began,
        details=details,
    )
