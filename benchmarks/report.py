"""Write docs/benchmarks.md and docs/defaults.md from the stored results alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
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
    "model_error",
    "defaults",
    "noise",
    "scaling",
    "large",
    "robustness",
)


def report() -> Path:
    found = [RESULTS / f"{name}.json" for name in ORDER]
    sections = [json.loads(path.read_text(encoding="utf-8")) for path in found if path.exists()]
    parts = [HEAD, summary(sections), *(one_section(section) for section in sections)]
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    defaults_page()
    coverage_table()
    return PAGE


HEAD = """\
# Benchmarks

`python -m benchmarks` writes this page from `benchmarks/results/*.json`; do not edit it. Times are
medians of processor seconds of one thread. Compare ratios rather than seconds, because other
programs ran at the same time. A line without a requirement is for information. `code` is a hash of
`src/cuspfa`."""


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
coverage: [coverage](benchmarks.md#coverage). The search found the true number of
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
    (PAGE.parent / "defaults.md").write_text(page, encoding="utf-8")


def coverage_table(page: Path = PAGE.parent / "uncertainty.md") -> None:
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


def summary(sections: list[dict[str, Any]]) -> str:
    lines = ["| section | required lines met | run |", "|---|---|---|"]
    for one in sections:
        judged = [line for line in one["rows"] if line["ok"] is not None]
        met = f"{sum(line['ok'] for line in judged)} of {len(judged)}" if judged else "none set"
        anchor = f"[{one['title']}](#{one['section']})"
        lines.append(f"| {anchor} | {met} | {one['machine']['date']}, {one['seconds']:.0f} s |")
    return "\n".join(lines)


def one_section(section: dict[str, Any]) -> str:
    lines = [f'<a id="{section["section"]}"></a>', "", f"## {section['title']}", ""]
    lines += [*(f"- {note}" for note in section["notes"]), ""]
    lines += table(
        ["", "measured", "against", "required", "met"],
        [
            [
                line["what"],
                line["measured"],
                line["against"],
                line["required"] or "–",
                {True: "yes", False: "**no**", None: ""}[line["ok"]],
            ]
            for line in section["rows"]
        ],
    )
    if section.get("figure"):
        lines += ["", f"![{section['title']}]({section['figure']})"]
    flat = [{k: v for k, v in one.items() if scalar(v)} for one in section["details"]]
    if flat:
        lines += ["", f"<details><summary>{len(flat)} details</summary>", ""]
        heads = list(dict.fromkeys(head for one in flat for head in one))
        lines += table(heads, [[shown(one.get(head, "")) for head in heads] for one in flat])
        lines += ["", "</details>"]
    machine = ", ".join(f"{key} {value}" for key, value in section["machine"].items())
    return "\n".join([*lines, "", f"*{machine}*"])


def table(heads: list[str], body: list[list[str]]) -> list[str]:
    rule = "|" + "---|" * len(heads)
    return [f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(cells)} |" for cells in body)]


def scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool))


def shown(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if abs(value) >= 100 else f"{value:.4g}"
