"""Answers in words become numbers by a rule that is shown, or are left out with advice."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cuspfa import read_table
from cuspfa._utils.spelling import as_option
from cuspfa.cli.app import run_program
from cuspfa.data.tables.answers import _RANKS, SCALES, as_order
from cuspfa.errors import InputError

N = 200
AGREE = ["Strongly disagree", "Disagree", "Neither agree nor disagree", "Agree", "Strongly agree"]


def codes(seed: int, size: int) -> Any:
    return np.random.default_rng(seed).integers(0, size, N)


def table(tmp_path: Path, **columns: list[str]) -> Path:
    """Two columns of numbers beside the given ones."""
    more = {"x": np.round(np.random.default_rng(1).normal(size=N), 2)}
    path = tmp_path / "t.csv"
    pd.DataFrame({**columns, **more, "y": codes(9, 5) + 0.5}).to_csv(path, index=False)
    return path


def words(seed: int, given: list[str]) -> list[str]:
    return [given[j] for j in codes(seed, len(given))]


@pytest.mark.parametrize("limit", [None, "100MB"])
def test_words_of_a_known_scale_are_numbered_in_its_order(tmp_path: Path, limit: Any) -> None:
    cells = words(1, AGREE)
    cells[3] = "NA"
    path = table(
        tmp_path, q1=cells, q2=words(2, AGREE[1:]), q3=[w.upper() for w in words(3, AGREE)]
    )
    found = read_table(path, memory_limit=limit)
    assert found.names == ["q1", "q2", "q3", "x", "y"]
    expected = np.column_stack([codes(1, 5) + 1.0, codes(2, 4) + 2.0, codes(3, 5) + 1.0])
    expected[3, 0] = np.nan
    np.testing.assert_array_equal(found.rows[:, :3], expected)
    (answers,) = found.answers
    assert (answers.rule, answers.columns) == ("agreement", ("q1", "q2", "q3"))
    (note,) = (one for one in found.notes if one.code == "answers")
    assert note.is_doubt
    assert "1 = S" in str(note)
    assert "(in q1, q2, q3)" in str(note)
    assert {one.name for one in found.labels} == {"q1", "q2", "q3"}
    assert [value for value, _ in found.labels[0].values] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("limit", [None, "100MB"])
def test_numbers_before_words(tmp_path: Path, limit: Any) -> None:
    forms = ["0 - not true", "1: a bit true", "(2) true", "3", "5 (very true)"]
    path = table(tmp_path, q=words(1, forms), town=words(2, ["1st Street", "1st Avenue", "5 Elms"]))
    found = read_table(path, memory_limit=limit)
    assert found.names == ["q", "x", "y"]  # two towns have the same number
    expected = np.array([0, 1, 2, 3, 5])[codes(1, 5)]
    np.testing.assert_array_equal(np.asarray(found.sample)[:, 0], expected)
    assert [one.code for one in found.notes] == ["numbered"]


@pytest.mark.parametrize("limit", [None, "100MB"])
def test_an_order_that_is_given(tmp_path: Path, limit: Any) -> None:
    low = ["rot", "gelb", "grün"]
    path = table(tmp_path, q=words(1, low), r=words(2, low[:2]), s=words(3, ["ja", "nein", "?"]))
    found = read_table(path, order=["rot,gelb,grün", "nein,?,ja"], memory_limit=limit)
    rows = np.asarray(found.sample)[:, :3]
    np.testing.assert_array_equal(rows[:, 0], codes(1, 3) + 1)
    np.testing.assert_array_equal(rows[:, 1], codes(2, 2) + 1)
    np.testing.assert_array_equal(rows[:, 2], np.array([3, 1, 2])[codes(3, 3)])
    assert not [one for one in found.notes if one.is_doubt]
    for wrong in ("one", ["a", "A"], [["a", "b"], ["c"]]):
        with pytest.raises(InputError, match="order must be different words from low to high"):
            as_order(wrong)


@pytest.mark.parametrize("limit", [None, "100MB"])
def test_words_without_a_known_order_are_left_out_with_advice(tmp_path: Path, limit: Any) -> None:
    both = ["never", "sometimes", "occasionally", "often"]  # which of two is more, is not known
    own = ["rot", "gelb", "grün"]
    path = table(
        tmp_path, a=words(1, both), b=words(2, own), c=words(3, own), sex=words(4, ["m", "f"])
    )
    found = read_table(path, memory_limit=limit)
    assert found.names == ["x", "y"]
    assert {one.name: one.code for one in found.dropped} == {
        "a": "words",
        "b": "words",
        "c": "words",
        "sex": "text",
    }
    assert found.dropped[0].message().endswith("to give it: order=('low', '…', 'high')")
    assert not found.answers


@pytest.mark.parametrize("limit", [None, "100MB"])
def test_a_misspelt_word_is_named(tmp_path: Path, limit: Any) -> None:
    own = ["rot", "gelb", "grün"]
    cells, other = words(1, AGREE), words(4, own)
    cells[7], other[9] = "Stongly agree", "grûn"
    path = table(tmp_path, a=cells, b=words(2, AGREE), c=words(3, own), d=other)
    found = {one.name: one for one in read_table(path, memory_limit=limit).dropped}
    assert found["a"].code == found["d"].code == "odd_word"
    assert "Stongly" not in found["a"].message()
    assert (
        found["a"]
        .shown(as_option)
        .endswith(
            'in no scale with the others: "Stongly agree"; correct it, or give the order of all: '
            "--order 'low,…,high'"
        )
    )
    assert '"grûn"' in found["d"].shown()
    given = read_table(path, order="rot,gelb,grün", memory_limit=limit)
    assert '"grûn"' in next(one for one in given.dropped if one.name == "d").shown()


@pytest.mark.parametrize("limit", [(), ("--memory-limit", "100MB")])
def test_words_alone_are_an_error_with_advice(
    tmp_path: Path, limit: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    own = ["rot", "gelb", "grün"]
    about = {f"asked{j}": ["2024-01-02"] * N for j in range(6)}
    path = tmp_path / "t.csv"
    pd.DataFrame({**about, **{f"q{j}": words(j, own) for j in range(6)}}).to_csv(path, index=False)
    assert run_program(["fit", str(path), *limit]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "Dropped: q0, q1, q2, q3 and 2 more: words whose order is not known, such as" in said
    assert "; to give it: --order 'low,…,high'. asked0, asked1" in said


def test_the_answers_of_the_ipip(tmp_path: Path) -> None:
    five = "Very Inaccurate/Moderately Inaccurate/Neither Accurate Nor Inaccurate"
    five += "/Moderately Accurate/Very Accurate"
    six = "Very Inaccurate/Moderately Inaccurate/Slightly Inaccurate/Slightly Accurate"
    six += "/Moderately Accurate/Very Accurate"
    for line in (five, six):
        scale = line.split("/")
        found = read_table(table(tmp_path, q=words(1, scale)))
        assert found.answers[0].rule == "accuracy"
        np.testing.assert_array_equal(found.rows[:, 0], codes(1, len(scale)) + 1)


def test_numbers_with_a_blank_among_them_are_no_words(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    cells: list[Any] = list(codes(1, 5) + 1)
    cells[3] = "  "
    pd.DataFrame({"a": cells, "b": codes(2, 5), "c": codes(3, 5)}).to_excel(path, index=False)
    found = read_table(path)
    assert (found.notes, found.n_missing) == ([], {"a": 1})
    np.testing.assert_array_equal(found.rows[4:, 0], codes(1, 5)[4:] + 1)


def test_scales_have_each_word_once_and_sides_that_mirror() -> None:
    for scale, lines in SCALES.items():
        every = [word for line in lines for word in line.split("/")]
        assert len(every) == len(set(every)), scale
    ranks = _RANKS["agreement"]
    for word, rank in ranks.items():
        if word.endswith(" agree") and "neither" not in word:
            assert rank + ranks[word.replace("agree", "disagree")] == 2 * ranks["neutral"]


def test_items_of_one_question_of_qualtrics_have_short_labels(tmp_path: Path) -> None:
    stem = "How well does this describe you?\nChoose one."
    wording = [
        *(f"{stem} - I worry", f"{stem} - I run - often", f"{stem} - I smile"),
        *("Whom do you trust? - Selected Choice", "Whom do you trust? - Text", "How old? - Years"),
    ]
    rows = np.random.default_rng(0).integers(1, 6, (60, 6)).tolist()
    frame = pd.DataFrame([wording, [f'{{"ImportId":"Q{j}"}}' for j in range(6)], *rows])
    frame.columns = [f"Q{j}" for j in range(6)]
    frame.to_csv(tmp_path / "q.csv", index=False)
    found = read_table(tmp_path / "q.csv")
    assert [one.label for one in found.labels] == [
        "I worry",
        "I run - often",
        "I smile",
        *wording[3:],
    ]
    said = [str(one) for one in found.notes if one.code == "shared_question"]
    assert said == [
        "Labels of items are without the question that they share: "
        '"How well does this describe you? Choose one."'
    ]


def test_three_header_rows_of_qualtrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["StartDate", "Q1", "Q2", "Q3"]
    wording = ["Start Date", "I worry, a lot", 'I like "tea"\nand milk', "I run"]
    ids = [
        '{"ImportId":"startDate","timeZone":"UTC"}',
        *(f'{{"ImportId":"QID{j}"}}' for j in "123"),
    ]
    rows = np.random.default_rng(0).integers(1, 6, (60, 3))
    frame = pd.DataFrame(
        [wording, ids, *(["2024-01-02 10:00:00", *row] for row in rows.tolist())], columns=names
    )
    path = tmp_path / "q.csv"
    frame.to_csv(path, index=False)
    with pd.ExcelWriter(tmp_path / "q.xlsx", engine="xlsxwriter") as book:
        frame.to_excel(book, index=False)
    for one in (path, tmp_path / "q.xlsx"):
        found = read_table(one)
        assert found.names == ["Q1", "Q2", "Q3"]
        np.testing.assert_array_equal(found.rows, rows)
        assert [o.label for o in found.labels] == [
            "I worry, a lot",
            'I like "tea" and milk',
            "I run",
        ]
        assert "qualtrics" in [note.code for note in found.notes]
    by_blocks = read_table(path, memory_limit="100MB")
    assert (by_blocks.names, by_blocks.n_rows) == (["Q1", "Q2", "Q3"], 60)
    assert run_program(["fit", str(path), "--factors", "1"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert 'Labels: Q1 "I worry, a lot", Q2 "I like "tea" and milk", Q3 "I run".' in shown
    assert run_program(["fit", str(path), "--factors", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["read"]["labels"]["Q1"] == "I worry, a lot"
