"""Figures: what they show is what the posterior holds, and it can be read."""

import dataclasses
import subprocess
import sys
from itertools import pairwise

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import orthogonal_procrustes

from cuspfa import CuspFactorAnalysis, datasets, plots, retention
from cuspfa.errors import InputError
from cuspfa.reporting.figures.canvas import DIVERGING, colours, shown_names
from cuspfa.reporting.figures.values import grouped_order
from cuspfa.reporting.labels import shortened
from cuspfa.reporting.plots._numbers import check_factors, make_draws
from cuspfa.rotation.axes import principal_axes
from support import complete_rows, posterior_of

X = datasets.simulate(200, 10, 2, random_state=1).X
LONG = "an item with a very long wording, of which only the end is its own, number "
DRAWN = ("search", "forest", "communality")
"""Figures with intervals, for which draws are made."""


@pytest.fixture(scope="module")
def posteriors():
    items = datasets.load_bfi(subset="items")
    complete = complete_rows(items.data)[:600]
    wide = datasets.simulate(50, 1000, 3, design="sparse", random_state=0).X
    return {
        "10": posterior_of(X),
        "named": posterior_of(X, [f"{LONG}{j}" for j in range(9)] + ["100 % größer, in $ und $"]),
        "25": posterior_of(complete, items.feature_names),
        "1000": posterior_of(wide, [f"gene_{j}" for j in range(1000)]),
        "none": posterior_of(np.random.default_rng(1).normal(size=(300, 6))),
        "one": posterior_of(X, n_factors=1),
    }


@pytest.fixture(scope="module")
def draws(posteriors):
    return {key: one.draw(60, random_state=0, sweeps=1) for key, one in posteriors.items()}


@pytest.fixture
def small(posteriors):
    return posteriors["10"]


def draw(posteriors, draws, kind, key, **settings):
    if kind in DRAWN:
        settings["draws"] = draws[key]
    return plots.PLOTS[kind](posteriors[key], **settings)


def render(axes):
    figure = np.ravel(axes)[0].figure
    figure.set_dpi(60)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return figure, canvas.get_renderer()


def words(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def segments(ax):
    """Ends of the intervals, from above or from the left."""
    (lines,) = (one for one in ax.collections if hasattr(one, "get_segments"))
    return np.array(lines.get_segments())


def dots(ax):
    (points,) = (one for one in ax.collections if not hasattr(one, "get_segments"))
    return np.asarray(points.get_offsets())


# --- all figures ---


@pytest.mark.parametrize(
    ("kind", "key"),
    [(kind, key) for kind in plots.PLOTS for key in ("10", "25", "1000", "none")]
    + [(kind, "named") for kind in ("loadings", "forest", "correlation", "communality")]
    + [(kind, "one") for kind in ("search", "loadings", "forest")],
)
def test_every_figure_can_be_read(posteriors, draws, kind, key):
    figure, renderer = render(draw(posteriors, draws, kind, key))
    # Nothing is cut off at the edge of the figure ...
    box = figure.get_tightbbox(renderer)
    width, height = figure.get_size_inches()
    assert min(box.x0, box.y0) > -0.02
    assert box.x1 < width + 0.02
    assert box.y1 < height + 0.02
    for ax in figure.axes:
        assert ax.get_title() or ax.get_label() == "<colorbar>"
        for axis, side in ((ax.xaxis, "x"), (ax.yaxis, "y")):
            labels = [one for one in axis.get_ticklabels() if one.get_text()]
            spans = [one.get_window_extent(renderer) for one in labels]
            spans = sorted((getattr(one, f"{side}0"), getattr(one, f"{side}1")) for one in spans)
            # ... labels do not run into each other, and are not tiny.
            assert all(a[1] <= b[0] + 0.5 for a, b in pairwise(spans))
            assert all(one.get_fontsize() >= 6 for one in labels)


@pytest.mark.parametrize("kind", plots.PLOTS)
def test_nothing_global_is_touched(posteriors, draws, kind):
    before = dict(matplotlib.rcParams)
    render(draw(posteriors, draws, kind, "10"))
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == []


@pytest.mark.parametrize("kind", plots.PLOTS)
def test_draws_on_axes_that_are_given(posteriors, draws, kind):
    figure = Figure(figsize=(15, 5), layout="constrained")
    number = {"search": 2, "correlation": 3}.get(kind, 1)
    given = figure.subplots(1, number)
    found = draw(posteriors, draws, kind, "10", ax=given)
    assert_array_equal(np.ravel(found), np.ravel(given))
    render(found)
    with pytest.raises(InputError, match="ax must be None or"):
        draw(posteriors, draws, kind, "10", ax=list(np.ravel(given)) * 2)
    with pytest.raises(InputError, match="ax must be None or"):
        draw(posteriors, draws, kind, "10", ax="here")


@pytest.mark.parametrize("kind", plots.PLOTS)
def test_takes_a_posterior_and_says_so(kind):
    with pytest.raises(InputError, match="posterior must be a posterior such as model.posterior_"):
        plots.PLOTS[kind](CuspFactorAnalysis())


@pytest.mark.parametrize("kind", plots.PLOTS)
def test_without_matplotlib_it_says_what_to_install(small, monkeypatch, kind):
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    with pytest.raises(ImportError, match=r"pip install 'cuspfa\[cli\]'"):
        plots.PLOTS[kind](small)


def test_import_needs_no_matplotlib():
    code = "import sys, cuspfa.reporting.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", ["loadings", "forest", "communality", "search"])
