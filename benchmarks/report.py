"""Write docs/benchmarks.md, a page for each section, and docs/defaults.md from stored results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.picture import DRAWN, draw
from benchmarks.record import RESULTS

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "benchmarks.md"
ORDER = (
    "paper",
    "real_speed",
    "iterations",
    "sklearn",
    "wide",
    "flat",
    "optimum",
    "real",
    "heldout",
    "crossval",
    "coverage",
    "missing",
    "count",
    "alignment",
    "draws",
    "gibbs",
    "gibbs_calibration",
    "assumptions",
    "ordinal_known",
    "ordinal",
    "ordinal_count",
    "ordinal_coverage",
    "ordinal_peers",
    "peers",
    "counts",
    "log_rates",
    "robust",
    "model_error",
    "defaults",
    "noise",
    "scaling",
    "large",
    "app",
    "robustness",
)


def report() -> Path:
    found = [RESULTS / f"{name}.json" for name in ORDER]
    sections = [json.loads(path.read_text(encoding="utf-8")) for path in found if path.exists()]
    draw(DOCS / "figures" / "benchmarks.png")
    by_name = {one["section"]: one for one in sections}
    runs = "; ".join(f"{place} {when(by_name[name])}" for place, name in DRAWN.items())
    figure = (
        "![Speed, coverage and the number of factors](figures/benchmarks.png)\n\n"
        f"{FIGURE_NOTE}\nRuns: {runs}.*"
    )
    parts = [HEAD, summary(sections), figure, not_met(sections), FOOT, contents(sections)]
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    (DOCS / "benchmarks").mkdir(exist_ok=True)
    for section in sections:
        path = DOCS / "benchmarks" / f"{section['section']}.md"
        path.write_text(one_section(section), encoding="utf-8")
    defaults_page()
    coverage_table()
    return PAGE


HEAD = """\
# Benchmarks

Each line is the first requirement of a section, and links to a page with all of its lines, its
notes, the machine and the data behind them. Times are processor seconds of one thread. Compare
ratios rather than seconds, because other programs ran at the same time."""

FIGURE_NOTE = """\
*Left: the time of a whole search over K against one fit of scikit-learn's FactorAnalysis at the
true K, for shapes drawn at random; points below the line are faster. Middle: how often 95 %
intervals contain the true covariances, by design, with the default draws and with the mean field
approximation. Right: the share of simulated sets with the right number of factors, by the weight
that the fit gives it; on the line weights are calibrated."""

FOOT = """\
`python -m benchmarks` runs all sections and writes these pages; do not edit them. A line without
a requirement is for information. A revision with a plus sign had changes that were committed
later. *code* is a hash of `src/cuspfa`. It is on the page of each section, and here where the code
of a run was not committed."""


DEFAULTS_HEAD = """\
# Why these defaults

`python -m benchmarks defaults noise` writes this page; do not edit it.

## The slab
A fixed slab variance θ_0 biases ΛΛᵀ, unless p is small relative to n or θ_0 equals the variance of
the loadings. This bias is a property of the posterior, not of the variational approximation. So the
default slab estimates the variance from the data. One variance for all factors is best where the
factors have similar strengths, and bad where they have not. One variance for each factor is never
bad and seldom best. The pooled slab, `InverseGammaSlab(2, 0.4, pooled=True)`, estimates from the
data how similar the variances are.

Each cell has the mean squared error of E[Ω], divided by that of the sample covariance (below 1 is
better). In brackets is the coverage of 95 % intervals from draws of q̃, the widened variational
distribution ([the method](method.md), section 5). The draws of `posterior_.draw` have a better
coverage: [coverage](benchmarks/coverage.md). The search found the true number of
factors in every data set of every line.

"""

NOISE_HEAD = """

## The noise prior
The paper's InvGa(1, 0.3) keeps the noise variances of nearly collinear standardised columns away
from zero. Shapes above −1 favour every factor that makes noise variances smaller
([the method](method.md), section 5). With few rows this produces factors in pure noise. The default
is InvGa(−1, 0.003), which is flat in σ². The first lines have the mean held-out log-likelihood of a
row, minus the best of the line. The lines below have the number of factors found in pure noise of
shape (n, p), in ten data sets:

