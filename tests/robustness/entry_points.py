"""Every public entry point, and the one oracle: a right result, or a documented error."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import signal
import tempfile
import threading
import traceback
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from cuspfa import (
    CuspFactorAnalysis,
    Gibbs,
    Moments,
    RowStream,
    Variational,
    check_assumptions,
    datasets,
    factor_congruence,
    fit_indices,
    load,
    plots,
    predict_to_file,
    prior_sensitivity,
    retention,
    rotate,
    select_n_factors,
)
from cuspfa.cli.app import run_program
from cuspfa.errors import CuspError, CuspWarning
from robustness.tables import Recipe, copied, is_good, plain, same, wrapped

PATIENCE = 60
"""Seconds after which a case of at most 50 × 50 numbers counts as hung."""


class RobustnessError(AssertionError):
    """Neither a right result nor a documented error."""


class Hung(BaseException):
    """Not an Exception, so that nothing in between takes it for one of its own."""


def check(entry: str, recipe: Recipe) -> str:
    """Try one entry point: "right" or the name of the documented error, else a RobustnessError."""
    table, rows = wrapped(recipe), plain(recipe)
    before = copied(table)
    random_before = _global_random()
    try:
        with _watched(), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                ENTRY_POINTS[entry](table, rows, recipe)
                answer = "right"
            except CuspError as error:
                answer = type(error).__name__
                _check_message(error)
    except Hung:
        raise RobustnessError(f"{entry} hangs on {recipe}") from None
    except Exception as error:
        where = traceback.format_exc(limit=-4)
        raise RobustnessError(
            f"{entry} on {recipe}: {type(error).__name__}: {error}\n{where}"
        ) from error
    foreign = [str(w.message) + f" ({w.filename}:{w.lineno})" for w in said if not _ours(w)]
    if foreign:
        raise RobustnessError(f"{entry} on {recipe} warns in words not its own: {foreign[:2]}")
    if len(said) > MOST_WARNINGS:
        raise RobustnessError(
            f"{entry} on {recipe}: {len(said)} warnings: {[str(w.message)[:60] for w in said]}"
        )
    if not same(table, before):
        raise RobustnessError(f"{entry} changed its input, {recipe}")
    if _global_random() != random_before:
        raise RobustnessError(f"{entry} touched NumPy's global random numbers, {recipe}")
    too_far_apart = entry == "settings" and recipe.spread > 10
    if (
        answer != "right"
        and entry in TAKES_ANY_GOOD
        and is_good(recipe, rows)
        and not too_far_apart
    ):
        raise RobustnessError(f"{entry} refused good data, {recipe}: {answer}")
    if answer == "right" and entry in TAKES_ANY_GOOD and is_good(recipe, rows) is False:
        raise RobustnessError(f"{entry} took data that cannot be analysed, {recipe}")
    return answer


def _global_random() -> str:
    """The state of NumPy's global generator: its numbers, and which of them is next."""
    state = np.random.get_state(legacy=False)  # noqa: NPY002
    numbers = state["state"].pop("key")
    return repr((numbers.tobytes(), state))


MOST_WARNINGS = 8
"""Of all steps of one entry point: a fit has one, new rows one a method."""


def _ours(warning) -> bool:
    return issubclass(warning.category, CuspWarning)


def _check_message(error: CuspError) -> None:
    text = str(error)
    assert 10 < len(text) < 20_000, f"message of {len(text)} characters"
    assert "Traceback" not in text


@contextlib.contextmanager
def _watched():
    """Ends what hangs; where there are no alarms, hopes for the best."""
    usable = hasattr(signal, "setitimer") and (
        threading.current_thread() is threading.main_thread()
    )
    if not usable:
        yield
        return

    def ring(*_):
        raise Hung

    old = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def _finite(name: str, *values) -> None:
    for value in values:
        assert np.all(np.isfinite(np.asarray(value, dtype=float))), f"{name} is not finite"


def _check_model(model, rows: np.ndarray) -> None:
    """Finite, consistent, and of the data's own size."""
    p, k = rows.shape[1], model.n_factors_
    assert model.components_.shape == (k, p)
    _finite("a result", model.components_, model.loadings_, model.mean_, model.noise_variance_)
    assert np.all(model.noise_variance_ > 0), "a noise variance is not positive"
    covariance = model.get_covariance()
    _finite("the covariance", covariance)
    sd = np.sqrt(np.diag(covariance))
    correlation = covariance / sd / sd[:, None]
    assert np.all(np.abs(correlation) <= 1 + 1e-9), "a correlation above one"
    assert np.linalg.eigvalsh(correlation)[0] > -1e-9, "the covariance is indefinite"
    _finite("the precision", model.get_precision())
    assert np.all(np.abs(model.loadings_) <= 1 + 1e-9), "a loading above one"
    with np.errstate(all="ignore"):
        low, high = np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
        wide = (high - low) * 1e-9
    assert np.all(
        (model.mean_ >= low - wide) & (model.mean_ <= high + wide) | np.isnan(rows).any(axis=0)
    ), "a mean outside of the data"
    # A column's standard deviation is at most half its range times √(n/(n-1)), its prior aside.
    if rows.shape[0] >= 10:
        assert np.all(sd <= 3 * (high - low)), "a variance beyond the data's range"


