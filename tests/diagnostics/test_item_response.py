"""Item response functions against numerical derivatives and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, ndtr

from cuspfa.diagnostics.item_response import category_probabilities, item_information

GRID = np.linspace(-3, 3, 25)
CUTS = np.array([-1.0, 0.2, 1.1])


@pytest.mark.parametrize(("link", "cdf"), [("probit", ndtr), ("logit", expit)])
def test_information_is_the_expected_squared_slope(link: str, cdf: Any) -> None:
    chances = category_probabilities(GRID, CUTS, link)
    assert chances.sum(axis=0) == pytest.approx(np.ones(25))
    assert chances[0] == pytest.approx(cdf(CUTS[0] - GRID))
    step = 1e-5
    up, down = (np.log(category_probabilities(GRID + s, CUTS, link)) for s in (step, -step))
    by_hand = np.sum(chances * ((up - down) / (2 * step)) ** 2, axis=0)
    assert item_information(GRID, CUTS, link) == pytest.approx(by_hand, rel=1e-5)


def test_two_categories_have_known_information() -> None:
    cut = np.array([0.4])
    logit = expit(GRID - 0.4)
    assert item_information(GRID, cut, "logit") == pytest.approx(logit * (1 - logit))
    p, density = ndtr(GRID - 0.4), np.exp(-0.5 * (GRID - 0.4) ** 2) / np.sqrt(2 * np.pi)
    assert item_information(GRID, cut, "probit") == pytest.approx(density**2 / (p * (1 - p)))


def test_far_out_there_is_no_information() -> None:
    found = item_information(np.array([-60.0, 60.0]), CUTS, "probit")
    assert found == pytest.approx([0.0, 0.0])
