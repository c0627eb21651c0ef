"""The page about the architecture, and the rules of the tree that its source can be checked for."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "cuspfa"
PAGE = ROOT / "docs" / "dev" / "architecture.md"
WHOLE_FOLDERS = ("inference/_kernels/", "cli/commands/")
"""Folders of which the page says what one file is, not each file."""


def modules() -> dict[str, ast.Module]:
    """Every module below the package, by its path."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


MODULES = modules()


def listed_modules(text: str) -> Iterator[str]:
    """The modules in the tables of the page, as often as they stand there."""
    prefix: str | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            prefix = None
        elif prefix is None:
            folder = re.match(r"`(?:src/cuspfa/)?([\w/]*)`", cells[0])
            prefix = "outside" if cells[0].startswith("outside") else folder[1] if folder else ""
        elif prefix != "outside":
            for name in re.findall(r"`([\w/]+(?:\.py|/))`", cells[0]):
                if name.endswith("/"):
                    yield from (prefix + name + one for one in re.findall(r"`(\w+\.py)`", cells[1]))
                else:
                    yield prefix + name


def expected_modules() -> set[str]:
    """The modules that a table must have: all but packages, which have no code of their own."""
    folders = {name for name in MODULES if name.endswith("/__init__.py")}
    whole = {name for name in MODULES if name.startswith(WHOLE_FOLDERS)}
    return MODULES.keys() - folders - whole


def test_each_module_is_in_the_tables_once() -> None:
    found = Counter(listed_modules(PAGE.read_text("utf-8")))
    assert not [name for name, times in found.items() if times > 1]
    assert expected_modules() - found.keys() == set(), "Add a row to docs/dev/architecture.md."
    assert found.keys() - MODULES.keys() == set(), "docs/dev/architecture.md has a module too many."


def test_a_missing_and_a_dead_module_are_found() -> None:
    text = "| `model/` | the model |\n|---|---|\n| `prior.py` | x |\n| `slabs/` | `no.py` (y) |\n"
    assert list(listed_modules(text)) == ["model/prior.py", "model/slabs/no.py"]


def test_the_walk_names_files_that_are_there() -> None:
    walk = PAGE.read_text("utf-8").split("## One walk")[1].split("\n## ")[0]
    names = set(re.findall(r"`([\w/]+\.py|[\w/]+/)`", walk))
    assert len(names) > 20
    known = [*MODULES, *{f"{Path(name).parent.as_posix()}/" for name in MODULES}]
    assert [
        name for name in names if not any(f"/{one}".endswith(f"/{name}") for one in known)
    ] == []


def test_the_root_of_the_package_has_few_files() -> None:
    assert len([name for name in MODULES if "/" not in name]) <= 6


def test_no_module_is_named_like_a_library_that_it_imports() -> None:
    for name, tree in MODULES.items():
        imported = {
            alias.name.split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        } | {
            (node.module or "").split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and not node.level
        }
        assert Path(name).stem not in imported, name


def definitions() -> Iterator[tuple[str, str]]:
    """Classes, names of types and constants of modules, with the module."""
    for module, tree in MODULES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                yield node.name, module
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                        if isinstance(one, ast.Name) and one.id[0].isupper():
                            yield one.id, module


def test_a_class_or_constant_is_defined_once() -> None:
    """The same name elsewhere would have another meaning, or be a second copy."""
    found = Counter(name for name, _ in definitions())
    assert [name for name, times in found.items() if times > 1] == []


def functions() -> Iterator[tuple[str, str]]:
    """Public functions of modules, with the module."""
    for module, tree in MODULES.items():
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        yield from ((name, module) for name in names if not name.startswith("_"))


def with_two_meanings(pairs: Iterable[tuple[str, str]]) -> set[str]:
    """Names of functions in several modules, apart from those that mean the same there."""
    places: dict[str, set[str]] = {}
    for name, module in pairs:
        # Commands are called like functions of the library, or of the page.
        if module != "cli/app.py" and name != "main":
            places.setdefault(name, set()).add(module)
    # The steps of the models and their samplers are called alike.
    return {
        name
        for name, modules in places.items()
        if len(modules) > 1 and not all(one.startswith("inference/") for one in modules)
    }


def test_a_public_function_has_one_meaning() -> None:
    assert with_two_meanings(functions()) == set()
    pairs = [("check", "data/one.py"), ("check", "model/two.py"), ("sweep", "inference/three.py")]
    assert with_two_meanings([*pairs, ("sweep", "inference/four.py")]) == {"check"}


def test_private_modules_of_scikit_learn_stay_in_one_file() -> None:
    private = {
        name
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and re.match(r"sklearn.*\._", node.module or "")
    }
    assert private == {"_utils/sklearn_compat.py"}


OWN_CLASSES = {
    "model/": ("model/slabs/", "model/likelihoods/"),
    "posterior/": ("posterior/",),
    "data/": ("data/protocols.py", "data/in_memory.py", "missing/source.py", "missing/tempered.py"),
}
"""Where slabs, likelihoods, posteriors and data sources are defined, by the package that may ask
for their class."""


