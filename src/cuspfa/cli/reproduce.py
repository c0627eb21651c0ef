"""The terminal's face of `cuspfa reproduce`."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from cuspfa import reproduce as library
from cuspfa.errors import InputError
from cuspfa.variational import fit

OUR_NAMES = {"variational-random-starts": "Variational, 20 random starts"}
PAPER_NAMES = {
    "adaptive-gibbs": "Adaptive Gibbs sampler",
    "variational": "Variational inference",
}


def print_table(console: Console, *, seed: int, quick: bool, json_path: Path | None) -> None:
    """Run, print, and write the JSON file if one is asked for."""
    if json_path is not None:
        check_writable(json_path)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:

        def on_stage(method: str) -> fit.Callback:
            task = bar.add_task(OUR_NAMES[method], total=None, note="")

            def on_cycle(at: fit.Progress) -> None:
                bar.update(
                    task,
                    total=at.n_starts,
                    completed=at.start,
                    note=f"start {at.start}/{at.n_starts}, bound {at.lower_bound:.1f}",
                )

            return on_cycle

        result = library.reproduce(seed=seed, quick=quick, on_stage=on_stage)
    if json_path is not None:
        write_atomically(json_path, json.dumps(result.to_dict(), indent=2) + "\n")
    console.print(_table(result))
    for line in _remarks(result):
        console.print(line)
    if json_path is not None:
        console.print(f"Written to {json_path}", soft_wrap=True)


def _table(result: library.Reproduction) -> Table:
    table = Table(
        title="Personality data (bfi, n = 126, p = 25): Table 1 of Legramanti (2020)",
        title_justify="left",
        width=78,
    )
    table.add_column("", no_wrap=True)
    table.add_column("MSE", justify="right")
    table.add_column("E[H*]", justify="right")
    table.add_column("Time (s)", justify="right")
    table.add_column("Bound", justify="right", no_wrap=True)
    for paper in result.paper:
        table.add_row(
            f"Paper: {PAPER_NAMES[paper.method]}",
            f"{paper.mse:.2f}",
            f"{paper.expected_active_factors:.1f}",
            f"{paper.seconds:.0f}",
            "-",
        )
    table.add_section()
    for row in result.rows:
        table.add_row(
            f"Ours: {OUR_NAMES[row.method]}",
            f"{row.mse:.4f}",
            f"{row.expected_active_factors:.1f}",
            f"{row.seconds:.2f}",
            "-" if row.lower_bound is None else f"{row.lower_bound:.2f}",
        )
    return table


def _remarks(result: library.Reproduction) -> list[str]:
    """Where a figure of ours differs from the paper's, say why."""
    remarks = [
        "MSE: mean squared deviation of the correlation matrix from the sample's. E[H*]:",
        "expected number of active factors. Times are of different machines and code.",
    ]
    published = next(row for row in result.paper if row.method == "variational")
    for row in result.rows:
        if round(row.expected_active_factors, 1) != published.expected_active_factors:
            remarks += [
                "E[H*] differs from the paper's: each random start ends at a local optimum with",
                "about as many factors as it began with, and no start of this seed came near",
                "the best bound known, -5310.92, which has 3.0. Try another --seed.",
            ]
        if round(row.mse, 2) != published.mse:
            remarks.append(
                "MSE differs from the paper's in the second digit: a worse local optimum."
            )
    if result.quick:
        remarks.append("--quick: 200 draws; the MSE is less exact than with 2000.")
    return remarks


def check_writable(path: Path) -> None:
    """Refuse before the work is done, not after."""
    if path.is_dir():
        raise InputError(f"--json must be a file. Got the directory {str(path)!r} instead.")
    if not path.parent.is_dir():
        raise InputError(
            f"--json: there is no directory {str(path.parent)!r}. Create it, or choose another."
        )
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"--json: no permission to write in {str(path.parent)!r}.")


def write_atomically(path: Path, text: str) -> None:
    """The whole file or nothing."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
