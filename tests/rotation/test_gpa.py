"""Rotations: gradients, statsmodels as an oracle, and published values."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuspfa.errors import DataError, InputError
from cuspfa.rotation.criteria import Geomin, Quartic, Target
from cuspfa.rotation.gpa import ROTATION_METHODS, Rotation, rotate, rotate_stack

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what it imports is not ours to judge
    from statsmodels.multivariate.factor_rotation import rotate_factors


def some_loadings(seed=0, p=12, k=3):
    rng = np.random.default_rng(seed)
    simple = np.kron(np.eye(k), np.full((p // k, 1), 0.7)) + 0.15 * rng.normal(size=(p, k))
    return simple @ np.linalg.qr(rng.normal(size=(k, k)))[0]


def nearest(loadings, like):
    """The same columns, in the order and with the signs that come nearest."""
    k = loadings.shape[1]
    tries = [
        loadings[:, order] * np.sign(np.sum(loadings[:, order] * like, axis=0))
        for order in itertools.permutations(range(k))
    ]
    return min(tries, key=lambda one: np.abs(one - like).max())


def settings_of(method, p=12, k=3, **more):
    target = None
    if method == "target":
        target = np.where(np.kron(np.eye(k), np.ones((p // k, 1))) > 0, np.nan, 0.0)
        target[0, 0] = 0.7
    return Rotation(method, target=target, **more)


# --- criteria ---


@pytest.mark.parametrize(
    "criterion",
    [
        Quartic(0.8, 0.2),
        Quartic(1.0, 0.0, gamma=-0.7),
        Geomin(0.01),
        Target(np.full((5, 3), 0.4), np.arange(15).reshape(5, 3) % 4 > 0),
    ],
)
def test_gradients_are_the_derivatives(criterion):
    point = np.random.default_rng(1).normal(size=(1, 5, 3))
    _, gradient = criterion(point)
    for j, h in itertools.product(range(5), range(3)):
        step = np.zeros_like(point)
        step[0, j, h] = 1e-5
        slope = (criterion(point + step)[0] - criterion(point - step)[0]) / 2e-5
        assert slope[0] == pytest.approx(gradient[0, j, h], abs=1e-7)


def test_criteria_are_the_sums_they_are_said_to_be():
    loadings = np.random.default_rng(2).normal(size=(6, 3))
    p, k = loadings.shape
    across = sum(
        loadings[j, a] ** 2 * loadings[j, b] ** 2
        for j in range(p)
        for a in range(k)
        for b in range(k)
        if a != b
    )
    down = sum(
        loadings[i, a] ** 2 * loadings[j, a] ** 2
        for i in range(p)
        for j in range(p)
        for a in range(k)
        if i != j
    )
    sums = sum(
        np.sum(loadings[:, a] ** 2) * np.sum(loadings[:, b] ** 2)
        for a in range(k)
        for b in range(k)
        if a != b
    )
    value = Quartic(0.7, 0.3)(loadings[None])[0][0]
    assert value == pytest.approx((0.7 * across + 0.3 * down) / 4)
    value = Quartic(1.0, 0.0, gamma=-0.5)(loadings[None])[0][0]
    assert value == pytest.approx((across + 0.5 / p * sums) / 4)
    products = [np.prod(row**2 + 0.01) ** (1 / k) for row in loadings]
    assert Geomin(0.01)(loadings[None])[0][0] == pytest.approx(np.sum(products))


# --- statsmodels ---

EQUAMAX = 3 / (2 * 12)
TARGET = np.kron(np.eye(3), np.full((4, 1), 0.5))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Rotation("varimax", normalize=False), ("varimax",)),
        (Rotation("quartimax"), ("quartimax",)),
        (Rotation("equamax"), ("CF", EQUAMAX, "orthogonal")),
        (Rotation("quartimin"), ("quartimin",)),
        (Rotation("oblimin"), ("oblimin", 0.0, "oblique")),
        (Rotation("oblimin", gamma=-1.0), ("oblimin", -1.0, "oblique")),
        (Rotation("target", target=TARGET, oblique=False), ("target", TARGET, "orthogonal")),
        (Rotation("target", target=TARGET), ("target", TARGET, "oblique")),
    ],
)
def test_rotations_are_those_of_statsmodels(ours, theirs):
    loadings = some_loadings()
    theirs_loadings, matrix = rotate_factors(loadings, *theirs, tol=1e-6, max_tries=1000)
    found = rotate(loadings, ours)
    assert found.converged
    same = nearest(theirs_loadings, found.loadings)
    np.testing.assert_allclose(found.loadings, same, atol=2e-6)
    # Their T maps pattern to unrotated loadings as ours does, up to the same order and signs.
    np.testing.assert_allclose(
        np.sort(np.abs(np.triu(found.correlations, 1)).ravel()),
        np.sort(np.abs(np.triu(matrix.T @ matrix, 1)).ravel()),
        atol=1e-6,
    )
    other = rotate(some_loadings(1), ours).loadings
    assert np.abs(nearest(theirs_loadings, other) - other).max() > 0.05


def test_promax_is_least_squares_to_powers_of_varimax():
    loadings = some_loadings(3)
    upright = rotate(loadings, Rotation("varimax", normalize=False)).loadings
    wanted = np.sign(upright) * np.abs(upright) ** 4
    weights = np.linalg.lstsq(upright, wanted, rcond=None)[0]
    weights = weights @ np.diag(np.sqrt(np.diag(np.linalg.inv(weights.T @ weights))))
    found = rotate(loadings, Rotation("promax", normalize=False))
    np.testing.assert_allclose(
        found.loadings, nearest(upright @ weights, found.loadings), atol=1e-6
    )
    steeper = rotate(loadings, Rotation("promax", normalize=False, power=2))
    assert np.abs(steeper.loadings - found.loadings).max() > 0.01


# --- published values ---
# From the tests of the R package GPArotation (Bernaards & Jennrich 2005), file tests/rotations.R:
# two factors of R's ability.cov by each criterion. Its varimax is what the others start from here.

ABILITY = {
    "varimax": [
        (0.515866523962843160, 0.527879475961036904),
        (0.175054634278874244, 0.616460231981747930),
        (0.232057748479543163, 0.853211588623112749),
        (0.122822468397975171, 0.464213243286899446),
        (0.961376376417989453, 0.152689863976982837),
        (0.791292800869773050, 0.200653429940987366),
    ],
    "quartimax": [  # its cfT with κ = 0, run to a hundredth of the tolerance of its quartimax
        (0.534721263659975854, 0.508771247100584523),
        (0.197355957387199576, 0.609686779159006154),
        (0.262930651479430233, 0.844208674501022327),
        (0.139621992686633722, 0.459439868910532512),
        (0.966292974385164483, 0.117629160286744874),
        (0.798066049992627313, 0.171745962120156664),
    ],
    "oblimin": [
        (0.3863615904740822504, 0.4745127741495974161),
        (-0.0110059418769087539, 0.6458720769633764514),
        (-0.0262926272350604423, 0.8961141105684561348),
        (-0.0180200526810754824, 0.4882928281695405048),
        (0.9900944939102318543, -0.0370718282544326011),
        (0.7905657274265397438, 0.0526109550054999417),
    ],
    "geominT": [
        (0.572197044101002361, 0.4662247895688098054),
        (0.243573415560656120, 0.5927388411683653935),
        (0.326956608263186954, 0.8215352639437966120),
        (0.174476792179181994, 0.4473668997335142894),
        (0.972471249855535680, 0.0431091626026945812),
        (0.808894688433769660, 0.1099794466209375043),
    ],
    "geominQ": [
        (0.39672053553904490508, 0.4713295988080449250),
        (0.00424452688463150020, 0.6389466007374070555),
        (-0.00510976786312981532, 0.8864521406378518265),
        (-0.00646959173137159373, 0.4830101828530461994),
        (0.98709860078485589518, -0.0318959930081098297),
        (0.79011178369962709045, 0.0558689642678330683),
    ],
    "targetT": [
        (0.551529228817982942, 0.4905002767031292898),
        (0.217748645523411000, 0.6027046291262584399),
        (0.291173432863349457, 0.8348885228488550636),
        (0.154994397662456290, 0.4544843569140373241),
        (0.969702339393929247, 0.0850652965070581996),
        (0.803390575440818822, 0.1448091121037717866),
    ],
    "targetQ": [
        (0.735795682866631218, 0.565351705145453853),
        (0.433590223819374398, 0.664644550038417159),
        (0.589924557708411568, 0.920006940799857786),
        (0.317543426981046928, 0.500590650032113116),
        (1.021758247914384077, 0.155121528590726393),
        (0.872521244896209747, 0.208735706420634437),
    ],
}
ABILITY_TARGET = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3)


@pytest.mark.parametrize(
    ("name", "rotation", "digits"),
    [
        ("varimax", Rotation("varimax", normalize=False), 1e-6),
        ("quartimax", Rotation("quartimax"), 1e-6),
        ("oblimin", Rotation("oblimin"), 1e-6),
        ("geominT", Rotation("geomin", oblique=False), 1e-4),  # run to 1e-5 there
        ("geominQ", Rotation("geomin"), 1e-4),
        ("targetT", Rotation("target", False, target=ABILITY_TARGET, n_starts=1), 1e-4),
        ("targetQ", Rotation("target", target=ABILITY_TARGET, n_starts=1), 1e-4),
    ],
)
def test_values_of_gparotation(name, rotation, digits):
    start = np.array(ABILITY["varimax"])
    found, published = rotate(start, rotation), np.array(ABILITY[name])
    difference = np.abs(found.loadings - nearest(published, found.loadings)).max()
    assert difference < digits
    others = [rotate(start, other).loadings for other in ("equamax", "promax")]
    for other in others:  # the table tells criteria apart, except equamax, which is varimax at K=2
        if not (name == "varimax" and np.allclose(other, found.loadings, atol=1e-5)):
            assert np.abs(other - nearest(published, other)).max() > 10 * digits


# The same file: Thurstone's 26 boxes by parsimax and by equamax; the one is turned to the other.
PARSIMAX = """
0.7201835790622810318 -0.2820790149262949464  0.6137467244615277817
-0.0679423851913938670  0.6010788795762025405  0.7590243822315081434
0.6707172136894012926  0.7174085874409354968 -0.0277909684381195121
0.3564975652920873705  0.2169149780725644350  0.8964682806594965747
0.8905375652375422391  0.2961288407436278303  0.3269136806262873951
0.3419238671745732927  0.8395902605853544642  0.4072361273101923196
0.5551801796495600128  0.0181442676741417341  0.8193941381745735164
0.1791815177720131602  0.4232257028261393605  0.8651329309165379788
0.8735154515073240145  0.0707778916688399651  0.4481498031114935499
0.9254209439635597834  0.5018907196720771013  0.2347334274887991901
0.1871266535649374341  0.7975561080494565358  0.5434380093797205324
0.4642991413806251688  0.8329607560592182658  0.2619421428072832847
0.6793187635833454197 -0.7070938474525871875 -0.1694942722875707464
-0.6793187635833454197  0.7070938474525871875  0.1694942722875707464
0.0126413340577520572 -0.7959999181796318934  0.5816488003350992475
-0.0126413340577520572  0.7959999181796318934 -0.5816488003350992475
-0.7005089039174136056 -0.0349340740508546910  0.7091733821870598309
0.7005089039174136056  0.0349340740508546910 -0.7091733821870598309
0.2764675266718980007  0.2782887989292237019  0.8933946782281918519
0.8957285854821546156  0.3212930506383097073  0.2790825626255922787
0.3455615085575033385  0.8287155760723180498  0.4236528505493507568
0.2788032457489866833  0.2837361452757249936  0.8779069142135194070
0.8654448252950356357  0.3331277242202841382  0.2706070467039994321
0.3390107603224090660  0.7999236919074760310  0.4396564471388281214
0.5855440811683275681  0.5029973433114328651  0.6171108503586539840
0.5106729412991620753  0.5782224406112924653  0.5832066153589001711
"""
EQUAMAX_FIRST_ROWS = np.array(
    [
        (0.511813618717971597, 0.1252460667724786814, 0.835031881099661200),
        (0.211275278125612587, 0.9469860693462274215, 0.024701038786419674),
        (0.923671387190205140, 0.1861505968810791833, -0.278366886980007111),
        (0.414270797796799317, 0.7243752493532077397, 0.530526346393166759),
    ]
)


def test_equamax_of_the_boxes_is_a_minimum_that_gparotation_found():
    boxes = np.array(PARSIMAX.split(), dtype=float).reshape(26, 3)
    turn = np.linalg.lstsq(boxes[:4], EQUAMAX_FIRST_ROWS, rcond=None)[0]
    np.testing.assert_allclose(turn.T @ turn, np.eye(3), atol=1e-12)  # the same boxes
    (there,) = rotate_stack(boxes[None], Rotation("equamax"), turn[None]).matrices
    np.testing.assert_allclose(boxes[:4] @ there, EQUAMAX_FIRST_ROWS, atol=3e-4)
    (other,) = rotate_stack(boxes[None], Rotation("quartimax"), turn[None]).matrices
    assert np.abs(boxes[:4] @ other - EQUAMAX_FIRST_ROWS).max() > 0.01
    # It is one of two; random starts find both, and the other one is lower.
    best = rotate(boxes, "equamax")
    value = Quartic(1 - 3 / 52, 3 / 52)((boxes @ turn)[None])[0][0]
    assert np.any(np.abs(best.values - value) < 1e-5)
    assert best.value < value - 0.005


# SPSS with Kaiser's normalisation: psych.unl.edu/psycrs/statpage/pc_rot.pdf, as quoted in
# tests/KaiserNormalization.R of GPArotation.
SPSS = np.array(
    [
        (0.758, 0.413, 1.164e-03),
        (0.693, 0.489, -0.199),
        (0.362, 0.656, -0.204),
        (0.826, 6.589e-02, 0.235),
        (0.540, -0.510, 0.441),
        (0.654, -0.335, 0.507),
        (-0.349, 0.539, 0.669),
        (-0.580, 0.450, 0.551),
    ]
)
SPSS_QUARTIMAX = np.array(
    [
        (0.814, 0.285, -4.99e-02),
        (0.856, 8.321e-02, -0.135),
        (0.746, -0.203, 7.244e-02),
        (0.576, 0.634, -8.73e-02),
        (-6.10e-02, 0.850, -0.142),
        (0.129, 0.882, -3.86e-02),
        (2.063e-02, -4.15e-02, 0.927),
        (-0.181, -0.220, 0.873),
    ]
)
SPSS_PATTERN = np.array(
    [
        (0.241, 0.787, -1.36e-02),
        (1.783e-02, 0.848, -0.119),
        (-0.240, 0.779, 6.824e-02),
        (0.608, 0.507, -2.52e-02),
        (0.858, -0.163, -7.26e-02),
        (0.896, 3.050e-02, 3.954e-02),
        (9.405e-02, 7.397e-02, 0.949),
        (-8.61e-02, -0.113, 0.875),
    ]
)
SPSS_STRUCTURE = np.array(
    [
        (0.379, 0.829, -0.146),
        (0.191, 0.862, -0.203),
        (-0.123, 0.731, 0.051),
        (0.701, 0.613, -0.218),
        (0.847, -0.010, -0.261),
        (0.891, 0.180, -0.176),
        (-0.118, 0.000, 0.919),
        (-0.313, -0.211, 0.906),
    ]
)


def test_values_of_spss_with_kaiser_normalisation():
    upright = rotate(SPSS, Rotation("quartimax", normalize=True)).loadings
    np.testing.assert_allclose(nearest(upright, SPSS_QUARTIMAX), SPSS_QUARTIMAX, atol=1e-3)
    plain = rotate(SPSS, "quartimax").loadings
    assert np.abs(nearest(plain, SPSS_QUARTIMAX) - SPSS_QUARTIMAX).max() > 2e-3
    found = rotate(SPSS, Rotation("oblimin", normalize=True))
    # GPArotation allows 0.003 and 0.004: SPSS stops early.
    np.testing.assert_allclose(nearest(found.loadings, SPSS_PATTERN), SPSS_PATTERN, atol=3e-3)
    np.testing.assert_allclose(nearest(found.structure, SPSS_STRUCTURE), SPSS_STRUCTURE, atol=4e-3)


# --- varimax by brute force ---


def upright(loadings):
    return rotate(loadings, "varimax").loadings


def kaiser(loadings):
    """Kaiser's: the variance of squared loadings, rows of unit length, over all factors."""
    squares = loadings**2 / np.sum(loadings**2, axis=1, keepdims=True)
    return np.sum(np.var(squares, axis=0))


