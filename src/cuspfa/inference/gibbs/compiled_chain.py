"""Sweeps of the Gibbs sampler by the compiled core: complete data, and the slabs that it knows.

The definition is `cuspfa.inference.gibbs.chain.sweep`; random numbers are the same, and the chains
agree to rounding error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cuspfa.inference._kernels import kernel
from cuspfa.inference.compiled_sweeps import (
    core_knows,
    data_arguments,
    raise_if_indefinite,
    slab_arguments,
    with_values,
)
from cuspfa.inference.gibbs.data_kernels import CompleteDataKernel
from cuspfa.inference.gibbs.labels import ProcessColumns
from cuspfa.inference.kernels import Chains

if TYPE_CHECKING:
    from cuspfa.inference.gibbs.chain import GibbsState, Model

GAUSSIAN_KIND = 0
"""The `SlabKernel.kind` of a given variance."""


def can_sweep(state: GibbsState, model: Model) -> bool:
    """Is the core there, and does it know these data and this slab?"""
    if kernel("gibbs") is None or not isinstance(model.data, CompleteDataKernel):
        return False
    slab = model.prior.slab
    if not core_knows(state.chains, slab):
        return False
    if state.chains.scales.hyperparameters is not None:
        return True
    form = slab.kernel_form()
    return state.columns is None or (form is not None and form.kind == GAUSSIAN_KIND)


def sweep_compiled(
    state: GibbsState, first: int, number: int, model: Model, rng: np.random.Generator
) -> GibbsState:
    """The state after `number` sweeps, the first of them of number `first`."""
    core = kernel("gibbs")
    assert core is not None
    assert isinstance(model.data, CompleteDataKernel)
    (loadings, noise, scales), columns, _ = state
    prior, form = model.prior, model.prior.slab.kernel_form()
    active = log_survivors = terms = None
    if columns is not None:
        active = np.ascontiguousarray(columns.active).view(np.uint8)
        log_survivors = np.ascontiguousarray(columns.log_survivors)
        terms = np.ascontiguousarray(columns.terms, dtype=np.int64)
    a, b = scales.hyperparameters or (noise[0], noise[0])
    info, loadings, noise, variances, a, b, *process = core.sweep(
        *data_arguments(model.data.statistics),
        prior.noise_shape,
        prior.noise_rate,
        *slab_arguments(scales, prior.slab),
        prior.alpha,
        prior.stick_shape,
        model.spike,
        1.0 if form is None else form.a,
        model.most,
        -1 if model.start_adapt is None else model.start_adapt,
        *model.adapt_rate,
        model.scale_rotation_every,
        np.ascontiguousarray(loadings),
        np.ascontiguousarray(noise),
        np.ascontiguousarray(scales.variances),
        np.ascontiguousarray(a),
        np.ascontiguousarray(b),
        active,
        log_survivors,
        terms,
        first,
        number,
        rng.bit_generator,
    )
    raise_if_indefinite(info)
    scales = with_values(scales, variances, (a, b))
    if columns is not None:
        columns = ProcessColumns(process[0].view(bool), process[1], process[2])
        scales = scales._replace(free=columns.active)
    return state._replace(chains=Chains(loadings, noise, scales), columns=columns)
