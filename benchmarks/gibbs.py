"""The sampler: speed against a literal one, cost by n, effective draws, factors found, coverage."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import row, save
from benchmarks.timing import interleaved, seconds
from cuspfa import CuspFactorAnalysis, Gibbs, datasets
from cuspfa.data.in_memory import RotatedRows
from cuspfa.errors import CuspWarning
from cuspfa.inference.gibbs.chain import Model, begin, sweep
from cuspfa.inference.gibbs.data_kernels import CompleteDataKernel

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from oracles import gibbs as oracle

SHORT = 600
"""Sweeps of the literal sampler: enough to know what one costs, adaptation and all."""


SETS = 4
"""Data sets of each design for both engines."""


def fitted(rows: np.ndarray, **settings: Any) -> CuspFactorAnalysis:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CuspWarning)
        return CuspFactorAnalysis(**{"random_state": 0, **settings}).fit(rows)


def literal(y: np.ndarray, sweeps: int) -> None:
    """The authors' sampler as printed, from few columns, as it has them after adaptation."""
    oracle.sample(
        y,
        slab=("inverse gamma", 2.0, 2.0),
        spike=0.05,
        alpha=5.0,
        noise_shape=1.0,
        noise_rate=0.3,
        n_terms=5,
        sweeps=sweeps,
        rng=np.random.default_rng(0),
        adapt=(1, -1.0, -5e-4),
    )


def speed() -> list[dict[str, Any]]:
    data = datasets.load_bfi(subset="paper").data
    y = data - data.mean(axis=0)
    model = CuspFactorAnalysis.as_published("gibbs", random_state=0)

    def ours() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CuspWarning)
            model.fit(data)

    def four() -> None:
        model.set_params(method__n_chains=4)
        ours()
        model.set_params(method__n_chains=1)

    mine, together, theirs = interleaved([ours, four, lambda: literal(y, SHORT)], 3)
    theirs *= 15_000 / SHORT
    return [
        row(
            "15 000 sweeps on the paper's data, one chain",
            f"{mine:.1f} s",
            f"literal NumPy sampler, row by row: {theirs:.0f} s, {theirs / mine:.0f} times as long",
            "≥ 15 times faster",
            theirs / mine >= 15,
        ),
        row(
            "the same, four chains together",
            f"{together:.1f} s",
            f"literal sampler, four chains: {4 * theirs / together:.0f} times as long",
        ),
    ]


def flat() -> list[dict[str, Any]]:
    p, k = 50, 5
    y = datasets.simulate(5000, p, k, random_state=0).X
    gram = y.T @ y / 5000
    prior = Gibbs.default_prior()

    def sweeps(n: int) -> Any:
        spike = prior.slab.automatic_spike(n, p)
        model = Model(
            CompleteDataKernel(RotatedRows(n * gram, None, n)),
            prior,
            spike,
            p + 1,
            None,
            (-1, 0),
            5,
        )
        rng = np.random.default_rng(0)
        active = np.arange(k + 2)[None, :] < k
        state = begin(rng.standard_normal((p, 1, k + 2)), np.ones((p, 1)), active, model, rng)

        def some() -> None:
            now = state
            for at in range(1, 201):
                now = sweep(now, at, model, rng)

        return some

    numbers = (1_000, 10_000, 100_000, 1_000_000)
    times = [1e6 * one / 200 for one in interleaved([sweeps(n) for n in numbers], 9)]
    said = ", ".join(f"{value:.0f} µs at {n:,}" for n, value in zip(numbers, times, strict=True))
    spread = max(times) / min(times) - 1
    return [
        row(
            "a sweep at p = 50 and 5 factors, n from 10³ to 10⁶",
            said,
            f"slowest {100 * spread:.0f} % above the quickest",
            "within 20 %",
            spread <= 0.2,
        )
    ]


def effective() -> list[dict[str, Any]]:
    lines = []
    for name, rows, k in (
        ("paper's data, 4 factors", datasets.load_bfi(subset="paper").data, 4),
        ("n = 500, p = 200, 5 factors", datasets.simulate(500, 200, 5, random_state=0).X, 5),
    ):
        found = {}
        for every in (0, 1, 5):
            method = Gibbs(
                n_draws=1500, burn_in=300, thin=1, scale_rotation_every=every, n_chains=1
            )
            begin_time = time.process_time()
            posterior = fitted(rows, n_factors=k, method=method).posterior_
            used = time.process_time() - begin_time
            sizes = posterior.diagnostics.effective_size
            found[every] = (np.nanmedian(sizes) / used, np.nanmin(sizes) / used)
        said = ", ".join(
            f"{'never' if not every else f'every {every}'}: {middle:.0f} (worst {worst:.0f})"
            for every, (middle, worst) in found.items()
        )
        lines.append(
            row(
                f"{name}: effective draws a second, median (worst) over covariances",
                said,
                f"moves in every fifth sweep give {found[5][0] / found[0][0]:.1f} times the median "
                "without",
            )
        )
    return lines


