"""Correlations of the normal responses behind ordered categories.

An ordinal column has thresholds on a standard normal response. The correlation of two such
responses is polychoric (tetrachoric for two levels each), that of a response and a continuous
column polyserial, and that of two continuous columns Pearson's. Estimates have two steps:
thresholds, means and variances from the single columns, then each correlation by maximum
likelihood given them (Olsson 1979; Olsson, Drasgow & Dorans 1982). Standard errors include the
first step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa._utils.arguments import must_be
from cuspfa._utils.bivariate_normal import bivariate_normal_cdf, bivariate_normal_density
from cuspfa._utils.tables import Columns, TabularResult
from cuspfa._utils.wording import counted, listed
from cuspfa.data.categories import with_numbers
from cuspfa.data.moments import Moments
from cuspfa.data.names import column_label
from cuspfa.data.screening.missing_codes import far_categories
from cuspfa.data.validate import check_table, dense_rows
from cuspfa.errors import DataError

__all__ = ["LatentCorrelations", "polychoric"]

ResponseKind = Literal["ordinal", "continuous"]

MAX_LEVELS = 20
"""More distinct values are not taken for ordered categories."""
FAR = 8.5
"""The outermost thresholds: the probability beyond is below the rounding error of one."""
LARGEST = 0.9999
"""Estimates end here; a likelihood that still rises has no maximum."""
EMPTY_CELL = 0.5
"""What an empty cell of a table of two by two counts, as without it the correlation is 1 or −1."""
MAX_STEPS, STEP_TOLERANCE, LARGEST_CHANGE = 100, 1e-9, 0.7
"""Of the Fisher scoring for atanh ρ."""
PAIRS_AT_ONCE = 2_000_000
"""Cells of tables, or rows times columns, that are held at once."""
LEAST_PROBABILITY = 1e-14
"""Smaller cell probabilities are rounding error."""


@dataclass(frozen=True, repr=False)
class LatentCorrelations(TabularResult):
    """Correlations of latent normal responses and continuous columns, with standard errors."""

    correlation: Array
    """(p, p) polychoric, polyserial and Pearson correlations."""
    standard_error: Array
    """(p, p) asymptotic standard errors; zero on the diagonal."""
    n_rows: Indices
    """(p, p) number of rows in which both columns are observed."""
    kinds: tuple[ResponseKind, ...]
    """Kind of each column."""
    levels: tuple[Array, ...]
    """The values of each ordinal column, in order; empty for continuous columns."""
    thresholds: tuple[Array, ...]
    """Of each ordinal column, one fewer than its levels; empty for continuous columns."""
    names: tuple[str, ...]
    """Names of the columns."""
    at_limit: tuple[tuple[str, str], ...] = ()
    """Pairs whose likelihood has no maximum: their correlation is given as ±0.9999."""

    def __repr__(self) -> str:
        """Short, without its arrays."""
        size = (
            f"{counted(len(self.names), 'column')}, {self.kinds.count('ordinal')} of them ordinal"
        )
        return f"<LatentCorrelations of {size}>"

    @property
    def effective_rows(self) -> float:
        """Rows of continuous data whose Pearson correlations have these standard errors.

        The harmonic mean over all pairs of (1 − ρ²)² / se²; pairs without a maximum are left out.
        """
        left, right = np.triu_indices(len(self.names), 1)
        rho, error = self.correlation[left, right], self.standard_error[left, right]
        inside = np.abs(rho) < LARGEST
        if not np.any(inside):
            return float(np.min(self.n_rows))
        return float(1.0 / np.mean((error[inside] / (1.0 - rho[inside] ** 2)) ** 2))

    def moments(self) -> Moments:
        """Moments for `CuspFactorAnalysis.fit_moments`, counted as the effective rows.

        A matrix of pairwise estimates can be indefinite. Its negative eigenvalues are then raised,
        with a warning.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets, polychoric
        >>> answers = datasets.load_bfi(subset="items", as_frame=True).frame
        >>> found = polychoric(answers)
        >>> model = CuspFactorAnalysis(model_error=0.05).fit_moments(found.moments())
        >>> model.n_factors_ in (5, 6)
        True
        """
        n = max(round(self.effective_rows), 2)
        return Moments.from_correlation(self.correlation, n, names=list(self.names))

    def _columns(self) -> Columns:
        """A row for each pair."""
        left, right = np.triu_indices(len(self.names), 1)
        return {
            "column": [self.names[j] for j in left],
            "other": [self.names[j] for j in right],
            "correlation": self.correlation[left, right].tolist(),
            "standard_error": self.standard_error[left, right].tolist(),
            "n_rows": self.n_rows[left, right].tolist(),
        }


def polychoric(
    X: Any,
    *,
    kinds: Mapping[str, ResponseKind] | Literal["auto", "ordinal"] = "auto",
) -> LatentCorrelations:
    """Polychoric, tetrachoric, polyserial and Pearson correlations of all pairs of columns.

    Parameters
    ----------
    X : array or data frame of shape (n, p)
        Numbers, or ordered categories of a data frame. Categories are ordered by their values.
        Missing values are allowed: each pair of columns uses the rows in which both are observed.
    kinds : "auto", "ordinal", or a mapping from column names to "ordinal" or "continuous"
        "auto" takes columns of whole numbers with at most 20 distinct values as ordinal, others as
        continuous. "ordinal" takes all columns as ordinal. A mapping decides for the columns it
        names; the others are decided as by "auto".

    Returns
    -------
    LatentCorrelations
        Correlations with standard errors, thresholds, and the number of rows of each pair.

    Notes
    -----
    Empty cells of a table of two by two levels count as half a row. In larger tables they are left
    empty. Where the likelihood still rises at ±0.9999, the pair is listed in `at_limit`.

    Examples
    --------
    >>> from cuspfa import datasets, polychoric
    >>> answers = datasets.load_bfi(subset="items", as_frame=True).frame
    >>> found = polychoric(answers)
    >>> print(found.correlation[0, 1].round(2), found.standard_error[0, 1].round(3))
    -0.41 0.018
    """
    table = check_table(with_numbers(X).data, allow_missing=True)
    rows = dense_rows(table.rows)
    names = [f"x{j}" for j in range(rows.shape[1])] if table.names is None else list(table.names)
    chosen = _kinds_of(rows, names, kinds)
    for name, kind, column in zip(names, chosen, rows.T, strict=True):
        if kind == "ordinal":
            _check_codes(column, name)
    return estimate_correlations(rows, names, chosen)


def estimate_correlations(
    rows: Array, names: Sequence[str], kinds: tuple[ResponseKind, ...]
) -> LatentCorrelations:
    """The same for rows (n, p) with NaN for missing values, and the kind of each column."""
    p = rows.shape[1]
    ordinal = np.array([kind == "ordinal" for kind in kinds])
    levels = tuple(
        np.unique(rows[~np.isnan(rows[:, j]), j]) if ordinal[j] else np.empty(0) for j in range(p)
    )
    codes = _codes(rows, levels, ordinal)
    thresholds = tuple(
        _thresholds(codes[:, j], len(levels[j])) if ordinal[j] else np.empty(0) for j in range(p)
    )
    observed = (~np.isnan(rows)).astype(float)
    n_rows = (observed.T @ observed).astype(np.intp)
    _check_pairs(n_rows, list(names))
    rho, error = np.eye(p), np.zeros((p, p))
    for estimate in (_polychoric_pairs, _polyserial_pairs, _pearson_pairs):
        for left, right, value, se in estimate(rows, codes, thresholds, ordinal):
            rho[left, right] = rho[right, left] = value
            error[left, right] = error[right, left] = se
    limits = np.argwhere(np.triu(np.abs(rho) >= LARGEST, 1))
    return LatentCorrelations(
        correlation=rho,
        standard_error=error,
        n_rows=n_rows,
        kinds=kinds,
        levels=levels,
        thresholds=thresholds,
        names=tuple(names),
        at_limit=tuple((names[i], names[j]) for i, j in limits),
    )


# --- columns ---


def _kinds_of(rows: Array, names: list[str], kinds: Any) -> tuple[ResponseKind, ...]:
    found = {name: _kind_of(rows[:, j]) for j, name in enumerate(names)}
    if isinstance(kinds, Mapping):
        unknown = [name for name in kinds if name not in found]
        if unknown:
            raise must_be("kinds", f"a mapping of the columns {listed(names, 8)}", unknown[0])
        wrong = [kind for kind in kinds.values() if kind not in ("ordinal", "continuous")]
        if wrong:
            raise must_be("each of kinds", '"ordinal" or "continuous"', wrong[0])
        found |= dict(kinds)
    elif kinds == "ordinal":
        found = dict.fromkeys(found, "ordinal")
    elif kinds != "auto":
        raise must_be("kinds", '"auto", "ordinal" or a mapping of columns', kinds)
    for j, name in enumerate(names):
        count = len(np.unique(rows[~np.isnan(rows[:, j]), j]))
        if found[name] == "ordinal" and count > MAX_LEVELS:
            raise DataError(
                f"An ordinal column must have at most {MAX_LEVELS} distinct values. Got {count} in "
                f"{column_label(j, list(names))}: call it continuous, or merge categories."
            )
    return tuple(found[name] for name in names)


def _check_codes(column: Array, name: str) -> None:
    """Raise a DataError for a category far from the others."""
    observed = column[~np.isnan(column)]
    if len(np.unique(observed)) > 2 and (far := far_categories(observed)):
        raise DataError(
            f"{name} has the value {far[0]:g}, far from its other values. If it stands for missing "
            "answers, replace it by NaN; if it is a category, number the categories in a row; if "
            "it is an amount, call the column continuous in kinds."
        )


def _kind_of(column: Array) -> ResponseKind:
    """Whole numbers with few distinct values are ordered categories."""
    values = np.unique(column[~np.isnan(column)])
    few = len(values) <= MAX_LEVELS and bool(np.all(values == np.round(values)))
    return "ordinal" if few else "continuous"


def _codes(rows: Array, levels: tuple[Array, ...], ordinal: BoolArray) -> Indices:
    """Positions of the values among the levels of their column; −1 if missing or continuous."""
    codes = np.full(rows.shape, -1, dtype=np.intp)
    for j in np.flatnonzero(ordinal):
        known = ~np.isnan(rows[:, j])
        codes[known, j] = np.searchsorted(levels[j], rows[known, j])
    return codes


def _thresholds(codes: Indices, n_levels: int) -> Array:
    counts = np.bincount(codes[codes >= 0], minlength=n_levels)
    return np.asarray(ndtri(np.cumsum(counts)[:-1] / counts.sum()))


def _check_pairs(n_rows: Indices, names: list[str]) -> None:
    few = np.argwhere(np.triu(n_rows < 2, 1))
    if len(few):
        i, j = few[0]
        raise DataError(
            "Each pair of columns must be observed together in at least 2 rows. Got "
            f"{n_rows[i, j]} for {names[i]!r} and {names[j]!r}: leave one of them out."
        )


# --- both ordinal ---


def _polychoric_pairs(
    rows: Array, codes: Indices, thresholds: tuple[Array, ...], ordinal: BoolArray
) -> list[tuple[Indices, Indices, Array, Array]]:
    """Indices of the pairs, correlations and standard errors, batch by batch."""
    which = np.flatnonzero(ordinal)
    if len(which) < 2:
        return []
    size = max(len(thresholds[column]) for column in which) + 1
    indicators = (codes[:, which, None] == np.arange(size)).reshape(len(codes), -1).astype(float)
    gram = (indicators.T @ indicators).reshape(len(which), size, len(which), size)
    cuts = np.full((len(which), size + 1), FAR)
    cuts[:, 0] = -FAR
    for place, column in enumerate(which):
        cuts[place, 1 : len(thresholds[column]) + 1] = thresholds[column]
    n_levels = np.array([len(thresholds[column]) + 1 for column in which])
    left, right = np.triu_indices(len(which), 1)
    batch = max(PAIRS_AT_ONCE // (size + 1) ** 2, 1)
    found = []
    for begin in range(0, len(left), batch):
        i, j = left[begin : begin + batch], right[begin : begin + batch]
        counts = gram[i, :, j, :]
        binary = ((n_levels[i] == 2) & (n_levels[j] == 2))[:, None, None]
        inside = np.zeros((size, size), dtype=bool)
        inside[:2, :2] = True
        counts = np.where(binary & inside & (counts == 0.0), EMPTY_CELL, counts)
        rho = _maximise(counts, cuts[i], cuts[j])
        found.append((which[i], which[j], rho, _polychoric_error(counts, cuts[i], cuts[j], rho)))
    return found


def _cells(x: Array, y: Array, rho: Array) -> tuple[Array, Array]:
    """(pairs, C, C) cell probabilities, and their derivatives by ρ."""
    corners = x[:, :, None], y[:, None, :], rho[:, None, None]
    of_cells = [
        np.diff(np.diff(values, axis=1), axis=2)
        for values in (bivariate_normal_cdf(*corners), bivariate_normal_density(*corners))
    ]
    return np.maximum(of_cells[0], LEAST_PROBABILITY), of_cells[1]


def _maximise(counts: Array, x: Array, y: Array) -> Array:
    """Fisher scoring for atanh ρ, each step halved until the likelihood does not fall."""

    def at(z: Array, some: Any) -> tuple[Array, Array, Array]:
        rho = np.tanh(z)
        probability, slope = _cells(x[some], y[some], rho)
        slope = slope * (1.0 - rho**2)[:, None, None]
        seen = counts[some]
        likelihood = np.sum(seen * np.log(probability), axis=(1, 2))
        score = np.sum(seen * slope / probability, axis=(1, 2))
        information = np.sum(seen, axis=(1, 2)) * np.sum(slope**2 / probability, axis=(1, 2))
        return likelihood, score, information

    furthest = np.arctanh(LARGEST)
    z = np.arctanh(np.clip(_code_correlation(counts), -0.9, 0.9))
    everything = np.arange(len(z))
    likelihood, score, information = at(z, everything)
    going = everything
    for _ in range(MAX_STEPS):
        step = np.clip(score / np.maximum(information, 1e-12), -LARGEST_CHANGE, LARGEST_CHANGE)
        aim = np.clip(z[going] + step, -furthest, furthest)
        step = aim - z[going]
        better, new_score, new_information = at(aim, going)
        for _ in range(30):
            fell = better < likelihood[going] - 1e-12 * np.abs(likelihood[going])
            if not np.any(fell):
                break
            step = np.where(fell, 0.5 * step, step)
            some = going[fell]
            part = at(z[some] + step[fell], some)
            better[fell], new_score[fell], new_information[fell] = part
        z[going] += step
        likelihood[going] = better
        still = np.abs(step) > STEP_TOLERANCE
        if not np.any(still):
            break
        going, score, information = going[still], new_score[still], new_information[still]
    return np.asarray(np.tanh(z))


def _code_correlation(counts: Array) -> Array:
    """Pearson's correlation of the positions of the levels, to begin with."""
    size = counts.shape[1]
    codes, total = np.arange(size), counts.sum(axis=(1, 2))
    of_x, of_y = counts.sum(axis=2) / total[:, None], counts.sum(axis=1) / total[:, None]
    mean_x, mean_y = of_x @ codes, of_y @ codes
    var_x, var_y = of_x @ codes**2 - mean_x**2, of_y @ codes**2 - mean_y**2
    product = np.einsum("qab,a,b->q", counts, codes, codes) / total - mean_x * mean_y
    return np.asarray(product / np.sqrt(np.maximum(var_x * var_y, 1e-12)))