PROGRAM_OR_EXTRA = ("cli/", "reporting/html/__init__.py")
"""The program loads what a command needs; the report needs packages of an extra."""


def test_modules_of_the_package_are_imported_at_the_top() -> None:
    """An import in a function could get round the directions that import-linter checks."""
    inside = {
        name
        for name, tree in MODULES.items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cuspfa")
    }
    assert not [name for name in inside if not name.startswith(PROGRAM_OR_EXTRA)]


def test_engines_ask_for_capabilities_not_for_classes() -> None:
    for package, places in OWN_CLASSES.items():
        classes = {
            node.name
            for name, tree in MODULES.items()
            if name.startswith(places)
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }
        assert classes
        for name, tree in MODULES.items():
            if name.startswith((package, "missing/")):
                continue
            for node in ast.walk(tree):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id == "isinstance"
                ):
                    asked = {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
                    assert not asked & classes, f"{name}:{node.lineno}"


CALLED_FROM_OUTSIDE = {
    "on_broken_pipe",  # by rich
    "_repr_html_inner",  # by scikit-learn, as the next one
    "_repr_mimebundle_",
    "expected_spike_probabilities",  # a method of CumulativeShrinkage, for users
    "to_latex",  # methods of ApaTables, for users
    "to_html",
}


def unused_definitions(modules: dict[str, ast.Module], text: str) -> set[str]:
    """Functions, classes and constants whose names occur nowhere but in their definition."""
    words = Counter(re.findall(r"\w+", text))
    names = {
        node.name
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    } | {
        target.id
        for tree in modules.values()
        for node in tree.body
        if isinstance(node, ast.Assign)
        for one in node.targets
        for target in ast.walk(one)
        if isinstance(target, ast.Name) and target.id.isupper()
    }
    return {name for name in names if words[name] == 1 and not name.startswith("__")}


def passed_on_alone(modules: dict[str, ast.Module]) -> set[str]:
    """Methods that only methods of the same name ask for, such as those of a part."""
    defined: set[str] = set()
    used: set[str] = set()

    def visit(node: ast.AST, inside: frozenset[str]) -> None:
        for child in ast.iter_child_nodes(node):
            own = inside
            if isinstance(child, ast.FunctionDef):
                own = inside | {child.name}
                if isinstance(node, ast.ClassDef):
                    defined.add(child.name)
            elif isinstance(child, ast.Attribute) and child.attr not in inside:
                used.add(child.attr)
            visit(child, own)

    for tree in modules.values():
        visit(tree, frozenset())
    return {name for name in defined - used if not name.startswith("_")}


def test_each_method_is_asked_for() -> None:
    """By the package, by a template, or by users, as the pages say."""
    pages = [*(ROOT / "docs").glob("*.md"), *PACKAGE.rglob("*.html"), *PACKAGE.rglob("*.py")]
    texts = [path.read_text("utf-8") for path in pages]
    shown = [
        line
        for text, path in zip(texts, pages, strict=True)
        for line in text.splitlines()
        if path.suffix != ".py" or line.lstrip().startswith((">>>", "..."))
    ]
    words = set(re.findall(r"\w+", "\n".join(shown)))
    assert passed_on_alone(MODULES) - words - CALLED_FROM_OUTSIDE == set()
    whole = "class A:\n    def m(self):\n        return [one.m() for one in self.parts]\n"
    assert passed_on_alone({"one.py": ast.parse(whole)}) == {"m"}
    assert passed_on_alone({"one.py": ast.parse(whole + "A().m()\n")}) == set()


def test_each_definition_is_used() -> None:
    """What only tests use belongs to the tests."""
    files = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".html")]
    text = "\n".join(path.read_text("utf-8") for path in files)
    assert unused_definitions(MODULES, text) == CALLED_FROM_OUTSIDE
    text = "def lonely():\n    pass\n"
    assert unused_definitions({"one.py": ast.parse(text)}, text) == {"lonely"}


OPTION = re.compile(r"(?<![\w-])--[a-z]")
SPELLS_OPTIONS = (
    "cli/",
    "_utils/fit_warning_text.py",
    "_utils/spelling.py",
    "reporting/recipe.py",
    "reporting/html/narrative.py",
)
"""The program; the module with the two forms of advice; the command that repeats a fit, which is
shown for fits of the program alone."""


def test_the_library_names_no_option_of_the_program() -> None:
    named = {
        f"{name}:{node.lineno}"
        for name, tree in MODULES.items()
        if not name.startswith(SPELLS_OPTIONS)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if OPTION.search(node.value)
    }
    assert named == set()
    assert OPTION.search("see --json")
    assert not OPTION.search("a--b")


OTHER_TESTS = {"browser", "docs", "kernels", "mutation", "oracles", "robustness"}
"""Folders of tests that are about no package: pages, installations, references, damaged input."""


def test_the_folders_of_the_tests_are_those_of_the_source() -> None:
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    assert [
        str(one)
        for one in folders
        if one.parts[0] not in OTHER_TESTS and not (PACKAGE / one).is_dir()
    ] == []