def test_no_factors_is_said(posteriors, kind):
    ax = np.ravel(plots.PLOTS[kind](posteriors["none"]))[-1]
    assert [text.get_text() for text in ax.texts] == ["no factors"]


@pytest.mark.parametrize("kind", ["search", "trace"])
def test_a_posterior_without_record_is_refused(small, kind):
    with pytest.raises(InputError, match="posterior must have a record of its fit"):
        plots.PLOTS[kind](dataclasses.replace(small, fit_info=None))


# --- search ---


def test_search_shows_the_record(posteriors, draws):
    posterior = posteriors["25"]
    left, right = draw(posteriors, draws, "search", "25")
    entries = posterior.fit_info.search
    best = max(one.lower_bound for one in entries)
    bound = np.asarray(left.collections[0].get_offsets())
    assert_array_equal(bound[:, 0], [one.n_factors for one in entries])
    assert_allclose(bound[:, 1], [one.lower_bound - best for one in entries])
    hollow = [tuple(face[:3]) == (1, 1, 1) for face in left.collections[0].get_facecolors()]
    assert hollow == [not one.status.startswith("converged") for one in entries]
    scored = [one for one in entries if not np.isnan(one.evidence)]
    assert len(scored) > 1  # else this case is not in the test
    evidence = np.asarray(left.collections[1].get_offsets())
    top = max(one.evidence for one in scored)
    assert_allclose(evidence, [[one.n_factors, one.evidence - top] for one in scored])
    legend = [text.get_text() for text in left.get_legend().get_texts()]
    assert f"chosen: {posterior.n_active}" in legend

    lower, upper = posterior.interval("explained_variance_ratio", draws=draws["25"])
    assert_allclose(segments(right)[:, :, 1], 100 * np.stack([lower, upper], axis=1))
    assert_allclose(
        dots(right)[:, 1], 100 * np.median(draws["25"].explained_variance_ratio, axis=0)
    )


def test_steps_of_the_curve(posteriors):
    posterior = posteriors["25"]
    curve = posterior.model_error_curve
    axes = plots.plot_model_error(posterior)
    steps = axes.lines[0]
    assert steps.get_drawstyle() == "steps-post"
    numbers = [[one.model_error, one.n_factors] for one in curve.points]
    assert_allclose(np.transpose(steps.get_data()), numbers)
    ties = [[one.model_error, k] for one in curve.points for k in one.tied]
    assert ties  # else this case is not in the test
    assert_allclose(axes.collections[0].get_offsets(), ties)
    assert_allclose(axes.collections[1].get_offsets(), numbers)
    assert axes.get_ylim()[0] == 0
    noise = np.random.default_rng(0).standard_normal((60, 6))
    empty = plots.plot_model_error(CuspFactorAnalysis().fit(noise).posterior_)
    assert not np.any(empty.lines[0].get_ydata())
    assert empty.get_ylim()[0] < 0 < empty.get_ylim()[1]  # no point is cut
    none = plots.plot_model_error(posteriors["1000"])
    assert "not available" in none.get_title()
    assert not none.lines


