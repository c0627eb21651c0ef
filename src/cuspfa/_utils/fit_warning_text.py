"""The two forms of the text of a warning: advice in Python, or as options of the program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cuspfa._utils.spelling import EngineSettings, Spell, as_argument, as_option

if TYPE_CHECKING:
    from cuspfa._utils.fit_warning import ColumnRef, FitWarning

CLASSES = {"variational": "Variational", "gibbs": "Gibbs"}
"""Public names of the engines."""
HIGHEST_R_HAT = 100.0
"""R-hat above which its digits say nothing."""
DEFAULT = EngineSettings("variational")


def python_text(warning: FitWarning, engine: EngineSettings = DEFAULT) -> str:
    """One or more sentences, with advice to be typed in Python."""
    return warning.message(_Python(engine))


def terminal_text(warning: FitWarning, engine: EngineSettings = DEFAULT) -> str:
    """One or more sentences, with advice to be typed as options of the program."""
    return warning.message(_Program(engine))


def engine_code(engine: EngineSettings, **changed: Any) -> str:
    """The engine as Python code, with these settings changed and all others as they are."""
    values = {**engine.values, **changed}
    arguments = ", ".join(f"{name}={values[name]!r}" for name in sorted(values))
    return f"{CLASSES[engine.name]}({arguments})"


def rounded(value: float) -> str:
    """A number with two significant digits and no exponent; NaN as it is."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):.{max(digits, 0)}f}"


# --- how settings are written, in Python and on the command line ---


class _Python:
    """Settings as arguments of the library."""

    free_number = "n_factors='auto'"
    """How the number of factors is left to the fit."""
    outlier_check = "check_assumptions"
    """What looks for outlying rows by distances under a factor model."""
    cost_advice = (
        "A given n_factors takes a tenth of it; method=Variational(callback=print) shows progress.",
        "method=Variational(callback=print) shows progress.",
    )
    """Against a long fit, with the number of factors to be found and given."""

    def __init__(self, engine: EngineSettings) -> None:
        self.engine = engine
        self.spell: Spell = as_argument

    def column(self, column: ColumnRef) -> str:
        if column.name is None:
            return f"column {column.index}"
        return f"column {column.name!r} (index {column.index})"

    def n_factors(self, number: int) -> str:
        return f"n_factors={number}"

    def model_error(self, value: float | str) -> str:
        return f"model_error={value!r}"

    def limit(self, name: str, value: float) -> str:
        return f"{name}={value:g}"

    def change(self, name: str, value: float) -> str:
        return f"method={engine_code(self.engine, **{name: value})}"


class _Program:
    """Settings as options of the program."""

    free_number = "no --factors"
    outlier_check = "cuspfa check"
    cost_advice = ("--factors takes a tenth of it.", "")

    def __init__(self, engine: EngineSettings) -> None:
        self.engine = engine
        self.spell: Spell = as_option

    def column(self, column: ColumnRef) -> str:
        name = f"number {column.index + 1}" if column.name is None else repr(column.name)
        return f"column {name}"

    def n_factors(self, number: int) -> str:
        return f"--factors {number}"

    def model_error(self, value: float | str) -> str:
        return f"--model-error {value}"

    def limit(self, name: str, value: float) -> str:
        return f"{_ENGINE_OPTIONS[name]} {value:g}"

    def change(self, name: str, value: float) -> str:
        if name in _ENGINE_OPTIONS:
            return f"{_ENGINE_OPTIONS[name]} {value:g}"
        return f"in Python, method={engine_code(self.engine, **{name: value})}"


_ENGINE_OPTIONS = {"max_factors": "--max-factors", "max_time": "--max-time"}
"""Settings of an engine that are options of the program."""
Form = _Python | _Program
