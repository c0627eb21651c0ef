"""The page of `make coverage`, from a report written by hand."""

import uncovered

REPORT = {
    "meta": {"version": "7.10", "timestamp": "2026-01-02T03:04:05"},
    "totals": {
        "covered_lines": 190,
        "num_statements": 200,
        "covered_branches": 30,
        "num_branches": 40,
    },
    "files": {
        "src/cuspfa/a.py": {"missing_lines": [], "missing_branches": []},
        "src/cuspfa/b.py": {"missing_lines": [3, 4, 5, 9], "missing_branches": [[2, 7], [3, 9]]},
        "src/cuspfa/cli/progress.py": {"missing_lines": [1, 2, 3], "missing_branches": []},
        "src/cuspfa/c.py": {"missing_lines": [8], "missing_branches": []},
    },
}


def test_files_need_a_reason_or_few_lines():
    found = uncovered.uncovered(REPORT)
    assert [(one.path, one.lines, one.branches) for one in found] == [
        ("b.py", [3, 4, 5, 9], 1),
        ("c.py", [8], 0),
        ("cli/progress.py", [1, 2, 3], 0),
    ]
    assert [one.needs_one for one in found] == [True, False, False]


def test_the_page_has_figures_lines_and_reasons():
    text = uncovered.page(REPORT)
    assert "95.0 % of the lines and 75.0 % of the branches" in text
    assert "| `b.py` | 3–5, 9 | 1 |" in text
    assert uncovered.REASONS["cli/progress.py"] in text


def test_the_readme_has_a_place_for_the_figures():
    text = uncovered.README.read_text(encoding="utf-8")
    new = uncovered.written_into(text, "- new")
    assert "- new\n" in new
    assert new.split(uncovered.BEGINS)[0] == text.split(uncovered.BEGINS)[0]
    assert new.split(uncovered.ENDS)[-1] == text.split(uncovered.ENDS)[-1]


def test_reasons_are_of_files_that_are_there():
    package = uncovered.ROOT / "src" / "cuspfa"
    assert not [one for one in uncovered.REASONS if not list(package.glob(one))]