def test_shares_are_those_of_the_summary(small):
    summary = small.summary()
    _, right = plots.plot_search(small)
    ends = [[100 * line.lower, 100 * line.upper] for line in summary.factors]
    assert_allclose(segments(right)[:, :, 1], ends)


def test_shares_are_on_the_axes_of_the_posterior(small):
    turned = posterior_of(X, n_factors=2, rotation="varimax")
    shares = [100 * line.share for line in turned.summary().factors]
    _, right = plots.plot_search(turned)
    assert_allclose(dots(right)[:, 1], shares)
    plain = [100 * line.share for line in small.summary().factors]
    assert np.abs(np.subtract(shares, plain)).max() > 0.5  # the negative control


def test_search_without_weighing_has_one_curve(posteriors, draws):
    left, _ = draw(posteriors, draws, "search", "one")
    assert len(left.collections) == 1
    assert "1" in words(left.xaxis)


# --- loadings ---


@pytest.mark.parametrize("key", ["10", "25", "1000", "one"])
def test_loadings_are_the_posteriors_in_groups(posteriors, key):
    posterior = posteriors[key]
    ax = plots.plot_loadings(posterior)
    shown = np.asarray(ax.images[0].get_array())
    expected = principal_axes(posterior.standardized_loadings)
    names = posterior.names or [f"x{j}" for j in range(len(expected))]
    order, _ = grouped_order(expected)
    assert_allclose(shown, expected[order])
    assert sorted(order) == list(range(len(expected)))
    at = ax.get_yticks().astype(int)
    assert words(ax.yaxis) == [names[order[j]] for j in at]
    assert words(ax.xaxis) == [str(h + 1) for h in range(expected.shape[1])]
    # Groups by the factor of the largest loading, in each from the largest down.
    group = np.argmax(np.abs(shown), axis=1)
    assert np.all(np.diff(group) >= 0)
    for h in np.unique(group):
        assert np.all(np.diff(shown[group == h, h]) <= 0)
    assert len(ax.lines) == len(np.unique(group)) - 1  # and a line between two of them


def test_values_are_written_only_where_there_is_room(posteriors):
    ax = plots.plot_loadings(posteriors["10"])
    shown = np.asarray(ax.images[0].get_array())
    written = [float(text.get_text().replace("−", "-")) for text in ax.texts]
    assert_allclose(written, shown.ravel(), atol=0.005001)
    assert len(plots.plot_loadings(posteriors["1000"]).texts) == 0
    ax = Figure(figsize=(2, 2)).subplots()
    assert len(plots.plot_loadings(posteriors["25"], ax).texts) == 0


def test_names_are_thinned_out_and_it_is_said(posteriors):
    ax = plots.plot_loadings(posteriors["1000"])
    step = int(np.unique(np.diff(ax.get_yticks()))[0])
    assert 20 <= len(ax.get_yticks()) <= 100
    assert ax.get_ylabel() == f"1000 variables, every {step}th is named"
    assert plots.plot_loadings(posteriors["25"]).get_ylabel() == ""


# --- forest ---


def brute_force(draws, target, prob=0.95):
    """Draw by draw with SciPy's Procrustes, every variable."""
    turned = []
    for loadings, noise in zip(draws.loadings, draws.noise_variance, strict=True):
        sd = np.sqrt(np.diag(loadings @ loadings.T) + noise)
        standard = loadings / sd[:, None]
        turned.append(standard @ orthogonal_procrustes(standard, target)[0])
    return np.quantile(turned, [(1 - prob) / 2, (1 + prob) / 2], axis=0)


@pytest.mark.parametrize("key", ["10", "25", "one"])
def test_forest_intervals_are_of_aligned_draws(posteriors, draws, key):
    target = principal_axes(posteriors[key].standardized_loadings)
    ends = brute_force(draws[key], target)
    for factor in range(1, target.shape[1] + 1):
        ax = plots.plot_forest(posteriors[key], factor, draws=draws[key])
        order = np.argsort(-target[:, factor - 1])
        assert_allclose(segments(ax)[:, :, 0], ends[:, order, factor - 1].T, atol=1e-6)
        assert_allclose(dots(ax)[:, 0], target[order, factor - 1])
        names = posteriors[key].names or [f"x{j}" for j in range(len(target))]
        assert words(ax.yaxis) == [names[j] for j in order]
        assert ax.get_title().startswith(f"Factor {factor}, ")