GRID = ((100, 10, 2), (1000, 10, 2), (100, 25, 3), (2000, 25, 3), (200, 100, 3), (2000, 100, 5))


def recovery() -> list[dict[str, Any]]:
    lines = []
    for n, p, k in (*GRID, (2000, 400, 3)):
        counts = []
        for seed in range(3 if p < 400 else 1):
            rows = datasets.simulate(n, p, k, strength=0.7, random_state=seed).X
            method = Gibbs(n_draws=100, burn_in=600, thin=2, n_chains=2, start_adapt=100)
            probabilities = fitted(rows, method=method).posterior_.count_probabilities
            counts.append((int(np.argmax(probabilities)), float(probabilities.max())))
        right = sum(found == k for found, _ in counts)
        said = ", ".join(f"{found} ({100 * chance:.0f} %)" for found, chance in counts)
        needed = (n, p) == (2000, 400)
        lines.append(
            row(
                f"prior=None, n = {n}, p = {p}, {k} factors of strength 0.7",
                said,
                f"right in {right} of {len(counts)} data sets",
                f"{k}" if needed else None,
                right == len(counts),
            )
        )
    return lines


def both_engines() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    lines, details = [], []
    for n, p, k in ((100, 20, 3), (300, 60, 4), (100, 100, 4)):
        for method in ("variational", "gibbs"):
            inside, width, found, used = [], [], [], []
            for seed in range(SETS):
                sim = datasets.simulate(n, p, k, design="laplace", strength=0.7, random_state=seed)
                made: list[CuspFactorAnalysis] = []

                def fit(sim: Any = sim, method: str = method, made: list[Any] = made) -> None:
                    made.append(fitted(sim.X, method=method))

                used.append(seconds(fit))
                posterior = made[0].posterior_
                averaged = posterior.kind == "gibbs"
                draws = posterior.draw(2000, average_over_k=averaged)
                lower, upper = posterior.interval("covariance", draws=draws)
                truth = sim.loadings @ sim.loadings.T + np.diag(sim.noise_variance)
                upper_half = np.triu_indices(p)
                covered = (lower <= truth) & (truth <= upper)
                inside.append(covered[upper_half].mean())
                width.append((upper - lower)[upper_half].mean())
                found.append(made[0].n_factors_)
            details.append(
                {
                    "n": n,
                    "p": p,
                    "true K": k,
                    "method": method,
                    "K": ", ".join(map(str, found)),
                    "coverage": float(np.mean(inside)),
                    "width": float(np.mean(width)),
                    "seconds": float(np.median(used)),
                }
            )
            lines.append(
                row(
                    f"{method}, n = {n}, p = {p}, {k} factors, {SETS} data sets",
                    f"K {details[-1]['K']}; 95 % intervals cover {100 * np.mean(inside):.1f} %",
                    f"mean width {np.mean(width):.3f}, {np.median(used):.2f} s a fit",
                )
            )
    return lines, details


def gibbs() -> list[dict[str, Any]]:
    began = time.perf_counter()
    rows = []
    for part in (speed, flat, effective, recovery):
        rows += part()
        print(f"  {part.__name__} done, {time.perf_counter() - began:.0f} s", flush=True)
    engines, details = both_engines()
    return save(
        "gibbs",
        "The Gibbs sampler",
        [*rows, *engines],
        notes=[
            "The literal sampler (tests/oracles/gibbs.py) draws each row of Λ and of η by "
            f"itself. Its time is that of {SHORT} sweeps with about 5 columns, times 15 "
            f"000/{SHORT}. The time of the package's sampler includes the first 500 sweeps with "
            "all 26 columns.",
            "Cost by n: the data are the cross-products of 5000 rows, scaled; n enters a sweep "
            "only in one Wishart draw. Effective draws: bulk effective sample sizes of "
            "covariances among 20 columns, given the number of factors, divided by processor "
            "seconds with the variational start.",
            "Factors found: the most probable number of factors and its probability, for each "
            "data set.",
            "The two engines are compared with their default priors on the same Laplace data.",
        ],
        began=began,
        details=details,
    )
