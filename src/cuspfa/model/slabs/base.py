"""The protocol of slabs: what the engines need of a slab, with defaults for most of it.

A slab depends on a column λ_·h of p loadings only through its expected squared norm
E_h = E‖λ_·h‖² under q. With its own unknown variance optimised out (q(θ_h), or a plug-in θ_h, at
its best), it enters the bound as φ(E_h), `log_density`, and the update of the loadings as the
precision t_h = −2φ'(E_h). These two are all that a slab must define; docs/dev/add_a_slab.md is the
recipe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self, get_type_hints

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.arguments import must_be

LOG_2PI = float(np.log(2 * np.pi))

SlabHyperparameters = tuple[Array, ...]
"""One array (B,) for each hyperparameter that B chains hold; empty where all are given."""

PX_STEPS, PX_TOLERANCE = 200, 1e-10
"""Most steps of the default `px_scale`, and the relative change at which they end."""

ANGLE_NODES = 24
"""Of the mean over the rotations of two columns."""

LOG_STEP = 1e-4
"""Difference of log E_h in the numerical derivative of a precision."""

SLABS: dict[str, type[Slab]] = {}
"""The slabs that are known to saved fits, by the name of their class."""


class SlabCapabilities(NamedTuple):
    """What a slab offers beyond its density."""

    sampled: bool = False
    """Gibbs and bridge sampling are possible: the variances are given (`start_hyperparameters` is
    None) or are drawn by `draw_variances`."""
    scales_jointly: bool = False
    """`draw_px_scale` draws a column's scale together with its variance."""
    rotation_invariant: bool = False
    """The density of Λ depends on ΛΛᵀ alone."""


class SlabKernel(NamedTuple):
    """A slab as the compiled kernels know it."""

    kind: int
    """0: normal with variance `a`; 1: inverse gamma variances with shape `a` and rate `b`; 2: a
    plug-in variance for each column."""
    a: float = 0.0
    b: float = 0.0
    pooled: bool = False
    """Are shape and rate updated?"""