def test_alignment_is_the_nearest_of_all_turns_and_flips(small, draws):
    target = principal_axes(small.standardized_loadings)
    found = small.align(draws=draws["10"]).loadings
    correlation = draws["10"].correlation
    off = ~np.eye(10, dtype=bool)
    assert_allclose((found @ found.transpose(0, 2, 1))[:, off], correlation[:, off])  # only turned
    angle = np.linspace(0, 2 * np.pi, 721)
    cos, sin = np.cos(angle), np.sin(angle)
    turns = np.moveaxis(np.array([[cos, -sin], [sin, cos]]), 2, 0)
    turns = np.concatenate([turns, turns * [1, -1]])
    for one in found[:10]:
        distance = np.sum((one @ turns - target) ** 2, axis=(1, 2))
        assert np.sum((one - target) ** 2) <= distance.min() + 1e-9


def test_alignment_does_not_depend_on_how_draws_were_turned(small, draws):
    rng = np.random.default_rng(0)
    spun = np.linalg.qr(rng.normal(size=(60, 2, 2)))[0]
    turned = dataclasses.replace(draws["10"], loadings=draws["10"].loadings @ spun)
    found, usual = (small.align(draws=one).loadings for one in (turned, draws["10"]))
    assert_allclose(found, usual, atol=1e-9)


def test_without_alignment_every_interval_holds_zero(small):
    # The negative control: signs of the draws are random, so plain quantiles say nothing.
    drawn = small.draw(200, random_state=0)
    sd = np.sqrt(np.sum(drawn.loadings**2, axis=2) + drawn.noise_variance)
    lower, upper = np.quantile(drawn.loadings / sd[:, :, None], [0.025, 0.975], axis=0)
    assert np.all((lower < 0) & (upper > 0))
    ends = segments(plots.plot_forest(small, 1, draws=drawn))[:, :, 0]
    assert np.sum((ends[:, 0] > 0) | (ends[:, 1] < 0)) >= 8


def test_hollow_points_are_those_whose_interval_holds_zero(posteriors, draws):
    kinds = set()
    for factor in (1, 2, 3):
        ax = plots.plot_forest(posteriors["25"], factor, draws=draws["25"])
        ends = segments(ax)[:, :, 0]
        (points,) = (one for one in ax.collections if not hasattr(one, "get_segments"))
        hollow = [tuple(face[:3]) == (1, 1, 1) for face in points.get_facecolors()]
        assert hollow == list((ends[:, 0] <= 0) & (ends[:, 1] >= 0))
        kinds |= {"above"} if np.any(ends[:, 0] > 0) else set()
        kinds |= {"below"} if np.any(ends[:, 1] < 0) else set()
        kinds |= {"hollow"} if any(hollow) else set()
    assert kinds == {"above", "below", "hollow"}  # else a case is not in the test


def test_points_have_the_colours_of_their_signs(posteriors, draws):
    """As in the heat map and in the report: blue is positive, orange negative."""
    ax = plots.plot_forest(posteriors["25"], 2, draws=draws["25"])
    ends = segments(ax)[:, :, 0]
    (points,) = (one for one in ax.collections if not hasattr(one, "get_segments"))
    edges = [to_hex(colour) for colour in points.get_edgecolors()]
    expected = np.where(ends[:, 0] > 0, "#0072b2", np.where(ends[:, 1] < 0, "#d55e00", "#7a7a7a"))
    assert edges == expected.tolist()
    assert set(edges) == {"#0072b2", "#d55e00", "#7a7a7a"}
    map_of_signs = colours()
    assert np.argmax(map_of_signs(1.0)[:3]) == 2
    assert np.argmax(map_of_signs(0.0)[:3]) == 0