"""


def defaults_page() -> None:
    """docs/defaults.md from the results of `defaults` and `noise`."""
    paths = [RESULTS / f"{name}.json" for name in ("defaults", "noise")]
    if not all(path.exists() for path in paths):
        return
    slabs, noise = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    cells: dict[str, dict[str, str]] = {}
    for one in slabs["details"]:
        text = f"{one['error'] / one['sample_error']:.2f} ({100 * one['coverage']:.0f} %)"
        cells.setdefault(one["design"], {})[one["slab"]] = text
    noise_cells: dict[str, dict[str, str]] = {}
    for line in noise["rows"]:
        name, prior = line["what"].rsplit(": ", 1)
        text = line["measured"].removeprefix("factors in pure noise, 10 sets: ")
        noise_cells.setdefault(name, {})[prior] = text
    parts = [DEFAULTS_HEAD + "\n".join(pivot("(n, p, K)", cells))]
    parts.append(NOISE_HEAD + "\n".join(pivot("", noise_cells)))
    machine = ", ".join(f"{key} {value}" for key, value in slabs["machine"].items())
    page = "".join(parts) + f"\n\n*{machine}*\n"
    (DOCS / "defaults.md").write_text(page, encoding="utf-8")


def coverage_table(page: Path = DOCS / "uncertainty.md") -> None:
    """The table of docs/uncertainty.md from the results of `coverage`."""
    found = json.loads((RESULTS / "coverage.json").read_text(encoding="utf-8"))
    designs: dict[str, dict[str, dict[str, Any]]] = {}
    for one in found["details"]:
        designs.setdefault(one["design"], {})[one["kind"]] = one

    def cell(share: float) -> str:
        text = f"{100 * share:.1f} %"
        return text if 0.93 <= share <= 0.97 else f"**{text}**"

    body = [
        [
            name,
            cell(kinds["draws"]["covariance 95"]),
            cell(kinds["draws"]["correlation 95"]),
            f"{100 * kinds['mean field']['covariance 95']:.1f} %",
            str(kinds["draws"]["right"]),
        ]
        for name, kinds in designs.items()
    ]
    lines = table(["(n, p, K)", "covariances", "correlations", "mean field", "data sets"], body)
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(COVERAGE_BEGINS)
    after = rest.split(COVERAGE_ENDS)[1]
    new = "\n".join([COVERAGE_BEGINS, "", *lines, "", COVERAGE_ENDS])
    page.write_text(before + new + after, encoding="utf-8")


COVERAGE_BEGINS = "<!-- coverage: written by python -m benchmarks -->"
COVERAGE_ENDS = "<!-- end -->"


def pivot(corner: str, cells: dict[str, dict[str, str]]) -> list[str]:
    heads = list(dict.fromkeys(head for one in cells.values() for head in one))
    body = [[name, *(one.get(head, "") for head in heads)] for name, one in cells.items()]
    return table([corner, *heads], body)


def contents(sections: list[dict[str, Any]]) -> str:
    """The pages of the sections, for Sphinx."""
    names = "\n".join(f"benchmarks/{one['section']}" for one in sections)
    return f"```{{toctree}}\n:hidden:\n\n{names}\n```"


def judged(section: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines with a requirement."""
    return [line for line in section["rows"] if line["ok"] is not None]


def summary(sections: list[dict[str, Any]]) -> str:
    body = []
    for one in sections:
        lines = judged(one)
        first = (lines or one["rows"])[0]
        met = f"{sum(line['ok'] for line in lines)} of {len(lines)}" if lines else ""
        body.append(
            [
                f"[{one['title']}](benchmarks/{one['section']}.md)",
                f"{first['what']}: {first['measured']}",
                first["required"] or "–",
                met,
                when(one),
            ]
        )
    heads = ["section", "measured", "required", "lines met", "run"]
    return "\n".join(table(heads, body))


def when(section: dict[str, Any]) -> str:
    """The date of a run, and its revision or, of code that was not committed, the hash."""
    made = section["machine"]
    return f"{made['date']}, {made.get('revision') or 'code ' + made['code']}"


def not_met(sections: list[dict[str, Any]]) -> str:
    """The lines whose requirement was not met."""
    lines = [
        f"- [{one['title']}](benchmarks/{one['section']}.md). {line['what']}: {line['measured']}. "
        f"Required: {line['required']}."
        for one in sections
        for line in judged(one)
        if not line["ok"]
    ]
    return "\n".join(["## Not met", "", *(lines or ["All requirements are met."])])


def one_section(section: dict[str, Any]) -> str:
    lines = [f"# {section['title']}", "", *(f"- {note}" for note in section["notes"])]
    lines += ["", *table(["", "measured", "against", "required", "met"], cells_of(section))]
    if section.get("table"):
        lines += ["", *table(section["table"]["heads"], section["table"]["body"])]
    if section.get("figure"):
        lines += ["", f"![{section['title']}](../{section['figure']})"]
    name = f"{section['section']}.json"
    made = ", ".join(f"{key} {value}" for key, value in section["machine"].items())
    lines += [
        "",
        f"[The data](../../benchmarks/results/{name}), with {len(section['details'])} details. "
        f"Run time {section['seconds']:.0f} s. [All sections](../benchmarks.md).",
    ]
    return "\n".join([*lines, "", f"*{made}*", ""])


def cells_of(section: dict[str, Any]) -> list[list[str]]:
    marks = {True: "yes", False: "**no**", None: ""}
    return [
        [
            line["what"],
            line["measured"],
            line["against"],
            line["required"] or "–",
            marks[line["ok"]],
        ]
        for line in section["rows"]
    ]


def table(heads: list[str], body: list[list[str]]) -> list[str]:
    rule = "|" + "---|" * len(heads)
    return [f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(cells)} |" for cells in body)]
