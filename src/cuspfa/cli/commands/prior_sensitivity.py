"""The command `cuspfa prior-sensitivity`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cuspfa._utils.arguments import must_be
from cuspfa._utils.warn import silent
from cuspfa._utils.wording import counted
from cuspfa.cli.console import Terminal
from cuspfa.cli.data_input import (
    check_data,
    check_model,
    estimator_of,
    fitted_model,
    needs_memory,
    read_data,
    table_as_json,
    warnings_of,
)
from cuspfa.cli.options import PriorOptions, SlabName
from cuspfa.cli.outputs import print_json
from cuspfa.cli.progress import progress
from cuspfa.cli.terminal import Page, show_codes, show_warnings
from cuspfa.data.screening.missing_codes import find_codes
from cuspfa.diagnostics.prior_sensitivity import PriorSensitivityRow, prior_sensitivity
from cuspfa.errors import InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.inference.engine import engine_of
from cuspfa.model.slabs import EmpiricalBayesSlab, GaussianSlab, InverseGammaSlab, Slab

ALPHAS = (1.0, 5.0, 20.0)
"""Values of alpha that are tried unless others are given."""


def run_sensitivity(options: PriorOptions) -> None:
    """Read the data, fit them under each prior and print the numbers of factors."""
    check_data(options)
    check_model(options)
    alphas = None if options.alpha is None else _numbers("--alpha", options.alpha, least=None)
    spikes = None if options.spike is None else _numbers("--spike", options.spike, least=0.0)
    page = Page(Terminal(stderr=options.as_json or options.quiet))
    table = read_data(options, page, quiet=options.quiet)
    if table.stream is not None:
        raise needs_memory(str(options.data), "prior-sensitivity")
    show_codes(page, find_codes(table.names, table.sample))
    model = estimator_of(options)
    own = engine_of(model.method).default_prior()
    slabs = _slabs(own.slab)
    with progress(options.quiet) as bar:
        told = warnings_of(
            fitted_model(options, table.data, table.names, callback=bar.on_iteration)
        )
        bar.say("fits under other priors")
        with silent():
            found = _rows(model, table.data, slabs, alphas, spikes, options.slab)
    if options.as_json:
        rows = [_as_dict(one, slabs) for one in found]
        print_json({"rows": rows, **table_as_json(table), "warnings": told})
    elif options.quiet:
        Terminal().print(_headline(found), markup=False)
    else:
        page.line()
        page.line(_headline(found))
        page.line()
        _show(page, found, slabs)
    show_warnings(page, told)


def _slabs(own: Slab) -> dict[str, Slab]:
    """Slabs by the words of --slab."""
    return {
        "default": own,
        "gaussian": GaussianSlab(1.0),
        "inverse-gamma": InverseGammaSlab(2.0, 2.0),
        "empirical-bayes": EmpiricalBayesSlab(),
    }


def _rows(
    model: CuspFactorAnalysis,
    data: Any,
    slabs: dict[str, Slab],
    alphas: list[float] | None,
    spikes: list[float] | None,
    chosen: list[SlabName] | None,
) -> list[PriorSensitivityRow]:
    """All combinations of what is given. Otherwise values of alpha, then the other slabs."""
    if alphas is None and spikes is None and chosen is None:
        others = [slab for word, slab in slabs.items() if word != "default"]
        found = [
            prior_sensitivity(model, data, alpha=ALPHAS),
            prior_sensitivity(model, data, slab=others),
        ]
        return [row for table in found for row in table]
    spike = None if spikes is None else [one or None for one in spikes]
    slab = None if chosen is None else [slabs[word] for word in chosen]
    try:
        return prior_sensitivity(model, data, alpha=alphas, spike=spike, slab=slab)
    except InputError as error:
        raise InputError(f"--alpha, --slab and --spike: {error}") from None


def _numbers(option: str, text: str, least: float | None) -> list[float]:
    try:
        found = [float(word) for word in text.split(",")]
    except ValueError:
        raise must_be(option, "numbers with commas between them", text) from None
    for one in found:
        enough = one > 0 if least is None else one >= least
        if not (math.isfinite(one) and enough):
            raise must_be(option, "positive numbers" if least is None else "0 or positive", text)
    return found


def _headline(found: Sequence[PriorSensitivityRow]) -> str:
    numbers = [one.n_factors for one in found]
    priors = counted(len(found), "prior")
    if min(numbers) == max(numbers):
        return f"{counted(numbers[0], 'factor').capitalize()} under each of {priors}"
    return f"From {min(numbers)} to {max(numbers)} factors under {priors}"


def _word(slab: Slab, slabs: dict[str, Slab]) -> str:
    return next(word for word, one in slabs.items() if one == slab)


def _show(page: Page, found: Sequence[PriorSensitivityRow], slabs: dict[str, Slab]) -> None:
    page.line("alpha  slab             spike    factors  expected        bound")
    for one in found:
        spike = "at 0" if one.spike is None else f"{one.spike:g}"
        bound = "–" if math.isnan(one.lower_bound) else f"{one.lower_bound:.2f}"
        page.line(
            f"{one.alpha:5g}  {_word(one.slab, slabs):<15}  {spike:<7}  {one.n_factors:7d}  "
            f"{one.expected_active_factors:8.2f}  {bound:>11}"
        )
    page.line()
    for word in dict.fromkeys(_word(one.slab, slabs) for one in found):
        page.paragraph(f"{word}: {slabs[word]}")
    page.paragraph(
        "alpha: the number of factors expected before the data are seen; expected: the number of "
        "active factors expected after them.",
        indent=0,
    )


def _as_dict(row: PriorSensitivityRow, slabs: dict[str, Slab]) -> dict[str, Any]:
    values = row._asdict()
    return {**values, "slab": _word(row.slab, slabs), "slab_settings": repr(row.slab)}