def _fit(table, rows, recipe, **settings):
    model = CuspFactorAnalysis(random_state=1, **settings).fit(table)
    _check_model(model, rows)
    return model


def entry_estimator(table, rows, recipe):
    """Fit, and the same answer as for the plain array of the same numbers."""
    model = _fit(table, rows, recipe)
    if recipe.wrapping != "array" or recipe.dtype != "float64":
        with warnings.catch_warnings(action="ignore", category=CuspWarning):
            other = CuspFactorAnalysis(random_state=1).fit(rows)
        if other.n_factors_ == model.n_factors_:
            one, two = model.get_covariance(), other.get_covariance()
            sd = np.sqrt(np.diag(two))
            gap = np.abs(one / sd / sd[:, None] - two / sd / sd[:, None]).max()
            assert gap < 1e-3, f"another answer than for a plain array: {gap:.3g}"


def entry_settings(table, rows, recipe):
    """Settings other than the defaults."""
    rng = np.random.default_rng(recipe.seed)
    settings = {
        "n_factors": rng.choice(["auto", 0, 1, 2]),
        "standardize": bool(rng.random() < 0.5),
        "rotation": rng.choice([None, "varimax", "oblimin", "promax", "geomin"]),
        "method": Variational(
            criterion=str(rng.choice(["evidence", "collapsed", "bound"])),
            init=str(rng.choice(["spectral", "random"])),
            n_init=2,
        ),
    }
    if settings["n_factors"] != "auto":
        settings["n_factors"] = min(int(settings["n_factors"]), recipe.p)
    else:
        settings["n_factors"] = "auto"
    CuspFactorAnalysis(random_state=1, **settings).fit(table)


def entry_results(table, rows, recipe):
    """Everything that can be asked of a fit."""
    model = _fit(table, rows, recipe, n_factors=min(2, recipe.p))
    scores = model.transform(table)
    _finite("scores", scores)
    assert scores.shape == (recipe.n, model.n_factors_)
    _finite("score", model.score(table))
    _finite("samples", model.sample(3, random_state=0))
    _finite("scores with covariance", *model.factor_scores(table))
    _finite("rows from scores", model.inverse_transform(scores))
    if recipe.wrapping not in ("csr", "csc", "coo", "unsorted csr", "pandas sparse"):
        filled, sd = model.impute(table, return_std=True)
        _finite("filled values", filled, sd)
        there = ~np.isnan(rows)
        assert np.array_equal(np.asarray(filled, float)[there], rows[there]), "a value changed"
        _finite("draws of missing values", model.impute(table, n_draws=2, random_state=0))
    posterior = model.posterior_
    for quantity in ("covariance", "correlation", "communality", "noise_variance", "mean"):
        low, high = posterior.interval(quantity, n_draws=30)
        _finite(quantity, low, high)
        assert np.all(low <= high)
    assert len(str(posterior.summary(n_draws=30))) > 50
    _check_json(posterior.to_dict(n_draws=30))
    aligned = posterior.align(n_draws=30)
    aligned.table()
    aligned.top_items()


def _check_json(value) -> None:
    import json

    json.dumps(value, allow_nan=False)


def entry_gibbs(table, rows, recipe):
    """A short run of the sampler."""
    method = Gibbs(n_draws=6, n_chains=2, burn_in=6, thin=1, start_adapt=3)
    model = CuspFactorAnalysis(method=method, random_state=1).fit(table)
    _finite("a result", model.components_, model.mean_, model.noise_variance_)
    _finite("covariance", model.get_covariance())


def entry_files(table, rows, recipe):
    """What is loaded is what was saved."""
    model = CuspFactorAnalysis(n_factors=min(1, recipe.p), random_state=1).fit(table)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.cuspfa"
        model.posterior_.save(path, statistics=bool(recipe.seed % 2))
        again = load(path)
        assert os.listdir(folder) == ["fit.cuspfa"]
    assert np.array_equal(again.covariance, model.posterior_.covariance)
    assert again.names == model.posterior_.names
    loaded = CuspFactorAnalysis.from_posterior(again)
    assert np.array_equal(loaded.transform(table), model.transform(table))
    assert np.array_equal(loaded.score_samples(table), model.score_samples(table))


