"""Rotations of loadings: axes on which each variable loads on few factors.

A factor model does not determine its axes: Λη = (ΛT^{-T})(Tᵀη) for every invertible T. A criterion
says which loadings are simple, and gradient projection (Jennrich 2001, 2002) finds the best T:
orthogonal, or with columns of unit length, such that the factors Tᵀη have the correlations
Φ = TᵀT. Everything works on stacks (B, p, K): random starts, or draws, together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.arguments import generator, is_number, must_be, one_of, positive, whole
from cuspfa._utils.linalg import polar_factor
from cuspfa._utils.tables import Columns, data_frame, html_table
from cuspfa.errors import DataError, InputError
from cuspfa.inference._kernels import kernel
from cuspfa.rotation.criteria import Criterion, Geomin, Quartic, Target

RotationMethod = Literal[
    "varimax", "quartimax", "equamax", "promax", "oblimin", "quartimin", "geomin", "target"
]
ROTATION_METHODS: tuple[RotationMethod, ...] = get_args(RotationMethod)
ORTHOGONAL = ("varimax", "quartimax", "equamax")
EITHER_KIND = ("geomin", "target")
"""Oblique unless asked otherwise."""
NORMALIZED_METHODS = ("varimax", "promax")
"""Rows are normalised by default, as in R's own varimax and in psych."""
TIED_PART = 1e-6
"""Loadings that differ by no more than this part of the largest are as large as it."""
GRADIENT_TOLERANCE, MAX_ROTATION_STEPS = 1e-7, 2000
"""Length of the projected gradient, by that of the loadings' criterion; and steps to get there."""
SMALLEST_EIGENVALUE_RATIO = 1e-12
"""Least part that the smallest eigenvalue of a matrix to be inverted must be of its largest."""
LARGEST_LOADING = 1e70
"""Fourth powers of larger loadings overflow."""
MAX_HALVINGS = 40
REMEMBERED_VALUES, LEAST_DESCENT = 10, 0.001
"""Last values of the criterion whose highest a step must be below, and by how much of its slope."""
MOST_GROWTH = 10.0
"""Largest factor from one step to the next, so that none leaves its valley."""
NEARLY_FLAT = 1e3
"""Times the tolerance that a gradient may be where rounding error permits no further step."""
MOST_STARTS = 1000


@dataclass(frozen=True)
class Rotation:
    """The axes that loadings are shown on.

    Parameters
    ----------
    method : str, default="oblimin"
        Orthogonal, for uncorrelated factors: "varimax", "quartimax", "equamax". Oblique, for
        correlated ones: "promax", "oblimin", "quartimin" (oblimin with γ = 0), "geomin", "target".
    oblique : bool or None, default=None
        For "geomin" and "target", which exist in both kinds: False for uncorrelated factors.
    normalize : bool or None, default=None
        Kaiser's normalisation: give all variables the same communality while rotating. None means
        yes for "varimax" and "promax", as in R's `varimax`, and no for the others, as in
        GPArotation and psych. SPSS normalises always.
    target : array (p, K) or None, default=None
        For "target": what the loadings should be near to; NaN (or None) where nothing is asked.
    gamma : float, default=0.0
        γ of "oblimin", not above 0: with a positive one there may be no best axes (Jennrich 1979).
        SPSS calls it δ.
    power : float, default=4.0
        Of "promax", above 1; κ in SPSS.
    delta : float, default=0.01
        ε that "geomin" adds to squared loadings.
    n_starts : int, default=10
        Starts, the first from principal axes and the others at random: a criterion may have many
        minima.
    random_state : int, default=0
        Seed of the random starts.

    Examples
    --------
    >>> Rotation("geomin", oblique=False).is_oblique
    False
    >>> Rotation("oblimax")
    Traceback (most recent call last):
        ...
    cuspfa.errors.InputError: rotation must be one of 'varimax', 'quartimax', 'equamax', 'promax', \
'oblimin', 'quartimin', 'geomin', 'target'. Got 'oblimax' instead.
    """

    method: RotationMethod = "oblimin"
    oblique: bool | None = None
    normalize: bool | None = None
    target: Any = None
    gamma: float = 0.0
    power: float = 4.0
    delta: float = 0.01
    n_starts: int = 10
    random_state: int = 0

    def __post_init__(self) -> None:
        one_of("rotation", self.method, ROTATION_METHODS)
        for name in ("oblique", "normalize"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, (bool, np.bool_)):
                raise must_be(name, "None, True or False", value)
        kind = self.method not in ORTHOGONAL
        if self.method not in EITHER_KIND and self.oblique not in (None, kind):
            word = "oblique" if kind else "orthogonal"
            raise must_be("oblique", f"None for {self.method!r}, which is {word}", self.oblique)
        store = object.__setattr__
        store(self, "gamma", _finite("gamma", self.gamma))
        if self.gamma > 0 or (self.gamma != 0 and self.method != "oblimin"):
            raise must_be("gamma", "0, or below it for 'oblimin'", self.gamma)
        store(self, "power", positive("power", self.power))
        if self.power <= 1:
            raise must_be("power", "above 1", self.power)
        store(self, "delta", positive("delta", self.delta))
        store(self, "n_starts", whole("n_starts", self.n_starts, 1))
        if self.n_starts > MOST_STARTS:
            raise must_be("n_starts", f"at most {MOST_STARTS}", self.n_starts)
        store(self, "random_state", whole("random_state", self.random_state, 0))
        if (self.method == "target") != (self.target is not None):
            raise must_be("target", "given for rotation 'target', and for no other", self.target)
        if self.target is not None:
            store(self, "target", _plain_target(self.target))

    @property
    def is_oblique(self) -> bool:
        """May the factors be correlated?"""
        if self.oblique is not None:
            return bool(self.oblique)
        return self.method not in ORTHOGONAL

    @property
    def normalizes(self) -> bool:
        """Are rows given the same length?"""
        return self.method in NORMALIZED_METHODS if self.normalize is None else bool(self.normalize)


