from cuspfa._typing import Array

def whitened(
    loadings: Array,
    mean: Array,
    shift: tuple[Array, ...] | None,
    rows: Array,
    inverse: Array,
    weights: Array,
    eigenvalues: Array,
    quadratic: Array,
    moved: Array,
) -> int: ...
def bennett_root(
    above: Array, below: Array, start: float, tolerance: float, most_steps: int
) -> float: ...
def eigenvalues(matrices: Array, out: Array) -> int: ...
