"""The command `cuspfa reproduce`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.table import Table

from cuspfa._utils.arguments import whole
from cuspfa.cli.console import Terminal
from cuspfa.cli.outputs import write_text
from cuspfa.cli.progress import progress
from cuspfa.cli.terminal import Page
from cuspfa.io.atomic import check_writable
from cuspfa.papers.simulations import Simulations, reproduce_simulations
from cuspfa.papers.variational import Reproduction, reproduce_table

OUR_NAMES = {
    "variational-random-starts": "Variational, 20 random starts",
    "variational-search": "Variational, search over K",
    "adaptive-gibbs": "Adaptive Gibbs sampler",
}
PAPER_NAMES = {
    "adaptive-gibbs": "Adaptive Gibbs sampler",
    "variational": "Variational inference",
}
TABLE_WIDTH = 78


def print_papers(*, simulations: bool, seed: int, quick: bool, json_path: str | None) -> None:
    """Run, print, and write the JSON file if one is asked for."""
    whole("--seed", seed, 0)
    console = Terminal(stderr=json_path == "-")
    target = None if json_path in (None, "-") else Path(str(json_path))
    if target is not None:
        check_writable("--json", target)
    result: Simulations | Reproduction
    with progress(quiet=not Terminal(stderr=True).is_terminal) as bar:
        if simulations:
            sets, largest = (2, 50) if quick else (25, 100)
            result = reproduce_simulations(n_sets=sets, largest=largest, seed=seed, on_set=bar.say)
        else:
            result = reproduce_table(seed=seed, quick=quick, on_stage=lambda _: bar.on_iteration)
    text = json.dumps(result.to_dict(), indent=2) + "\n"
    if target is not None:
        write_text(target, text)
    elif json_path is not None:
        sys.stdout.write(text)
    if isinstance(result, Simulations):
        _print_simulations(console, result)
    else:
        _print_table(console, result)
    if target is not None:
        console.say_written(target)


def _print_table(console: Terminal, result: Reproduction) -> None:
    title = "Personality data (bfi, n = 126, p = 25): Table 1 of Legramanti (2020)"
    columns = ("MSE", "E[H*]", "Time (s)", "Bound")
    rows = _rows(result)
    if console.width < TABLE_WIDTH:  # a list, so that no figure is cut off
        console.print(title)
        for name, *figures in rows:
            console.print(name)
            for column, figure in zip(columns, figures, strict=True):
                console.print(f"  {column:8s} {figure}", markup=False)
    else:
        table = Table(title=title, title_justify="left", width=TABLE_WIDTH)
        table.add_column("", no_wrap=True)
        for column in columns:
            table.add_column(column.replace("[", r"\["), justify="right", no_wrap=True)
        for number, row in enumerate(rows, start=1):
            table.add_row(*row, end_section=number == len(result.paper))
        console.print(table)
    for remark in _remarks(result):
        Page(console).paragraph(remark, indent=0)


def _rows(result: Reproduction) -> list[list[str]]:
    paper = [
        [
            f"Paper: {PAPER_NAMES[row.method]}",
            f"{row.mse:.2f}",
            f"{row.expected_active_factors:.1f}",
            f"{row.seconds:.0f}",
            "-",
        ]
        for row in result.paper
    ]
    ours = [
        [
            f"Ours: {OUR_NAMES[row.method]}",
            f"{row.mse:.4f}",
            f"{row.expected_active_factors:.1f}",
            f"{row.seconds:.2f}",
            "-" if row.lower_bound is None else f"{row.lower_bound:.2f}",
        ]
        for row in result.rows
    ]
    return paper + ours


def _remarks(result: Reproduction) -> list[str]:
    """What the columns mean, and why figures differ from the paper's or from each other."""
    remarks = [
        "MSE: mean squared deviation of the correlation matrix from the sample's. E[H*]: expected "
        "number of active factors. Times are of different machines and code."
    ]
    by_method = {row.method: row for row in result.rows}
    starts, searched = by_method["variational-random-starts"], by_method["variational-search"]
    assert starts.lower_bound is not None
    assert searched.lower_bound is not None
    gap = searched.lower_bound - starts.lower_bound
    if gap > 0.5:
        remarks.append(
            f"The best of 20 random starts ends {gap:.2f} below the search: each start keeps about "
            "the number of factors it began with and stops at a local optimum near by."
        )
    published = next(row for row in result.paper if row.method == "variational")
    for row in (starts, searched):
        ours = row.expected_active_factors
        if round(ours, 1) != published.expected_active_factors:
            remarks.append(
                f"{OUR_NAMES[row.method]}: E[H*] = {ours:.1f}, not the paper's "
                f"{published.expected_active_factors:.1f}, because no start of this seed led to "
                "the best number (so 3 of the seeds 0 to 99)."
            )
        if round(row.mse, 2) != published.mse:
            remarks.append(
                f"{OUR_NAMES[row.method]}: MSE {row.mse:.4f} does not round to {published.mse}."
            )
    sampler = by_method["adaptive-gibbs"]
    if sampler.expected_active_error is not None:
        figure = f"{sampler.expected_active_factors:.2f} ± {sampler.expected_active_error:.2f}"
        remarks.append(
            f"The sampler's E[H*] = {figure} is of four chains; single ones give 2.3 to 2.9. It "
            "depends on how the number of columns is adapted (docs/gibbs.md)."
        )
    if result.quick:
        remarks.append("--quick: 200 draws; the MSE is less exact than with 2000.")
    return remarks


def _print_simulations(console: Terminal, result: Simulations) -> None:
    console.print(f"n = 100, medians of {result.n_sets} data sets (the paper's: 25)", markup=False)
    console.print(f"{'':34s}{'p':>4s}{'K':>4s}{'error':>8s}{'E[H*]':>7s}{'s':>8s}", markup=False)
    for row in (*result.published, *result.rows):
        name = "Paper: adaptive Gibbs"
        if row.method != "paper":
            name = f"Ours: {OUR_NAMES[row.method]}"
        figures = f"{row.error:8.2f}{row.expected_active_factors:7.1f}{row.seconds:8.1f}"
        console.print(f"{name:34s}{row.p:4d}{row.n_factors:4d}{figures}", markup=False)
