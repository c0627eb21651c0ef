"""Missing values: error, spread and time of `impute`, slopes after it, intervals, large data."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from benchmarks.coverage import covered
from benchmarks.record import row, save
from cuspfa import CuspFactorAnalysis, CuspPrior, Variational
from cuspfa.datasets import load_bfi, simulate
from cuspfa.inference.variational.elbo import lower_bound
from cuspfa.inference.variational.init import draw_start
from cuspfa.inference.variational.run import iteration
from cuspfa.missing.source import prepare_incomplete

Sets = Callable[[int], np.ndarray]
HIDDEN = 0.1
DESIGNS: dict[str, tuple[Sets, int, int]] = {
    "bfi (2800 × 25)": (lambda seed: load_bfi(subset="items").data, 3, 10),
    "simulated (1000, 60, 6) dense": (
        lambda seed: simulate(1000, 60, 6, strength=0.5, random_state=seed).X,
        3,
        6,
    ),
    "simulated (500, 100, 5) sparse": (
        lambda seed: simulate(500, 100, 5, design="sparse", random_state=seed).X,
        3,
        5,
    ),
}


def hidden(data: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The data with a tenth of their values hidden, and which these are."""
    rng = np.random.default_rng([seed, 77])
    hide = (rng.random(data.shape) < HIDDEN) & ~np.isnan(data)
    return np.where(hide, np.nan, data), hide


def one_set(data: np.ndarray, seed: int, k: int) -> dict[str, tuple[float, float, float]]:
    """By method: root mean squared error in standard deviations, seconds, coverage."""
    incomplete, hide = hidden(data, seed)
    sd = np.nanstd(data, axis=0)

    def error(filled: np.ndarray) -> float:
        return float(np.sqrt(np.mean((((filled - data) / sd)[hide]) ** 2)))

    found = {
        "column means": (error(np.where(hide, np.nanmean(incomplete, axis=0), data)), 0.0, np.nan)
    }
    models = {
        "CuspFactorAnalysis()": CuspFactorAnalysis(),
        f"CuspFactorAnalysis(n_factors={k}), tol=1": CuspFactorAnalysis(
            n_factors=k, method=Variational(tol=1.0)
        ),
    }
    for name, model in models.items():
        began = time.process_time()
        filled = model.fit(incomplete).impute(incomplete)
        seconds = time.process_time() - began
        std = model.impute(incomplete, return_std=True)[1]
        inside = np.abs(filled - data)[hide] < 1.96 * std[hide]
        found[name] = (error(filled), seconds, float(np.mean(inside)))
    for name, imputer in {
        "KNNImputer": KNNImputer(),
        "IterativeImputer": IterativeImputer(random_state=0),
    }.items():
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own ConvergenceWarning
            filled = imputer.fit_transform(incomplete)
        found[name] = (error(filled), time.process_time() - began, np.nan)
    return found


def errors() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows, details = [], []
    one_set(simulate(60, 6, 2, random_state=0).X, 0, 2)  # whatever is done once
    for name, (make, sets, k) in DESIGNS.items():
        runs = [one_set(make(seed), seed, k) for seed in range(sets)]
        mean = {method: np.mean([run[method] for run in runs], axis=0) for method in runs[0]}
        for method, (error, seconds, inside) in mean.items():
            details.append(
                {"part": "impute", "set": name, "method": method, "rmse": error}
                | {"seconds": seconds, "inside 95 %": inside}
            )
        own, their = mean["CuspFactorAnalysis()"], mean["IterativeImputer"]
        given = mean[f"CuspFactorAnalysis(n_factors={k}), tol=1"]
        knn, plain = mean["KNNImputer"][0], mean["column means"][0]
        others = f"IterativeImputer {their[0]:.4f}, KNNImputer {knn:.4f}, means {plain:.4f}"
        rows.append(
            row(
                f"{name}: error of held-out values",
                f"{own[0]:.4f} (K = {k} given: {given[0]:.4f})",
                others,
                "below means and KNN, at most IterativeImputer's (to 0.1 %)",
                own[0] < min(knn, plain) and own[0] <= their[0] * 1.001,
            )
        )
        rows.append(
            row(
                f"{name}: time, number of factors found",
                f"{own[1]:.2f} s",
                f"IterativeImputer {their[1]:.2f} s",
                "faster",
                own[1] < their[1],
            )
        )
        rows.append(
            row(
                f"{name}: time, K = {k} given, tol=1",
                f"{given[1]:.2f} s",
                f"IterativeImputer {their[1]:.2f} s",
            )
        )
        gaussian = name.startswith("simulated")
        rows.append(
            row(
                f"{name}: 95 % intervals of held-out values",
                f"{100 * own[2]:.1f} % inside",
                "nominal" if gaussian else "nominal for normal values; these are 1 to 6",
                "93–97 %" if gaussian else None,
                0.93 <= own[2] <= 0.97,
            )
        )
    return rows, details


SHAPES, SHAPE_SEED = 24, 41_867_233
"""Data sets of the shapes that are drawn at random, and their seed."""


