"""Records as JSON: what is written for each type of field, and what is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest

from cuspfa.errors import FileError, InputError
from cuspfa.io.records import PLAIN, Codec, codec_of, field_codecs, record_codec


class Pair(NamedTuple):
    number: int
    text: str


@dataclass(frozen=True)
class Example:
    size: float
    word: Literal["one", "two"]
    flag: bool | None
    names: tuple[str, ...]
    both: tuple[float, float]
    pairs: tuple[Pair, ...]
    secret: str = field(default="", metadata={"in_files": False})

    def __post_init__(self) -> None:
        if self.size == 13:
            raise InputError("size must not be 13.")


VALUE = Example(math.inf, "two", None, ("a", "b"), (1.0, -0.5), (Pair(3, "x"),), "hidden")
WRITTEN: dict[str, Any] = {
    "size": "Infinity",
    "word": "two",
    "flag": None,
    "names": ["a", "b"],
    "both": [1.0, -0.5],
    "pairs": [{"number": 3, "text": "x"}],
}
EXAMPLE = record_codec(Example)


def test_a_record_is_written_without_hidden_fields_and_read_again() -> None:
    assert EXAMPLE.out(VALUE) == WRITTEN
    again = EXAMPLE.check("example", WRITTEN)
    assert again == Example(math.inf, "two", None, ("a", "b"), (1.0, -0.5), (Pair(3, "x"),))
    assert type(again.pairs[0]) is Pair


def test_values_are_written_in_the_types_of_their_fields() -> None:
    given = Example(2, "one", np.True_, (), (np.float64(1), 2), (Pair(np.int64(4), "y"),))
    written = EXAMPLE.out(given)
    assert written["size"] == 2.0
    assert type(written["size"]) is float
    assert [type(one) for one in written["both"]] == [float, float]
    assert type(written["flag"]) is bool
    assert type(written["pairs"][0]["number"]) is int
    assert EXAMPLE.check("example", written) == Example(
        2.0, "one", True, (), (1.0, 2.0), (Pair(4, "y"),)
    )


@pytest.mark.parametrize(
    "change",
    [
        {"size": 2},  # JSON of a whole number, which no float is written as
        {"size": None},
        {"size": 13.0},  # refused by the record itself
        {"word": "three"},
        {"flag": 1},
        {"names": "ab"},
        {"names": [1]},
        {"both": [1.0]},
        {"both": [1.0, 2.0, 3.0]},
        {"pairs": [{"number": -1, "text": "x"}]},
        {"pairs": [{"number": 1}]},
        {"secret": "seen"},
    ],
    ids=str,
)
def test_other_values_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(FileError, match="damaged"):
        EXAMPLE.check("example", WRITTEN | change)


def test_codecs_of_single_fields_and_types_take_precedence() -> None:
    own = Codec(lambda value: f"<{value}>", lambda name, value: value.strip("<>"))
    texts = record_codec(Pair, {**PLAIN, str: own})
    assert texts.out(Pair(1, "x")) == {"number": 1, "text": "<x>"}
    assert texts.check("pair", {"number": 1, "text": "<x>"}) == Pair(1, "x")
    counts = record_codec(Pair, number=Codec(str, lambda name, value: int(value)))
    assert counts.check("pair", counts.out(Pair(7, "x"))) == Pair(7, "x")
    assert list(field_codecs(Example, PLAIN, leave_out=("size", "word"))) == [
        "flag",
        "names",
        "both",
        "pairs",
    ]
    with pytest.raises(FileError):
        codec_of(Literal["a"], PLAIN).check("word", "b")
