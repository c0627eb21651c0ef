"""The changes that are made, on a module written by hand."""

import ast
from typing import Any

import pytest

from mutation.mutants import marked, mutants, mutated, sampled

SOURCE = '''
"""A module: 1 + 1."""

LIMIT = 3


def step(x: int = 2, *, most: float = 0.5) -> float:
    """Adds 1."""
    if x < 0 and not most:
        raise ValueError(f"{x + 1} must be {1 + 1}")
    total = np.sum(-x) * most
    return total if ready() else max(total, 1.0)


class Thing:
    def grow(self, by):
        self.size += by
        return [one for one in by if one is not None]
'''
CHANGES = {
    "step": [
        "And to Or",
        "Lt to GtE",
        "0 to 1",
        "Not removed",
        "Mult to Div",
        "sum to mean",
        "USub removed",
        "condition of IfExp negated",
        "max to min",
        "1.0 to 2.0",
    ],
    "Thing.grow": ["Add to Sub", "IsNot to Is"],
}


@pytest.fixture
def found(tmp_path):
    (tmp_path / "module.py").write_text(SOURCE)
    return mutants(tmp_path / "module.py", tmp_path)


def test_operators_numbers_and_functions_are_changed(found):
    own = {name: sorted(one.change for one in found if one.function == name) for name in CHANGES}
    assert own == {name: sorted(changes) for name, changes in CHANGES.items()}
    assert len(found) == sum(map(len, CHANGES.values()))


def test_each_mutant_is_one_change(found):
    before = ast.unparse(ast.parse(SOURCE)).splitlines()
    texts = [ast.unparse(mutated(SOURCE, one.number)).splitlines() for one in found]
    for text in texts:
        assert sum(a != b for a, b in zip(before, text, strict=True)) == 1
    assert len({tuple(text) for text in texts}) == len(texts)
    with pytest.raises(ValueError, match="There are 12 changes"):
        mutated(SOURCE, len(found))


def test_lines_are_those_of_the_change(found):
    (one,) = [one for one in found if one.change == "USub removed"]
    assert SOURCE.splitlines()[one.line - 1].strip() == "total = np.sum(-x) * most"


def test_marks_come_before_what_is_changed(found):
    ours = {one.number: one.change for one in found}
    text = ast.unparse(marked(SOURCE, ours)).splitlines()
    total = next(at for at, line in enumerate(text) if "total = np.sum(-x)" in line)
    marks = {line.strip() for line in text[total - 3 : total]}
    assert marks == {f"__mark__('{one}')" for one in ("Mult to Div", "sum to mean", "USub removed")}
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    assert [line for line in text if "__mark__" not in line] == plain
    heard: list[str] = []
    known: dict[str, Any] = {"__mark__": heard.append}
    exec(compile(marked(SOURCE, ours), "x", "exec"), known)
    assert not heard  # nothing runs yet
    with pytest.raises(ValueError, match="0 must be 2"):
        known["step"](-1, most=0.0)
    assert set(heard) == {"And to Or", "Lt to GtE", "0 to 1", "Not removed"}


def test_the_first_of_a_sample_are_a_sample(found):
    assert sampled(found, 8, 0)[:3] == sampled(found, 12, 0)[:3] or len(found) < 12
    assert sampled(found, 5, 0) == sampled(found, 5, 0)
    assert sampled(found, 5, 0) != sampled(found, 5, 1)
    assert len(set(sampled(found, 100, 0))) == len(found)
