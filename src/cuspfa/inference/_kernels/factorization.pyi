import numpy as np

from cuspfa._typing import Array, Indices

def expected_split(
    indptr: Indices,
    indices: Indices,
    counts: Array,
    scores: Array,
    loadings: Array,
    by_row: Array,
    by_column: Array,
) -> float: ...
def draw_split(
    indptr: Indices,
    indices: Indices,
    counts: Array,
    scores: Array,
    loadings: Array,
    by_row: Array,
    by_column: Array,
    largest_single: float,
    rng: np.random.Generator,
) -> float: ...
def gamma_moments(
    shape: Array, rate: Array, mean: Array, geometric: Array, log_sums: Array
) -> float: ...
