import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cuspfa import CuspPrior, EmpiricalBayesSlab, GaussianSlab, InverseGammaSlab
from cuspfa.errors import InputError


def test_the_papers_values():
    prior = CuspPrior.variational_paper()
    assert (prior.alpha, prior.slab, prior.spike) == (5.0, GaussianSlab(1.0), 1e-6)
    assert (prior.noise_shape, prior.noise_rate, prior.stick_shape) == (1.0, 0.3, 1.0)


def test_frozen():
    prior: Any = CuspPrior()
    with pytest.raises(dataclasses.FrozenInstanceError):
        prior.alpha = 2.0


@pytest.mark.parametrize("name", ["alpha", "spike", "noise_rate", "stick_shape"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", None, True])
def test_numbers_out_of_range_are_named(name, value):
    if name == "spike" and value is None:
        assert CuspPrior(spike=None).spike is None  # the spike at zero
        return
    with pytest.raises(InputError, match=f"{name} must be a positive number. Got"):
        CuspPrior(**{name: value})


@pytest.mark.parametrize("value", [-1.1, float("nan"), float("inf"), "1", None, True, 1e300])
def test_noise_shapes_out_of_range_are_named(value):
    with pytest.raises(
        InputError, match="noise_shape must be a number between -1 and 1e\\+12. Got"
    ):
        CuspPrior(noise_shape=value)


def test_flat_noise_needs_values_to_take_away():
    """InvGa(−1, b) with m values has shape m/2 − 1 and a mean that is finite from m = 5 on."""
    prior = CuspPrior()
    assert prior.noise_shape == -1.0
    assert prior.for_counts(8) is prior
    for counted in (1, 2, 4, 5, 7):
        shape = prior.for_counts(counted).noise_shape
        assert -1.0 < shape <= 0.1
        mean = counted / 2 / max(shape + counted / 2 - 1.0, 1e-9)  # of m values of variance one
        assert shape == 0.1 or mean <= 2.0 + 1e-12
    proper = CuspPrior(noise_shape=0.5)
    assert proper.for_counts(1) is proper


def test_a_noise_prior_that_is_no_density_has_no_constant():
    a, b = 2.5, 0.4
    proper = CuspPrior(noise_shape=a, noise_rate=b)
    distribution = stats.invgamma(a, scale=b)
    unscaled = 1.7 ** (-a - 1) * np.exp(-b / 1.7)
    assert proper.log_noise_constant == pytest.approx(distribution.logpdf(1.7) - np.log(unscaled))
    assert CuspPrior(noise_shape=-1.0).log_noise_constant == 0.0


def test_slab_is_checked():
    with pytest.raises(InputError, match="slab variance must be"):
        GaussianSlab(-1.0)
    with pytest.raises(InputError, match="slab must be a slab such as"):
        CuspPrior(slab=1.0)
    with pytest.raises(InputError, match="spike must be smaller than the slab's variance"):
        CuspPrior(slab=GaussianSlab(1e-7), spike=1e-6)
    for slab in (
        EmpiricalBayesSlab(),
        EmpiricalBayesSlab(shared=True),
        InverseGammaSlab(pooled=True),
    ):
        with pytest.raises(InputError, match="spike must be None with a slab whose scale"):
            CuspPrior(slab=slab, spike=1e-6)
    with pytest.raises(InputError, match="stick_shape must be at least 0.5"):
        CuspPrior(stick_shape=0.2)


def test_senseless_sizes_are_refused():
    for make in (
        lambda: CuspPrior(alpha=1e300),
        lambda: CuspPrior(noise_rate=1e300),
        lambda: CuspPrior(stick_shape=1e300),
        lambda: GaussianSlab(1e-300),
        lambda: InverseGammaSlab(1e300, 1.0),
        lambda: CuspPrior(slab=InverseGammaSlab(1e-9, 1e-9, pooled=True)),
        lambda: CuspPrior(alpha=500, stick_shape=0.6),
        lambda: CuspPrior(slab=InverseGammaSlab(2.0, 2.0), spike=0.9),
    ):
        with pytest.raises(InputError, match="must be"):
            make()


def test_numbers_become_floats():
    prior = CuspPrior(alpha=Fraction(5), noise_rate=np.float32(0.5))
    assert type(prior.alpha) is float
    assert type(prior.noise_rate) is float
    with pytest.raises(InputError, match="alpha must be"):
        CuspPrior(alpha=10**400)


def test_log_count_probability_is_that_of_the_process():
    for shape in (1.0, 2.0):
        prior = CuspPrior(alpha=3.0, stick_shape=shape)
        pmf = prior.process().active_count_pmf(np.arange(8))
        logs = [prior.log_count_probability(k) for k in range(8)]
        np.testing.assert_allclose(logs, np.log(pmf), rtol=1e-9)