class RotatedLoadings(NamedTuple):
    """Loadings on new axes."""

    loadings: Array
    """(p, K) the pattern: weights of the factors in each variable."""
    matrix: Array
    """(K, K) T: loadings = unrotated @ inv(T).T, scores = unrotated scores @ T."""
    correlations: Array
    """(K, K) Φ = TᵀT, of the factors."""
    value: float
    """The criterion at its end, the lowest of all starts; of promax, that of its varimax."""
    values: Array
    """(n_starts,) the criterion by start. If few are near the lowest, use more starts."""
    converged: bool

    def to_frame(self, names: list[str] | None = None) -> Any:
        """The loadings as a data frame of pandas or, without it, of polars.

        Parameters
        ----------
        names : list of str or None, default=None
            The variables; None calls them x0, x1, ...
        """
        return data_frame(self._columns(names))

    def _repr_html_(self) -> str:
        return html_table(self._columns(None))

    def _columns(self, names: list[str] | None) -> Columns:
        own = [f"x{j}" for j in range(len(self.loadings))] if names is None else names
        factors = {f"factor{k}": column.tolist() for k, column in enumerate(self.loadings.T, 1)}
        return {"variable": own, **factors}

    @property
    def structure(self) -> Array:
        """(p, K) correlations of variables with factors: the pattern times Φ."""
        return np.asarray(self.loadings @ self.correlations)


def as_rotation(rotation: Any) -> Rotation | None:
    """The settings of a rotation that is given as None, a word or settings."""
    if rotation is None or isinstance(rotation, Rotation):
        return rotation
    if not isinstance(rotation, str):
        raise must_be("rotation", "None, a word such as 'oblimin' or a Rotation", rotation)
    if rotation == "target":
        raise InputError("rotation 'target' needs its target: Rotation('target', target=...).")
    return Rotation(cast(RotationMethod, rotation))  # which checks it


