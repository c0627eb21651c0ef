"""What a page works on: a table, or a saved fit, and the fits that were asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning_text import terminal_text
from cuspfa._utils.spelling import as_option
from cuspfa._utils.warn import silent
from cuspfa._utils.wording import listed
from cuspfa.app.page_settings import PageSettings, fit_options
from cuspfa.cli.data_input import (
    check_model,
    choose_columns,
    chosen_likelihood,
    estimator_of,
    example_file,
)
from cuspfa.cli.options import FitOptions
from cuspfa.cli.provenance import command_of, data_provenance
from cuspfa.data.screening.column_kinds import column_kinds
from cuspfa.data.screening.missing_codes import find_codes
from cuspfa.data.tables.cells import clean
from cuspfa.data.tables.read_table import Table, reads_by_blocks, screened
from cuspfa.data.tables.reader import FileTable, read_file
from cuspfa.errors import InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.estimator.load import load
from cuspfa.inference.variational.error_grid import ErrorPath
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.draws import Draws
from cuspfa.posterior.fit_info import FitInfo
from cuspfa.posterior.provenance import Origin
from cuspfa.reporting.kinds_text import kind_text
from cuspfa.reporting.summary import summary_draws
from cuspfa.rotation.aligned import AlignedDraws
from cuspfa.rotation.gpa import as_rotation

KEPT_FITS = 20
"""Fits that are kept, so that a setting that was tried before is answered at once."""
SELECTABLE = ("covariate", "id", "counter")
"""Reasons for dropping a column that the user may overrule."""
FEW_VALUES_DRAWN, BINS_DRAWN = 12, 12
"""Different values up to which a small histogram has a bar for each, and its bars otherwise."""


class ColumnLine(NamedTuple):
    """A column of the table, as the page lists it."""

    name: str
    label: str
    kind: str
    """In words; or the reason for leaving it out."""
    missing: float
    """Share of the rows."""
    bars: tuple[int, ...]
    """Rows by value, from low to high; none of a column without numbers."""
    selected: bool
    """Is it analysed by default?"""
    selectable: bool


@dataclass
class Analysis:
    """A table with the fits that were made of it; or a saved fit alone."""

    name: str
    """What the file is called; empty for the example."""
    file: FileTable | None
    """None of a saved fit."""
    missing: str = ""
    """Codes for missing values, with commas between them."""
    loaded: Posterior | None = None
    stored: Path | None = None
    """The file of the table; None of the example."""

    def __post_init__(self) -> None:
        self._fits: OrderedDict[PageSettings, Posterior] = OrderedDict()
        self._turned: OrderedDict[PageSettings, Posterior] = OrderedDict()
        """Posteriors on other axes: of many factors a rotation takes longer than the rest."""
        self._draws: tuple[FitInfo | None, Draws] | None = None
        self._aligned: tuple[FitInfo | None, PageSettings, AlignedDraws] | None = None
        self._path: tuple[PageSettings, ErrorPath] | None = None
        """Of the fits that differ from the last one in the tolerated error alone."""
        self.usual: tuple[str, ...] = ()
        if self.file is not None:
            self.table = self._table(FitOptions())
            self.usual = tuple(self.table.names)
        elif self.loaded is not None:
            self.usual = tuple(self.loaded.column_names)

    # --- the columns ---

    def columns(self) -> list[ColumnLine]:
        """All columns of the table."""
        if self.file is None:
            return []
        dropped = {one.name: one for one in self.table.dropped}
        labels = {one.name: one.label for one in self.file.labels}
        kinds = _kind_by_column(self.file)
        lines = []
        for column in self.file.columns:
            why = dropped.get(column.name)
            kind = kinds.get(column.name, "")
            if why is not None:
                kind = f"left out: {why.message(as_option)}"
            lines.append(
                ColumnLine(
                    clean(column.name),
                    labels.get(column.name, ""),
                    kind,
                    column.n_missing / max(column.n_rows, 1),
                    () if column.numbers is None else _bars(column.numbers),
                    why is None,
                    why is None or why.code in SELECTABLE,
                )
            )
        return lines

    def notes(self) -> list[str]:
        """What was assumed of the table, and codes for missing values that it may have."""
        if self.file is None:
            return []
        codes = find_codes(self.table.names, self.table.rows)
        return [
            *(note.message(as_option) for note in self.table.notes),
            *(terminal_text(one) for one in codes),
        ]

    # --- fits ---

    def options(self, settings: PageSettings) -> FitOptions:
        """The command line of a fit."""
        assert self.file is not None
        return fit_options(settings, self.name or None, self.file.names, self.usual, self.missing)

    def has_fit(self, settings: PageSettings) -> bool:
        """Is this fit known, so that it takes no time? Who asks may need it next: it is kept."""
        known = settings.fitted in self._fits
        if known:
            self._fits.move_to_end(settings.fitted)
        return self.loaded is not None or known

    def fit(
        self, settings: PageSettings, callback: Callable[[Any], None] | None = None
    ) -> Posterior:
        """The posterior on the axes and with the names that are asked for.

        A fit does not depend on its axes: if only these are changed, nothing is fitted again.
        """
        if settings.names:
            return self._named(self.fit(replace(settings, names=()), callback), settings)
        if settings in self._turned:
            self._turned.move_to_end(settings)
            return self._turned[settings]
        if self.loaded is not None:
            posterior = _on_axes(self.loaded, settings, None)
        else:
            if settings.fitted not in self._fits:
                _keep(self._fits, settings.fitted, self._fitted(settings.fitted, callback))
            self._fits.move_to_end(settings.fitted)
            command = command_of(self.options(settings))
            posterior = _on_axes(self._fits[settings.fitted], settings, command)
        _keep(self._turned, settings, posterior)
        return posterior

    def _named(self, posterior: Posterior, settings: PageSettings) -> Posterior:
        """The posterior with the names of its factors, which its command has too."""
        named = posterior.with_factor_names(settings.names)
        if self.file is None or named.provenance is None:
            return named
        command = command_of(self.options(settings))
        return named._with_fields(provenance=replace(named.provenance, command=command))

    def keep_curve(self, settings: PageSettings, posterior: Posterior) -> None:
        """Keep the curve of a posterior with the fit, for other axes of it."""
        own = self._fits.get(settings.fitted, self.loaded)
        turned = [one for key, one in self._turned.items() if key.fitted == settings.fitted]
        for one in turned if own is None else [own, *turned]:
            one.__dict__["model_error_curve"] = posterior.model_error_curve

    def aligned(self, settings: PageSettings, posterior: Posterior) -> AlignedDraws:
        """The draws behind the intervals, on the axes of the posterior."""
        fit, key = posterior.fit_info, replace(settings, names=())
        known = self._aligned
        if known is None or known[0] is not fit or known[1] != key:
            if self._draws is None or self._draws[0] is not fit:
                self._draws = (fit, summary_draws(posterior))
            known = self._aligned = (fit, key, posterior.align(draws=self._draws[1]))
        return known[2]

    def scores(self, posterior: Posterior) -> Array:
        """Factor scores of all rows."""
        if self.file is None:
            raise InputError("A saved fit has no rows. Open the table that it was made of.")
        columns = {column.name: column.numbers for column in self.file.columns}
        chosen = [columns[name] for name in posterior.column_names]
        rows = np.column_stack([one for one in chosen if one is not None])
        model = CuspFactorAnalysis.from_posterior(posterior.without_names())
        with silent():
            return np.asarray(model.transform(rows))

    def _path_of(self, settings: PageSettings) -> ErrorPath:
        """What is known of fits with other tolerated errors to the same columns."""
        key = replace(settings, model_error=0.0)
        if self._path is None or self._path[0] != key:
            self._path = (key, ErrorPath())
        return self._path[1]

    def _table(self, options: FitOptions) -> Table:
        assert self.file is not None

        def choose(names: list[str]) -> Any:
            return choose_columns(options, names, options.factors)

        return screened(self.file, choose, options.read.reading())

    def _fitted(self, settings: PageSettings, callback: Callable[[Any], None] | None) -> Posterior:
        options = self.options(settings)
        check_model(options)
        table = self._table(options)
        lacking = [name for name in settings.columns if name not in table.names]
        if lacking:
            raise InputError(f"These columns cannot be analysed: {listed(lacking, 5)}.")
        # No cell of the data goes into a file.
        codes = tuple(replace(one, value=None) for one in find_codes(table.names, table.rows))
        model = estimator_of(
            options,
            n_factors=options.factors,
            callback=callback,
            likelihood=chosen_likelihood(options, table.names),
        )
        origin = Origin(data_provenance(options, table), command_of(options), codes)
        try:
            with silent():
                model._fit(table, table.names, origin, path=self._path_of(settings))
        except KeyboardInterrupt:
            if not hasattr(model, "posterior_"):
                raise
            raise StoppedEarly(model.posterior_) from None
        return model.posterior_


class StoppedEarly(Exception):
    """A fit was stopped, with what it had found by then."""

    def __init__(self, posterior: Posterior) -> None:
        super().__init__("stopped")
        self.posterior = posterior


def open_table(path: Path, name: str, missing: str = "") -> Analysis:
    """Read a table. Messages call the file by its name, not by its path."""
    options = fit_options(PageSettings(), name, (), (), missing)
    how = options.read.reading()
    if reads_by_blocks(str(path), None, how):
        raise InputError(f"{name} does not fit into memory. Fit it in the shell: cuspfa fit {name}")
    file = read_file(str(path), how=how)
    source = file.source.replace(str(path), name)
    return Analysis(name, replace(file, source=source), missing, stored=path)


def open_example() -> Analysis:
    """The data that come with the package."""
    return Analysis("", example_file(None))


def open_fit(path: Path, name: str) -> Analysis:
    """A saved fit, whoever made it."""
    found = load(path)
    if found.kind.startswith("poisson_factorization"):
        raise InputError(
            f"{name} holds a Poisson factorization of counts, and the page is for factor analysis. "
            f"cuspfa report {name} -o report.html writes a page on it."
        )
    return Analysis(name, None, loaded=cast(Posterior, found))


def settings_of_fit(posterior: Posterior) -> PageSettings:
    """The settings that a saved fit was made with, as far as a page has them."""
    own, known = posterior.rotation, posterior.provenance
    rotation: Any = None if own is None else own.method
    settings = PageSettings(
        tuple(posterior.column_names), rotation, names=posterior.presentation.factor_names
    )
    if known is None:
        return replace(settings, n_factors=posterior.n_active)
    given = known.settings
    return replace(
        settings,
        n_factors=None if given.n_factors == "auto" else given.n_factors,
        model_error=given.model_error,
    )


def _on_axes(posterior: Posterior, settings: PageSettings, command: str | None) -> Posterior:
    """The posterior with the rotation and the command of these settings; its results are kept."""
    rotation, known = as_rotation(settings.rotation), posterior.provenance
    if command is None and rotation == posterior.rotation:
        return posterior
    if known is not None:
        own = replace(known.settings, rotation=rotation)
        known = replace(known, settings=own, command=known.command if command is None else command)
    return posterior._with_fields(rotation=rotation, provenance=known)


def _keep(
    kept: OrderedDict[PageSettings, Posterior], key: PageSettings, posterior: Posterior
) -> None:
    """Keep a posterior, and forget the one that was not used for longest."""
    kept[key] = posterior
    while len(kept) > KEPT_FITS:
        kept.popitem(last=False)


def _kind_by_column(file: FileTable) -> dict[str, str]:
    """What kind of numbers each column holds, in words."""
    numeric = [one for one in file.columns if one.numbers is not None]
    if not numeric:
        return {}
    rows = np.column_stack([cast(Array, one.numbers) for one in numeric])
    return {
        numeric[j].name: kind_text(group) for group in column_kinds(rows) for j in group.columns
    }


def _bars(numbers: Array) -> tuple[int, ...]:
    values = numbers[np.isfinite(numbers)]
    if not len(values):
        return ()
    found, counts = np.unique(values, return_counts=True)
    if len(found) > FEW_VALUES_DRAWN:
        counts = np.histogram(values, bins=BINS_DRAWN)[0]
    return tuple(int(one) for one in counts)
