"""Aligned draws: brute force, invariance, changing numbers of factors, coverage."""

import itertools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import orthogonal_procrustes

from cuspfa import CuspFactorAnalysis, Rotation, datasets, rotate
from cuspfa.errors import DataError, InputError
from cuspfa.posterior.draws import Draws
from cuspfa.rotation.align import align_draws
from cuspfa.rotation.axes import on_axes

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from statsmodels.multivariate.factor_rotation import rotate_factors


def simple_structure(p=12, k=3, seed=0):
    """True loadings, four clear items a factor and small ones besides."""
    rng = np.random.default_rng(seed)
    return np.kron(np.eye(k), np.full((p // k, 1), 0.8)) + 0.1 * rng.normal(size=(p, k))


def sample(loadings, n, seed, correlations=None):
    rng = np.random.default_rng(seed)
    k = loadings.shape[1]
    phi = np.eye(k) if correlations is None else correlations
    scores = rng.multivariate_normal(np.zeros(k), phi, size=n)
    return scores @ loadings.T + 0.7 * rng.normal(size=(n, len(loadings))), scores


@pytest.fixture(scope="module")
def posterior():
    return CuspFactorAnalysis(n_factors=3).fit(sample(simple_structure(), 150, 1)[0]).posterior_


@pytest.fixture(scope="module")
def draws(posterior):
    return posterior.draw(40, random_state=0)


def standardised(draws):
    for loadings, noise in zip(draws.loadings, draws.noise_variance, strict=True):
        yield loadings / np.sqrt(np.diag(loadings @ loadings.T) + noise)[:, None]


def nearest_relabelling(loadings, like):
    """All orders and signs, one by one."""
    k = loadings.shape[1]
    tries = [
        loadings[:, order] * signs
        for order in itertools.permutations(range(k))
        for signs in itertools.product([-1.0, 1.0], repeat=k)
    ]
    return min(tries, key=lambda one: np.sum((one - like) ** 2))


# --- against brute force ---


@pytest.mark.parametrize(
    ("rotation", "theirs"),
    [(Rotation("varimax", normalize=False), "varimax"), (Rotation("oblimin"), "quartimin")],
)
def test_rotation_of_each_draw_by_brute_force(posterior, draws, rotation, theirs):
    aligned = posterior.align(rotation, draws=draws)
    like = on_axes(posterior.standardized_loadings, rotation).loadings
    for number, one in enumerate(itertools.islice(standardised(draws), 12)):
        turned, _ = rotate_factors(one, theirs, tol=1e-6, max_tries=1000)
        assert_allclose(aligned.loadings[number], nearest_relabelling(turned, like), atol=3e-3)
    spread = np.abs(aligned.loadings[0] - aligned.loadings[1]).max()
    assert spread > 0.03  # ten times what the comparison allows


def test_procrustes_by_brute_force(posterior, draws):
    rotation = Rotation("oblimin")
    aligned = posterior.align(rotation, draws=draws, alignment="procrustes")
    found = on_axes(posterior.standardized_loadings, rotation)
    flat = found.loadings @ found.matrix.T
    for number, one in enumerate(itertools.islice(standardised(draws), 12)):
        turned = one @ orthogonal_procrustes(one, flat)[0] @ np.linalg.inv(found.matrix).T
        assert_allclose(aligned.loadings[number], turned, atol=1e-8)


def test_table_is_of_the_aligned_loadings(posterior, draws):
    aligned = posterior.align("varimax", draws=draws)
    table, values = aligned.table(0.8), aligned.loadings
    assert_allclose(table.mean, values.mean(axis=0), atol=1e-6)
    assert_allclose(table.lower, np.quantile(values, 0.1, axis=0), atol=1e-6)
    assert_allclose(table.upper, np.quantile(values, 0.9, axis=0), atol=1e-6)
    rate = np.minimum((values <= 0).mean(axis=0), (values >= 0).mean(axis=0))
    assert_allclose(table.false_sign_rate, rate)
    part = aligned.table(0.8, columns=[3, 1])
    assert_allclose(part.lower, table.lower[[3, 1]])


def test_blocks_do_not_matter(posterior, draws, monkeypatch):
    whole = posterior.align("oblimin", draws=draws)
    rows = np.random.default_rng(0).normal(size=(7, 12))
    expected = whole.table(), whole.scores(rows), whole.explained_variance_ratio
    monkeypatch.setattr("cuspfa.rotation.aligned.ALIGNED_TOGETHER", 200)
    monkeypatch.setattr("cuspfa.rotation.align.ALIGNED_TOGETHER", 200)
    parts = posterior.align("oblimin", draws=draws)
    # Each draw stops by itself, whatever others are turned with it.
    assert_allclose(parts.rotations, whole.rotations, atol=1e-12)
    for name in ("mean", "lower", "upper", "false_sign_rate"):
        assert_allclose(getattr(parts.table(), name), getattr(expected[0], name), atol=1e-6)
    assert_allclose(parts.explained_variance_ratio, expected[2])


# --- what must not matter ---


@pytest.mark.parametrize("rotation", [None, "varimax", "oblimin", "geomin"])
@pytest.mark.parametrize("by", ["rotation", "procrustes"])
def test_axes_of_the_draws_do_not_matter(posterior, draws, rotation, by):
    """Several chains, each with its own axes, order and signs, give the same."""
    rng = np.random.default_rng(0)
    spins = np.linalg.qr(rng.normal(size=(len(draws), 3, 3)))[0]
    padded = np.pad(draws.loadings @ spins, ((0, 0), (0, 0), (0, 2)))[:, :, rng.permutation(5)]
    other = Draws(padded, draws.noise_variance)
    found, again = (posterior.align(rotation, alignment=by, draws=one) for one in (draws, other))
    assert_allclose(again.loadings, found.loadings, atol=1e-5)
    assert_allclose(again.factor_correlations, found.factor_correlations, atol=1e-5)
    assert_allclose(again.reliability, found.reliability, atol=1e-5)
    assert again.present.all()


def test_without_alignment_nothing_is_left_of_a_loading(posterior):
    drawn = posterior.draw(400, random_state=1)
    raw = np.stack(list(standardised(drawn))).mean(axis=0)
    aligned = posterior.align("varimax", draws=drawn)
    table = aligned.table()
    assert np.abs(raw).max() < 0.2
    assert np.abs(table.mean).max() > 0.6
    assert aligned.quality > 0.97


def test_a_draw_keeps_its_covariance(posterior, draws):
    aligned = posterior.align("oblimin", draws=draws)
    pattern, phi = aligned.loadings, aligned.factor_correlations
    common = pattern @ phi @ pattern.transpose(0, 2, 1)
    for found, one in zip(common, standardised(draws), strict=True):
        assert_allclose(found, one @ one.T, atol=1e-9)
    total = aligned.explained_variance_ratio.sum(axis=1)
    assert_allclose(total, [np.mean(np.sum(one**2, axis=1)) for one in standardised(draws)])
    assert_allclose(np.diagonal(phi, axis1=1, axis2=2), 1.0)


# --- other numbers of factors ---


def noisy_draws(true, keep, seed=0):
    """Draws around some columns of true loadings, spun, padded with columns of zeros."""
    rng = np.random.default_rng(seed)
    p, most = len(true), max(len(one) for one in keep)
    loadings = np.zeros((len(keep), p, most + 1))
    for number, columns in enumerate(keep):
        k = len(columns)
        spin = np.linalg.qr(rng.normal(size=(k, k)))[0]
        loadings[number, :, :k] = (true[:, columns] + 0.02 * rng.normal(size=(p, k))) @ spin
        loadings[number] = loadings[number][:, rng.permutation(most + 1)]
    return Draws(loadings, np.full((len(keep), p), 0.4))


@pytest.mark.parametrize("method", ["varimax", "oblimin"])
@pytest.mark.parametrize("way", ["rotation", "procrustes"])
def test_draws_with_fewer_or_more_factors(method, way):
    true = simple_structure(16, 4)
    rotation = Rotation(method)
    mean = true[:, :3] / np.sqrt(np.sum(true[:, :3] ** 2, axis=1) + 0.4)[:, None]
    reference = on_axes(mean, rotation)
    place = [int(np.argmax(np.abs(reference.loadings[4 * h]))) for h in range(3)]
    keep = [[0, 1, 2], [0, 2], [1], [0, 1, 2, 3], [], [2, 1]]
    used = rotation if way == "rotation" else None
    found = align_draws(noisy_draws(true, keep), reference, used, way)
    for number, columns in enumerate(keep):
        here = sorted(place[h] for h in columns if h < 3)
        assert np.flatnonzero(found.present[number]).tolist() == here
        if here:
            assert np.nanmin(found.congruence[number]) > 0.95
        absent = np.setdiff1d(np.arange(3), here)
        assert not found.rotations[number][:, absent].any()
        assert np.isnan(found.factor_correlations[number][absent]).all()


@pytest.mark.parametrize("way", ["rotation", "procrustes"])
def test_columns_of_the_spike_are_no_factors(way):
    """A sampler's draws hold inactive columns with small loadings; `active` says which."""
    true = simple_structure(16, 4)[:, :3]
    rotation = Rotation("oblimin")
    reference = on_axes(true / np.sqrt(np.sum(true**2, axis=1) + 0.4)[:, None], rotation)
    drawn = noisy_draws(true, [[0, 1, 2], [0, 2], [1, 2], [0, 1, 2]])
    active = drawn.factors
    spiky = drawn.loadings + 0.01 * np.random.default_rng(0).normal(size=drawn.loadings.shape)
    spiky = np.where(active[:, None, :], drawn.loadings, spiky)
    used = rotation if way == "rotation" else None
    found = align_draws(Draws(spiky, drawn.noise_variance, active=active), reference, used, way)
    plain = align_draws(drawn, reference, used, way)
    assert np.array_equal(found.present, plain.present)
    assert_allclose(found.rotations, plain.rotations, atol=2e-3)  # sd of variables differ a little
    assert not found.rotations[~active].any()
    careless = align_draws(Draws(spiky, drawn.noise_variance), reference, used, way)
    assert careless.present.all()  # without it the spike would pass for a factor


def test_absent_factors_have_no_sign_and_no_scores():
    true = simple_structure(16, 4)[:, :3]
    X = sample(true, 200, 0)[0]
    posterior = CuspFactorAnalysis(n_factors=3, rotation="varimax").fit(X).posterior_
    drawn = noisy_draws(true, [[0, 1, 2]] * 10 + [[0, 1]] * 10)
    aligned = posterior.align(draws=drawn)
    gone = int(np.flatnonzero(~aligned.present.all(axis=0))[0])
    table = aligned.table()
    largest = np.argmax(np.abs(table.mean[:, gone]))
    assert table.false_sign_rate[largest, gone] == 0.5  # in half of the draws it is zero
    scores = aligned.scores(X[:5])
    assert np.isfinite(scores.mean).all()
    assert np.nanmax(aligned.explained_variance_ratio[10:, gone]) == 0.0
    none = posterior.align(draws=noisy_draws(true, [[0, 1]] * 6))
    assert np.isnan(none.scores(X[:5]).mean[:, gone]).all()


def test_mixed_draws_of_a_search():
    X = datasets.simulate(60, 12, 3, random_state=6).X
    posterior = CuspFactorAnalysis(rotation="varimax").fit(X).posterior_
    drawn = posterior.draw(100, random_state=0, average_over_k=True)
    aligned = posterior.align(draws=drawn)
    assert aligned.table().mean.shape == (12, posterior.n_active)
    assert np.isfinite(aligned.quality)


def test_quality_sees_factors_that_are_not_there(posterior):
    rng = np.random.default_rng(0)
    noise = Draws(rng.normal(size=(30, 12, 3)), np.ones((30, 12)))
    assert posterior.align("varimax", draws=noise).quality < 0.8
    assert posterior.align("varimax", n_draws=30).quality > 0.95


# --- scores and reliability ---


def test_scores_are_those_of_the_law(posterior):
    """With all draws alike the scores have the mean and spread that conditioning gives."""
    one = posterior.draw(1, random_state=0)
    many = Draws(np.repeat(one.loadings, 4000, 0), np.repeat(one.noise_variance, 4000, 0))
    rows = np.random.default_rng(0).normal(size=(3, 12))
    aligned = posterior.align("oblimin", draws=many)
    table = aligned.scores(rows, 0.9)
    sd = np.sqrt(np.sum(one.loadings[0] ** 2, axis=1) + one.noise_variance[0])
    pattern, phi = aligned.loadings[0] * sd[:, None], aligned.factor_correlations[0]
    omega = pattern @ phi @ pattern.T + np.diag(one.noise_variance[0])
    weights = np.linalg.solve(omega, pattern @ phi)
    spread = np.sqrt(np.diag(phi - (pattern @ phi).T @ weights))
    mean = (rows - posterior.center) @ weights
    assert_allclose(table.mean, mean, atol=5 * spread.max() / np.sqrt(4000))
    assert_allclose(table.upper - table.lower, np.tile(2 * 1.645 * spread, (3, 1)), rtol=0.1)
    literal = np.diag((pattern @ phi).T @ weights)
    assert_allclose(aligned.reliability[0], literal, rtol=1e-6)


@pytest.mark.parametrize("method", ["varimax", "oblimin"])
def test_intervals_of_rotated_loadings_and_scores_cover(method):
    """The truth is rotated by the same criterion; the control forgets to rotate the draws."""
    true = simple_structure(12, 3, seed=3)
    phi = np.array([[1.0, 0.3, 0.2], [0.3, 1.0, 0.1], [0.2, 0.1, 1.0]])
    covered, scored, lost = [], [], []
    for seed in range(8):
        X, eta = sample(true, 120, seed, phi)
        posterior = CuspFactorAnalysis(n_factors=3, rotation=method).fit(X).posterior_
        aligned = posterior.align(n_draws=400)
        table, scores = aligned.table(), aligned.scores(X[:20])
        omega = true @ phi @ true.T + 0.49 * np.eye(12)
        sd = np.sqrt(np.diag(omega))
        root = np.linalg.cholesky(phi)  # true @ root has uncorrelated factors
        found = rotate(true @ root / sd[:, None], method)
        like = posterior.rotated_solution.loadings
        order = [int(np.argmax(np.abs(found.loadings.T @ like[:, h]))) for h in range(3)]
        sign = np.sign(np.sum(found.loadings[:, order] * like, axis=0))
        truth = found.loadings[:, order] * sign
        covered.append(np.mean((table.lower <= truth) & (truth <= table.upper)))
        f = (eta @ np.linalg.inv(root).T @ found.matrix)[:20, order] * sign
        scored.append(np.mean((scores.lower <= f) & (f <= scores.upper)))
        raw = np.quantile(list(standardised(aligned.draws)), [0.025, 0.975], axis=0)
        lost.append(np.mean((raw[0] <= truth) & (truth <= raw[1])))
    assert 0.90 <= np.mean(covered) <= 0.985
    assert 0.90 <= np.mean(scored) <= 0.985
    assert not 0.90 <= np.mean(lost) <= 0.985


# --- items, errors ---


def test_top_items_are_the_largest(posterior, draws):
    aligned = posterior.align("varimax", draws=draws)
    table = aligned.table()
    for h, items in enumerate(aligned.top_items(4)):
        assert [item.name for item in items] == [
            f"x{j}" for j in np.argsort(-np.abs(table.mean[:, h]), kind="stable")[:4]
        ]
        for item in items:
            j = int(item.name[1:])
            assert item.loading == table.mean[j, h]
            assert item.lower < item.loading < item.upper
            assert item.false_sign_rate == table.false_sign_rate[j, h]


def test_arguments_are_checked(posterior, draws):
    with pytest.raises(InputError, match="alignment must be one of"):
        posterior.align(alignment="luck")
    with pytest.raises(InputError, match="draws must be of the posterior's 12 variables"):
        posterior.align(draws=draws.only(np.arange(5)))
    with pytest.raises(InputError, match="draws must be None or what"):
        posterior.align(draws=3)
    with pytest.raises(InputError, match="rotation must be one of"):
        posterior.align("infomax")
    aligned = posterior.align("varimax", draws=draws)
    with pytest.raises(InputError, match="prob must be between 0 and 1"):
        aligned.table(1.5)
    with pytest.raises(InputError, match="n_items must be a whole number"):
        aligned.top_items(0)
    with pytest.raises(DataError, match="12 features"):
        aligned.scores(np.zeros((3, 5)))
    assert "40 draws of 3 factors" in repr(aligned)