def test_varimax_of_two_factors_is_the_best_angle():
    for seed in range(20):
        loadings = np.random.default_rng(seed).normal(size=(7, 2))
        angles = np.linspace(0, np.pi / 2, 20_001)
        turned = [
            loadings @ [[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in angles[::20]
        ]
        best = max(map(kaiser, turned))
        found = upright(loadings)
        assert kaiser(found) >= best - 1e-9
        assert kaiser(found) == pytest.approx(best, rel=1e-4)
        np.testing.assert_allclose(found @ found.T, loadings @ loadings.T, atol=1e-12)
        assert kaiser(loadings) < kaiser(found)


def test_varimax_finds_simple_structure_of_many_factors():
    rng = np.random.default_rng(0)
    loadings = np.kron(np.eye(5), np.ones((4, 1))) * rng.uniform(0.3, 0.9, (20, 1))
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    found = np.abs(upright(loadings @ rotation))
    order = np.argmax(found[::4], axis=1)
    np.testing.assert_allclose(found[:, order], loadings, atol=1e-6)


def test_varimax_of_little():
    assert upright(np.zeros((4, 0))).shape == (4, 0)
    np.testing.assert_allclose(upright(np.array([[0.5], [0.0]])), [[0.5], [0.0]])
    np.testing.assert_allclose(upright(np.zeros((3, 2))), 0)


# --- what holds for all ---


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(ROTATION_METHODS), st.integers(0, 10_000), st.integers(1, 4), st.booleans())
def test_a_rotation_changes_no_model(method, seed, k, normalize):
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(12, k)) * rng.gamma(1.0, size=(12, 1))
    found = rotate(loadings, settings_of(method, 12, k, normalize=normalize, n_starts=2))
    pattern, phi, t = found.loadings, found.correlations, found.matrix
    np.testing.assert_allclose(pattern @ phi @ pattern.T, loadings @ loadings.T, atol=1e-8)
    np.testing.assert_allclose(pattern @ t.T, loadings, atol=1e-8)
    np.testing.assert_array_equal(np.diag(phi), np.ones(k))
    assert np.array_equal(found.structure, pattern @ phi)
    if method in ("varimax", "quartimax", "equamax"):
        np.testing.assert_allclose(t.T @ t, np.eye(k), atol=1e-10)
    if method != "target":
        strength = np.diag(phi @ pattern.T @ pattern)
        assert np.all(np.diff(strength) <= 1e-9)
        assert np.all(pattern.max(axis=0) >= -pattern.min(axis=0) * (1 - 1e-6))


