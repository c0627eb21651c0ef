"""Draws rotated to common factors: loadings with intervals and sign rates, and scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices, RandomState
from cuspfa._utils.arguments import generator, one_of, whole
from cuspfa._utils.tables import Columns, TabularResult, html_table
from cuspfa.data.column_choice import check_columns
from cuspfa.data.names import check_same_width
from cuspfa.data.validate import check_rows
from cuspfa.errors import InputError
from cuspfa.missing.kernels import draw_observed_scores
from cuspfa.missing.patterns import IncompleteRows
from cuspfa.posterior.draws import Draws, check_draws
from cuspfa.posterior.quantiles import sorted_quantiles, tails
from cuspfa.rotation.align import ALIGNED_TOGETHER, align_draws
from cuspfa.rotation.axes import on_axes
from cuspfa.rotation.gpa import RotatedLoadings, Rotation, RotationMethod, as_rotation

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior


class Item(NamedTuple):
    """One variable of a factor."""

    name: str
    loading: float
    lower: float
    upper: float
    false_sign_rate: float


@dataclass(frozen=True, eq=False, repr=False)
class LoadingTable(TabularResult):
    """Loadings of aligned draws on the correlation scale.

    Attributes
    ----------
    mean, lower, upper : ndarray (p, K)
        Posterior means, and ends of the intervals.
    false_sign_rate : ndarray (p, K)
        Local false sign rate: the probability that the loading does not have the sign that it
        seems to have, min{pr(λ ≤ 0), pr(λ ≥ 0)}.
    names : list of str
        The variables.
    factor_names : tuple of str
        The factors; empty where they are numbered.
    """

    mean: Array
    lower: Array
    upper: Array
    false_sign_rate: Array
    names: list[str]
    factor_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<LoadingTable of {self.mean.shape[0]} variables, {self.mean.shape[1]} factors>"

    def item(self, j: int, h: int) -> Item:
        """One loading, of variable j on factor h, both from 0."""
        sides = (self.mean, self.lower, self.upper, self.false_sign_rate)
        loading, lower, upper, rate = (float(side[j, h]) for side in sides)
        return Item(self.names[j], loading, lower, upper, rate)

    def _columns(self) -> Columns:
        found = _long("variable", self.names, self.mean, self.lower, self.upper)
        if self.factor_names:
            found = {**found, "factor": [*self.factor_names] * len(self.names)}
        return {**found, "false_sign_rate": self.false_sign_rate.ravel().tolist()}

    def _repr_html_(self) -> str:
        """A table by variable and factor: the mean, and the interval in brackets."""
        columns: dict[str, list[str]] = {"variable": self.names}
        heads = self.factor_names or [f"factor{h}" for h in range(1, self.mean.shape[1] + 1)]
        for h, head in enumerate(heads):
            sides = zip(self.mean[:, h], self.lower[:, h], self.upper[:, h], strict=True)
            columns[head] = [f"{m:.2f} [{low:.2f}, {high:.2f}]" for m, low, high in sides]
        return html_table(columns)


@dataclass(frozen=True, eq=False, repr=False)
class ScoreTable(TabularResult):
    """Factor scores of aligned draws.

    Attributes
    ----------
    mean, lower, upper : ndarray (n, K)
        Posterior means, and ends of the intervals.
    """

    mean: Array
    lower: Array
    upper: Array

    def __repr__(self) -> str:
        return f"<ScoreTable of {self.mean.shape[0]} rows, {self.mean.shape[1]} factors>"

    def _columns(self) -> Columns:
        return _long("row", range(len(self.mean)), self.mean, self.lower, self.upper)


def _long(what: str, labels: Sequence[Any], mean: Array, lower: Array, upper: Array) -> Columns:
    """One line for each entry of (n, K) matrices, factors varying fastest."""
    k = mean.shape[1]
    return {
        what: [label for label in labels for _ in range(k)],
        "factor": [h for _ in labels for h in range(1, k + 1)],
        "mean": mean.ravel().tolist(),
        "lower": lower.ravel().tolist(),
        "upper": upper.ravel().tolist(),
    }


@dataclass(frozen=True, eq=False, repr=False)
class AlignedDraws:
    """Draws, each with the matrix that rotates it to common factors.

    Attributes
    ----------
    draws : Draws
        As they were drawn.
    reference : RotatedLoadings
        The common factors.
    rotations : ndarray (n_draws, H, K)
        Aligned loadings are the loadings of a draw on the correlation scale times its matrix.
    axes : ndarray (n_draws, H, K)
        Aligned scores are the scores of a draw times its matrix.
    factor_correlations : ndarray (n_draws, K, K)
        Φ of each draw; NaN for factors that a draw does not have.
    present : ndarray of bool (n_draws, K)
        Which of the factors a draw has. Loadings of the others are zero.
    congruence : ndarray (n_draws, K)
        Tucker's congruence of each factor with that of the reference, NaN where it is absent.
    names : list of str
        Of the variables.
    center : ndarray (p,)
        Means of the variables.
    factor_names : tuple of str
        Of the factors; empty where they are numbered.
    """

    draws: Draws
    reference: RotatedLoadings
    rotations: Array
    axes: Array
    factor_correlations: Array
    present: BoolArray
    congruence: Array
    names: list[str]
    center: Array
    factor_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        n, _, k = self.rotations.shape
        return f"<AlignedDraws: {n} draws of {k} factors, quality {self.quality:.2f}>"

    def __len__(self) -> int:
        return len(self.draws)

    def to_frame(self) -> Any:
        """The table of loadings with 95 % intervals as a data frame; see `table`."""
        return self.table().to_frame()

    def _repr_html_(self) -> str:
        """What a notebook shows: the table of loadings with 95 % intervals."""
        return self.table()._repr_html_()

    @property
    def quality(self) -> float:
        """Mean congruence with the reference over all draws and factors: 1 if all agree.

        Below 0.9 some factors have no axes of their own, or change places with others: their
        intervals are wide, or have two centres. `congruence` says which.
        """
        found = self.congruence[self.present]
        return float(np.mean(found)) if found.size else 1.0

    @property
    def loadings(self) -> Array:
        """(n_draws, p, K) on the correlation scale: ask only where that fits into memory."""
        return np.concatenate([part for _, part in self.blocks(len(self.names))], axis=1)

    @property
    def explained_variance_ratio(self) -> Array:
        """(n_draws, K) each factor's part of the variables' variance, as `shares` of the mean."""
        p, total = len(self.names), np.zeros(self.present.shape)
        phi = np.nan_to_num(self.factor_correlations)
        for _, block in self.blocks():
            inner = block.transpose(0, 2, 1) @ block
            total += np.einsum("dij,dji->di", phi, inner)
        return np.asarray(total / p)

    @property
    def reliability(self) -> Array:
        """(n_draws, K) squared correlation of each factor with its regression scores.

        What psych calls "multiple R square of scores with factors".
        """
        found = np.full(self.present.shape, np.nan)
        for number, axes in enumerate(self.axes):
            here = self.present[number]
            inner = _precision(self.draws, number)
            gained = np.eye(len(inner)) - np.linalg.inv(np.eye(len(inner)) + inner)
            own = axes[:, here]
            found[number, here] = np.einsum("hk,hg,gk->k", own, gained, own)
        return found

    def table(self, prob: float = 0.95, *, columns: Any = None) -> LoadingTable:
        """Means, intervals and local false sign rates of all loadings.

        Parameters
        ----------
        prob : float, default=0.95
            Probability of the intervals.
        columns : None, or names, indices, slice or mask of some columns
            Those of these variables alone.

        Returns
        -------
        LoadingTable
            Worked through in blocks of variables.
        """
        ends = tails(prob)
        rows = np.arange(len(self.names))
        if columns is not None:
            rows = check_columns(columns, len(self.names), self.names)
        k = self.rotations.shape[2]
        found = np.empty((4, len(rows), k))
        for part, block in self.blocks(columns=rows):
            # Draws last and contiguous: to sort short rows is several times quicker.
            values = np.sort(np.ascontiguousarray(block.transpose(1, 2, 0), np.float32), axis=2)
            found[0, part] = values.mean(axis=2, dtype=float)
            found[1:3, part] = sorted_quantiles(values, ends)
            below = np.count_nonzero(values <= 0, axis=2)
            above = np.count_nonzero(values >= 0, axis=2)
            found[3, part] = np.minimum(below, above) / values.shape[2]
        mean, lower, upper, rate = found
        names = [self.names[j] for j in rows]
        return LoadingTable(mean, lower, upper, rate, names, self.factor_names)

    def top_items(self, n_items: int = 5, prob: float = 0.95) -> list[list[Item]]:
        """The variables of largest absolute mean loading on each factor, with intervals.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> bfi = datasets.load_bfi(subset="paper", as_frame=True)
        >>> posterior = CuspFactorAnalysis(n_factors=3).fit(bfi.data).posterior_
        >>> items = posterior.align("oblimin", n_draws=200).top_items(3)
        >>> [sorted(item.name for item in factor) for factor in items]
        [['A2', 'A5', 'E4'], ['N1', 'N2', 'N3'], ['C3', 'C4', 'C5']]
        """
        number = whole("n_items", n_items, 1)
        table = self.table(prob)
        order = np.argsort(-np.abs(table.mean), axis=0, kind="stable")[:number]
        return [[table.item(j, h) for j in order[:, h]] for h in range(order.shape[1])]

    def scores(self, X: Any, prob: float = 0.95, *, random_state: RandomState = 0) -> ScoreTable:
        """Factor scores of rows, with intervals that include the uncertainty of the loadings.

        For each draw of loadings and noise the scores are drawn given the row. `factor_scores` of
        the model takes loadings and noise as known.

        Parameters
        ----------
        X : array or data frame (n, p)
            Rows with the columns of the fit; values may be missing.
        prob : float, default=0.95
            Probability of the intervals.
        random_state : default=0
            Seed of the draws of scores.

        Returns
        -------
        ScoreTable
            `mean`, `lower` and `upper`, (n, K) each; of draws that have the factor.
        """
        if self.draws.thresholds is not None:
            raise InputError(
                "AlignedDraws.scores is for Gaussian columns. Use factor_scores of the model: its "
                "covariances are those given loadings and thresholds."
            )
        ends, rng = tails(prob), generator(random_state)
        rows = check_rows(X, allow_missing=True).rows
        check_same_width("AlignedDraws", len(self.names), rows.shape[1])
        rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=float)
        n, k, size = len(rows), self.rotations.shape[2], len(self)
        found = np.empty((3, n, k))
        step = max(1, 4 * ALIGNED_TOGETHER // max(size * k, 1))
        for first in range(0, n, step):
            some = rows[first : first + step]
            drawn = np.empty((size, len(some), k), dtype=np.float32)
            for number in range(size):
                drawn[number] = self._draw_scores(some, number, rng)
            for h in range(k):
                values = np.sort(drawn[self.present[:, h], :, h].T, axis=1)
                part = found[:, first : first + step, h]
                if not values.size:
                    part[:] = np.nan
                    continue
                part[0] = values.mean(axis=1, dtype=float)
                part[1:] = sorted_quantiles(values, ends)
        return ScoreTable(*found)

    def _draw_scores(self, rows: Array, number: int, rng: np.random.Generator) -> Array:
        loadings, noise = self.draws.loadings[number], self.draws.noise_variance[number]
        means = self.draws.mean
        centred = rows - (self.center if means is None else means[number])
        seen = ~np.isnan(centred)
        if not seen.all():
            data = IncompleteRows(np.where(seen, centred, 0.0), seen)
            drawn = np.empty((len(rows), loadings.shape[1]))
            drawn[data.order] = draw_observed_scores(
                data, loadings, noise, np.zeros(len(noise)), rng
            )
            return np.asarray(drawn @ self.axes[number])
        inner = _precision(self.draws, number)
        root = np.linalg.inv(np.linalg.cholesky(np.eye(len(inner)) + inner))
        mean = (centred @ (loadings / noise[:, None])) @ (root.T @ root)
        drawn = mean + rng.standard_normal(mean.shape) @ root
        return np.asarray(drawn @ self.axes[number])

    def blocks(
        self, step: int | None = None, columns: Indices | None = None
    ) -> Iterator[tuple[slice, Array]]:
        """Aligned loadings (n_draws, some, K) of a few variables at a time."""
        rows = np.arange(len(self.names)) if columns is None else columns
        n, h, k = self.rotations.shape
        step = max(1, ALIGNED_TOGETHER // max(n * max(h, k), 1)) if step is None else step
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            yield part, self.draws.only(rows[part]).standardized_loadings @ self.rotations


def align(
    posterior: Posterior,
    rotation: RotationMethod | Rotation | Literal["own"] | None,
    alignment: Literal["rotation", "procrustes"] | None,
    draws: Draws | None,
    n_draws: int,
    random_state: RandomState,
) -> AlignedDraws:
    """See `Posterior.align`."""
    own = isinstance(rotation, str) and rotation == "own"
    settings = posterior.rotation if own else as_rotation(rotation)
    if alignment is not None:
        one_of("alignment", alignment, ("rotation", "procrustes"))
    way = alignment or ("procrustes" if settings is None else "rotation")
    if draws is None:
        draws = posterior.draw(n_draws, random_state=random_state)
    check_draws(draws, len(posterior.noise_variance))
    rotated_solution = (
        posterior.rotated_solution if own else on_axes(posterior.standardized_loadings, settings)
    )
    rotated = align_draws(draws, rotated_solution, settings if way == "rotation" else None, way)
    return AlignedDraws(
        draws,
        rotated_solution,
        *rotated,
        posterior.column_names,
        posterior.mean,
        posterior.presentation.factor_names if own else (),
    )


def _precision(draws: Draws, number: int) -> Array:
    """ΛᵀΣ⁻¹Λ of one draw: the precision of its scores beyond their prior's."""
    loadings = draws.loadings[number]
    return np.asarray((loadings / draws.noise_variance[number][:, None]).T @ loadings)