def random_shapes() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Simulated data of any shape, with 1 to 30 % of the values missing."""
    rng = np.random.default_rng(SHAPE_SEED)
    details: list[dict[str, Any]] = []
    for _ in range(SHAPES):
        n, p = (int(np.exp(rng.uniform(*np.log(ends)))) for ends in ((100, 3000), (8, 60)))
        k, part = min(int(rng.integers(1, 9)), p // 3), float(np.exp(rng.uniform(-4.6, -1.2)))
        strength = float(rng.choice([1.0, 0.5]))
        data = simulate(n, p, k, strength=strength, random_state=int(rng.integers(1 << 30))).X
        hide = rng.random(data.shape) < part
        incomplete = np.where(hide, np.nan, data)
        model = CuspFactorAnalysis()
        began = time.process_time()
        own = model.fit(incomplete).impute(incomplete)
        middle = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own ConvergenceWarning
            theirs = IterativeImputer(random_state=0).fit_transform(incomplete)
        ended = time.process_time()
        rmse, their_rmse = (
            float(np.sqrt(np.mean((filled - data)[hide] ** 2))) for filled in (own, theirs)
        )
        details.append(
            {"part": "shapes", "shape": (n, p, k), "missing": round(part, 3), "strength": strength,
             "found": model.n_factors_, "seconds": middle - began,
             "IterativeImputer": ended - middle, "rmse": rmse, "their rmse": their_rmse}
        )  # fmt: skip
    times = np.array([one["seconds"] / one["IterativeImputer"] for one in details])
    errors = np.array([one["rmse"] / one["their rmse"] for one in details])
    name = f"{SHAPES} shapes drawn at random (n 100–3000, p 8–60, K 1–8), 1–30 % missing"
    return [
        row(
            f"{name}: time, number of factors found",
            f"{np.median(times):.2f} times IterativeImputer's at the median",
            f"faster in {np.sum(times < 1)} sets; largest {times.max():.2f} times",
            "faster in the median",
            float(np.median(times)) < 1,
        ),
        row(
            f"{name}: error of held-out values",
            f"{np.median(errors):.3f} times IterativeImputer's at the median",
            f"from {errors.min():.3f} to {errors.max():.3f}",
            "no larger in the median",
            float(np.median(errors)) <= 1,
        ),
    ], details


SLOPES, TABLES = 600, 20


def slope_of(table: np.ndarray) -> tuple[float, float]:
    """Of column 0 on columns 1 and 2: the slope of column 1, and its squared standard error."""
    design = np.column_stack([np.ones(len(table)), table[:, 1:3]])
    inverse = np.linalg.inv(design.T @ design)
    beta = inverse @ design.T @ table[:, 0]
    residual = table[:, 0] - design @ beta
    return float(beta[1]), float(inverse[1, 1] * (residual @ residual) / (len(table) - 3))


def one_slope(seed: int, k: int) -> tuple[bool, bool, bool]:
    """Is the true slope inside: by Rubin's rules, one filled table, rows without missing values."""
    from scipy.stats import t

    sim = simulate(200, 6, k, random_state=50_000 + seed)
    omega = sim.covariance
    truth = float(np.linalg.solve(omega[1:3, 1:3], omega[1:3, 0])[0])
    rng = np.random.default_rng(seed)
    x = sim.X.copy()
    drives = x[:, [5]] > np.median(x[:, 5])  # always observed
    x[:, :3][rng.random((200, 3)) < np.where(drives, 0.4, 0.1)] = np.nan
    model = CuspFactorAnalysis(n_factors=k).fit(x)
    found = np.array([slope_of(one) for one in model.impute(x, n_draws=TABLES, random_state=seed)])
    within, between = found[:, 1].mean(), found[:, 0].var(ddof=1)
    total = within + (1 + 1 / TABLES) * between
    freedom = (TABLES - 1) * (1 + within / ((1 + 1 / TABLES) * between)) ** 2
    pooled = abs(found[:, 0].mean() - truth) < t.isf(0.025, freedom) * np.sqrt(total)

    def alone(table: np.ndarray) -> bool:
        slope, variance = slope_of(table)
        return bool(abs(slope - truth) < t.isf(0.025, len(table) - 3) * np.sqrt(variance))

    return bool(pooled), alone(model.impute(x)), alone(x[~np.isnan(x).any(axis=1)])


def slopes() -> list[dict[str, Any]]:
    error, rows = np.sqrt(95 * 5 / SLOPES), []
    for k in (3, 2):
        done = Parallel(n_jobs=2)(delayed(one_slope)(seed, k) for seed in range(SLOPES))
        inside = 100 * np.mean(done, axis=0)
        asked = k == 3
        rows.append(
            row(
                f"a regression slope after {TABLES} drawn tables, Rubin's rules, {SLOPES} sets of "
                f"(200, 6, {k})",
                f"{inside[0]:.1f} % of 95 % intervals cover",
                f"nominal, standard error {error:.1f}; expected values filled in once "
                f"{inside[1]:.1f} % (control); rows without missing values {inside[2]:.1f} %",
                "93–97 %" if asked else None,
                93 <= inside[0] <= 97,
            )
        )
    return rows