@pytest.mark.parametrize("method", ROTATION_METHODS)
def test_axes_do_not_depend_on_where_they_begin(method):
    loadings = some_loadings(4)
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
    found = rotate(loadings, settings_of(method))
    again = rotate(loadings @ turn, settings_of(method))
    np.testing.assert_allclose(again.loadings, found.loadings, atol=1e-6)
    np.testing.assert_allclose(again.correlations, found.correlations, atol=1e-6)


@pytest.mark.parametrize("oblique", [False, True])
def test_no_rotation_nearby_is_better(oblique):
    loadings, criterion = some_loadings(6), Geomin(0.01)
    found = rotate(loadings, Rotation("geomin", oblique=oblique))
    rng = np.random.default_rng(0)

    def value(matrix):
        return criterion((loadings @ np.linalg.inv(matrix).T)[None])[0][0]

    for size in (1e-3, 1e-1):
        for _ in range(50):
            other = found.matrix + size * rng.normal(size=(3, 3))
            if oblique:
                other /= np.linalg.norm(other, axis=0)
            else:
                u, _, vt = np.linalg.svd(other)
                other = u @ vt
            assert value(other) >= found.value - 1e-10
    assert value(np.eye(3)) > found.value + 0.1  # where it began, there was much to win


def test_random_starts_find_lower_minima():
    rng = np.random.default_rng(3)
    gained = 0
    for _ in range(4):
        loadings = rng.normal(size=(10, 4))
        one = rotate(loadings, Rotation("geomin", oblique=False, n_starts=1))
        many = rotate(loadings, Rotation("geomin", oblique=False, n_starts=8))
        assert many.value <= one.value + 1e-9
        assert many.value == pytest.approx(many.values.min())
        gained += many.value < one.value - 1e-4
    assert gained >= 1


