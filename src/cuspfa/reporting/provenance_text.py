"""Provenance in words: what was read, dropped, set and warned of."""

from __future__ import annotations

from cuspfa._utils.fit_warning import FitWarning
from cuspfa._utils.fit_warning_text import python_text, terminal_text
from cuspfa._utils.spelling import Spell, as_option
from cuspfa._utils.wording import counted, listed
from cuspfa.data.provenance import DataProvenance
from cuspfa.data.tables.cells import clean
from cuspfa.posterior.provenance import FitSettings, Provenance

LISTED_COLUMNS = 20
"""Dropped columns that are named."""


def data_text(data: DataProvenance) -> str:
    """What was read."""
    size = f"{counted(data.n_rows, 'row')}, {counted(data.n_columns, 'column')}"
    if data.n_missing is not None:
        size += f", {data.n_missing} missing values"
        if data.by_blocks and len(data.names) < data.n_columns:
            size += " in those analysed"  # other columns were not read
    return f"The data are {clean(data.source)} ({data.kind}): {size}."


def analysed_text(data: DataProvenance | None, size: str) -> str:
    """What was read, and how much of it was analysed, which `size` says in a sentence."""
    if data is None:
        return size
    gone = [clean(name) for name in (*(one.name for one in data.dropped), *data.excluded)]
    if gone:
        were = "was" if len(gone) == 1 else "were"
        size += f" {counted(len(gone), 'column')} {were} left out: {listed(gone, LISTED_COLUMNS)}."
    return f"{data_text(data)} {size}"


def remarks(data: DataProvenance, spell: Spell = as_option) -> list[str]:
    """What was assumed or left out when the data were read."""
    found = [clean(note.message(spell)) for note in data.notes]
    found += [
        f"{clean(one.name)} is left out: {one.message(spell)}."
        for one in data.dropped[:LISTED_COLUMNS]
    ]
    if len(data.dropped) > LISTED_COLUMNS:
        found.append(f"{len(data.dropped) - LISTED_COLUMNS} more columns are left out.")
    if data.n_empty_rows:
        rows = counted(data.n_empty_rows, "row")
        found.append(f"Left out {rows} without any value in the columns analysed.")
    if data.excluded:
        found.append(f"Left out as asked: {', '.join(clean(name) for name in data.excluded)}.")
    return found


def settings_text(settings: FitSettings) -> str:
    """Parameters of the model and their values."""
    seeds = {None: "random, not kept", "generator": "from a generator, whose state is not kept"}
    seed = settings.random_state
    rotation = settings.rotation
    values = {
        "number of factors": "found" if settings.n_factors == "auto" else settings.n_factors,
        "standardised columns": "yes" if settings.standardize else "no",
        "model error": f"{settings.model_error:g}"
        if settings.model_error != "auto"
        else "to be learned",
        **({"likelihood": _likelihood_text(settings)} if settings.likelihood != "gaussian" else {}),
        **({"robust": "yes"} if settings.robust else {}),
        "rotation": "none (principal axes)" if rotation is None else rotation.method,
        "seed": seed if isinstance(seed, int) else seeds[seed],
        **{name: settings.engine.values[name] for name in sorted(settings.engine.values)},
    }
    return ", ".join(f"{name} {value}" for name, value in values.items()) + "."


def _likelihood_text(settings: FitSettings) -> str:
    chosen = settings.likelihood
    if isinstance(chosen, str):
        return chosen
    return "by column (" + ", ".join(f"{name}: {word}" for name, word in chosen) + ")"


def warning_texts(provenance: Provenance) -> list[str]:
    """Warnings, with advice as options of the program or in Python, as the fit was made."""
    return [caution_text(one, provenance) for one in provenance.warnings]


def caution_text(caution: FitWarning, provenance: Provenance | None) -> str:
    """One of them, or a caution that was found in the result."""
    if provenance is None:
        return python_text(caution)
    text = terminal_text if provenance.command else python_text
    return text(caution, provenance.settings.engine)
