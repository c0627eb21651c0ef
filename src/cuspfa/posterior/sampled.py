"""Draws of a sampler as a posterior: the draws themselves, and means of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.tables import Columns, TabularResult
from cuspfa._utils.threads import one_blas_thread
from cuspfa.diagnostics.mcmc import convergence
from cuspfa.errors import FileError
from cuspfa.posterior.draws import Draws
from cuspfa.posterior.kept_draws import KeptDraws
from cuspfa.posterior.sampled_entries import SampledEntries

MONITORED_COLUMNS = 20
"""Columns whose covariances are looked at to see whether chains have converged."""
WIDEST_DIRECT = 500
"""Columns up to which E[ΛΛᵀ] is made to find its leading directions."""


@dataclass(frozen=True, eq=False)
class Diagnostics(TabularResult):
    """R-hat and effective sizes of quantities that no rotation of the factors changes."""

    names: list[str]
    r_hat: Array
    effective_size: Array

    def _columns(self) -> Columns:
        return {
            "quantity": self.names,
            "r_hat": self.r_hat.tolist(),
            "effective_size": self.effective_size.tolist(),
        }

    @property
    def worst_r_hat(self) -> float:
        """The largest; NaN if there is none."""
        return float("nan") if np.isnan(self.r_hat).all() else float(np.nanmax(self.r_hat))

    @property
    def smallest_size(self) -> float:
        """The smallest effective size; NaN if there is none."""
        known = np.isfinite(self.effective_size).any()
        return float(np.nanmin(self.effective_size)) if known else float("nan")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SampledPosterior(KeptDraws):
    """Draws that a sampler kept, chain after chain, in the user's units.

    Attributes
    ----------
    loadings_draws : ndarray (S, p, H)
        Λ of each draw: all columns, active or not; draws with fewer have zeros behind.
    noise_variance_draws : ndarray (S, p)
        σ².
    active_draws : ndarray (S, H)
        Which columns are active. Their number has the posterior distribution of the number of
        factors.
    log_likelihood : ndarray (S,)
        With the scores integrated out, for the centred and scaled data.
    n_chains : int
        Chains; each has S / n_chains draws.
    spike : float
        θ_∞ of the chains, on the engine's scale.
    prior : CuspPrior
        The prior.
    statistics : Statistics or None
        YᵀY on the engine's scale, as a root of it; None where it would be large.
    center, scale : ndarray (p,)
        The user's value is center + scale × the engine's.
    n_rows : int
        Rows of the data.
    names : list of str or None
        Column names.
    mean_draws : ndarray (S, p) or None
        Means of incomplete columns, in the user's units; None where nothing is missing.
    counts : ndarray (p,) or None
        Values that incomplete columns have.
    correlation : ndarray (p, p) or None
        Of incomplete data, estimated without a factor model; None where that would take long.
    effective : Effective or None
        Complete rows with as much information on the correlations.
    rotation : Rotation or None
        Axes that loadings are shown on; None for principal ones.
    provenance : Provenance or None
        Where it came from.
    fit_info : FitInfo or None
        How the fit went.
    """

    kind: ClassVar = "gibbs"
    layout: ClassVar = SampledEntries()

    loadings_draws: Array
    noise_variance_draws: Array
    active_draws: BoolArray
    log_likelihood: Array
    spike: float
    mean_draws: Array | None = None
    counts: Array | None = None

    @classmethod
    def from_entries(cls, content: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The posterior of a file, from checked entries and arrays of the right shapes."""
        (fields,) = cls.layout.values(content, arrays)
        found = cls(**fields)
        if found.n_active != content["n_factors"]:
            raise FileError("is damaged: its draws have another number of factors than it says")
        return found

    @property
    def n_active(self) -> int:
        """The most probable number of factors."""
        return int(np.argmax(self.count_probabilities))

    @property
    def sample_correlation(self) -> Array | None:
        """(p, p) of the data, if their statistics are kept; `correlation` of incomplete data."""
        return super().sample_correlation if self.mean_draws is None else self.correlation

    @property
    def mean(self) -> Array:
        """(p,) E of the columns' means, in the user's units."""
        return self.center if self.mean_draws is None else self.mean_draws.mean(axis=0)

    @property
    def column_counts(self) -> Array:
        """(p,) values that each column has."""
        return super().column_counts if self.counts is None else self.counts

    @cached_property
    def _variance(self) -> Array:
        """E[Ω_jj], (p,)."""
        total = np.einsum("sjh,sjh->j", self.loadings_draws, self.loadings_draws) / len(
            self.loadings_draws
        )
        return np.asarray(total + self.noise_variance_draws.mean(axis=0))

    @cached_property
    def loadings(self) -> Array:
        """(p, K) in the user's units: the best for E[ΛΛᵀ] ≈ its product, on the correlation scale.

        Columns of Λ may be rotated from draw to draw without changing ΛΛᵀ: these are the leading
        directions of its mean over all draws.
        """
        k, sd = self.n_active, np.sqrt(self._variance)
        size, p, _ = self.loadings_draws.shape
        if k == 0:
            return np.zeros((p, 0))
        with one_blas_thread(p * p):
            flat = (self.loadings_draws / sd[:, None]).transpose(1, 0, 2).reshape(p, -1) / np.sqrt(
                size
            )
            if p <= WIDEST_DIRECT:
                basis = np.eye(p)
            else:  # the leading directions, from those of the last draw
                active = self.loadings_draws[-1] / sd[:, None]
                extra = np.random.default_rng(0).standard_normal((p, k + 8))
                basis = np.linalg.qr(np.hstack([active, 1e-6 * extra]))[0]
                for _ in range(4):
                    basis = np.linalg.qr(flat @ (flat.T @ basis))[0]
            inner = basis.T @ flat
            values, vectors = np.linalg.eigh(inner @ inner.T)
        leading = np.sqrt(np.maximum(values[: -k - 1 : -1], 0.0)) * vectors[:, : -k - 1 : -1]
        return np.asarray(sd[:, None] * (basis @ leading))

    @cached_property
    def noise_variance(self) -> Array:
        """(p,) the rest of E[Ω_jj]."""
        return np.asarray(self._variance - np.sum(self.loadings**2, axis=1))

    @property
    def draws(self) -> Draws:
        """All draws that were kept, chain after chain, whatever their number of factors."""
        return Draws(
            self.loadings_draws, self.noise_variance_draws, self.mean_draws, self.active_draws
        )

    @property
    def has_exact_draws(self) -> bool:
        """The draws are those of the sampler."""
        return True

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """R-hat and effective sizes of covariances, log-likelihood and number of factors.

        Covariances are those among up to 20 columns, evenly spread.
        """
        return diagnose(
            self.loadings_draws,
            self.noise_variance_draws,
            self.active_draws,
            self.log_likelihood,
            self.n_chains,
            self.column_names,
        )


def diagnose(
    loadings: Array,
    noise_variance: Array,
    active: BoolArray,
    log_likelihood: Array,
    n_chains: int,
    names: list[str] | None,
) -> Diagnostics:
    """R-hat and effective sizes of draws, chain after chain; see `SampledPosterior.diagnostics`."""
    p = loadings.shape[1]
    chosen = np.unique(np.linspace(0, p - 1, min(p, MONITORED_COLUMNS)).round().astype(int))
    upper = np.triu_indices(len(chosen))
    parts = [
        batch.covariance[:, upper[0], upper[1]]
        for batch in Draws(loadings, noise_variance).only(chosen).batches()
    ]
    labels = names if names is not None else [f"x{j}" for j in range(p)]
    pairs = zip(chosen[upper[0]], chosen[upper[1]], strict=True)
    watched = [f"covariance of {labels[i]} and {labels[j]}" for i, j in pairs]
    values = np.column_stack([*np.vstack(parts).T, log_likelihood, active.sum(axis=1)])
    values = values.reshape(n_chains, -1, values.shape[1])
    return Diagnostics([*watched, "log-likelihood", "number of factors"], *convergence(values))