def test_scale_and_size_do_not_matter():
    loadings = some_loadings(7)
    found = rotate(loadings, "oblimin")
    for scale in (1e-6, 1e6):
        other = rotate(scale * loadings, "oblimin")
        assert other.converged
        np.testing.assert_allclose(other.loadings, scale * found.loadings, atol=1e-6 * scale)
    with_zero = np.vstack([loadings, np.zeros((2, 3))])  # variables without any factor
    for method in ("varimax", "oblimin", "promax"):
        rows = rotate(with_zero, Rotation(method, normalize=True)).loadings
        np.testing.assert_array_equal(rows[-2:], 0.0)
        np.testing.assert_allclose(
            rows[:-2], rotate(loadings, Rotation(method, normalize=True)).loadings, atol=0.02
        )


def test_none_one_and_empty():
    assert rotate(np.zeros((5, 0)), "oblimin").loadings.shape == (5, 0)
    one = rotate([[-0.9], [0.2]], "varimax")
    np.testing.assert_array_equal(one.loadings, [[0.9], [-0.2]])
    np.testing.assert_array_equal(one.matrix, [[-1.0]])


# --- errors ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "infomax"}, "rotation must be one of 'varimax'"),
        ({"method": "varimax", "oblique": True}, "oblique must be None for 'varimax'"),
        ({"method": "oblimin", "gamma": 0.5}, "gamma must be 0, or below it"),
        ({"method": "oblimin", "gamma": "x"}, "gamma must be a number"),
        ({"method": "promax", "power": 1}, "power must be above 1"),
        ({"method": "oblimin", "n_starts": 0}, "n_starts must be a whole number"),
        ({"method": "oblimin", "normalize": "yes"}, "normalize must be None, True or False"),
        ({"method": "target"}, "target must be given for rotation 'target'"),
        ({"method": "oblimin", "target": [[1.0]]}, "target must be given for rotation 'target'"),
        ({"method": "target", "target": [["a"]]}, "target must be a matrix of numbers"),
        ({"method": "target", "target": [[np.nan]]}, "target must be a matrix of numbers"),
    ],
)
def test_settings_are_checked(arguments, message):
    with pytest.raises(InputError, match=message):
        Rotation(**arguments)


def test_loadings_are_checked():
    with pytest.raises(DataError, match="loadings must be a finite matrix"):
        rotate([1.0, 2.0], "varimax")
    with pytest.raises(InputError, match="loadings must be a matrix of numbers"):
        rotate([["a"]], "varimax")
    with pytest.raises(InputError, match="target must be of the shape of the loadings"):
        rotate(some_loadings(), Rotation("target", target=np.zeros((2, 2))))
    with pytest.raises(InputError, match="needs its target"):
        rotate(some_loadings(), "target")
    with pytest.raises(InputError, match="rotation must be None, a word"):
        rotate(some_loadings(), 3)


def test_settings_compare_by_value():
    target = [[0.0, np.nan], [np.nan, 0.0]]
    assert Rotation("target", target=target) == Rotation("target", target=np.array(target))
    assert Rotation("target", target=target) != Rotation("target", target=[[0.0, 1.0], [1.0, 0.0]])
