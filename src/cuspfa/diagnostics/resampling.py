"""Fits to parts of the rows: held-out likelihood by number of factors, factors of two halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from cuspfa._typing import Array, Indices
from cuspfa._utils.warn import silent
from cuspfa.diagnostics.retention import match_factors
from cuspfa.errors import DataError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis

HELD_OUT_TOLERANCE = 5e-4
"""Held-out log-likelihoods of a row that differ by less are printed alike and count as equal."""
HELD_OUT_EMPTY_SHARE = 1e-6
"""A factor of a fit to a part of the rows with a smaller share of the variance is empty."""


class HeldOut(NamedTuple):
    """One number of factors, judged by rows that it was not fitted to."""

    n_factors: int
    log_likelihood: float
    """Mean log density of a held-out row."""
    behind: float
    """The difference to that of the best number."""
    standard_error: float
    """Of `behind`, from the paired differences row by row."""
    kept: float
    """The number of factors with any loadings, mean over the folds; the others are empty."""

    @property
    def real(self) -> bool:
        """Is less than one of the factors empty, on average?

        Otherwise the fit has fewer factors than were asked for and does not count as one with so
        many: empty factors add a little to the noise variances, which may predict a little better.
        """
        return self.kept > self.n_factors - 1


def random_parts(n: int, number: int, rng: np.random.Generator) -> list[Indices]:
    """Row numbers of random parts whose sizes differ by one at most."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n), number)]


def quiet_fit(model: CuspFactorAnalysis, rows: Any, **parameters: Any) -> CuspFactorAnalysis:
    """A copy of the model with these parameters, fitted without warnings.

    They would not be about the user's own fit.
    """
    with silent():
        fitted: CuspFactorAnalysis = clone(model).set_params(**parameters).fit(rows)
    return fitted


def _fit_part(model: CuspFactorAnalysis, rows: Any, k: int) -> CuspFactorAnalysis:
    """A copy with k factors, fitted to a part of the rows."""
    try:
        return quiet_fit(model, rows, n_factors=k)
    except DataError as error:
        raise DataError(
            f"X cannot be divided: {rows.shape[0]} of its rows by themselves cannot be "
            f"fitted. {error} Or use fewer parts, or more rows."
        ) from error


def _outside(n: int, part: Indices) -> Indices:
    return np.setdiff1d(np.arange(n), part, assume_unique=True)


class _Fold(NamedTuple):
    densities: Array
    """Log densities of the rows held out."""
    kept: int
    converged: bool


def _one_fold(model: CuspFactorAnalysis, rows: Any, part: Indices, k: int) -> _Fold:
    """A part of the rows under the fit to all the others."""
    fitted = _fit_part(model, rows[_outside(rows.shape[0], part)], k)
    kept = int(np.sum(np.mean(fitted.loadings_**2, axis=0) > HELD_OUT_EMPTY_SHARE))
    return _Fold(fitted.score_samples(rows[part]), kept, bool(fitted.converged_))


def held_out_by_number(
    model: CuspFactorAnalysis,
    rows: Any,
    numbers: Sequence[int],
    parts: Sequence[Indices],
    n_jobs: int | None,
) -> tuple[list[HeldOut], int]:
    """Held-out log-likelihood by number of factors, and how many fits did not converge."""
    done: list[_Fold] = Parallel(n_jobs=n_jobs)(
        delayed(_one_fold)(model, rows, part, k) for k in numbers for part in parts
    )
    densities = np.empty((len(numbers), rows.shape[0]))
    kept = np.empty((len(numbers), len(parts)))
    for task, fold in enumerate(done):
        number, place = divmod(task, len(parts))
        densities[number, parts[place]] = fold.densities
        kept[number, place] = fold.kept
    unconverged = sum(not fold.converged for fold in done)
    return compare_held_out(numbers, densities, kept.mean(axis=1)), unconverged


def compare_held_out(numbers: Sequence[int], densities: Array, kept: Array) -> list[HeldOut]:
    """Means of log densities (numbers, rows), with paired differences to the best of them.

    `kept` is the mean number of factors with loadings.
    """
    means = densities.mean(axis=1)
    real = kept > np.array(numbers) - 1
    # A prior with a finite spike may leave fewer of every number; then all are alike in that.
    among = np.where(real | ~real.any(), means, -np.inf)
    best = int(np.argmax(among >= among.max() - HELD_OUT_TOLERANCE))
    differences = densities[best] - densities
    errors = differences.std(axis=1, ddof=1) / np.sqrt(densities.shape[1])
    return [
        HeldOut(k, float(mean), float(behind), float(error), float(nonempty))
        for k, mean, behind, error, nonempty in zip(
            numbers, means, differences.mean(axis=1), errors, kept, strict=True
        )
    ]


def choose(held_out: Sequence[HeldOut]) -> tuple[int, int]:
    """The best number, and the smallest that is no more than a standard error behind it."""
    best = next(one for one in held_out if one.behind == 0.0)
    near = next(one for one in held_out if one.behind <= one.standard_error)
    return best.n_factors, near.n_factors


def _one_split(
    model: CuspFactorAnalysis, rows: Any, target: Array, half: Indices, order: Indices
) -> tuple[Array, Array, int]:
    """Congruence of two halves by factor of the target, by chance, and fits not converged.

    The first half is rotated towards the target, so that its factors have the order of those of the
    whole fit. The second is rotated towards the first, without the target.
    """
    k = target.shape[1]
    fits = [_fit_part(model, rows[part], k) for part in (half, _outside(rows.shape[0], half))]
    # A finite spike may have left fewer factors: those that are missing agree with nothing.
    first, second = (
        np.pad(fit.loadings_, ((0, 0), (0, k - fit.loadings_.shape[1]))) for fit in fits
    )
    named = match_factors(target, first).second
    return (
        match_factors(named, second).congruence,
        match_factors(named, second[order]).congruence,
        sum(not fit.converged_ for fit in fits),
    )


def replicate_in_halves(
    model: CuspFactorAnalysis,
    rows: Any,
    target: Array,
    halves: Sequence[Indices],
    orders: Sequence[Indices],
    n_jobs: int | None,
) -> tuple[Array, Array, int]:
    """Congruences (splits, K), those by chance, and how many fits did not converge."""
    done = Parallel(n_jobs=n_jobs)(
        delayed(_one_split)(model, rows, target, half, order)
        for half, order in zip(halves, orders, strict=True)
    )
    shape = len(halves), target.shape[1]
    found, chance = (np.reshape([one[side] for one in done], shape) for side in (0, 1))
    return found, chance, sum(one[2] for one in done)
