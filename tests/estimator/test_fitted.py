"""What both estimators do after a fit."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, CuspPoissonFactorization, datasets
from cuspfa.estimator import factor_analysis, poisson_factorization

ROWS = datasets.simulate(60, 6, 1, random_state=1).X
COUNTS = np.random.default_rng(0).poisson(3.0, (40, 6))
FITS: dict[Any, Any] = {
    factor_analysis: (partial(CuspFactorAnalysis, n_factors=1), ROWS),
    poisson_factorization: (
        partial(CuspPoissonFactorization, n_factors=1, random_state=0),
        COUNTS,
    ),
}


@pytest.mark.parametrize("module", FITS)
def test_an_interrupt_while_attributes_are_set_leaves_those_of_the_fit_before(module, monkeypatch):
    make, rows = FITS[module]
    model = make()

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "store_course", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(rows)
        assert not [name for name in vars(model) if name.endswith("_")]
    before = model.fit(rows).posterior_
    with monkeypatch.context() as patched:
        patched.setattr(module, "store_course", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(rows[:, :4])
    assert model.posterior_ is before
    assert model.transform(rows).shape == (len(rows), 1)