def _polychoric_error(counts: Array, x: Array, y: Array, rho: Array) -> Array:
    """Standard errors of two-step estimates, by the influence function of each cell."""
    probability, slope = _cells(x, y, rho)
    score = slope / probability
    information = np.sum(slope * score, axis=(1, 2))
    root = np.sqrt((1.0 - rho) * (1.0 + rho))[:, None, None]
    influence = score.copy()
    for cuts, others, axis in ((x, y, 1), (y, x, 2)):
        own = cuts[:, 1:-1]
        density = np.exp(-0.5 * own**2) / np.sqrt(2.0 * np.pi)
        # A threshold moves probability between the cells below and above it, along a strip.
        strip = np.diff(
            ndtr((others[:, None, :] - rho[:, None, None] * own[:, :, None]) / root), axis=2
        )  # (pairs, thresholds, levels of the other)
        if axis == 1:
            ratio = score[:, :-1, :] - score[:, 1:, :]
            product = np.sum(ratio * strip, axis=2)
        else:
            ratio = score[:, :, :-1] - score[:, :, 1:]
            product = np.sum(ratio * strip.transpose(0, 2, 1), axis=1)
        # E[score × derivative by the threshold]; its density cancels with that in the influence.
        real = density > 1e-12
        product = np.where(real, product, 0.0)
        below = np.tri(cuts.shape[1] - 1, own.shape[1], -1) == 0  # level ≤ threshold
        centred = below[None] - ndtr(own)[:, None, :]
        shift = np.einsum("qt,qlt->ql", product, centred)
        influence -= shift[:, :, None] if axis == 1 else shift[:, None, :]
    variance = np.sum(probability * influence**2, axis=(1, 2)) / np.maximum(information, 1e-12) ** 2
    return np.asarray(np.sqrt(variance / counts.sum(axis=(1, 2))))