def test_scree_is_the_parallel_analysis_of_the_summary(posteriors):
    posterior = posteriors["25"]
    ax = plots.plot_scree(posterior)
    found = retention.parallel_analysis(posterior.sample_correlation, posterior.n_rows, n_draws=40)
    (points,) = (one for one in ax.collections if not hasattr(one, "get_segments"))
    assert_allclose(points.get_offsets()[:, 1], found.observed)
    filled = [to_hex(face) == "#0072b2" for face in points.get_facecolor()]
    number = posterior.summary().parallel
    assert filled == [True] * number + [False] * (25 - number)
    assert ax.get_title() == f"Parallel analysis: {number} factors"
    reference = next(line for line in ax.lines if "uncorrelated" in str(line.get_label()))
    assert_allclose(reference.get_ydata(), found.reference)
    assert np.all(found.observed[:number] > found.reference[:number])
    assert found.observed[number] <= found.reference[number]
    assert f"this model: {posterior.n_active}" in ax.get_legend_handles_labels()[1]


def test_scree_without_correlations_or_enough_rows(posteriors):
    small = posteriors["10"]
    ax = plots.plot_scree(dataclasses.replace(small, statistics=None))
    assert [text.get_text() for text in ax.texts] == ["the sample correlations are not kept"]
    rows = datasets.simulate(60, 80, 2, random_state=0).X
    ax = plots.plot_scree(posterior_of(rows, n_factors=2))
    assert "without parallel analysis" in ax.get_title()
    assert ax.get_xlabel() == "number (the first 40 of 80)"
    (points,) = (one for one in ax.collections if not hasattr(one, "get_segments"))
    values = np.linalg.eigvalsh(np.corrcoef(rows, rowvar=False))[::-1]
    assert_allclose(points.get_offsets()[:, 1], values[:40])


def test_forest_has_the_shares_of_the_summary(posteriors):
    posterior = posteriors["25"]
    shares = [f"{100 * line.share:.1f} %" for line in posterior.summary().factors]
    axes = plots.plot_forest(posterior, "all")
    assert [ax.get_title().split("\n")[1] for ax in axes] == shares
    alone = plots.plot_forest(posterior, 2)
    assert alone.get_title() == f"Factor 2, {shares[1]} of the variance"
    by_means = [f"{100 * share:.1f} %" for share in posterior.explained_variance_ratio]
    assert by_means != shares  # the negative control


def test_aligned_intervals_cover_the_truth():
    covered = []
    for seed in range(6):
        sim = datasets.simulate(200, 10, 2, random_state=seed)
        posterior = posterior_of(sim.X, n_factors=2)
        target = principal_axes(posterior.standardized_loadings)
        true = sim.loadings / np.sqrt(np.diag(sim.covariance))[:, None]
        true = true @ orthogonal_procrustes(true, target)[0]
        drawn = posterior.align(n_draws=400).loadings
        lower, upper = np.quantile(drawn, [0.025, 0.975], axis=0)
        covered.append((lower <= true) & (true <= upper))
    assert 0.9 <= np.mean(covered) <= 0.995  # of 120 entries


def test_forest_of_several_factors_shares_one_order(posteriors, draws):
    posterior, k = posteriors["25"], posteriors["25"].n_active
    target = principal_axes(posterior.standardized_loadings)
    axes = plots.plot_forest(posterior, "all", draws=draws["25"])
    assert len(axes) == k
    order, _ = grouped_order(target)
    for h, ax in enumerate(axes):
        assert_allclose(dots(ax)[:, 0], target[order, h])
        assert ax.get_title().startswith(f"Factor {h + 1}\n")
    assert words(axes[0].yaxis) == [posterior.names[j] for j in order]
    render(axes)
    some = plots.plot_forest(posterior, [3, 1], draws=draws["25"])
    assert [ax.get_title().split("\n")[0] for ax in some] == ["Factor 3", "Factor 1"]
    assert len(plots.plot_forest(posterior, [2], draws=draws["25"])) == 1
    given = Figure().subplots(1, 2)
    assert_array_equal(plots.plot_forest(posterior, [1, 2], given, draws=draws["25"]), given)
    assert [ax.get_xlabel() for ax in given] == ["loading", "loading"]


