"""The command `cuspfa congruence`."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import whole
from cuspfa._utils.wording import counted, listed
from cuspfa.cli.console import Terminal
from cuspfa.cli.data_input import (
    check_data,
    check_enough_columns,
    check_model,
    check_number,
    choose_columns,
    fitted_model,
    needs_memory,
    refuse_options,
    show_table,
    table_as_json,
    warnings_of,
)
from cuspfa.cli.options import CongruenceOptions
from cuspfa.cli.outputs import print_json
from cuspfa.cli.progress import progress
from cuspfa.cli.saved_fits import load_fit
from cuspfa.cli.terminal import Page, show_warnings
from cuspfa.data.column_choice import ColumnChoice
from cuspfa.data.screening.columns import FEWEST_ROWS
from cuspfa.data.tables.cells import clean, is_missing, missing_codes, parse_number
from cuspfa.data.tables.column_names import find_column
from cuspfa.data.tables.read_table import Table, reads_by_blocks, screened
from cuspfa.data.tables.reader import FileTable, read_file
from cuspfa.diagnostics.retention import ALIKE_CONGRUENCE, EQUAL_CONGRUENCE
from cuspfa.errors import DataError, InputError
from cuspfa.posterior.base import Posterior
from cuspfa.rotation.congruence import FactorCongruence, factor_congruence

MOST_GROUPS = 12
"""Groups that are compared in pairs."""
OF_SAVED_FITS = ("--no-procrustes", "--procrustes", "--seed")
"""Options that are about the comparison, and not about the fits."""


class NamedFit(NamedTuple):
    """A fit to compare."""

    name: str
    """The file, or the group."""
    posterior: Posterior
    by: str = ""
    """The column with the groups."""

    @property
    def called(self) -> str:
        """The file, or the column and its value, such as "gender = 1"."""
        return f"{self.by} = {self.name}" if self.by else self.name

    @property
    def described(self) -> str:
        """Its name, rows and factors."""
        rows = counted(self.posterior.n_rows, "row")
        return f"{self.called} ({rows}, {counted(self.posterior.n_active, 'factor')})"

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain values, for JSON."""
        posterior = self.posterior
        return {"name": self.name, "n_rows": posterior.n_rows, "n_factors": posterior.n_active}


class Comparison(NamedTuple):
    """The congruence of two fits."""

    first: NamedFit
    second: NamedFit
    found: FactorCongruence

    @property
    def headline(self) -> str:
        """How many of the factors are equal, alike, different, or not in the second fit."""
        values = self.found.congruence
        numbers = {
            "equal": np.sum(values >= EQUAL_CONGRUENCE),
            "alike": np.sum((values >= ALIKE_CONGRUENCE) & (values < EQUAL_CONGRUENCE)),
            "different": np.sum(values < ALIKE_CONGRUENCE),
            "not in the second": np.sum(np.isnan(values)),
        }
        words = ", ".join(f"{number} {word}" for word, number in numbers.items() if number)
        factors = counted(len(values), "factor")
        return f"{self.first.called} and {self.second.called}: {factors}, {words}"


def run_congruence(first: Path | None, second: Path | None, options: CongruenceOptions) -> None:
    """Compare two saved fits, or the fits of the groups of a table."""
    whole("--seed", options.seed, 0)
    if second is None and options.by is None:
        raise InputError(
            "give two saved fits, or a table and the column with its groups: --by COLUMN."
        )
    if second is not None and options.by is not None:
        raise InputError("--by is for the groups of one table. Give a table, or two saved fits.")
    page = Page(Terminal(stderr=options.as_json or options.quiet))
    context: dict[str, Any] = {}
    told: list[str] = []
    if second is not None:
        assert first is not None
        refuse_options(options, OF_SAVED_FITS, "with two saved fits")
        fits = [NamedFit(str(path), load_fit(path)) for path in (first, second)]
    else:
        fits, context, told = _fits_of_groups(options, page)
    with progress(options.quiet) as bar:
        bar.say("congruence of the factors")
        found = [
            Comparison(one, other, _compared(one, other, options))
            for one, other in combinations(fits, 2)
        ]
    if options.as_json:
        print_json(
            {
                "fits": [one.as_dict() for one in fits],
                "procrustes": options.procrustes,
                "comparisons": [_as_dict(one) for one in found],
                **context,
                "warnings": told,
            }
        )
    elif options.quiet:
        for one in found:
            Terminal().print(one.headline, soft_wrap=True, markup=False)
    else:
        _show(page, found, options.procrustes, after_reading=options.by is not None)
    show_warnings(page, told)


