"""The prior of the Gaussian factor model, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from cuspfa._checks import must_be, positive
from cuspfa.process import CumulativeShrinkage


@dataclass(frozen=True)
class GaussianSlab:
    """λ_jh ~ N(0, θ_0) for an active factor, θ_0 = `variance` given.

    Examples
    --------
    >>> GaussianSlab(variance=1.0)
    GaussianSlab(variance=1.0)
    """

    variance: float = 1.0

    def __post_init__(self) -> None:
        positive("slab variance", self.variance)


@dataclass(frozen=True)
class CuspPrior:
    """The prior of y_i = Λη_i + ε_i under the cumulative shrinkage process.

        λ_jh | z_h ~ N(0, θ_0) if z_h > h (active),  N(0, θ_∞) if z_h ≤ h (inactive)
        pr(z_h = l | v) = ω_l = v_l Π_{m<l} (1 − v_m),   v_l ~ Beta(s, α)
        σ²_j ~ InvGa(a_σ, b_σ)

    Parameters
    ----------
    alpha : float, default=5.0
        α, about the number of factors expected before the data are seen.
    slab : GaussianSlab, default=GaussianSlab(1.0)
        Law of the loadings of an active factor; its variance is θ_0.
    spike : float, default=1e-6
        θ_∞, variance of the loadings of an inactive factor; below the slab's.
    noise_shape, noise_rate : float, default=1.0 and 0.3
        a_σ and b_σ.
    stick_shape : float, default=1.0
        s; 1 in the papers.

    Notes
    -----
    The variances are on the scale of the data as the engine sees them, so the same prior means
    different things with and without standardised columns.
    `CuspFactorAnalysis.as_published` sets prior and treatment of the data together.

    Examples
    --------
    >>> CuspPrior(alpha=3.0).alpha
    3.0
    >>> CuspPrior(spike=2.0)
    Traceback (most recent call last):
        ...
    cuspfa.errors.InputError: spike must be smaller than the slab's variance 1.0. Got 2.0 instead.
    """

    alpha: float = 5.0
    slab: GaussianSlab = field(default_factory=GaussianSlab)
    spike: float = 1e-6
    noise_shape: float = 1.0
    noise_rate: float = 0.3
    stick_shape: float = 1.0

    def __post_init__(self) -> None:
        for name in ("alpha", "spike", "noise_shape", "noise_rate", "stick_shape"):
            positive(name, getattr(self, name))
        if not isinstance(self.slab, GaussianSlab):
            raise must_be("slab", "a GaussianSlab", self.slab)
        if self.spike >= self.slab.variance:
            raise must_be(
                "spike", f"smaller than the slab's variance {self.slab.variance}", self.spike
            )

    @classmethod
    def variational_paper(cls) -> CuspPrior:
        """The values of the application in Legramanti (2020).

        α = 5, θ_0 = 1, θ_∞ = 1e-6, and the noise prior InvGa(1, 0.3) of the authors' code. They
        belong to centred, unscaled items: use `CuspFactorAnalysis.as_published("variational")`.
        """
        return cls(alpha=5.0, slab=GaussianSlab(1.0), spike=1e-6, noise_shape=1.0, noise_rate=0.3)

    def process(self, n_terms: int) -> CumulativeShrinkage:
        """The finite process of `n_terms` = H columns."""
        return CumulativeShrinkage(self.alpha, n_terms, self.stick_shape)