def test_forest_of_many_variables_shows_the_strongest_and_says_so(posteriors, draws):
    posterior = posteriors["1000"]
    target = principal_axes(posterior.standardized_loadings)
    ax = plots.plot_forest(posterior, 2, draws=draws["1000"])
    values = dots(ax)[:, 0]
    assert len(values) == len(segments(ax)) == 40
    assert_allclose(np.sort(np.abs(values)), np.sort(np.abs(target[:, 1]))[-40:])
    assert np.all(np.diff(values) <= 0)
    assert ax.get_ylabel() == "strongest 40 of 1000 variables"
    axes = plots.plot_forest(posterior, "all", draws=draws["1000"], most=12)
    assert axes[0].get_ylabel() == "strongest of each factor: 12 of 1000 variables"
    for h, ax in enumerate(axes):  # four of each
        shown = np.sort(np.abs(dots(ax)[:, 0]))[-4:]
        assert_allclose(shown, np.sort(np.abs(target[:, h]))[-4:])


def test_forest_takes_draws_with_another_number_of_factors(small, draws):
    wider = np.pad(draws["10"].loadings, ((0, 0), (0, 0), (0, 2)))
    padded = dataclasses.replace(draws["10"], loadings=wider)
    found, usual = (small.align(draws=one).loadings for one in (padded, draws["10"]))
    assert_allclose(found, usual, atol=1e-9)
    fewer = dataclasses.replace(draws["10"], loadings=draws["10"].loadings[:, :, :1])
    assert small.align(draws=fewer).loadings.shape == (60, 10, 2)
    assert plots.plot_forest(small, 2, draws=fewer).get_title().startswith("Factor 2, 0.0 %")


def test_probability_makes_intervals_wider(small, draws):
    narrow = segments(plots.plot_forest(small, 1, draws=draws["10"], prob=0.5))[:, :, 0]
    wide = segments(plots.plot_forest(small, 1, draws=draws["10"]))[:, :, 0]
    assert np.all(wide[:, 0] < narrow[:, 0])
    assert np.all(wide[:, 1] > narrow[:, 1])
    ax = plots.plot_communality(small, draws=draws["10"], prob=0.5)
    assert ax.get_xlabel() == "communality, median and 50 % interval"


@pytest.mark.parametrize("factor", [0, 3, True, 1.5, "none", [], [1, 9]])
def test_factors_that_are_not_there(small, factor):
    with pytest.raises(InputError, match="factor must be"):
        plots.plot_forest(small, factor)


def test_without_factors_any_of_them_may_be_asked_for(posteriors):
    assert len(plots.plot_forest(posteriors["none"], "all")) == 1
    assert len(plots.plot_forest(posteriors["none"], [1, 2])) == 2
    assert check_factors(4, 0) == [3]


@pytest.mark.parametrize("kind", ["forest", "communality"])
def test_other_arguments_are_checked(posteriors, draws, kind):
    plot, small = plots.PLOTS[kind], posteriors["10"]
    for prob in (0, 1, 2.0, "much", True):
        with pytest.raises(InputError, match="prob must be"):
            plot(small, draws=draws["10"], prob=prob)
    with pytest.raises(InputError, match="most must be"):
        plot(small, most=0)
    with pytest.raises(InputError, match="n_draws must be"):
        plot(small, n_draws=0)
    with pytest.raises(InputError, match="draws must be None or what posterior.draw returns"):
        plot(small, draws=draws["10"].loadings)
    with pytest.raises(InputError, match="of the posterior's 10 variables. Got draws of 25"):
        plot(small, draws=draws["25"])


def test_the_same_figure_every_time_and_fewer_draws_of_very_many_loadings(small, monkeypatch):
    first, second = (segments(plots.plot_communality(small)) for _ in range(2))
    assert_array_equal(first, second)
    assert len(make_draws(small, None, None, 0)) == 1000
    monkeypatch.setattr("cuspfa.reporting.plots._numbers.MOST_PLOT_LOADINGS", 20 * 300)
    assert len(make_draws(small, None, None, 0)) == 300
    monkeypatch.setattr("cuspfa.reporting.plots._numbers.MOST_PLOT_LOADINGS", 1)
    assert len(make_draws(small, None, None, 0)) == 200
    assert len(make_draws(small, None, 1500, 0)) == 1500


# --- correlation ---