def _compared(one: NamedFit, other: NamedFit, options: CongruenceOptions) -> FactorCongruence:
    for fit in (one, other):
        if not fit.posterior.n_active:
            raise InputError(f"the fit of {fit.called} has no factors to compare.")
    try:
        return factor_congruence(
            one.posterior,
            other.posterior,
            procrustes=options.procrustes,
            random_state=options.seed,
        )
    except DataError as error:
        raise DataError(f"{one.called} and {other.called} cannot be compared: {error}") from None


# --- groups of a table ---


def _fits_of_groups(
    options: CongruenceOptions, page: Page
) -> tuple[list[NamedFit], dict[str, Any], list[str]]:
    """Fits of the groups, what JSON has of the data, and warnings."""
    check_data(options)
    check_model(options)
    check_number(options.factors, options.max_factors)
    table, groups, n_lacking = _divided(_file_with_groups(options), options)
    show_table(page, table, quiet=options.quiet)
    check_enough_columns(options.factors, len(table.names))
    if n_lacking:
        rows = counted(n_lacking, "row")
        page.paragraph(f"Left out {rows} without a value of {options.by}.")
    large = _large_groups(groups, options, page)
    fits, told = [], []
    with progress(options.quiet) as bar:
        for name, values in large.items():
            try:
                model = fitted_model(
                    options,
                    values,
                    table.names,
                    n_factors=options.factors,
                    rotation=options.rotation,
                    callback=bar.on_iteration,
                )
            except DataError as error:
                raise DataError(f"--by {options.by}: group {name!r}: {error}") from None
            fits.append(NamedFit(name, model.posterior_, str(options.by)))
            told += [f"{options.by} = {name}: {text}" for text in warnings_of(model)]
    sizes = {name: len(values) for name, values in groups.items()}
    by = {"column": options.by, "groups": sizes, "n_missing": n_lacking}
    return fits, {**table_as_json(table), "by": by}, told


def _large_groups(
    groups: dict[str, Array], options: CongruenceOptions, page: Page
) -> dict[str, Array]:
    """Groups with enough rows to be fitted; the others are named."""
    sizes = {name: f"{name} ({len(rows)})" for name, rows in groups.items()}
    large = {name: rows for name, rows in groups.items() if len(rows) >= FEWEST_ROWS}
    if len(large) < 2:
        raise DataError(
            f"--by {options.by} must have at least two groups of {FEWEST_ROWS} rows or more. Got "
            f"{listed(list(sizes.values()), MOST_GROUPS) or 'no group'} instead."
        )
    small = [size for name, size in sizes.items() if name not in large]
    if small:
        named = listed(small, MOST_GROUPS)
        page.paragraph(f"Left out groups of fewer than {FEWEST_ROWS} rows: {named}.")
    return large


def _file_with_groups(options: CongruenceOptions) -> FileTable:
    """The whole table. The cells of the column with the groups are its `ids`."""
    by = str(options.by)
    if options.id_column == by:
        raise InputError("--id and --by must be two columns.")
    if options.data is None:
        raise InputError("--by: --example has no column with groups. Give a file.")
    how = options.read.reading()
    if reads_by_blocks(options.data, None, how):
        raise needs_memory(options.data, "congruence")

    def check(names: list[str]) -> None:
        find_column("--by", by, names)

    return read_file(options.data, id_column=by, how=how, check=check, id_needed=False)


