"""Small changes of a module's functions, each of which a test should notice.

A mutant is one change of one expression: an operator, a number, a comparison, a sign, a condition
or a function of NumPy. What only makes messages, types or documentation is left as it is.
"""

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
FUNCTIONS = {
    "sum": "mean",
    "mean": "sum",
    "maximum": "minimum",
    "minimum": "maximum",
    "max": "min",
    "min": "max",
    "any": "all",
    "all": "any",
    "zeros": "ones",
    "ones": "zeros",
    "argmax": "argmin",
    "argmin": "argmax",
    "sqrt": "square",
    "log": "exp",
    "exp": "log",
}
"""Functions and methods, by the name that replaces them."""

LEFT_OUT = (ast.Raise, ast.Assert, ast.JoinedStr)
"""Messages."""


class Mutant(NamedTuple):
    """One change of a module."""

    path: str
    """Of the module, from the root of the repository."""
    function: str
    line: int
    end: int
    """First and last line of the statement."""
    number: int
    """The place among the changes of this module."""
    change: str


class _Change(NamedTuple):
    node: ast.AST
    field: str
    place: int | None
    value: object
    words: str

    def apply(self) -> None:
        """Make the change in the tree."""
        if self.place is None:
            setattr(self.node, self.field, self.value)
        else:
            getattr(self.node, self.field)[self.place] = self.value


def changes(node: ast.AST) -> Iterator[_Change]:
    """The changes of one node."""
    name = type(node).__name__
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPERATORS:
        new = OPERATORS[type(node.op)]
        words = f"{type(node.op).__name__} to {new.__name__}"
        yield _Change(node, "op", None, new(), words)
    if isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            to = COMPARISONS[type(op)]
            yield _Change(node, "ops", index, to(), f"{type(op).__name__} to {to.__name__}")
    if isinstance(node, ast.BoolOp):
        other: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        words = f"{type(node.op).__name__} to {type(other).__name__}"
        yield _Change(node, "op", None, other, words)
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in FUNCTIONS:
            to_name = FUNCTIONS[called.attr]
            yield _Change(called, "attr", None, to_name, f"{called.attr} to {to_name}")
        elif isinstance(called, ast.Name) and called.id in ("max", "min", "any", "all"):
            to_name = FUNCTIONS[called.id]
            yield _Change(called, "id", None, to_name, f"{called.id} to {to_name}")
    if isinstance(node, (ast.If, ast.IfExp, ast.While)) and not isinstance(
        node.test, (ast.Compare, ast.BoolOp)
    ):
        negated = ast.UnaryOp(op=ast.Not(), operand=node.test)
        yield _Change(node, "test", None, negated, f"condition of {name} negated")
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = (not node.value) if isinstance(node.value, bool) else node.value + 1
        yield _Change(node, "value", None, value, f"{node.value} to {value}")
    for field, child in ast.iter_fields(node):
        items = child if isinstance(child, list) else [child]
        for index, item in enumerate(items):
            if isinstance(item, ast.UnaryOp):
                at = index if isinstance(child, list) else None
                words = f"{type(item.op).__name__} removed"
                yield _Change(node, field, at, item.operand, words)


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it that computes; functions and classes inside are visited too."""
    if isinstance(node, LEFT_OUT):
        return
    yield node
    for field, child in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for item in child if isinstance(child, list) else [child]:
            if isinstance(item, ast.AST):
                yield from _expressions(item)


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods; those inside a function belong to it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _all_changes(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, _Change]]:
    for name, function in _functions(tree):
        for statement in function.body:
            for node in _expressions(statement):
                for change in changes(node):
                    yield name, statement, change


def mutants(path: Path, root: Path) -> list[Mutant]:
    """All mutants of a module, in the order of its source."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for number, (name, statement, change) in enumerate(_all_changes(tree)):
        line = getattr(change.node, "lineno", statement.lineno)
        end = getattr(change.node, "end_lineno", None) or line
        if isinstance(change.node, (ast.If, ast.While, ast.For, ast.With, ast.FunctionDef)):
            end = line
        place = path.relative_to(root).as_posix()
        found.append(Mutant(place, name, line, end, number, change.words))
    return found


def mutated(source: str, number: int) -> ast.Module:
    """The module with one of its changes made."""
    tree = ast.parse(source)
    for place, (_, _, change) in enumerate(_all_changes(tree)):
        if place == number:
            change.apply()
            return ast.fix_missing_locations(tree)
    raise ValueError(f"There are {place + 1} changes; got number {number}.")


_Place = tuple[list[ast.stmt], ast.stmt] | None


def _places(node: ast.AST, own: _Place = None) -> Iterator[tuple[int, _Place]]:
    """Of each node below, by its identity: the innermost statement that has it, and its list."""
    for _, child in ast.iter_fields(node):
        for item in child if isinstance(child, list) else [child]:
            if isinstance(item, ast.AST):
                place = (child, item) if isinstance(item, ast.stmt) else own
                yield id(item), place
                yield from _places(item, place)


def marked(source: str, keys: dict[int, str]) -> ast.Module:
    """The module, which calls `__mark__` with a key before each statement that is changed."""
    tree = ast.parse(source)
    places = dict(_places(tree))
    nodes = [change.node for _, _, change in _all_changes(tree)]
    for number, key in keys.items():
        place = places[id(nodes[number])]
        assert place is not None
        body, statement = place
        called = ast.Call(
            func=ast.Name("__mark__", ast.Load()), args=[ast.Constant(key)], keywords=[]
        )
        mark = ast.copy_location(ast.Expr(called), statement)
        body.insert(body.index(statement), ast.fix_missing_locations(mark))
    return tree


def sampled(found: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """Mutants in random order."""
    return random.Random(seed).sample(found, min(size, len(found)))
