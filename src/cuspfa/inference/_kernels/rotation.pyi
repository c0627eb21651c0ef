from cuspfa._typing import Array, BoolArray

def descend(
    stack: Array,
    axes: Array,
    values: Array,
    converged: BoolArray,
    enough: Array,
    squared_norm: Array,
    oblique: bool,
    is_geomin: bool,
    across: float,
    down: float,
    gamma: float,
    most_steps: int,
    most_halvings: int,
    remembered: int,
    least_descent: float,
    most_growth: float,
    nearly_flat: float,
) -> int: ...
