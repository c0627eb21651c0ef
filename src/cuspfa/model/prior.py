"""The prior of the Gaussian factor model, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache

from cuspfa._utils.arguments import LARGEST_HYPERPARAMETER, between, must_be, store_positive
from cuspfa.model.process import SMALLEST_COUNTED_SHAPE, CumulativeShrinkage
from cuspfa.model.slabs import GaussianSlab, InverseGammaSlab, Slab

FEW_SHAPE = 0.1
"""Of the noise prior for the smallest number of values."""


def default_slab() -> InverseGammaSlab:
    """The slab of `CuspPrior()`."""
    return InverseGammaSlab(2.0, 0.4, pooled=True)


@dataclass(frozen=True)
class CuspPrior:
    """The prior of y_i = Λη_i + ε_i under the cumulative shrinkage process.

        λ_jh | z_h ~ N(0, θ_0) if z_h > h (active),  N(0, θ_∞) if z_h ≤ h (inactive)
        pr(z_h = l | v) = ω_l = v_l Π_{m<l} (1 − v_m),   v_l ~ Beta(s, α)
        σ²_j ~ InvGa(a_σ, b_σ), that is ∝ σ_j^{−2(a_σ+1)} exp(−b_σ/σ²_j)

    Parameters
    ----------
    alpha : float, default=5.0
        α, the number of factors expected before the data are seen.
    slab : Slab
        Distribution of the loadings of an active factor: `GaussianSlab`, `InverseGammaSlab`,
        `EmpiricalBayesSlab` or a slab of your own. The default,
        `InverseGammaSlab(2, 0.4, pooled=True)`, estimates each factor's scale and lets
        alike factors share it.
    spike : float or None, default=None
        θ_∞, variance of the loadings of an inactive factor; below the slab's. None is the limit
        θ_∞ → 0: inactive factors vanish and the number of active ones has its exact prior,
        Poisson(α) when s = 1, instead of mean-field labels and sticks. A sampler needs a spike of
        some width: for `Gibbs` None is a narrow one, chosen by slab and number of columns.
    noise_shape, noise_rate : float, default=-1 and 0.003
        a_σ and b_σ. The default is flat in σ² but for a floor near b_σ, weak enough for nearly
        collinear standardised columns. Flat in σ² is neutral about the number of factors: given
        the loadings it is flat in the variance of a column too, however much of it they explain.
        A shape of 0 or below is not a density by itself; together with data it is a posterior.
    stick_shape : float, default=1.0
        s; 1 in the papers.

    Notes
    -----
    The variances are on the scale of the data after centring and scaling, so the same prior means
    different things with and without standardised columns; the defaults are for standardised
    ones. `CuspFactorAnalysis.as_published` sets prior and treatment of the data together.

    Examples
    --------
    >>> CuspPrior(alpha=3.0).alpha
    3.0
    >>> from cuspfa import GaussianSlab
    >>> CuspPrior(slab=GaussianSlab(1.0), spike=2.0)
    Traceback (most recent call last):
        ...
    cuspfa.errors.InputError: spike must be smaller than the slab's variance 1.0. Got 2.0 instead.
    """

    alpha: float = 5.0
    slab: Slab = field(default_factory=default_slab)
    spike: float | None = None
    noise_shape: float = -1.0
    noise_rate: float = 0.003
    stick_shape: float = 1.0

    def __post_init__(self) -> None:
        store_positive(self, "alpha", "noise_rate", "stick_shape")
        shape = between("noise_shape", self.noise_shape, -1.0, LARGEST_HYPERPARAMETER)
        object.__setattr__(self, "noise_shape", shape)
        if not isinstance(self.slab, Slab):
            raise must_be("slab", "a slab such as InverseGammaSlab() or GaussianSlab()", self.slab)
        self.slab.check_start()
        if self.spike is None:
            if self.stick_shape < SMALLEST_COUNTED_SHAPE:
                raise must_be(
                    "stick_shape",
                    f"at least {SMALLEST_COUNTED_SHAPE} when the spike is at zero (spike=None)",
                    self.stick_shape,
                )
            if self.stick_shape != 1.0:
                self.process().active_count_pmf([0])  # refuses what it cannot count
            return
        store_positive(self, "spike")
        self.slab.check_spike(self.spike)

    @classmethod
    def variational_paper(cls) -> CuspPrior:
        """The values of the application in Legramanti (2020).

        α = 5, θ_0 = 1, θ_∞ = 1e-6, and the noise prior InvGa(1, 0.3) of the authors' code. They
        belong to centred, unscaled items: use `CuspFactorAnalysis.as_published("variational")`.
        """
        return cls(alpha=5.0, slab=GaussianSlab(1.0), spike=1e-6, noise_shape=1.0, noise_rate=0.3)

    @classmethod
    def gibbs_paper(cls) -> CuspPrior:
        """The values of the application in Legramanti, Durante & Dunson (2020).

        α = 5, θ_h ~ InvGa(2, 2) in the slab, θ_∞ = 0.05 and noise InvGa(1, 0.3). A spike as wide as
        this makes factors of its own where columns are many (docs/gibbs.md): for the paper's data
        use `CuspFactorAnalysis.as_published("gibbs")`, for others `prior=None`.
        """
        return cls(
            alpha=5.0,
            slab=InverseGammaSlab(2.0, 2.0),
            spike=0.05,
            noise_shape=1.0,
            noise_rate=0.3,
        )

    def process(self, n_terms: int | None = None) -> CumulativeShrinkage:
        """The process of `n_terms` = H columns, or the countable one."""
        return _process(self.alpha, n_terms, self.stick_shape)

    def for_counts(self, smallest: float) -> CuspPrior:
        """The prior with a noise shape that suits columns of at least `smallest` values.

        A shape of 0 or below has the effect of up to two values less. Where a column has fewer
        than nine values, the shape is raised, so that the expected variance is at most twice the
        sample variance.
        """
        least = min(1.0 - smallest / 4, FEW_SHAPE)
        if self.noise_shape > 0 or self.noise_shape >= least:
            return self
        return replace(self, noise_shape=least)

    @property
    def log_noise_constant(self) -> float:
        """The log of what makes σ² ↦ σ^{−2(a+1)} e^{−b/σ²} a density; 0 where it is not one.

        It is equal for all numbers of factors, so that it has no effect on their choice.
        """
        a, b = self.noise_shape, self.noise_rate
        return a * math.log(b) - math.lgamma(a) if a > 0 else 0.0

    def log_count_probability(self, n_factors: int) -> float:
        """Log P(H* = K) under the countable process, exactly."""
        return self.process().log_active_count(n_factors)


@lru_cache(maxsize=32)
def _process(alpha: float, n_terms: int | None, stick_shape: float) -> CumulativeShrinkage:
    """The same process each time: a search asks for it in every run."""
    return CumulativeShrinkage(alpha, n_terms, stick_shape)
