"""Exact sweeps of many chains and their likelihoods, compiled where the core knows the slab.

The definition of a sweep is `cuspfa.inference.kernels.sweep_complete`. The compiled core uses the
same random numbers in the same order, and its draws agree to rounding error.
"""

from __future__ import annotations

import numpy as np

from cuspfa._typing import Array
from cuspfa.inference._kernels import kernel
from cuspfa.inference.kernels import Chains, Scales, Statistics, sweep_complete
from cuspfa.model.likelihoods.gaussian import marginal_log_likelihoods
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import Slab
from cuspfa.model.slabs.inverse_gamma import HYPER_RATE, HYPER_SCALE, HYPER_SPREAD

INVERSE_GAMMA_KIND = 1
"""The `SlabKernel.kind` of variances that are drawn from inverse gamma distributions."""


def sweep_chains(
    chains: Chains,
    data: Statistics,
    slab: Slab,
    prior: CuspPrior,
    number: int,
    rng: np.random.Generator,
) -> Chains:
    """The chains after `number` sweeps (`sweep_complete`)."""
    core = kernel("sweeps")
    if core is None or not core_knows(chains, slab):
        for _ in range(number):
            chains = sweep_complete(chains, data, slab, prior, rng)
        return chains
    loadings, noise = copied(chains.loadings), copied(chains.noise)
    variances, hyper = copied(chains.scales.variances), copied_hyperparameters(chains)
    free = chains.scales.free
    info = core.sweep(
        *data_arguments(data),
        prior.noise_shape,
        prior.noise_rate,
        *slab_arguments(chains.scales, slab),
        loadings,
        noise,
        variances,
        *hyper,
        None if free is None else np.ascontiguousarray(free).view(np.uint8),
        number,
        rng.bit_generator,
    )
    raise_if_indefinite(info)
    return Chains(loadings, noise, with_values(chains.scales, variances, hyper))


def log_likelihoods(loadings: Array, noise: Array, data: Statistics) -> Array:
    """`marginal_log_likelihoods` of B draws, (B,), for loadings (p, B, K) and noise (p, B)."""
    core = kernel("sweeps")
    if core is None or not loadings.size:
        return marginal_log_likelihoods(loadings, noise, data)
    found = np.empty(loadings.shape[1])
    info = core.log_likelihoods(
        *data_arguments(data), np.ascontiguousarray(loadings), np.ascontiguousarray(noise), found
    )
    raise_if_indefinite(info)
    return found


def core_knows(chains: Chains, slab: Slab) -> bool:
    """Does the compiled core know how the scales of these chains are drawn?

    It knows variances that are given, and those with inverse gamma distributions.
    """
    if not chains.loadings.size:
        return False
    if chains.scales.hyperparameters is None:
        return True
    form = slab.kernel_form()
    return form is not None and form.kind == INVERSE_GAMMA_KIND


def data_arguments(data: Statistics) -> tuple[Array, Array, float]:
    """Rows, sums of squares and n."""
    return np.ascontiguousarray(data.rows), data.squares, float(data.n)


def slab_arguments(scales: Scales, slab: Slab) -> tuple[bool, bool, float, float, float]:
    """Are variances drawn, are their hyperparameters pooled, and the hyper-prior of these."""
    drawn = scales.hyperparameters is not None
    form = slab.kernel_form() if drawn else None
    pooled = form is not None and form.pooled
    return drawn, pooled, HYPER_RATE, HYPER_SCALE, HYPER_SPREAD


def copied(array: Array) -> Array:
    """A contiguous copy, which a kernel may overwrite."""
    return np.array(array, dtype=float, order="C")


def copied_hyperparameters(chains: Chains) -> tuple[Array, Array]:
    """A copy of a and b, (B,) each; anything where the variances are given."""
    a, b = chains.scales.hyperparameters or (chains.noise[0], chains.noise[0])
    return copied(a), copied(b)


def with_values(scales: Scales, variances: Array, hyper: tuple[Array, Array]) -> Scales:
    """The scales with variances and hyperparameters that a kernel has drawn."""
    if scales.hyperparameters is None:
        return scales._replace(variances=variances)
    return scales._replace(variances=variances, hyperparameters=hyper)


def raise_if_indefinite(info: int) -> None:
    """Raise the error of NumPy where a kernel met a matrix that is not positive definite."""
    if info != 0:
        raise np.linalg.LinAlgError("Matrix is not positive definite")
