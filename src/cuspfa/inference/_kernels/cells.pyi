from cuspfa._typing import Array, Indices

def propagate(
    lower: Array,
    upper: Array,
    noise: Array,
    loadings: Array,
    tau: Array,
    nu: Array,
    logs: Array,
    mean: Array,
    covariance: Array,
    log_det: Array,
    iterations: int,
    tolerance: float,
    damping: float,
    least_damping: float,
    patience: int,
) -> int: ...
def truncated_normal(lower: Array, upper: Array, uniform: Array) -> None: ...
def responses_between(codes: Indices, linear: Array, ends: Array, uniform: Array) -> None: ...
def log_probabilities(codes: Indices, linear: Array, ends: Array, out: Array) -> None: ...
def corrections(
    lower: Array,
    upper: Array,
    noise: Array,
    loadings: Array,
    tau: Array,
    nu: Array,
    mean: Array,
    covariance: Array,
    out: Array,
) -> None: ...