def rotate(loadings: Any, rotation: RotationMethod | Rotation = "oblimin") -> RotatedLoadings:
    """Rotate loadings to simple structure.

    Factors are ordered by the variance they account for, and the largest loading of each is
    positive; after a target, they are as the target has them.

    Parameters
    ----------
    loadings : array (p, K)
        Of uncorrelated factors, most often on the correlation scale.
    rotation : str or Rotation, default="oblimin"
        Which axes; see `Rotation`.

    Returns
    -------
    RotatedLoadings
        `loadings`, `matrix`, `correlations`, `structure`, and how it went.

    Examples
    --------
    >>> import numpy as np
    >>> simple = np.kron(np.eye(2), np.full((3, 1), 0.8))
    >>> turned = simple @ np.array([[0.6, 0.8], [-0.8, 0.6]])
    >>> rotate(turned, "varimax").loadings.round(3) + 0.0
    array([[0.8, 0. ],
           [0.8, 0. ],
           [0.8, 0. ],
           [0. , 0.8],
           [0. , 0.8],
           [0. , 0.8]])
    """
    settings = as_rotation(rotation)
    if settings is None:
        raise must_be("rotation", "a word such as 'oblimin' or a Rotation", rotation)
    if np.iscomplexobj(loadings):  # of which NumPy would drop a part with no more than a warning
        raise must_be("loadings", "a matrix of real numbers", "complex ones")
    try:
        rows = np.asarray(loadings, dtype=float)
    except (TypeError, ValueError):
        raise must_be("loadings", "a matrix of numbers", type(loadings).__name__) from None
    if rows.ndim != 2 or not len(rows) or not np.all(np.isfinite(rows)):
        raise DataError(
            f"loadings must be a finite matrix, of one row or more. Got shape {rows.shape} instead."
        )
    if np.any(np.abs(rows) > LARGEST_LOADING):
        raise DataError(
            f"loadings must be at most {LARGEST_LOADING:g}. Divide them by a common number."
        )
    k = rows.shape[1]
    if settings.method == "target" and np.shape(settings.target) != rows.shape:
        raise must_be("target", f"of the shape of the loadings, {rows.shape}", settings.target)
    if k < 2:
        target = settings.method == "target"
        sign = np.diag(_free_signs(rows, settings) if target else signs(rows))
        return RotatedLoadings(rows @ sign, sign, np.eye(k), 0.0, np.zeros(1), True)
    rng = generator(settings.random_state)
    starts = np.concatenate([np.eye(k)[None], _random_axes(settings.n_starts - 1, k, rng)])
    stack = np.broadcast_to(rows, (len(starts), *rows.shape))
    found = rotate_stack(stack, settings, starts)
    best = int(np.argmin(np.where(np.isnan(found.values), np.inf, found.values)))
    matrix = found.matrices[best]
    if settings.method == "target":
        matrix = matrix * _free_signs(rows @ np.linalg.inv(matrix).T, settings)
    else:
        matrix = _ordered(rows, matrix)
    return RotatedLoadings(
        rows @ np.linalg.inv(matrix).T,
        matrix,
        _unit_diagonal(matrix.T @ matrix) if settings.is_oblique else np.eye(k),
        float(found.values[best]),
        found.values,
        bool(found.converged[best]),
    )


def signs(loadings: Array) -> Array:
    """1 or −1 for each column, such that its largest entry times it is positive.

    Of entries that are equally large the first counts: rounding error should choose no sign.
    """
    if not loadings.size:
        return np.ones(loadings.shape[1])
    size = np.abs(loadings)
    largest = np.argmax(size >= (1 - TIED_PART) * size.max(axis=0), axis=0)
    return np.where(loadings[largest, np.arange(loadings.shape[1])] < 0, -1.0, 1.0)


class Stack(NamedTuple):
    """The result of a descent on many matrices."""

    matrices: Array
    """(B, K, K) T."""
    values: Array
    converged: BoolArray


def rotate_stack(
    stack: Array, rotation: Rotation, starts: Array, tolerance: float = GRADIENT_TOLERANCE
) -> Stack:
    """T for each matrix of a stack (B, p, K), from starts (B, K, K); order and sign as they come.

    The results are near the starts: draws that start at the rotation of their mean have its order
    of factors.
    """
    if rotation.normalizes:
        length = np.sqrt(np.sum(stack**2, axis=2, keepdims=True))
        stack = stack / np.where(length > 0, length, 1.0)
    criterion = _criterion(rotation, stack)
    if rotation.method in EITHER_KIND:  # these depend on the scale of the loadings
        return descend(stack, starts, criterion, rotation.is_oblique, tolerance)
    size = np.sqrt(np.mean(np.sum(stack**2, axis=2), axis=1))
    size = np.where(size > 0, size, 1.0)
    stack = stack / size[:, None, None]
    oblique = rotation.is_oblique and rotation.method != "promax"
    found = descend(stack, starts, criterion, oblique, tolerance)
    matrices = found.matrices
    if rotation.method == "promax":
        matrices = _promax(stack, matrices, rotation.power)
    return Stack(matrices, found.values * size**4, found.converged)


def descend(
    stack: Array, starts: Array, criterion: Criterion, oblique: bool, tolerance: float
) -> Stack:
    """Gradient projection (Jennrich 2001, 2002), each matrix at its own pace.

    Steps have the length that the curvature along the last move suggests, and are halved until the
    criterion is below the highest of its last values (Grippo, Lampariello & Lucidi 1986).
    """
    core = kernel("rotation")
    if core is None or not isinstance(criterion, (Quartic, Geomin)):
        return descend_by_definition(stack, starts, criterion, oblique, tolerance)
    is_geomin = isinstance(criterion, Geomin)
    settings = (*criterion, 0.0, 0.0) if isinstance(criterion, Geomin) else criterion
    found = Stack(
        np.array(starts, order="C"), np.zeros(len(stack)), np.zeros(len(stack), dtype=bool)
    )
    squared_norm = _squared_norms(stack)
    done = core.descend(
        *(np.ascontiguousarray(stack), found.matrices, found.values),
        *(found.converged.view(np.uint8), tolerance * squared_norm, squared_norm),
        *(oblique, is_geomin, *settings, MAX_ROTATION_STEPS, MAX_HALVINGS),
        *(REMEMBERED_VALUES, LEAST_DESCENT, MOST_GROWTH, NEARLY_FLAT),
    )
    if done == len(stack):
        return found
    # NumPy says what is wrong with a matrix that the kernel cannot invert, or has a solution.
    return descend_by_definition(stack, starts, criterion, oblique, tolerance)


