import dataclasses

import pytest

from cuspfa import CuspPrior, GaussianSlab
from cuspfa.errors import InputError


def test_the_papers_values():
    prior = CuspPrior.variational_paper()
    assert (prior.alpha, prior.slab.variance, prior.spike) == (5.0, 1.0, 1e-6)
    assert (prior.noise_shape, prior.noise_rate, prior.stick_shape) == (1.0, 0.3, 1.0)


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CuspPrior().alpha = 2.0


@pytest.mark.parametrize("name", ["alpha", "spike", "noise_shape", "noise_rate", "stick_shape"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", None, True])
def test_numbers_out_of_range_are_named(name, value):
    with pytest.raises(InputError, match=f"{name} must be a positive number. Got"):
        CuspPrior(**{name: value})


def test_slab_is_checked():
    with pytest.raises(InputError, match="slab variance must be"):
        GaussianSlab(-1.0)
    with pytest.raises(InputError, match="slab must be a GaussianSlab"):
        CuspPrior(slab=1.0)
    with pytest.raises(InputError, match="spike must be smaller than the slab's variance"):
        CuspPrior(slab=GaussianSlab(1e-7))
