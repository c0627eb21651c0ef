from cuspfa._typing import Array, Indices

def direction_metrics(
    metric: Array,
    place: Indices,
    turn: Indices,
    scales: Array,
    between: Array,
    turns: Array,
) -> None: ...