def _divided(file: FileTable, options: CongruenceOptions) -> tuple[Table, dict[str, Array], int]:
    """The table, the rows of each group in the order of its value, and rows without a group."""

    def choose(names: list[str]) -> ColumnChoice:
        choice = choose_columns(options, names)
        unwanted = {options.by, options.id_column}
        return choice._replace(columns=[j for j in choice.columns if names[j] not in unwanted])

    assert file.id_position is not None
    assert file.ids is not None
    table = screened(file, choose, options.read.reading())
    columns = {one.name: one for one in file.columns}
    numbers = (columns[name].numbers for name in table.names)
    rows = np.column_stack([one for one in numbers if one is not None])
    words = _group_words(file, options)
    lacks = np.array([word is None for word in words])
    empty = np.isnan(rows).all(axis=1)
    # Numbers by size, labelled or not, then words.
    different = sorted({word for word in words if word is not None})
    names = list(dict.fromkeys(one.name for one in different))
    if len(names) > MOST_GROUPS:
        raise DataError(
            f"--by must be a column with at most {MOST_GROUPS} groups. Got {options.by!r} instead, "
            f"which has {len(names)} different values."
        )
    of_row = np.array(["" if word is None else word.name for word in words])
    groups = {name: rows[(of_row == name) & ~lacks & ~empty] for name in names}
    return table, groups, int(np.sum(lacks & ~empty))


class _Group(NamedTuple):
    """The group of a row."""

    value: float
    """Infinite for words."""
    name: str
    """The label of the value, if the file has one."""


def _group_words(file: FileTable, options: CongruenceOptions) -> list[_Group | None]:
    """The group of each row; None where missing."""
    assert file.ids is not None
    codes = missing_codes(options.read.reading().missing)
    known = next((one for one in file.labels if one.name == options.by), None)
    labels = {} if known is None else {one.value: one.label for one in known.values}
    found: list[_Group | None] = []
    for cell in file.ids:
        value = parse_number(cell)
        if is_missing(cell) or codes.takes(value, cell):
            found.append(None)
        elif value is not None:  # 1, 1.0 and 01 are one group
            found.append(_Group(value, clean(labels.get(value, f"{value:g}"))))
        else:
            found.append(_Group(np.inf, clean(cell)))
    return found


# --- what is shown ---


def _show(page: Page, found: list[Comparison], procrustes: bool, *, after_reading: bool) -> None:
    for number, one in enumerate(found):
        if number or after_reading:
            page.line()
        page.paragraph(f"{one.first.described} and {one.second.described}:")
        for line in str(one.found).splitlines():
            page.line(line)
        more = one.second.posterior.n_active - one.first.posterior.n_active
        if more > 0:
            page.paragraph(
                f"{counted(more, 'further factor')} of the second {'has' if more == 1 else 'have'} "
                "no counterpart in the first.",
                indent=0,
            )
    page.line()
    page.paragraph(
        "Tucker's congruence with its 95 % interval: alike from 0.85 on, equal from 0.95 on. "
        "chance: what rotation alone finds if the variables are in random order (95 % quantile).",
        indent=0,
    )
    if procrustes:
        page.paragraph(
            "The second is on the axes of the first; --no-procrustes compares the factors as they "
            "are.",
            indent=0,
        )


def _as_dict(one: Comparison) -> dict[str, Any]:
    found = one.found
    columns = zip(
        (found.pairs + 1).tolist(),
        found.congruence.tolist(),
        found.lower.tolist(),
        found.upper.tolist(),
        found.chance.tolist(),
        strict=True,
    )
    return {
        "first": one.first.name,
        "second": one.second.name,
        "pairs": [
            {
                "first": pair[0],
                "second": pair[1],
                "congruence": value,
                "interval": [lower, upper],
                "chance": chance,
            }
            for pair, value, lower, upper, chance in columns
        ],
    }
