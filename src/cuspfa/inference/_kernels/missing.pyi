from cuspfa._typing import Array, Indices

def invert_packed(a: Array, k: int, log_det: Array) -> None: ...
def sum_scores(
    rows: Array,
    ones: Array,
    patterns: Array,
    sizes: Array,
    starts: Indices,
    part: float,
    signal: Array,
    weights: Array,
    pull: Array,
    cross: Array,
    sums: Array,
    by_column: Array,
    total: Array,
    spread: Array,
    mean: Array,
) -> float: ...
def fill(
    precision: Array,
    projected: Array,
    side: Array,
    sizes: Array,
    starts: Indices,
    first: Indices,
    missing: Indices,
    filled: Array,
    spread: Array,
) -> tuple[int, float, float]: ...
