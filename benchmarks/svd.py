"""The yardstick for wide data: one randomised singular value decomposition."""

from __future__ import annotations

import numpy as np
from sklearn.utils.extmath import randomized_svd


def rank_60(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    left, values, right = randomized_svd(data, min(60, *data.shape), random_state=0)
    return left, values, right
