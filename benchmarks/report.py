"""From the stored results to docs/benchmarks.md; nothing is said that is not in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
ORDER = (
    "paper",
    "cycles",
    "sklearn",
    "wide",
    "flat",
    "optimum",
    "real",
    "heldout",
    "defaults",
    "noise",
    "scaling",
)


def report() -> Path:
    found = [RESULTS / f"{name}.json" for name in ORDER]
    sections = [json.loads(path.read_text(encoding="utf-8")) for path in found if path.exists()]
    parts = [HEAD, summary(sections), *(one_section(section) for section in sections)]
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return PAGE


HEAD = """\
# Benchmarks

Made by `python -m benchmarks` from `benchmarks/results/*.json`; do not edit. Times are
processor seconds of one thread, medians; read ratios rather than seconds, for other work ran
beside. A line without a requirement is for information. `code` is a hash of `src/cuspfa`."""


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
