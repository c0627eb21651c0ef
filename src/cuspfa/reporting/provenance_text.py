"""Provenance in words: what was read, dropped, set and warned of."""

from __future__ import annotations

from cuspfa._utils.fit_warning_text import python_text, terminal_text
from cuspfa.data.tables.cells import clean
from cuspfa.posterior.provenance import DataProvenance, FitSettings, Provenance

SHOWN = 20
"""Dropped columns that are named."""


def data_text(data: DataProvenance) -> str:
    """What was read."""
    size = f"{data.n_rows} rows, {data.n_columns} columns"
    if data.n_missing is not None:
        size += f", {data.n_missing} missing values"
        if data.by_blocks and len(data.names) < data.n_columns:
            size += " in those analysed"  # no others were read
    return f"Read {clean(data.source)} ({data.kind}): {size}."


def remarks(data: DataProvenance) -> list[str]:
    """What was assumed or left out."""
    found = [clean(note) for note in data.notes]
    found += [f"{clean(one.name)} is left out: {one.reason}." for one in data.dropped[:SHOWN]]
    if len(data.dropped) > SHOWN:
        found.append(f"{len(data.dropped) - SHOWN} more columns are left out.")
    if data.n_empty_rows:
        rows = "1 row" if data.n_empty_rows == 1 else f"{data.n_empty_rows} rows"
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
        "rotation": "none (principal axes)" if rotation is None else rotation.method,
        "seed": seed if isinstance(seed, int) else seeds[seed],
        **{name: settings.engine.values[name] for name in sorted(settings.engine.values)},
    }
    return ", ".join(f"{name} {value}" for name, value in values.items()) + "."


def warning_texts(provenance: Provenance) -> list[str]:
    """Warnings, with advice in the form in which the fit was made: as options, or in Python."""
    text = terminal_text if provenance.command else python_text
    return [text(one, provenance.settings.engine) for one in provenance.warnings]
