import numpy as np

from cuspfa._typing import Array, BoolArray

def sweep(
    rows: Array,
    squares: Array,
    n: float,
    noise_shape: float,
    noise_rate: float,
    drawn: bool,
    pooled: bool,
    hyper_rate: float,
    hyper_scale: float,
    hyper_spread: float,
    loadings: Array,
    noise: Array,
    variances: Array,
    a: Array,
    b: Array,
    active: BoolArray | None,
    number: int,
    bit_generator: np.random.BitGenerator,
) -> int: ...
def log_likelihoods(
    rows: Array, squares: Array, n: float, loadings: Array, noise: Array, out: Array
) -> int: ...
