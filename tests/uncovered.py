"""`make coverage`: what the tests leave out, with the reason, as docs/dev/coverage.md.

Reads the JSON report of coverage.py. A file with lines or branches that no test runs needs a reason
in `REASONS`, or a test; without one the command fails and names the lines.
"""

import fnmatch
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "dev" / "coverage.md"
README = ROOT / "README.md"
BEGINS, ENDS = "<!-- coverage of the code: written by make coverage -->", "<!-- end -->"
FEW = 2
"""So many lines or branches of a file need no reason."""

REASONS = {
    "cli/__init__.py": "what is said without the packages of the program (`make test-wheel`)",
    "_utils/optional.py": "what is said without a package of an extra (`make test-wheel`)",
    "inference/_kernels/__init__.py": "without the compiled core: `make test-no-compiler` runs it",
    "inference/compiled_sweeps.py": "without the compiled core: `make test-no-compiler` runs it",
    "inference/*/compiled_*.py": "without the compiled core: `make test-no-compiler` runs it",
    "data/tables/office_child.py": "limits of memory and time that end the process before "
    "coverage.py can write",
    "data/out_of_core/dask_.py": "tasks in processes of Dask's workers, which coverage.py does "
    "not see",
    "app/worker.py": "the process of an analysis, which is killed when its page is closed",
    "app/job_queue.py": "the process of an analysis, which is killed when its page is closed",
    "inference/gibbs/settings.py": "chains in other processes, and what is written when one is "
    "killed",
    "_utils/threads.py": "what BLAS libraries other than OpenBLAS give: `make test-matrix`",
    "cli/terminal.py": "colours and widths of a terminal, which tests have none of",
    "cli/progress.py": "what is drawn on a terminal, which tests have none of",
}
"""Why lines of a file are not run, by its path below src/cuspfa; patterns are allowed."""


class Uncovered(NamedTuple):
    """What is not run of a file."""

    path: str
    lines: list[int]
    branches: int
    """Branches of lines that are run."""

    @property
    def reason(self) -> str | None:
        """Why, or None."""
        found = (why for pattern, why in REASONS.items() if fnmatch.fnmatch(self.path, pattern))
        return next(found, None)

    @property
    def needs_one(self) -> bool:
        """Is a reason missing?"""
        return self.reason is None and len(self.lines) + self.branches > FEW


def uncovered(report: dict[str, Any]) -> list[Uncovered]:
    """The files with lines or branches that are not run."""
    found = []
    for path, one in sorted(report["files"].items()):
        missing = set(one["missing_lines"])
        branches = [pair for pair in one["missing_branches"] if pair[0] not in missing]
        if missing or branches:
            name = Path(path).as_posix().split("src/cuspfa/")[-1]
            found.append(Uncovered(name, sorted(missing), len(branches)))
    return found


def ranges(lines: list[int]) -> str:
    """5, 7–9."""
    parts: list[list[int]] = []
    for line in lines:
        if parts and line == parts[-1][-1] + 1:
            parts[-1].append(line)
        else:
            parts.append([line])
    return ", ".join(f"{p[0]}–{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)


def sentence(totals: dict[str, Any]) -> str:
    """The figures, for the README and the page."""
    lines = 100 * totals["covered_lines"] / totals["num_statements"]
    branches = 100 * totals["covered_branches"] / totals["num_branches"]
    return f"The tests run {lines:.1f} % of the lines and {branches:.1f} % of the branches"


def page(report: dict[str, Any]) -> str:
    """docs/dev/coverage.md."""
    made, totals = report["meta"], report["totals"]
    rows = [
        f"| `{one.path}` | {ranges(one.lines) or '–'} | {one.branches or '–'} | "
        f"{one.reason or ('a test or a reason is wanted' if one.needs_one else 'single lines')} |"
        for one in uncovered(report)
    ]
    return f"""# What the tests run

{sentence(totals)}
({totals["num_statements"]:,} lines, {totals["num_branches"]:,} branches;
coverage.py {made["version"]}, {made["timestamp"][:10]}). `make coverage` measures it and writes
this page. It leaves out the long tests, the compiled core, which is compared with its definition
in NumPy, and what only type checkers read. A line that is run need not be tested:
[changes that tests must notice](mutation.md).

| file | lines not run | branches | why |
|---|---|---|---|
{chr(10).join(rows)}
"""


def written_into(text: str, line: str) -> str:
    """The README with the figures."""
    before, rest = text.split(BEGINS)
    return f"{before}{BEGINS}\n{line}\n{ENDS}{rest.split(ENDS, 1)[1]}"


def main(report: Path) -> int:
    """Write the page and the line of the README, and name files that need a reason."""
    content = json.loads(report.read_text(encoding="utf-8"))
    PAGE.write_text(page(content), encoding="utf-8")
    figures = sentence(content["totals"]).removeprefix("The tests run ")
    line = (
        f"- **Coverage of the code.** The tests run {figures}:\n"
        "  [what they do not run, and why](docs/dev/coverage.md)."
    )
    README.write_text(written_into(README.read_text(encoding="utf-8"), line), encoding="utf-8")
    wanting = [one for one in uncovered(content) if one.needs_one]
    for one in wanting:
        print(f"{one.path}: lines {ranges(one.lines) or '–'}, {one.branches} branches: no reason")
    print(re.sub(r"\s+", " ", line))
    return 1 if wanting else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
