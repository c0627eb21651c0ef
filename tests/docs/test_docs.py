"""What the README and the docs show is true."""

import ast
import fnmatch
import json
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import cuspfa
import pages
from cuspfa import datasets

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    if "_build" not in page.parts
)


# --- examples ---


@pytest.mark.parametrize("page", PAGES, ids=pages.name_of)
def test_python_on_the_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some of it writes files
    for code, said in pages.blocks(page):
        assert pages.check(code, said, str(page)) == []


def test_the_readme_shows_what_the_program_prints(tmp_path):
    datasets.load_bfi(subset="paper", as_frame=True).data.to_csv(
        tmp_path / "answers.csv", index=False
    )
    done = subprocess.run(
        [sys.executable, "-m", "cuspfa", "fit", "answers.csv"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n(Read answers.csv.*?)\n…\n```", readme, re.DOTALL)[1]
    printed = "\n".join(done.stdout.splitlines()[: len(shown.splitlines())])
    assert pages.wrong(shown, printed) == []


def test_new_output_goes_onto_a_page_where_it_differs(tmp_path):
    page = tmp_path / "page.md"
    block = "```python\nprint({})\n```\n\n```text\n{}\n```\n\nwords\n"
    page.write_text(block.format("1 + 1", "3") + block.format("0.5", "0.50"))
    pages.rewrite(page)
    assert page.read_text() == block.format("1 + 1", "2") + block.format("0.5", "0.50")


def test_what_is_printed_is_compared():
    assert pages.wrong("K = 3, bound -10.25", "K = 3,  bound\n-10.26") == []
    assert pages.wrong("[0.1  0.  ]", "[ 0.1 -0. ]") == []
    assert pages.wrong("[0.12 0.  ]", "[0.12 0.01]") == []
    assert pages.wrong("[0.12 0.  ]", "[0.12 0.02]") == ["0 instead of 0.02"]
    assert pages.wrong("share 18.6 %", "share 18.8 %") == ["18.6 instead of 18.8"]
    assert pages.wrong("3 factors", "4 factors")
    assert pages.wrong("3 factors", "3 factor")
    assert pages.wrong("3 factors", "3 factors more")
    assert pages.wrong("loading 0.50", "loading -0.50")


MONTE_CARLO = """
from cuspfa import CuspFactorAnalysis, datasets

X = datasets.simulate(100, 6, 1, random_state=0).X
model = CuspFactorAnalysis(n_factors=1).fit(X)
lower, upper = model.posterior_.interval("communality", n_draws=50)
print(f"{model.n_factors_} factor, bound {model.lower_bound_:.3f}, from {lower.max():.4f} up")
"""


def test_monte_carlo_values_are_compared_within_their_error():
    """What the library draws has an error; data, bound and number of factors have none."""
    means, errors = pages.by_streams(MONTE_CARLO)
    assert errors[0] == errors[1] == 0
    assert 0.002 < errors[2] < 0.1
    k, bound, lower = means

    def found(k=int(k), bound=bound, lower=lower):
        return pages.check(MONTE_CARLO, f"{k} factor, bound {bound:.3f}, from {lower:.4f} up")

    assert found() == []
    assert found(lower=lower + 4 * errors[2]) == []
    assert found(lower=lower + 8 * errors[2])[0].startswith(f"{lower + 8 * errors[2]:.3f}"[:4])
    assert found(bound=bound + 0.003, lower=lower + errors[2])  # without an error of its own
    assert found(k=2, lower=lower + errors[2])


def test_a_page_whose_words_depend_on_the_stream_has_no_error():
    code = """
from cuspfa._utils.arguments import generator
rng = generator(0)
print("at least", *["word"] * rng.integers(9), f"{rng.normal():.3f}")
"""
    assert pages.by_streams(code) is None
    said = pages.NUMBER.sub("9.999", pages.run(code))
    assert "depend on the random stream" in pages.check(code, said)[1]


def test_streams_of_the_page_and_of_data_sets_stay():
    code = """
import numpy as np
from cuspfa import datasets
simulated = datasets.simulate(5, 3, 1, random_state=0).X[0, 0]
print(f"{np.random.default_rng(0).normal():.6f} {simulated:.6f}")
"""
    assert np.all(pages.by_streams(code, 3)[1] == 0)


# --- analyses ---


ANALYSES = sorted((DOCS / "analyses").glob("*.py"))


def shortcomings(text):
    """What an analysis lacks of what every one has; `make docs` runs it."""
    tree = ast.parse(text)
    doc = ast.get_docstring(tree) or ""
    captions = re.findall(r"^# %%\n# \*(?:[^*]|\n)*\*$", text, re.MULTILINE)
    drawn = len(re.findall(r"^(?:figure, .* = plt.subplots|compare)\(", text, re.MULTILINE))
    lacks = {
        "a title": not re.match(r".+\n=+(\n|$)", doc),
        "a conclusion": "\n# Conclusion\n# ----------\n" not in text,
        "a figure": drawn == 0,
        "a caption for each figure": len(captions) != drawn,
    }
    return [what for what, missing in lacks.items() if missing]


@pytest.mark.parametrize("page", ANALYSES, ids=lambda page: page.stem)
def test_an_analysis_has_captions_and_a_conclusion(page):
    assert shortcomings(page.read_text(encoding="utf-8")) == []


def test_what_an_analysis_lacks_is_found():
    text = '"""\nA title\n=======\n"""\nfigure, ax = plt.subplots()\n\n# %%\n# Words\n'
    assert shortcomings(text) == ["a conclusion", "a caption for each figure"]
    assert "a title" in shortcomings('"""No title."""\n')


# --- links ---


def anchors(page):
    """What a link may name on a page: headings as GitHub and MyST slug them, and HTML anchors."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


def dead_links(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    dead = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]+))?\)", text):
        if "://" in target:
            continue
        place = page.parent / target if target else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            dead.append(f"{target}#{anchor}")
    return dead


@pytest.mark.parametrize("page", PAGES, ids=pages.name_of)
def test_links_lead_somewhere(page):
    assert dead_links(page) == []


def test_dead_links_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A heading: so?\n[a](#a-heading-so) [b](#b) [c](page.md#a) [d](other.md)\n")
    assert dead_links(page) == ["#b", "page.md#a", "other.md#"]


# --- the tree of pages ---


WITH_TREES = ("index.md", "benchmarks.md")


def in_the_tree():
    """Names of pages that docs/index.md and the page of the benchmarks list, patterns resolved."""
    names = [p.relative_to(DOCS).with_suffix("").as_posix() for p in PAGES if DOCS in p.parents]
    text = "".join((DOCS / name).read_text(encoding="utf-8") for name in WITH_TREES)
    trees = re.findall(r"```{toctree}\n(.*?)```", text, re.DOTALL)
    lines = [line for tree in trees for line in tree.splitlines()]
    # Pages below generated/ are made by the build; Sphinx checks that they are there.
    entries = [line for line in lines if line and not line.startswith((":", "generated/"))]
    # As Sphinx has it: `*` stops at a slash.
    found = {e: [n for n in names if fnmatch.fnmatch(n, e) and n.count("/") == e.count("/")]
             for e in entries}  # fmt: skip
    return names, found


def test_every_page_is_in_the_tree_once():
    names, found = in_the_tree()
    listed = [name for matches in found.values() for name in matches]
    assert sorted([*listed, "index"]) == sorted(names)
    assert all(found.values()), found  # an entry that names nothing is an error of the build


def on_the_reference_page():
    """Names that autosummary makes pages for, below `cuspfa.`."""
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    lists = re.findall(
        r"^\.\. autosummary::\n   :toctree: generated\n\n(.*?)```", page, re.M | re.S
    )
    return [name for names in lists for name in names.split()]


def test_every_public_name_is_on_the_reference_page():
    """Objects by their name, modules by all that they offer."""
    listed = on_the_reference_page()
    assert len(listed) == len(set(listed))
    wanted = set()
    for name in set(cuspfa.__all__) - {"__version__"}:
        value = getattr(cuspfa, name)
        inside = isinstance(value, ModuleType)
        wanted |= {f"{name}.{one}" for one in offered(value)} if inside else {name}
    assert wanted <= set(listed), wanted - set(listed)


def test_every_name_on_the_reference_page_is_there():
    for name in on_the_reference_page():
        value = cuspfa
        for number, part in enumerate(name.split(".")):
            if not hasattr(value, part):
                import_module("cuspfa." + ".".join(name.split(".")[: number + 1]))
            value = getattr(value, part)
        assert value.__doc__, name


def offered(module):
    """What a public module defines for its users."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return {name for name in names if callable(getattr(module, name))}


def test_every_image_comes_from_a_committed_script():
    shown = {
        Path(target).name
        for page in PAGES
        for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    }
    scripts = [*(DOCS / "figures").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    text = "".join(script.read_text(encoding="utf-8") for script in scripts)
    drawn = {path.name for path in (DOCS / "figures").glob("*.png")}
    assert shown == drawn, "a figure that no page shows, or one that is not there"
    assert all(f'"{name}"' in text or f'"{Path(name).stem}"' in text for name in shown), shown


# --- figures in the text ---


def results(section):
    path = ROOT / "benchmarks" / "results" / f"{section}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def words(name):
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def measured(section, what, end=""):
    rows = results(section)["rows"]
    (line,) = [row for row in rows if row["what"].startswith(what) and row["what"].endswith(end)]
    return line


EDGE = ("(60, 120, 2) sparse", "(100, 200, 3) sparse")
"""Designs for which the prior is wrong; the page says so."""


def test_coverage_is_as_measured():
    found = results("coverage")["details"]
    page = words("docs/uncertainty.md")
    every = [one for one in found if one["kind"] == "draws"]
    draws = [one for one in every if one["design"] not in EDGE]
    field = [100 * one["covariance 95"] for one in found if one["kind"] == "mean field"]
    ours = [100 * one[f"{what} 95"] for one in draws for what in ("covariance", "correlation")]
    for one in every:
        low = re.escape(f"{100 * one['covariance 95']:.1f} %")
        line = rf"\| {re.escape(one['design'])} \| (\*\*)?{low}(\*\*)? \|"
        assert re.search(line, page), f"the page should say {line}; run python -m benchmarks paper"
    number = {14: "fourteen"}[len(draws)]
    said = f"{min(ours):.0f} to {max(ours):.0f} % of the true entries in {number} designs"
    assert said in words("README.md"), said
    said = f"mean field covers {min(field):.0f} to {max(field):.0f} %"
    assert said in words("README.md"), said


def test_other_measured_figures_are_those_on_the_pages():
    page = words("docs/uncertainty.md")
    for what, said in {
        "95 % intervals of varimax": "of varimax loadings cover {}",
        "95 % intervals of oblimin": "of oblimin loadings {}",
        "95 % intervals of rotated scores": "of rotated scores {}",
    }.items():
        said = said.format(measured("alignment", what)["measured"].removesuffix(" by design"))
        assert said in page, said
    prior, other = (
        measured("count", f"{data}, weights by the evidence")
        for data in ("data from the prior", "other designs")
    )
    sure = [round(float(line["measured"].split(" %")[0])) for line in (prior, other)]
    said = f"it was right in {sure[0]} % where data came from the prior and in {sure[1]} %"
    assert said in page, said
    open_ = [re.search(r"50–80 %: 0\.(\d\d)", line["against"])[1] for line in (prior, other)]
    assert f"right in {open_[0]} and {open_[1]} %" in page, open_
    slope = measured("missing", "a regression slope", "(200, 6, 3)")
    covered = round(float(slope["measured"].split(" %")[0]))
    once = round(float(re.search(r"once ([\d.]+) %", slope["against"])[1]))
    said = f"covered in {covered} % of sets, after filling in expected values once in {once} %"
    assert said in page, said
    limits = words("docs/limits.md")
    one_more = re.search(r"4 \((\d+)×\); found in (\d+) of 40",
                         measured("assumptions", "1 % outlying")["measured"])  # fmt: skip
    assert f"one too many was found in {one_more[1]} of 40 sets" in limits
    assert f"it found them in {one_more[2]} of 40" in limits
    dense, simple = (
        re.search(
            r"found in (\d+) of 40", measured("assumptions", f"one doublet, {kind}")["measured"]
        )
        for kind in ("dense", "simple")
    )
    said = f"{dense[1]} of 40 with dense loadings, {simple[1]} of 40 with simple structure"
    assert said in limits, said
    table = words("docs/select_n_factors.md")
    for row in results("assumptions")["rows"][1:]:
        numbers, found = re.search(r"K = (.*); found in (\d+ of 40)", row["measured"]).groups()
        without = re.search(r"K without .* = (.*)", row["measured"])
        said = f"| {numbers} | {found} | {without[1] if without else 'no column is left'} |"
        assert said in table, said


def test_figures_of_robust_fits_are_as_measured():
    page = words("docs/robust.md")
    for row in results("robust")["rows"]:
        name = re.sub(r", (500 × )?15( columns)?, \d+ sets", "", row["what"])
        said = re.search(r"K = ([^;]*)", row["measured"])[1]
        plain = re.search(r"Gaussian fit: K = ([^;]*)", row["against"])[1]
        line = f"| {name.removeprefix('robust=True, ')} | {said} | {plain} |"
        assert line in page, line
        for share in re.findall(r"cover ([\d.]+ %)", row["measured"] + row["against"]):
            assert f"| {share} |" in page, share
        for ratio in re.findall(r"correlations ([\d.]+) times", row["measured"]):
            assert f"| {ratio} |" in page, ratio


def test_speed_and_search_on_the_first_page_are_as_measured():
    page = words("README.md")
    for row in results("sklearn")["rows"]:
        if row["what"].endswith(", time"):
            ratio = re.search(r"(\d+)× faster", row["measured"])[1]
            shape = row["what"].removesuffix(", time")
            error = measured("sklearn", f"{shape}, mean squared error")["against"]
            error = float(re.search(r"ratio ([\d.]+)", error)[1])
            line = f"| {shape} | {ratio}× | {error:.2f} |"
            assert line in page, line
    search = measured("optimum", "default prior, K by evidence")["measured"]
    bound = measured("optimum", "default prior, K by bound")["measured"]
    right, paper = (re.search(r"\(([\d.]+) %\)", text)[1] for text in (search, bound))
    assert f"right in {right} % of sets by the evidence and in {paper} % by the paper's" in page
    assert "never ended below the best of 50 random restarts, with the paper's prior and" in page
    for row in results("optimum")["rows"]:
        if row["against"] == "best of 50 random restarts":
            assert row["measured"].startswith("lower in 0 of 200 sets"), row


# --- names ---


def test_one_version_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cuspfa.__version__ == project["version"]
    assert f"version: {project['version']}\n" in (ROOT / "CITATION.cff").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", changelog, re.MULTILINE)
    assert newest[1] == project["version"]
    shown = (DOCS / "program.md").read_text(encoding="utf-8")
    assert f"written by cuspfa {project['version']}," in shown
    published = newest[2] != "unreleased"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert ("is not published yet" in readme) == (not published)
    minors = [f"3.{minor}" for minor in range(11, 15)]
    pythons = [one.split(" :: ")[-1] for one in project["classifiers"] if "Python :: 3." in one]
    assert pythons == minors


def test_every_public_name_can_be_loaded():
    for name in cuspfa.__all__:
        assert getattr(cuspfa, name) is not None
    assert set(cuspfa.__all__) <= set(dir(cuspfa))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cuspfa.nothing  # noqa: B018