@pytest.mark.parametrize("key", ["10", "25", "none"])
def test_correlations_in_the_order_of_the_loadings(posteriors, key):
    posterior = posteriors[key]
    sample, fitted, residual = plots.plot_correlation(posterior)
    order, _ = grouped_order(principal_axes(posterior.standardized_loadings))
    both = np.ix_(order, order)
    omega = posterior.covariance
    sd = np.sqrt(np.diag(omega))
    model = (omega / np.outer(sd, sd))[both]
    data = posterior.sample_correlation[both]
    assert_allclose(sample.images[0].get_array(), data)
    assert_allclose(fitted.images[0].get_array(), model, atol=1e-12)
    assert_allclose(residual.images[0].get_array(), data - model, atol=1e-12)
    assert sample.images[0].get_clim() == fitted.images[0].get_clim() == (-1, 1)
    assert_allclose(residual.images[0].get_clim()[1], np.abs(data - model).max())
    names = posterior.names or [f"x{j}" for j in range(len(order))]
    assert words(sample.yaxis) == words(residual.xaxis) == [names[j] for j in order]
    off = np.triu_indices(len(order), 1)
    rms = np.sqrt(np.mean((data - model)[off] ** 2))
    label = residual.images[0].colorbar.ax.get_xlabel()
    assert label == f"sample − fitted (root mean square {rms:.3f})"


def test_correlations_that_are_not_kept_are_said_to_be(small):
    posterior = dataclasses.replace(small, statistics=None)
    sample, fitted, residual = plots.plot_correlation(posterior)
    for ax in (sample, residual):
        assert ax.texts[0].get_text().startswith("correlations of the data\nwere not kept")
        assert not ax.images
    assert len(fitted.images) == 1
    assert fitted.yaxis.get_tick_params()["labelleft"]


def test_of_very_many_variables_some_are_drawn(posteriors, monkeypatch):
    monkeypatch.setattr("cuspfa.reporting.plots.maps.LARGEST_DRAWN_MATRIX", 300)
    sample, fitted, _ = plots.plot_correlation(posteriors["1000"])
    assert fitted.images[0].get_array().shape == (250, 250)
    assert fitted.get_title() == "fitted, every 4th of 1000 variables"
    assert "1000 variables, every " in sample.get_xlabel()


def test_a_single_variable():
    posterior = posterior_of(X[:, :1])
    axes = plots.plot_correlation(posterior)
    assert axes[2].images[0].colorbar.ax.get_xlabel() == "sample − fitted"
    render(axes)


# --- communality ---


@pytest.mark.parametrize("key", ["10", "25"])
def test_communalities_are_sorted_medians_with_intervals(posteriors, draws, key):
    ax = draw(posteriors, draws, "communality", key)
    middle = np.median(draws[key].communality, axis=0)
    order = np.argsort(-middle)
    assert_allclose(dots(ax)[:, 0], middle[order])
    interval = posteriors[key].interval("communality", draws=draws[key])
    assert_allclose(segments(ax)[:, :, 0], np.stack(interval, axis=1)[order])
    names = posteriors[key].names or [f"x{j}" for j in range(len(order))]
    assert words(ax.yaxis) == [names[j] for j in order]


def test_of_many_communalities_the_ends_are_shown(posteriors, draws):
    ax = draw(posteriors, draws, "communality", "1000", most=30)
    middle = np.sort(np.median(draws["1000"].communality, axis=0))[::-1]
    assert_allclose(dots(ax)[:, 0], [*middle[:15], *middle[-15:]])
    assert ax.get_ylabel() == "highest 15 and lowest 15 of 1000 variables"


# --- trace ---


def test_trace_is_the_records(posteriors):
    fit_info = posteriors["25"].fit_info
    ax = plots.plot_trace(posteriors["25"])
    (line,) = ax.lines
    assert_array_equal(line.get_xdata(), np.arange(1, fit_info.n_iter))
    assert_allclose(line.get_ydata(), fit_info.trace[-1] - fit_info.trace[:-1])
    assert ax.get_yscale() == "log"
    assert ax.get_title() == f"Bound: {fit_info.n_iter} iterations, converged"
    assert f"{abs(fit_info.lower_bound):,.2f}" in ax.get_ylabel()
    ax = plots.plot_trace(posteriors["25"], log=False)
    assert_allclose(ax.lines[0].get_ydata(), fit_info.trace)
    with pytest.raises(InputError, match="log must be True or False"):
        plots.plot_trace(posteriors["25"], log="yes")