def descend_by_definition(
    stack: Array, starts: Array, criterion: Criterion, oblique: bool, tolerance: float
) -> Stack:
    """`descend` without the compiled core, for every criterion."""
    b = len(stack)
    axes, converged = starts.copy(), np.zeros(b, dtype=bool)
    steps, left = np.ones(b), np.arange(b)
    turned, back = _on_axes(stack, axes, oblique)
    values, slope = criterion(turned)
    recent = np.repeat(values[:, None], REMEMBERED_VALUES, axis=1)
    squared_norm = _squared_norms(stack)
    enough = tolerance * squared_norm
    before, uphill_before = np.empty_like(axes), np.empty_like(axes)
    for iteration in range(MAX_ROTATION_STEPS):
        uphill = _projected(stack[left], turned, axes[left], back, slope, oblique)
        size = np.sqrt(np.sum(uphill**2, axis=(1, 2)))
        go = size > enough[left]
        converged[left[~go]] = True
        left, uphill, size = left[go], uphill[go], size[go]
        turned, back, slope = turned[go], back[go], slope[go]
        if not len(left):
            break
        if iteration:
            moved = axes[left] - before[left]
            steps[left] = _next_steps(moved, uphill - uphill_before[left], steps[left])
        else:  # short enough to stay in the valley where it begins
            steps[left] = 1.0 / np.maximum(size, squared_norm[left])
        before[left], uphill_before[left] = axes[left], uphill
        highest = recent[left].max(axis=1)
        trying = np.arange(len(left))  # of those left, which have not found a step yet
        for _ in range(MAX_HALVINGS):
            who = left[trying]
            moved = _retracted(axes[who] - steps[who, None, None] * uphill[trying], oblique)
            there, inverse = _on_axes(stack[who], moved, oblique)
            value, gradient = criterion(there)
            good = value < highest[trying] - LEAST_DESCENT * size[trying] ** 2 * steps[who]
            done = trying[good]
            axes[left[done]], values[left[done]] = moved[good], value[good]
            turned[done], back[done], slope[done] = there[good], inverse[good], gradient[good]
            recent[left[done], iteration % REMEMBERED_VALUES] = value[good]
            trying = trying[~good]
            if not len(trying):
                break
            steps[left[trying]] /= 2.0
        if len(trying):  # no step lowers it beyond rounding error: as low as it gets
            converged[left[trying]] = size[trying] < NEARLY_FLAT * enough[left[trying]]
            kept = np.setdiff1d(np.arange(len(left)), trying)
            left, turned, back, slope = left[kept], turned[kept], back[kept], slope[kept]
    return Stack(axes, values, converged)


def _squared_norms(stack: Array) -> Array:
    return np.asarray(np.maximum(np.sum(stack**2, axis=(1, 2)), 1e-300))


def _next_steps(moved: Array, risen: Array, steps: Array) -> Array:
    """Steps by the curvature along the last move (Barzilai & Borwein 1988)."""
    along = np.einsum("bij,bij->b", moved, risen)
    length = np.einsum("bij,bij->b", moved, moved)
    curved = along > 0
    fitting = length / np.where(curved, along, 1.0)
    return np.asarray(np.where(curved, np.minimum(fitting, MOST_GROWTH * steps), 2.0 * steps))


def _on_axes(stack: Array, axes: Array, oblique: bool) -> tuple[Array, Array]:
    """Loadings on axes T, and T⁻¹."""
    back = np.asarray(np.linalg.inv(axes)) if oblique else axes.transpose(0, 2, 1)
    return np.asarray(stack @ back.transpose(0, 2, 1)), back


def _projected(
    stack: Array, turned: Array, axes: Array, back: Array, slope: Array, oblique: bool
) -> Array:
    """The gradient in T, along the directions that keep T what it has to be."""
    if oblique:
        inner = turned.transpose(0, 2, 1) @ slope @ back
        gradient = -inner.transpose(0, 2, 1)
        return np.asarray(gradient - axes * np.sum(axes * gradient, axis=1, keepdims=True))
    gradient = stack.transpose(0, 2, 1) @ slope
    inner = axes.transpose(0, 2, 1) @ gradient
    return np.asarray(gradient - axes @ (inner + inner.transpose(0, 2, 1)) / 2)


