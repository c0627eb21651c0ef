"""Reading saved fits, and how they are shown."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, cast

from cuspfa.cli.console import Terminal
from cuspfa.cli.options import ShowOptions
from cuspfa.cli.terminal import Page, show_warnings
from cuspfa.data.tables.reader import is_saved_fit
from cuspfa.data.tables.source_bytes import no_such_file
from cuspfa.data.tables.wording import read_wording
from cuspfa.errors import InputError

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior
    from cuspfa.posterior.factorization import FactorizationPosterior

FIRST_BYTES = 64
"""Bytes that tell what a file is."""


def load_fit(path: Path) -> Posterior:
    """The factor analysis in a file, or an error that says what to do."""
    found = load_any_fit(path)
    if of_counts(found) is not None:
        raise InputError(
            f"{str(path)!r} holds a Poisson factorization of counts, and this command is for "
            "factor analysis. cuspfa info, scores, report and describe accept it."
        )
    return cast("Posterior", found)


def of_counts(found: Posterior | FactorizationPosterior) -> FactorizationPosterior | None:
    """The posterior of a Poisson factorization; None if it is that of a factor analysis."""
    if not found.kind.startswith("poisson_factorization"):
        return None
    return cast("FactorizationPosterior", found)


def load_any_fit(path: Path) -> Posterior | FactorizationPosterior:
    """The posterior in a file, or an error that says what to do."""
    from cuspfa.estimator.load import load

    if path.is_dir():
        raise InputError(f"{str(path)!r} is a directory. Give a fit, as cuspfa fit -o writes it.")
    try:
        return load(path)
    except FileNotFoundError:
        raise no_such_file(path) from None
    except PermissionError:
        raise InputError(f"no permission to read {str(path)!r}.") from None


def holds_fit(path: Path) -> bool:
    """Is a file a saved fit?"""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return is_saved_fit(file.read(FIRST_BYTES))


def given_names(show: ShowOptions) -> list[str] | None:
    """The names of --names; a name with a comma is in double quotes."""
    return None if show.names is None else comma_words("--names", show.names)


def shown_as(posterior: Posterior, show: ShowOptions, *, quiet: bool = False) -> Posterior:
    """The posterior with the names, signs and wording of the command line.

    Names in a file of --wording that are no columns cause a message, unless it is `quiet`.
    """
    names = given_names(show)
    if names is not None:
        try:
            posterior = posterior.with_factor_names(names)
        except InputError as error:
            raise InputError(f"--names: {error}") from None
    if show.reverse:
        factors = [word for text in show.reverse for word in comma_words("--reverse", text)]
        try:
            posterior = posterior.with_reversed_factors(factors)
        except InputError as error:
            raise InputError(f"--reverse: {error}") from None
    if show.wording is not None:
        wording = read_wording(str(show.wording), posterior.column_names)
        if wording.unused and not quiet:
            show_warnings(Page(Terminal(stderr=True)), [wording.unused])
        posterior = posterior.with_wording(wording.texts)
    return posterior


def comma_words(option: str, text: str) -> list[str]:
    """Words with commas between them; a word with a comma is in double quotes."""
    try:
        row = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error:
        raise InputError(f"{option}: the quotes in {text!r} do not match.") from None
    found = [word.strip() for word in row]
    if not all(found) or not found:
        raise InputError(f"{option} must be words with commas between them. Got {text!r} instead.")
    return found
