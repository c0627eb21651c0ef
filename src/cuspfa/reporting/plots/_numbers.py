"""Values behind figures, and checks of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuspfa._typing import RandomState
from cuspfa._utils.arguments import must_be, whole
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.draws import N_DRAWS, Draws, check_draws

FEWEST_PLOT_DRAWS = 200
"""Draws behind intervals of very many loadings; otherwise there are `N_DRAWS`."""
MOST_PLOT_LOADINGS = 1 << 26
"""Most loadings in all draws together: 512 MB."""


def make_draws(
    posterior: Posterior, draws: Draws | None, n_draws: int | None, random_state: RandomState
) -> Draws:
    """The draws that were given, or new ones."""
    if draws is None:
        size = len(posterior.noise_variance) * max(posterior.n_active, 1)
        number = (
            max(FEWEST_PLOT_DRAWS, min(N_DRAWS, MOST_PLOT_LOADINGS // size))
            if n_draws is None
            else n_draws
        )
        return posterior.draw(number, random_state=random_state)
    return check_draws(draws, len(posterior.noise_variance))


def check_factors(factor: Any, k: int) -> list[int]:
    """Positions from 0 of the factors that are asked for by their numbers from 1.

    Where the posterior has no factors, any number is taken; the figure then says so.
    """
    if isinstance(factor, str):
        if factor != "all":
            raise must_be("factor", 'a number from 1 on, a list of them or "all"', factor)
        return list(range(max(k, 1)))
    several = list(factor) if isinstance(factor, (list, tuple, range, np.ndarray)) else [factor]
    found = [whole("factor", one, 1) for one in several]
    if not found:
        raise must_be("factor", 'a number from 1 on, a list of them or "all"', factor)
    if k and max(found) > k:
        raise must_be("factor", f"at most {k}, the number of factors", factor)
    return [one - 1 for one in found]