def _retracted(axes: Array, oblique: bool) -> Array:
    """Back to unit columns, or to the nearest orthogonal matrix."""
    if oblique:
        return np.asarray(axes / np.sqrt(np.sum(axes**2, axis=1, keepdims=True)))
    return polar_factor(axes)


def _criterion(rotation: Rotation, stack: Array) -> Criterion:
    p, k = stack.shape[1:]
    method = rotation.method
    if method in ("varimax", "promax"):
        return Quartic(across=1.0 - 1.0 / p, down=1.0 / p)
    if method == "quartimax":
        return Quartic(across=1.0, down=0.0)
    if method == "equamax":
        return Quartic(across=1.0 - k / (2 * p), down=k / (2 * p))
    if method == "geomin":
        return Geomin(rotation.delta)
    if method == "target":
        wanted = np.array(rotation.target, dtype=float)
        return Target(np.nan_to_num(wanted), ~np.isnan(wanted))
    return Quartic(across=1.0, down=0.0, gamma=rotation.gamma)


def _promax(stack: Array, axes: Array, power: float) -> Array:
    """T whose pattern comes near to the varimax loadings raised to a power, by least squares.

    Where columns depend on each other least squares has no one answer, and varimax stays.
    """
    turned = stack @ axes
    wanted = turned * np.abs(turned) ** (power - 1)
    gram = turned.transpose(0, 2, 1) @ turned
    result, left = axes.copy(), np.flatnonzero(_regular(gram))
    cross = turned[left].transpose(0, 2, 1) @ wanted[left]
    weights = np.linalg.solve(gram[left], cross)
    inner = weights.transpose(0, 2, 1) @ weights
    regular = _regular(inner)
    left, weights, inner = left[regular], weights[regular], inner[regular]
    lengths = np.sqrt(np.diagonal(np.linalg.inv(inner), axis1=1, axis2=2))
    back = axes[left] @ (weights * lengths[:, None, :])
    result[left] = np.linalg.inv(back).transpose(0, 2, 1)
    return result


def _regular(matrices: Array) -> BoolArray:
    """Which of these semi-definite matrices can be inverted."""
    values = np.linalg.eigvalsh(matrices)
    return np.asarray(values[:, 0] > SMALLEST_EIGENVALUE_RATIO * values[:, -1])


def _ordered(rows: Array, matrix: Array) -> Array:
    """Strongest factor first, by its part of the communalities; largest loadings positive."""
    pattern = rows @ np.linalg.inv(matrix).T
    strength = np.diag((matrix.T @ matrix) @ (pattern.T @ pattern))
    # Of factors that are equally strong the one whose largest loading comes first is the first.
    places = np.argmax(np.abs(pattern), axis=0)
    order = np.lexsort((places, -np.round(strength / max(strength.sum(), 1e-300), 6)))
    return np.asarray(matrix[:, order] * signs(pattern[:, order]))


def _free_signs(pattern: Array, rotation: Rotation) -> Array:
    """Signs of columns for which a target has nothing but zeros."""
    asked = np.nan_to_num(np.array(rotation.target, dtype=float)).any(axis=0)
    return np.where(asked, 1.0, signs(pattern))


def _unit_diagonal(correlations: Array) -> Array:
    correlations[np.diag_indices_from(correlations)] = 1.0
    return correlations


def _random_axes(number: int, k: int, rng: np.random.Generator) -> Array:
    q, r = np.linalg.qr(rng.standard_normal((number, k, k)))
    return np.asarray(q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :])


def _finite(name: str, value: Any) -> float:
    if not is_number(value):
        raise must_be(name, "a number", value)
    if not np.isfinite(value):
        raise must_be(name, "a finite number", value)
    return float(value)


def _plain_target(target: Any) -> tuple[tuple[float | None, ...], ...]:
    """Values that compare and print as such; None where nothing is asked."""
    try:
        wanted = np.array(target, dtype=float)
    except (TypeError, ValueError):
        raise must_be("target", "a matrix of numbers, NaN where nothing is asked", target) from None
    if wanted.ndim != 2 or np.any(np.isinf(wanted)) or np.all(np.isnan(wanted)):
        raise must_be("target", "a matrix of numbers, NaN where nothing is asked", target)
    return tuple(
        tuple(None if np.isnan(value) else float(value) for value in row) for row in wanted
    )