def entry_new_rows(table, rows, recipe):
    """New rows for a model of ordinary data."""
    model = _ordinary(recipe.p)
    for answer in (model.transform(table), model.factor_scores(table).mean):
        assert answer.shape[0] == recipe.n
        # numbers that cannot be squared may be infinite as scores of a linear map
        assert not np.isnan(np.asarray(answer, float)).any(), "scores are NaN"
    density = model.score_samples(table)
    assert not np.isnan(density).any(), "a density is NaN"


_MODELS: dict[int, CuspFactorAnalysis] = {}


def _ordinary(p: int) -> CuspFactorAnalysis:
    p = max(p, 2)
    if p not in _MODELS:
        with warnings.catch_warnings(action="ignore", category=CuspWarning):
            rows = datasets.simulate(60, p, min(2, p - 1), random_state=0).X
            _MODELS[p] = CuspFactorAnalysis(n_factors=min(2, p - 1)).fit(rows)
    return _MODELS[p]


def entry_moments(table, rows, recipe):
    """Sufficient statistics, and a fit to them."""
    moments = Moments.from_rows(table)
    both = sum([moments, moments])
    assert both.n == 2 * moments.n
    _finite("moments", both.mean, both.cross_products)
    model = CuspFactorAnalysis().fit_moments(moments)
    _finite("covariance", model.get_covariance())
    Moments.from_covariance(moments.covariance, max(recipe.n, 2))
    # Of so few rows there are warnings.
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(action="ignore", category=CuspWarning),
    ):
        both.save(Path(folder) / "moments")
        assert np.array_equal(
            Moments.load(Path(folder) / "moments").cross_products, both.cross_products
        )


def entry_published(table, rows, recipe):
    """The paper's prior on the data's own scale."""
    model = CuspFactorAnalysis.as_published(search=True, random_state=0).fit(table)
    _finite("covariance", model.get_covariance())


def entry_select_n_factors(table, rows, recipe):
    select_n_factors(CuspFactorAnalysis(), table, random_state=0)


def entry_check_assumptions(table, rows, recipe):
    model = CuspFactorAnalysis(n_factors=min(1, recipe.p)).fit(table)
    check_assumptions(model, table)


def entry_prior_sensitivity(table, rows, recipe):
    prior_sensitivity(CuspFactorAnalysis(n_factors=min(1, recipe.p)), table, alpha=[2.0, 5.0])


def entry_factor_congruence(table, rows, recipe):
    model = CuspFactorAnalysis(n_factors=min(2, recipe.p)).fit(table)
    factor_congruence(model.posterior_, model.posterior_, n_draws=20)


def entry_matrices(table, rows, recipe):
    """Functions of a correlation matrix or loadings, given the table for one."""
    answers = 0
    for function in (
        lambda: fit_indices.kmo(table),
        lambda: fit_indices.bartlett(table, 50),
        lambda: fit_indices.cronbach_alpha(table),
        # Dozens of factors take seconds to rotate, which is right but not needed here.
        lambda: recipe.p > 6 or rotate(table, "varimax"),
        lambda: recipe.p > 6 or rotate(table, "oblimin"),
        lambda: fit_indices.determinacy(table, np.ones(max(recipe.p, 1))),
        lambda: retention.minimum_average_partial(table),
        lambda: Moments.from_correlation(table, 30),
    ):
        with contextlib.suppress(CuspError):
            function()
            answers += 1
    with np.errstate(all="ignore"):
        own = pd.DataFrame(rows).corr().to_numpy()
    for function in (
        lambda: fit_indices.kmo(own),
        lambda: fit_indices.bartlett(own, 50),
        lambda: fit_indices.cronbach_alpha(own),
        lambda: Moments.from_correlation(own, 30),
        lambda: retention.minimum_average_partial(own),
    ):
        with contextlib.suppress(CuspError):
            function()
            answers += 1


def entry_program(table, rows, recipe):
    """`cuspfa fit` on the table as text: exit code 0, or 2 with one message and no traceback."""
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / "table.csv", Path(folder) / "answer.json"
        if isinstance(table, pd.DataFrame):
            table.to_csv(path, index=False)
        else:
            pd.DataFrame(rows, columns=[f"c{j}" for j in range(rows.shape[1])]).to_csv(
                path, index=False
            )
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_program(["fit", str(path), "--json", str(target)])
        assert code in (0, 2), f"exit code {code}: {err.getvalue()[-1500:]}"
        assert "Traceback" not in err.getvalue() + out.getvalue(), err.getvalue()[-1500:]
        if code == 0:
            assert target.exists()
        else:
            assert err.getvalue().strip(), f"exit code {code} without a word"
            assert not target.exists()