@pytest.mark.parametrize("trace", [[-5.0], [], [-5.0, -5.0, -5.0]])
def test_a_trace_without_a_rise_is_said_in_words(small, trace):
    fit_info = small.fit_info._replace(trace=np.array(trace), n_iter=len(trace), lower_bound=-5.0)
    ax = plots.plot_trace(dataclasses.replace(small, fit_info=fit_info))
    assert ax.texts[0].get_text() == "bound −5.00\nfrom the first iteration on"
    render(ax)


def test_rounding_errors_of_a_trace_are_left_out(small):
    fit_info = small.fit_info._replace(trace=np.array([-9.0, -5.0, -4.999999, -5.0]), n_iter=4)
    (line,) = plots.plot_trace(dataclasses.replace(small, fit_info=fit_info)).lines
    assert_array_equal(line.get_xdata(), [1])
    assert_allclose(line.get_ydata(), [4.0])


# --- names and colours ---


def test_names_are_shortened_in_the_middle():
    assert shortened("short", 24) == "short"
    assert shortened("x" * 24, 24) == "x" * 24
    assert shortened("a" * 20 + "z" * 20, 24) == "a" * 12 + "…" + "z" * 11
    assert shortened("two\nlines\tof it", 24) == "two lines of it"
    assert len(shortened("Größe" * 9, 24)) == 24
    assert shortened("名前" * 5, 9) == "名前…名前"  # letters that are twice as wide


def test_names_that_look_alike_have_numbers(posteriors):
    names = shown_names(posteriors["named"])
    assert names[0] == "an item with…n, number 0"
    assert names[9] == "100 % größer, in $ und $"
    same = [f"{'a' * 30}{j}{'z' * 30}" for j in range(10)]
    names = shown_names(dataclasses.replace(posteriors["10"], names=same))
    assert names[3] == "a" * 10 + "…" + "z" * 10 + " #3"
    assert len(set(names)) == 10


def lightness_and_hue(rgb):
    """CIELAB of sRGB under D65."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
    xyz = linear @ np.transpose(to_xyz) / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.stack(
        [116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1
    )


def test_equal_steps_of_the_colours_look_equal():
    at = np.linspace(0, 1, 17)
    found = colours()(at)
    opacity = found[:, 3:]
    lab = lightness_and_hue(opacity * found[:, :3] + 1 - opacity)  # on white
    steps = np.linalg.norm(np.diff(lab, axis=0), axis=1)
    for side in (steps[:8], steps[8:]):
        assert side.max() < 1.25 * side.min()
    assert_allclose(lab[:, 0], lab[::-1, 0], atol=1)  # both signs as light
    assert np.all(np.diff(lab[:9, 0]) > 5)
    # The control: a popular map of red and blue is not even.
    other = lightness_and_hue(matplotlib.colormaps["bwr"](at)[:, :3])
    steps = np.linalg.norm(np.diff(other, axis=0), axis=1)
    assert steps[:8].max() > 1.5 * steps[:8].min()


def test_both_ends_differ_to_colour_blind_eyes():
    # Machado, Oliveira & Fernandes (2009), full severity, in linear RGB.
    matrices = {
        "protan": [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        "deutan": [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
        "tritan": [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    }

    def seen(pair, matrix):
        rgb = np.array([to_rgb(one) for one in pair])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        linear = np.clip(linear @ np.transpose(matrix), 0, 1)
        back = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
        lab = lightness_and_hue(back)
        return np.linalg.norm(lab[0, 1:] - lab[1, 1:])  # not by lightness

    for matrix in matrices.values():
        assert seen((DIVERGING[0], DIVERGING[-1]), matrix) > 40
    # The control: red and green of the same lightness are lost on most of them.
    assert seen(("#c00000", "#607000"), matrices["deutan"]) < 40


def test_words_of_the_command_line():
    words = ["search", "model_error", "scree"]
    words += ["loadings", "forest", "correlation", "communality", "trace"]
    assert list(plots.PLOTS) == words
    assert all(getattr(plots, f"plot_{word}") is plots.PLOTS[word] for word in words)
