"""Real counts: log-likelihood of thinned halves beside NMF, LDA and hpfrec."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln
from sklearn.datasets import load_digits

from benchmarks.counts_peers import PEERS, smoothed
from cuspfa import CuspPoissonFactorization, Gibbs
from cuspfa._utils.warn import silent
from cuspfa.posterior import SampledFactorizationPosterior

VEGAN = os.environ.get("CUSPFA_VEGAN_TABLES", "")
"""A folder with BCI.csv, mite.csv and dune.csv, which cannot be distributed with this package."""
VEGAN_TABLES = ("BCI", "mite", "dune")
SPLITS = 4
SAMPLER = Gibbs(n_draws=140, n_chains=2, burn_in=300, thin=5)
TRIED = (1, 2, 3, 4, 6, 8, 11, 15)
"""K of the other methods: the best of these for the events held out, which helps them."""
NOTE = (
    "Real counts are thinned four times into halves: each method is fitted to one, and its rates "
    "predict the other; mean log density of the half held out, with paired standard errors over "
    "splits and rows. Ours are means of two chains of 1000 sweeps, which draw K too; beside them "
    "are those of 100 draws with K by the search. The others have the best of "
    f"K = {', '.join(map(str, TRIED))} for the events held out. 1 % of the product of the margins "
    "is mixed with the rates of each."
)


def words_of(package: str, most: int = 120) -> np.ndarray:
    """Words in the docstrings of a package's functions and classes."""
    module = importlib.import_module(package)
    texts = [
        inspect.getdoc(getattr(module, name)) or ""
        for name in sorted(dir(module))
        if name[0] != "_"
    ]
    found = [Counter(re.findall(r"[a-z]{4,}", text.lower())) for text in texts if len(text) > 600]
    used = Counter(word for one in found for word in one)
    words = [word for word, number in used.most_common(most) if number >= 5]
    return np.array([[one[word] for word in words] for one in found])


def vegan(name: str) -> np.ndarray:
    """A table of R's package vegan, written as CSV without row names."""
    return np.loadtxt(Path(VEGAN) / f"{name}.csv", delimiter=",", skiprows=1)


def digits() -> np.ndarray:
    data = load_digits().data[::6]
    return np.asarray(data[:, data.sum(axis=0) > 0].astype(int))


TABLES: dict[str, Callable[[], np.ndarray]] = {
    "digits": digits,
    "words of numpy": lambda: words_of("numpy"),
    "words of scipy.stats": lambda: words_of("scipy.stats"),
    "words of scipy.signal": lambda: words_of("scipy.signal"),
    "words of scipy.special": lambda: words_of("scipy.special"),
    "words of sklearn.metrics": lambda: words_of("sklearn.metrics"),
}
if VEGAN:
    TABLES = {name: partial(vegan, name) for name in VEGAN_TABLES} | TABLES


def compared(name: str) -> dict[str, Any]:
    """Log densities of the halves held out, by row."""
    x = TABLES[name]().astype(np.int64)
    others: dict[str, dict[int, list[np.ndarray]]] = {peer: {} for peer in PEERS}
    own: list[np.ndarray] = []
    searched: list[np.ndarray] = []
    numbers: list[int] = []
    for split in range(SPLITS):
        train = np.random.default_rng(split).binomial(x, 0.5)
        held = x - train
        with silent():
            found = CuspPoissonFactorization(random_state=0).fit(train).posterior_
            sampled = CuspPoissonFactorization(method=SAMPLER, random_state=0).fit(train).posterior_
        assert isinstance(sampled, SampledFactorizationPosterior)
        numbers += sampled.count_draws.tolist()
        every = sampled.draw(SAMPLER.n_draws * SAMPLER.n_chains, average_over_k=True)
        for draws, kept in ((every, own), (found.draw(100), searched)):
            kept.append(densities(held, smoothed(draws.rates().mean(axis=0), train)))
        for peer, fit in PEERS.items():
            for k in TRIED:
                if k <= min(x.shape):
                    value = densities(held, smoothed(fit(train, k), train))
                    others[peer].setdefault(k, []).append(value)
    result: dict[str, Any] = {
        "rows": x.shape[0],
        "columns": x.shape[1],
        "found": "–".join(map(str, sorted({min(numbers), max(numbers)}))),
        "own": round(float(np.sum(own)) / SPLITS, 1),
        "by_search": paired(own, searched),
    }
    for peer, values in others.items():
        k = max(values, key=lambda one: float(np.sum(values[one])))
        result[peer] = {"k": k, **paired(own, values[k])}
    return result


def paired(own: list[np.ndarray], other: list[np.ndarray]) -> dict[str, float]:
    """Nats by which the other is behind, with a standard error over rows."""
    difference = np.mean(np.array(own) - np.array(other), axis=0)
    return {
        "behind": round(float(difference.sum()), 2),
        "error": round(float(difference.std(ddof=1) * np.sqrt(len(difference))), 2),
    }


def densities(held: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Log density of each row."""
    rates = np.maximum(rates, 1e-300)
    return np.asarray((held * np.log(rates) - rates - gammaln(held + 1)).sum(axis=1))