def entry_program_rows(table, rows, recipe):
    """`cuspfa scores` and `impute` of the table as a file or a folder: all of it or nothing."""
    model = _ordinary(recipe.p)
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(rows)
    frame = frame.set_axis([f"c{j}" for j in range(frame.shape[1])], axis=1)
    names = [f"c{j}" for j in range(model.n_features_in_)]
    rng = np.random.default_rng(recipe.seed)
    with tempfile.TemporaryDirectory() as place:
        fit, data, target = (Path(place) / name for name in ("fit", "data", "target"))
        dataclasses.replace(model.posterior_, names=names).save(fit)
        for folder in (data, target):
            folder.mkdir()
        frame.to_csv(data / "a.csv", index=False)
        output = target / f"out.{rng.choice(['csv', 'tsv', 'parquet'])}"
        given = data if rng.random() < 0.5 else data / "a.csv"
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_program(
                [str(rng.choice(["scores", "impute"])), str(fit), str(given), "-o", str(output)]
            )
        assert code in (0, 2), f"exit code {code}: {err.getvalue()[-1500:]}"
        assert "Traceback" not in err.getvalue() + out.getvalue(), err.getvalue()[-1500:]
        assert err.getvalue().strip(), f"exit code {code} without a word"
        assert os.listdir(target) == ([output.name] if code == 0 else [])
        if code:
            return
        read = {".csv": pd.read_csv, ".parquet": pd.read_parquet}.get(output.suffix)
        found = read(output) if read else pd.read_csv(output, sep="\t")
        assert len(found) == recipe.n
        _finite("what was written", found)


def entry_stream(table, rows, recipe):
    """The same numbers in blocks: a file, batches, a program that reads a folder."""
    blocks = [np.array(rows[i : i + 7]) for i in range(0, max(len(rows), 1), 7)]
    model = CuspFactorAnalysis(random_state=1).fit(RowStream(iter(blocks)))
    _finite("covariance", model.get_covariance())
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(action="ignore", category=CuspWarning),
    ):
        np.save(Path(folder) / "rows.npy", rows)
        other = CuspFactorAnalysis(random_state=1).fit(Path(folder) / "rows.npy")
        plainly = CuspFactorAnalysis(random_state=1).fit(np.array(rows))
    sd = np.sqrt(np.diag(plainly.get_covariance()))
    for one in (model, other):
        if one.n_factors_ == plainly.n_factors_:
            gap = np.abs((one.get_covariance() - plainly.get_covariance()) / sd / sd[:, None])
            assert gap.max() < 1e-3, f"another answer than in memory: {gap.max():.3g}"


def entry_written(table, rows, recipe):
    """Scores of new rows into a file, whole or not at all."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rows.npy", Path(folder) / "scores.csv"
        np.save(source, rows)
        what = ("transform", "score_samples", "impute")[recipe.seed % 3]
        try:
            number = predict_to_file(_ordinary(recipe.p), what, source, target)
            assert number == recipe.n
            assert len(target.read_text().splitlines()) == number + 1
        except CuspError:
            assert sorted(os.listdir(folder)) == ["rows.npy"], os.listdir(folder)
            raise
        assert sorted(os.listdir(folder)) == ["rows.npy", "scores.csv"], os.listdir(folder)


def entry_report(table, rows, recipe):
    """A page, and nothing in it that a browser would fetch or run."""
    model = CuspFactorAnalysis(n_factors=min(2, recipe.p), random_state=1).fit(table)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        model.posterior_.report(page)
        text = page.read_text(encoding="utf-8")
        assert os.listdir(folder) == ["page.html"]
    assert "</html>" in text
    assert "nan" not in set(re.findall(r">\s*([\w.+-]+)\s*<", text)), "NaN on the page"
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=[\"']?(?:https?:)?//", text)


def entry_plots(table, rows, recipe):
    """Every figure, drawn."""
    posterior = CuspFactorAnalysis(n_factors=min(2, recipe.p), random_state=1).fit(table).posterior_
    for name in (one for one in plots.__all__ if one.startswith("plot_")):
        axes = np.ravel(getattr(plots, name)(posterior))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # of letters that the font lacks
            axes[0].figure.savefig(io.BytesIO(), format="svg")


ENTRY_POINTS = {
    name.removeprefix("entry_"): function
    for name, function in list(globals().items())
    if name.startswith("entry_") and callable(function)
}
TAKES_ANY_GOOD = ("estimator", "settings", "results", "files")
SHARES = {
    **dict.fromkeys(ENTRY_POINTS, 1),
    **dict.fromkeys(
        ("gibbs", "files", "moments", "matrices", "stream", "written", "program_rows"), 2
    ),
    **dict.fromkeys(("settings", "results", "new_rows", "program"), 4),
    "estimator": 8,
}
"""How often each entry point is tried."""
