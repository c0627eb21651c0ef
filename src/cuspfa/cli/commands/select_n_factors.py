"""The command `cuspfa select-n-factors`."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from cuspfa._utils.arguments import must_be, whole
from cuspfa._utils.warn import silent
from cuspfa.cli.console import Terminal
from cuspfa.cli.data_input import (
    check_data,
    check_model,
    estimator_of,
    fitted_model,
    read_rows,
    table_as_json,
    warnings_of,
)
from cuspfa.cli.options import SelectOptions
from cuspfa.cli.outputs import print_json
from cuspfa.cli.progress import progress
from cuspfa.cli.terminal import Page, show_warnings
from cuspfa.diagnostics.n_factors import FactorSelection, select_n_factors
from cuspfa.inference.engine import engine_of
from cuspfa.reporting.summary import curve_as_dict

_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


def run_selection(options: SelectOptions) -> None:
    """Read the table, apply every rule and print the numbers."""
    check_data(options)
    check_model(options)
    numbers = None if options.numbers is None else _numbers(options.numbers)
    whole("--folds", options.folds, 2)
    whole("--splits", options.splits, 1)
    if options.jobs == 0:
        raise must_be("--jobs", "a whole number other than 0", options.jobs)
    page = Page(Terminal(stderr=options.as_json or options.quiet))
    table, rows = read_rows(options, page, "select-n-factors", quiet=options.quiet)
    if options.folds > len(rows):
        raise must_be("--folds", f"at most the {len(rows)} rows", options.folds)
    model = estimator_of(options)
    limit = engine_of(model.method).max_factors
    most = rows.shape[1] if limit is None else min(rows.shape[1], int(limit))
    if numbers is not None and numbers[-1] > most:
        what = f"at most {most}, the columns analysed or --max-factors"
        raise must_be("--numbers", what, numbers[-1])
    with progress(options.quiet) as bar:
        # One more fit, for warnings with advice as options.
        told = warnings_of(fitted_model(options, rows, table.names, callback=bar.on_iteration))
        bar.say("fits to parts of the rows")
        with silent():
            found = select_n_factors(
                model,
                rows,
                numbers=numbers,
                n_folds=options.folds,
                n_splits=options.splits,
                random_state=options.seed,
                n_jobs=options.jobs,
            )
    if options.as_json:
        print_json({**_as_dict(found), **table_as_json(table), "warnings": told})
    elif options.quiet:
        Terminal().print(found.headline, soft_wrap=True, markup=False)
    else:
        page.line()
        for line in str(found).splitlines():
            page.line(line)
    show_warnings(page, told)


def _numbers(text: str) -> list[int]:
    """Numbers of factors, such as 1-8 or 1,2,5."""
    found: set[int] = set()
    for word in text.split(","):
        ends = _NUMBERS.fullmatch(word.strip())
        last = None if ends is None else int(ends[2] or ends[1])
        if ends is None or last is None or last < int(ends[1]):
            raise must_be("--numbers", "numbers of factors, such as 1-8 or 1,2,5", text)
        found |= set(range(int(ends[1]), last + 1))
    return sorted(found)


def _as_dict(found: FactorSelection) -> dict[str, Any]:
    values = {one.name: getattr(found, one.name) for one in fields(found)}
    rules = found.rules()
    return {
        **values,
        "factors": [one._asdict() for one in found.factors],
        "weights": {str(number): weight for number, weight in found.weights.items()},
        "held_out": [one._asdict() for one in found.held_out],
        "large_share": found.large_share.value,
        "curve": curve_as_dict(found.curve),
        "rules": [{"rule": name, "n_factors": number} for name, number in rules],
    }
