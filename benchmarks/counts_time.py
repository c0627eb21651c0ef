"""Seconds and memory of fits to large sparse counts."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.decomposition import NMF

from benchmarks.counts_peers import LEAST_PART, PEERS, margins
from benchmarks.timing import high_water
from cuspfa import CuspPoissonFactorization
from cuspfa._utils.warn import silent
from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.run import RunLimits, run_iterations
from cuspfa.inference.factorization.search import CountSearch, CountSearchSettings, first_state
from cuspfa.inference.factorization.state import CountState
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior

EVENTS_EACH = 1.25
"""Events for each cell above zero, about."""
NMF_ITERATIONS = 100
NMF_EVERY = 10
OUR_ITERATIONS = 300
LARGE_NOTE = (
    "Time: one thread, processor seconds. Half of the events are held out, and mean log density is "
    "that of an event given that there is one, so that its scale does not matter. Of NMF every "
    "tenth iteration is scored, of hpfrec the fit of 100. Memory is the growth of the peak of the "
    "process while it fits."
)


def sparse_counts(n: int, p: int, k: int, events: int, seed: int) -> Any:
    """Counts of Ga(0.3) scores and loadings, drawn event by event: no table is made."""
    rng = np.random.default_rng(seed)
    scores, loadings = rng.gamma(0.3, 1.0, (n, k)), rng.gamma(0.3, 1.0, (p, k))
    sizes = scores.sum(axis=0) * loadings.sum(axis=0)
    parts = rng.multinomial(events, sizes / sizes.sum())
    rows, columns = [], []
    for h, number in enumerate(parts):
        rows.append(rng.choice(n, number, p=scores[:, h] / scores[:, h].sum()))
        columns.append(rng.choice(p, number, p=loadings[:, h] / loadings[:, h].sum()))
    where = np.concatenate(rows), np.concatenate(columns)
    return sparse.csr_matrix((np.ones(len(where[0])), where), (n, p))


def searched(n: int, p: int, k: int) -> dict[str, Any]:
    """Seconds of a search, and of a fit with the K that it found."""
    x = sparse_counts(n, p, k, round(1.1 * 0.05 * n * p), seed=180_000)
    spent = {}
    with silent():
        for name in ("search", "fit"):
            begin = time.process_time()
            model = CuspPoissonFactorization(
                n_factors="auto" if name == "search" else k, random_state=0
            )
            found = model.fit(x).n_factors_
            spent[name] = round(time.process_time() - begin, 1)
            if name == "search":
                number, k = found, found
    return spent | {"found": number, "share": round(x.nnz / n / p, 4)}


class Clock:
    """Seconds of a fit, without those of scoring it, and what it predicted when."""

    def __init__(self, train: Any, held: Any) -> None:
        self.margins = margins(train)
        self.held = Counts(held, np.ones(held.shape[0]))
        self.began, self.scoring = time.process_time(), 0.0
        self.course: list[tuple[float, float]] = []

    def score(self, scores: np.ndarray, loadings: np.ndarray) -> None:
        """Mean log density of an event held out, margins mixed in."""
        begin = time.process_time()
        x, (rows, columns) = self.held.x, self.margins
        here = np.repeat(np.arange(self.held.n), np.diff(x.indptr))
        rates = (1 - LEAST_PART) * self.held.rates(scores, loadings)
        rates += LEAST_PART * rows[here] * columns[x.indices]
        total = float(scores.sum(axis=0) @ loadings.sum(axis=0)) * (1 - LEAST_PART)
        value = (float(x.data @ np.log(rates)) - total - LEAST_PART * rows.sum()) / x.data.sum()
        self.scoring += time.process_time() - begin
        self.course.append(
            (begin - self.began - self.scoring + (time.process_time() - begin), value)
        )

    @property
    def best(self) -> tuple[float, float]:
        """Seconds until the best value, and that value."""
        return max(self.course, key=lambda one: one[1])

    def until(self, value: float) -> float | None:
        """Seconds until a value is reached."""
        return next((spent for spent, here in self.course if here >= value), None)


def large_fit(n: int, p: int, k: int) -> dict[str, Any]:
    """The course of a fit at a given K beside NMF and hpfrec, and its memory."""
    events = round(EVENTS_EACH * n * p / 100)
    x = sparse_counts(n, p, k, 2 * events, seed=190_000)
    train = x.copy()
    train.data = np.random.default_rng(0).binomial(x.data.astype(int), 0.5).astype(float)
    held = (x - train).tocsr()
    train.eliminate_zeros()
    held.eliminate_zeros()
    ours = Clock(train, held)
    data = Counts(train, np.ones(n))
    prior = PoissonFactorizationPrior().for_data(data.mean_rate)
    search = CountSearch(data, prior, CountSearchSettings(), np.random.default_rng(0), k)
    start = search.with_columns(first_state(data, prior, 1), k)

    def on_iteration(number: int, bound: float, state: CountState) -> None:
        if number % 10 == 0:
            ours.score(state.scores.mean, state.loadings.mean)

    run_iterations(start, data, prior, RunLimits(0.01, OUR_ITERATIONS), on_iteration)
    clocks = {"NMF": nmf_course(train, held, k)}
    if "hpfrec" in PEERS:
        clocks["hpfrec"] = hpfrec_course(train, held, k)
    reached: dict[str, Any] = {}
    faster = True
    for name, clock in clocks.items():
        spent, value = clock.best
        mine = ours.until(value)
        reached[name] = "not reached" if mine is None else f"{mine:.0f} s"
        faster &= mine is not None and mine < spent
    csr = train.data.nbytes + train.indices.nbytes + train.indptr.nbytes
    return {
        "nonzeros": int(train.nnz),
        "course": [[round(one, 1), round(value, 5)] for one, value in ours.course],
        "peers": {
            name: {"seconds": round(clock.best[0], 1), "held_out": round(clock.best[1], 5)}
            for name, clock in clocks.items()
        },
        "reached": reached,
        "faster": faster,
        "csr": csr,
        "peak": csr + fit_peak(train, k),
    }


def nmf_course(train: Any, held: Any, k: int) -> Clock:
    rng, mean = np.random.default_rng(0), np.sqrt(train.mean() / k)
    scores, loadings = (
        mean * rng.random(shape) for shape in ((train.shape[0], k), (k, train.shape[1]))
    )
    clock = Clock(train, held)
    for _ in range(NMF_ITERATIONS // NMF_EVERY):
        model = NMF(
            k, init="custom", solver="mu", beta_loss="kullback-leibler", max_iter=NMF_EVERY, tol=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = model.fit_transform(train, W=scores, H=loadings)
        loadings = model.components_
        clock.score(scores, loadings.T)
    return clock


def hpfrec_course(train: Any, held: Any, k: int) -> Clock:
    from hpfrec import HPF

    cells = train.tocoo()
    clock = Clock(train, held)
    table = pd.DataFrame({"UserId": cells.row, "ItemId": cells.col, "Count": cells.data})
    model = HPF(
        k,
        ncores=1,
        maxiter=100,
        stop_crit="maxiter",
        check_every=100,
        reindex=False,
        verbose=False,
        random_seed=1,
        use_float=False,
        keep_data=False,
    )
    model.fit(table)
    scores, loadings = np.zeros((train.shape[0], k)), np.zeros((train.shape[1], k))
    scores[: len(model.Theta)], loadings[: len(model.Beta)] = model.Theta, model.Beta
    clock.score(scores, loadings)
    return clock


def fit_peak(train: Any, k: int) -> int:
    """Growth of the peak of a process of its own that fits; ten iterations need no less."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "train.npz")
        sparse.save_npz(path, train, compressed=False)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return int(pool.apply(_peak, (path, k)))


def _peak(path: str, k: int) -> int:
    def fit(x: Any, number: int) -> None:
        with silent():
            CuspPoissonFactorization(n_factors=number, max_iter=10, random_state=0).fit(x)

    fit(sparse.csr_matrix(np.ones((20, 10))), 1)  # loads what is loaded on first use
    train = sparse.load_npz(path)
    Path("/proc/self/clear_refs").write_text("5")
    before = high_water()
    fit(train, k)
    return high_water() - before