class Slab(ABC):
    """The distribution of the loadings of an active factor; a frozen dataclass.

    Its fields are the hyperparameters, numbers or flags. Saved fits store them by name.
    """

    capabilities: ClassVar[SlabCapabilities] = SlabCapabilities()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kernel_form" not in vars(cls):  # a subclass may have formulas of its own
            setattr(cls, "kernel_form", Slab.kernel_form)  # noqa: B010, a method for mypy
        if "in_words" not in vars(cls):
            setattr(cls, "in_words", Slab.in_words)  # noqa: B010
        if "<locals>" not in cls.__qualname__:  # another process could not import it
            SLABS[cls.__name__] = cls

    @classmethod
    def field_types(cls) -> dict[str, type]:
        """Names and types of the fields, `float` or `bool`."""
        known = get_type_hints(cls)
        types = {field.name: known[field.name] for field in fields(cls)}  # type: ignore[arg-type]
        if not {float, bool} >= set(types.values()):
            raise TypeError(f"Fields of {cls.__name__} must be float or bool. Got {types} instead.")
        return types

    @property
    def in_words(self) -> str:
        """The distribution of the loadings of an active factor, in a sentence: they are …"""
        return f"distributed as {self!r}"

    # --- the bound; these two are required ---

    @abstractmethod
    def log_density(self, squared_norm: Array, p: int) -> Array:
        """φ(E_h): expected log density of each column, of the same shape as E."""

    @abstractmethod
    def precision(self, squared_norm: Array, p: int) -> Array:
        """t_h = E[1/θ_h] = −2φ'(E_h), (K,)."""

    # --- the variational engine ---

    def px_scale(self, eigenvalues: Array, n: float, p: int) -> Array:
        """Best x of the scale-rotation step for each l = `eigenvalues`, (K,).

        The objective is ½(n − p) log x − ½x + φ(l/x), with l an eigenvalue of E[ΛᵀΛ] in the basis
        where E[ηᵀη] = I. For a convex φ, which every scale mixture of normal distributions has,
        each step with the precision held fixed raises it.
        """
        x = np.full(len(eigenvalues), float(n))
        for _ in range(PX_STEPS):
            before, x = x, fixed_px_scale(eigenvalues, n, p, self.precision(eigenvalues / x, p))
            if np.all(np.abs(x - before) <= PX_TOLERANCE * x):
                break
        return x

    def log_hyperprior(self) -> float:
        """Log density of the hyperparameters that are updated; 0 where none is."""
        return 0.0

    def update_hyperparameters(self, squared_norm: Array, p: int) -> Self:
        """The slab with better hyperparameters; unchanged where these are given."""
        return self

    def with_fixed_hyperparameters(self) -> Self:
        """The slab with its hyperparameters held at their present values."""
        return self

    def log_hyper_evidence(self, squared_norm: Array, p: int) -> float:
        """Log of the integral over the hyperparameters, relative to their best values.

        0 where none is updated.
        """
        return 0.0

    def scale_freedom(self, squared_norm: Array, n: float, p: int) -> Array:
        """Twice the curvature of the bound in log x at the best x of `px_scale`, (K,).

        It is n − p + 2tE + E² t'(E), here with a numerical derivative.
        """
        around = [self.precision(squared_norm * np.exp(d), p) for d in (LOG_STEP, -LOG_STEP)]
        slope = (around[0] - around[1]) / (2 * LOG_STEP)
        t = self.precision(squared_norm, p)
        return np.asarray(n - p + squared_norm * (2 * t + slope))

    def start_variances(self, k: int, mean_variance: float, rng: np.random.Generator) -> Array:
        """Variances of k columns of a random start, (k,).

        By default the mean variance of the data is shared equally by factors and noise.
        """
        return np.full(k, mean_variance / (k + 1))

    def kernel_form(self) -> SlabKernel | None:
        """The slab for the compiled kernels; None if these do not know it, and NumPy code runs."""
        return None

    def with_kernel_values(self, a: float, b: float) -> Self:
        """The slab with what a kernel made of the numbers of `kernel_form`."""
        return self

    def log_pair_average(self, one: Array, two: Array, p: int) -> Array:
        """Log of the mean density of two columns over their rotations, relative to the density of
        the columns as they are, orthogonal with squared norms `one` and `two`; of their shape.
        """
        part, weights = _pair_rotations()
        one, two = one[..., None], two[..., None]
        change = self.log_density(one * part + two * (1 - part), p)
        change = change + self.log_density(one * (1 - part) + two * part, p)
        change = change - self.log_density(one, p) - self.log_density(two, p)
        return np.asarray(np.log(np.exp(change) @ weights))

    # --- checks ---

    def check_start(self) -> None:  # noqa: B027, nothing to check by default
        """Raise an InputError where a fit cannot start at these hyperparameters."""

    def check_spike(self, spike: float) -> None:
        """Raise an InputError where the slab does not allow this finite spike."""
        raise must_be("spike", f"None with {type(self).__name__}", spike)

    # --- Gibbs and bridge sampling ---

    def start_hyperparameters(self, size: int) -> SlabHyperparameters | None:
        """Hyperparameters of `size` chains; None where the variances are given, not drawn."""
        return () if self.capabilities.sampled else None

    def active_variances(self, variances: Array) -> Array:
        """Variances of active columns before they are drawn, from those that the chains hold."""
        return variances

    def draw_variances(
        self,
        squared_norm: Array,
        hyperparameters: SlabHyperparameters,
        p: int,
        rng: np.random.Generator,
        *,
        active: BoolArray | None,
        steps: int,
    ) -> tuple[Array, SlabHyperparameters]:
        """Draw θ | Λ, (B, K), after `steps` steps for the hyperparameters.

        `squared_norm` (B, K) is ‖λ_·h‖²; `active` (B, K) are the columns of the slab, None for all.
        """
        raise NotImplementedError(f"{type(self).__name__} has no draws of its variances.")

    def log_kernel(
        self, squared_norm: Array, hyperparameters: SlabHyperparameters, p: int
    ) -> Array:
        """Log density of columns with θ integrated out, without (2π)^{−p/2} and `log_normalizer`.

        The hyperparameters broadcast against `squared_norm`.
        """
        return np.asarray(self.log_density(squared_norm, p) + 0.5 * p * LOG_2PI)

    def log_normalizer(self, hyperparameters: SlabHyperparameters, p: int) -> Array | float:
        """What `log_kernel` leaves out, where it depends on the hyperparameters alone."""
        return 0.0

    def draw_px_scale(
        self,
        scores: Array,
        variances: Array,
        hyperparameters: SlabHyperparameters,
        n: float,
        rng: np.random.Generator,
    ) -> Array:
        """Draw u of η_h → √u η_h, λ_h → λ_h/√u, θ_h → θ_h/u, (B,), with `scores` = ‖η_h‖²."""
        raise NotImplementedError(f"{type(self).__name__} has no joint draws of its scales.")

    def automatic_spike(self, n: float, p: int) -> float:
        """The variance of the spike that `spike=None` stands for in Gibbs sampling."""
        raise must_be("spike", f"a number with {type(self).__name__} and method='gibbs'", None)


@cache
def _pair_rotations() -> tuple[Array, Array]:
    """Squared cosines of angles in (0, π/4), and the weights of an average over them.

    The nodes are dense at zero, where the average is made if the squared norms are very different.
    """
    nodes, weights = np.polynomial.legendre.leggauss(ANGLE_NODES)
    x = (1.0 + nodes) / 2
    return np.cos(x**3 * np.pi / 4) ** 2, 1.5 * x**2 * weights


def fixed_px_scale(eigenvalues: Array, n: float, p: int, precision: Array | float) -> Array:
    """The positive root of x² − (n − p) x − t l = 0, without cancellation."""
    half, product = (n - p) / 2, precision * eigenvalues
    root = np.sqrt(half**2 + product)
    return np.asarray(half + root if half >= 0 else product / (root - half))
