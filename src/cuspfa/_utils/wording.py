"""Numbers, nouns and lists as they stand in sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> counted(0, "row"), counted(1, "row"), counted(2, "row")
    ('no rows', '1 row', '2 rows')
    """
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def capitalized(text: str) -> str:
    """The text with a capital letter at its start.

    Examples
    --------
    >>> capitalized("no rows"), capitalized("2 rows")
    ('No rows', '2 rows')
    """
    return text[:1].upper() + text[1:]


def listed(words: Sequence[object], most: int) -> str:
    """The first words with commas between them, and how many more there are.

    Examples
    --------
    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(map(str, words[:most])) + more


def minus(text: str) -> str:
    """The text with minus signs in place of hyphens."""
    return text.replace("-", "−")


def signed(value: float) -> str:
    """A number with its sign and two decimals.

    Examples
    --------
    >>> signed(0.5), signed(-0.25)
    ('+0.50', '−0.25')
    """
    return minus(f"{value:+.2f}")


def p_value(value: float) -> str:
    """A p-value to three decimals.

    Examples
    --------
    >>> p_value(0.25), p_value(1e-9)
    ('0.250', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
