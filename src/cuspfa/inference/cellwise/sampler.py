"""Single cells as data of the Gibbs sampler, which draws the number of factors too.

Between two sweeps a chain keeps pseudo-data and parameters of the likelihood. Given these a sweep
draws scores and loadings as for Gaussian columns, then parameters and pseudo-data anew. Labels,
sticks and the number of columns depend on the loadings alone (`inference/gibbs/chain.py`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.data.cells import CellTable
from cuspfa.inference.cellwise.engine import (
    FACTORS_EXPECTED,
    CellFit,
    check_chains_fit,
    infer_cells,
    likelihood_of,
    parameters_by_column,
)
from cuspfa.inference.cellwise.kernels import (
    CellChains,
    draw_scores_and_loadings,
    rescale_columns,
    shift_scores,
)
from cuspfa.inference.cellwise.state import linear_moments
from cuspfa.inference.gibbs.data_kernels import Measured, Rest
from cuspfa.inference.gibbs.settings import START_TIME_SHARE, Gibbs, GibbsFit, GibbsStart
from cuspfa.inference.kernels import Chains, flip
from cuspfa.model.likelihoods.base import PseudoData
from cuspfa.model.likelihoods.continuous import POINT_SHAPE
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.model.likelihoods.mixed import MixedLikelihood
from cuspfa.model.prior import CuspPrior


@dataclass(frozen=True)
class CellKernel:
    """Draws given single cells. The noise of chains is the variance of responses given f."""

    values: Array
    """(n, p), as the likelihood has them."""
    likelihood: MixedLikelihood
    packed: Array
    """(m,) parameters to start from."""
    linear: Array
    """(n, p) f to start from."""

    @property
    def variances(self) -> Array:
        """(p,) of the responses given f, at the start."""
        return self.likelihood.response_variance(self.likelihood.unpack(self.packed))

    @property
    def size(self) -> int:
        """All values, those that are missing included."""
        return int(self.values.size)

    @property
    def identity(self) -> list[Array]:
        """The values."""
        return [self.values]

    def start(self, size: int, location: Array | None, rng: np.random.Generator) -> Rest:
        """Pseudo-data, their precisions, packed parameters and f."""
        linear = np.tile(self.linear, (size, 1, 1))
        parameters = self.likelihood.unpack(np.tile(self.packed, (size, 1)))
        parameters, pseudo = self.likelihood.draw(self.values, linear, parameters, rng)
        return (*pseudo, self.likelihood.pack(parameters), linear)

    def draw(
        self,
        chains: Chains,
        rest: Rest,
        moved: Indices,
        prior: CuspPrior,
        rng: np.random.Generator,
    ) -> tuple[Chains, Rest]:
        """Scores and loadings given the scales and pseudo-data; parameters and pseudo-data."""
        z, precision, packed, _ = rest
        known = self.likelihood.unpack(packed)
        pseudo = PseudoData(z, precision)
        at = draw_scores_and_loadings(chains, known, pseudo, moved, prior.slab, rng)
        linear = _linear(at)
        parameters, pseudo = self.likelihood.draw(self.values, linear, known, rng)
        at = at._replace(parameters=parameters)
        at, pseudo = rescale_columns(at, pseudo, linear, self.likelihood, rng)
        at, pseudo = shift_scores(at, pseudo, self.likelihood, rng)
        noise = self.likelihood.response_variance(at.parameters).T
        packed = self.likelihood.pack(at.parameters)
        return Chains(at.loadings, noise, at.scales), (*pseudo, packed, _linear(at))

    def measured(self, chains: Chains, rest: Rest) -> Measured:
        """Parameters by column, and the log-likelihood given the scores."""
        *_, packed, linear = rest
        parameters = self.likelihood.unpack(packed)
        logs = self.likelihood.log_density(self.values, linear, parameters).sum(axis=(1, 2))
        found = parameters_by_column(self.likelihood, parameters)
        return Measured(found.noise_variance, logs, found.mean, found.thresholds)


class SampledCells(NamedTuple):
    """Draws of the sampler, and the model that they are of."""

    drawn: GibbsFit
    likelihood: MixedLikelihood


def sample_cells(
    table: CellTable,
    prior: CuspPrior,
    method: Gibbs,
    *,
    n_factors: int | None,
    rng: np.random.Generator,
    n_jobs: int | None = None,
    allowed: int | None = None,
) -> SampledCells:
    """Run the chains; they begin at the mode of a search, or at random loadings."""
    began = time.monotonic()
    likelihood = likelihood_of(table)
    k = FACTORS_EXPECTED if n_factors is None else n_factors
    check_chains_fit(table.rows, likelihood, k, method.n_chains, allowed)
    if method.init == "variational":
        given = replace(prior, spike=None)
        seconds = None if method.max_time is None else START_TIME_SHARE * method.max_time
        found = infer_cells(
            table, given, n_factors=n_factors, bridge=False, seconds=seconds, allowed=allowed
        )
        start, kernel = _start_at(found)
    else:
        values = likelihood.check(table.rows)
        packed = likelihood.pack(likelihood.initial(values))
        start, kernel = None, CellKernel(values, likelihood, packed, np.zeros(values.shape))
    model = method.model_of(kernel, prior, float(len(kernel.values)))
    sampler = method.with_time_left(began)
    drawn = sampler.run(model, n_factors=n_factors, rng=rng, n_jobs=n_jobs, start=start)
    return SampledCells(drawn, kernel.likelihood)


def _start_at(found: CellFit) -> tuple[GibbsStart, CellKernel]:
    """Chains at draws from q around the mode of a fit."""
    likelihood, state = found.likelihood, found.state
    assert state is not None
    assert found.values is not None
    linear, _ = linear_moments(state.loadings, state.scores)
    kernel = CellKernel(found.values, likelihood, found.mode.packed, linear)
    p = len(state.loadings.mean)
    noise = Noise(np.full(p, POINT_SHAPE), POINT_SHAPE * kernel.variances)
    return GibbsStart(state.loadings, noise), kernel


def _linear(at: CellChains) -> Array:
    """Λη of each row, (B, n, p)."""
    return np.asarray(at.scores @ flip(at.loadings).transpose(0, 2, 1))
