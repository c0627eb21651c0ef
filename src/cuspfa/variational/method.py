"""The settings of the variational engine."""

from __future__ import annotations

from typing import NamedTuple

from sklearn.base import BaseEstimator

from cuspfa._checks import must_be, one_of, positive, whole
from cuspfa.variational.fit import Callback


class CheckedSettings(NamedTuple):
    """Settings after validation."""

    tol: float
    max_iter: int
    n_init: int
    max_factors: int | None
    flat_mean: bool
    callback: Callback | None


class Variational(BaseEstimator):  # type: ignore[misc]
    """Mean-field variational Bayes (Algorithm 1 of Legramanti, 2020).

    Parameters
    ----------
    tol : float, default=0.05
        A run stops when its bound grows by less than this, in nats.
    max_iter : int, default=5000
        Most cycles of a run.
    init : {"random"}, default="random"
        How a run starts. "random": loadings drawn from the prior (which columns are active from
        the process, their loadings from slab and spike), noise variances at the sample variances,
        sticks at their prior. The paper does not say how its starts were drawn.
    n_init : int, default=20
        Number of runs; the one with the highest bound is kept.
    max_factors : int or None, default=None
        Most factors; the process has H = max_factors + 1 terms, the last always inactive. None
        means the number of columns, H = p + 1 as in the paper.
    mean : {"flat", "plugged-in"}, default="flat"
        "flat" integrates the means out under a flat prior, which counts n − 1 rows; "plugged-in"
        treats the sample means as known and counts n, as in the papers.
    callback : callable or None, default=None
        Called after each cycle with a `Progress` tuple.

    Examples
    --------
    >>> Variational(n_init=5)
    Variational(n_init=5)
    """

    def __init__(
        self,
        *,
        tol: float = 0.05,
        max_iter: int = 5000,
        init: str = "random",
        n_init: int = 20,
        max_factors: int | None = None,
        mean: str = "flat",
        callback: Callback | None = None,
    ) -> None:
        self.tol = tol
        self.max_iter = max_iter
        self.init = init
        self.n_init = n_init
        self.max_factors = max_factors
        self.mean = mean
        self.callback = callback

    def checked(self) -> CheckedSettings:
        """Validate; an InputError names the setting that is out of range."""
        one_of("init", self.init, ("random",))
        if self.callback is not None and not callable(self.callback):
            raise must_be("callback", "None or a function of one argument", self.callback)
        return CheckedSettings(
            tol=positive("tol", self.tol),
            max_iter=whole("max_iter", self.max_iter, 1),
            n_init=whole("n_init", self.n_init, 1),
            max_factors=(
                None if self.max_factors is None else whole("max_factors", self.max_factors, 0)
            ),
            flat_mean=one_of("mean", self.mean, ("flat", "plugged-in")) == "flat",
            callback=self.callback,
        )