# --- one ordinal, one continuous ---


def _polyserial_pairs(
    rows: Array, codes: Indices, thresholds: tuple[Array, ...], ordinal: BoolArray
) -> list[tuple[Indices, Indices, Array, Array]]:
    continuous = np.flatnonzero(~ordinal)
    if not len(continuous):
        return []
    values = rows[:, continuous]
    values = (values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0)
    batch = max(PAIRS_AT_ONCE // len(rows), 1)
    found = []
    for j in np.flatnonzero(ordinal):
        seen = codes[:, j] >= 0
        cuts = np.concatenate([[-FAR], thresholds[j], [FAR]])
        for begin in range(0, len(continuous), batch):
            which = continuous[begin : begin + batch]
            x = values[seen, begin : begin + batch]
            rho, error = _polyserial(x, codes[seen, j], cuts)
            found.append((which, np.full(len(which), j), rho, error))
    return found


class _Conditional:
    """The category given x, for many columns x: log probabilities and their derivatives."""

    def __init__(self, x: Array, codes: Indices, cuts: Array, rho: Array) -> None:
        self.x, self.cuts, self.rho = x, cuts, rho
        self.root = np.sqrt((1.0 - rho) * (1.0 + rho))
        upper, lower = cuts[codes + 1][:, None], cuts[codes][:, None]
        probability, by_rho, by_x = self._category(upper, lower)
        self.log = np.log(probability)
        self.score, self.by_x = by_rho / probability, by_x / probability

    def _category(self, upper: Any, lower: Any) -> tuple[Array, Array, Array]:
        a, b = ((np.asarray(cut) - self.rho * self.x) / self.root for cut in (upper, lower))
        flip = b > 0.0  # upper tails are exact, differences near one are not
        probability = ndtr(np.where(flip, -b, a)) - ndtr(np.where(flip, -a, b))
        high, low = (np.exp(-0.5 * one**2) / np.sqrt(2.0 * np.pi) for one in (a, b))
        cube = self.root**3
        by_rho = (
            high * (np.asarray(upper) * self.rho - self.x)
            - low * (np.asarray(lower) * self.rho - self.x)
        ) / cube
        by_x = -self.rho / self.root * (high - low)
        return np.maximum(probability, LEAST_PROBABILITY), by_rho, by_x

    def expected(self) -> list[tuple[Array, Array, Array]]:
        """For each category: probability, and derivatives of it by ρ and by x."""
        return [self._category(high, low) for low, high in pairwise(self.cuts)]


def _polyserial(x: Array, codes: Indices, cuts: Array) -> tuple[Array, Array]:
    """Correlations of columns x (n, c), standardised, with one ordinal column, and their errors."""
    known = ~np.isnan(x)
    n, filled = known.sum(axis=0), np.where(known, x, 0.0)
    centred = codes - codes.mean()
    start = (filled * centred[:, None]).sum(axis=0) / np.sqrt(
        np.sum(filled**2, axis=0) * np.sum(centred**2)
    )
    z = np.arctanh(np.clip(start, -0.9, 0.9))
    furthest = np.arctanh(LARGEST)

    def at(z: Array) -> tuple[_Conditional, Array]:
        given = _Conditional(filled, codes, cuts, np.tanh(z))
        return given, np.sum(known * given.log, axis=0)

    given, likelihood = at(z)
    for _ in range(MAX_STEPS):
        chain = 1.0 - np.tanh(z) ** 2
        score = chain * np.sum(known * given.score, axis=0)
        information = chain**2 * sum(
            np.sum(known * slope**2 / probability, axis=0)
            for probability, slope, _ in given.expected()
        )
        step = np.clip(score / np.maximum(information, 1e-12), -LARGEST_CHANGE, LARGEST_CHANGE)
        step = np.clip(z + step, -furthest, furthest) - z
        for _ in range(30):
            proposal, better = at(z + step)
            fell = better < likelihood - 1e-12 * np.abs(likelihood)
            if not np.any(fell):
                break
            step = np.where(fell, 0.5 * step, step)
        z, given, likelihood = z + step, proposal, better
        if np.all(np.abs(step) <= STEP_TOLERANCE):
            break
    # Two steps: mean, standard deviation and thresholds have influence functions of their own.
    information = np.zeros(len(n))
    by_mean, by_sd = np.zeros(len(n)), np.zeros(len(n))
    own = cuts[1:-1]
    by_cut = np.zeros((len(own), len(n)))
    expected = given.expected()
    for probability, slope, slope_x in expected:
        information += np.sum(known * slope**2 / probability, axis=0)
        by_mean -= np.sum(known * slope * slope_x / probability, axis=0)
        by_sd -= np.sum(known * slope * slope_x * filled / probability, axis=0)
    for number, cut in enumerate(own):
        a = (cut - given.rho * filled) / given.root
        density = np.exp(-0.5 * a**2) / np.sqrt(2.0 * np.pi) / given.root
        below, above = expected[number], expected[number + 1]
        ratio = below[1] / below[0] - above[1] / above[0]
        by_cut[number] = np.sum(known * ratio * density, axis=0)
    influence = given.score - (by_mean / n) * filled - (by_sd / n) * (filled**2 - 1.0) / 2.0
    normal = np.exp(-0.5 * own**2) / np.sqrt(2.0 * np.pi)
    moved = ((codes[:, None] <= np.arange(len(own))) - ndtr(own)) / normal
    influence = influence - moved @ (by_cut / n)
    variance = np.sum(known * influence**2, axis=0) / np.maximum(information, 1e-12) ** 2
    return np.asarray(np.tanh(z)), np.asarray(np.sqrt(variance))


# --- both continuous ---


def _pearson_pairs(
    rows: Array, codes: Indices, thresholds: tuple[Array, ...], ordinal: BoolArray
) -> list[tuple[Indices, Indices, Array, Array]]:
    which = np.flatnonzero(~ordinal)
    if len(which) < 2:
        return []
    known = ~np.isnan(rows[:, which])
    seen = known.astype(float)
    centred = rows[:, which] - np.nanmean(rows[:, which], axis=0)
    filled = np.where(known, centred / np.nanstd(rows[:, which], axis=0), 0.0)
    n, sums = seen.T @ seen, filled.T @ seen
    cross, squares = filled.T @ filled, (filled**2).T @ seen
    covariance = cross / n - sums * sums.T / n**2
    variance = squares / n - (sums / n) ** 2
    rho = np.clip(covariance / np.sqrt(variance * variance.T), -1.0, 1.0)
    error = (1.0 - rho**2) / np.sqrt(n)
    left, right = np.triu_indices(len(which), 1)
    return [(which[left], which[right], rho[left, right], error[left, right])]