INTERVALS = {
    "(100, 8, 2), 15 % missing": ({"n": 100, "p": 8, "n_factors": 2}, 0.15, 120),
    "(300, 12, 3), 30 % missing": ({"n": 300, "p": 12, "n_factors": 3}, 0.3, 120),
}


def intervals() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Of covariances, correlations and means of fits to incomplete data."""
    rows, details = [], []
    kinds: dict[str, dict[str, Any]] = {
        "draws": {},
        "without sweeps": {"sweeps": 0},
        "mean field": {"mean_field": True},
    }
    for name, (design, part, sets) in INTERVALS.items():
        found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
        for seed in range(sets):
            sim = simulate(**design, random_state=30_000 + seed)
            x = sim.X.copy()
            x[np.random.default_rng(seed).random(x.shape) < part] = np.nan
            model = CuspFactorAnalysis(n_factors=design["n_factors"]).fit(x)
            pairs = np.array(np.triu_indices(design["p"]))
            for kind, settings in kinds.items():
                draws = model.posterior_.draw(600, random_state=seed, **settings)
                low, high = np.quantile(draws.mean, [0.025, 0.975], axis=0)
                means = float(np.mean((low <= sim.mean) & (sim.mean <= high)))
                found[kind].append(covered(draws, sim.covariance, pairs) | {"mean 95": means})
        for kind, runs in found.items():
            mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            error = float(np.std([run["covariance 95"] for run in runs]) / np.sqrt(sets))
            details.append({"part": "intervals", "set": name, "method": kind, **mean})
            tight = [mean[f"{what} 95"] for what in ("covariance", "correlation", "mean")]
            rows.append(
                row(
                    f"{name}: {kind}",
                    f"covariances {100 * tight[0]:.1f} %, correlations {100 * tight[1]:.1f} %, "
                    f"means {100 * tight[2]:.1f} %",
                    f"nominal 95 %, standard error {100 * error:.1f}; K given",
                    "93–97 %" if kind == "draws" else None,
                    all(0.93 <= one <= 0.97 for one in tight),
                )
            )
    return rows, details


def large() -> list[dict[str, Any]]:
    n, p, k = 100_000, 100, 10
    x = simulate(n, p, k, random_state=0).X
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    prior = CuspPrior()
    tracemalloc.start()
    prepared = prepare_incomplete(x, scaling="columns", flat_mean=True)
    source = prepared.source
    state = draw_start(source, prior, k + 2, np.random.default_rng(0), k)
    state = iteration(state, source, prior)
    source.leading(k, 1.0 / state.noise.precision)
    source.log_likelihood(state.loadings.mean, 1.0 / state.noise.precision)
    peak = tracemalloc.get_traced_memory()[1] / x.nbytes
    tracemalloc.stop()
    times = []
    for _ in range(5):
        began = time.process_time()
        state = iteration(state, source, prior)
        lower_bound(state, source, prior)
        times.append(time.process_time() - began)
    return [
        row(
            f"n = {n}, p = {p}, 10 % missing, K = {k}: an iteration",
            f"{np.median(times):.2f} s",
            "one thread, median of five",
            "≤ 1.5 s",
            float(np.median(times)) <= 1.5,
        ),
        row(
            f"n = {n}, p = {p}, 10 % missing, K = {k}: memory, the data themselves included",
            f"{1 + peak:.1f} times the data",
            "peak of preparation, start, an iteration, spectrum and likelihood",
            "≤ 4 times",
            1 + peak <= 4.0,
        ),
    ]


def missing() -> list[dict[str, Any]]:
    began = time.perf_counter()
    rows, details = errors()
    shapes, of_shapes = random_shapes()
    more, further = intervals()
    rows += shapes + large() + more + slopes()
    return save(
        "missing",
        "Missing values",
        rows,
        notes=[
            "Held-out values: a tenth of the observed values is hidden (bfi has 508 missing "
            "values besides). Errors are root mean squares in standard deviations of the "
            "column, averaged over three data sets. Times are processor seconds of fit and "
            "impute together. IterativeImputer (with BayesianRidge) and KNNImputer of "
            "scikit-learn have their default settings.",
            "Slope: n = 200, six columns. Column 5 is always observed. In the three columns of "
            "the regression 10 or 40 % of the values are missing, depending on whether column 5 "
            "is low or high. The intervals are 95 % intervals for the slope of one column on "
            "another, with a third as covariate. With three factors the six covariances of the "
            "regression are free. With two they are not: the imputation model then makes more "
            "assumptions than the regression, and Rubin's rules give intervals that are too "
            "wide rather than too narrow.",
            "Intervals: values are missing completely at random. Draws come from chains of "
            "exact sweeps, from the scale-rotation move alone, and from q (the negative "
            "control).",
        ],
        began=began,
        details=details + of_shapes + further,
    )
