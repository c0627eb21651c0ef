"""Answers do not depend on signs of eigenvectors and singular vectors, which no theory fixes.

A processor with other vector instructions gives others. Here every decomposition of NumPy is
replaced by one that is as right and has other signs; answers must agree up to rounding.
"""

from typing import Any

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, CuspPrior, EmpiricalBayesSlab, GaussianSlab, Gibbs, datasets
from cuspfa._utils.linalg import polar_factor, rotated_rows, symmetric_root
from cuspfa.inference import _kernels
from cuspfa.inference.updates import Loadings
from cuspfa.inference.variational.candidates import Candidates, Point, weights_of_k
from cuspfa.inference.variational.collapsed_bound import Evidence
from cuspfa.inference.variational.run import Status
from cuspfa.inference.variational.search_settings import SearchSettings
from cuspfa.posterior import VariationalPosterior
from support import with_missing

pytestmark = pytest.mark.filterwarnings("ignore::cuspfa.errors.CuspWarning")

TALL = datasets.simulate(80, 9, 3, random_state=4).X
WIDE = datasets.simulate(25, 40, 2, random_state=5).X
SINGULAR = np.column_stack([TALL, TALL[:, 0] - TALL[:, 1]])


SHORT = Gibbs(n_draws=20, n_chains=2, burn_in=20, thin=1)
CASES = {
    "default": (TALL, {}),
    "more columns than rows": (WIDE, {}),
    "columns that depend on each other": (SINGULAR, {"n_factors": 3}),
    "missing values": (with_missing(TALL, 0.1), {"n_factors": 3}),
    "fixed slab": (TALL, {"prior": CuspPrior(slab=GaussianSlab(0.2))}),
    "learned slab": (TALL, {"prior": CuspPrior(slab=EmpiricalBayesSlab())}),
    "finite spike": (TALL, {"prior": CuspPrior.variational_paper()}),
    "rotated": (TALL, {"rotation": "oblimin"}),
    "gibbs": (TALL, {"method": SHORT}),
    "gibbs, wide": (WIDE, {"method": SHORT, "n_factors": 2}),
}


def answers(name):
    rows, settings = CASES[name]
    model = CuspFactorAnalysis(random_state=3, **settings).fit(rows)
    posterior = model.posterior_
    found: dict[str, Any] = {
        "n_factors": model.n_factors_,
        "bound": model.lower_bound_,
        "evidence": [entry.evidence for entry in model.search_],
        "loadings": model.loadings_,
        "covariance": model.get_covariance(),
        "scores": model.transform(rows),
        "interval": np.array(posterior.interval("correlation", random_state=1, n_draws=40)),
        "imputed": model.impute(rows, n_draws=3, random_state=2) if np.isnan(rows).any() else 0.0,
    }
    if posterior.n_active:
        found["aligned"] = posterior.align("varimax", n_draws=40, random_state=1).table().lower
    if isinstance(posterior, VariationalPosterior):
        found["draws"] = posterior.draw(30, random_state=1).loadings
        found["mean field"] = posterior.draw(30, random_state=1, mean_field=True).loadings
        found["no sweeps"] = posterior.draw(30, random_state=1, sweeps=0).loadings
    return found


class OtherSigns:
    """NumPy's decompositions with the signs of vectors changed at random."""

    def __init__(self, monkeypatch):
        self.rng, self.calls = np.random.default_rng(11), 0
        self.eigh, self.svd = np.linalg.eigh, np.linalg.svd
        self.qr: Any = np.linalg.qr
        monkeypatch.setattr(np.linalg, "eigh", self._eigh)
        monkeypatch.setattr(np.linalg, "svd", self._svd)
        monkeypatch.setattr(np.linalg, "qr", self._qr)

    def _signs(self, size):
        self.calls += 1
        return self.rng.choice([-1.0, 1.0], size=size)

    def _eigh(self, a, *rest):
        values, vectors = self.eigh(a, *rest)
        return values, vectors * self._signs((*values.shape[:-1], 1, values.shape[-1]))

    def _svd(self, a, full_matrices=True, **rest):
        if not rest.get("compute_uv", True):
            return self.svd(a, full_matrices, **rest)
        u, s, vt = self.svd(a, full_matrices, **rest)
        sign = self._signs(s.shape)
        u, vt, k = u.copy(), vt.copy(), s.shape[-1]
        u[..., :k] *= sign[..., None, :]
        vt[..., :k, :] *= sign[..., None]
        return u, s, vt

    def _qr(self, a, mode="reduced"):
        if mode == "r":
            r = self.qr(a, mode)
            return r * self._signs(r.shape[-2])[..., None]
        q, r = self.qr(a, mode)
        sign = self._signs((*r.shape[:-2], r.shape[-2]))
        return q * sign[..., None, :], r * sign[..., None]


@pytest.fixture(autouse=True)
def numpy_alone(monkeypatch):
    """The signs of NumPy's functions are changed here, which the compiled core does not call."""
    monkeypatch.setenv(_kernels.SWITCH, "1")
    _kernels.kernel.cache_clear()
    yield
    _kernels.kernel.cache_clear()


def differences(one, other, within=1e-7):
    """Names of what differs by more than rounding errors grow to in a few sweeps."""
    found = []
    for name, value in one.items():
        a, b = np.asarray(value, dtype=float), np.asarray(other[name], dtype=float)
        if a.shape != b.shape or not np.allclose(a, b, rtol=within, atol=within, equal_nan=True):
            found.append(name)
    return found


@pytest.mark.parametrize("name", CASES)
def test_other_signs_same_answers(name, monkeypatch):
    expected = answers(name)
    other = OtherSigns(monkeypatch)
    assert differences(expected, answers(name)) == []
    assert other.calls > 10


def test_the_comparison_sees_draws_that_hang_on_eigenvectors(monkeypatch):
    """Negative control: deviations by the eigenbasis itself, as right in distribution."""

    def along_eigenvectors(self, z):
        return (z * np.sqrt(self.spread)) @ self.basis.T

    monkeypatch.setattr(Loadings, "deviations", along_eigenvectors)
    expected = answers("default")
    OtherSigns(monkeypatch)
    assert differences(expected, answers("default")) != []


# --- the roots ---


def test_roots_are_roots():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((12, 7))
    gram = rows.T @ rows
    root = symmetric_root(gram)
    np.testing.assert_allclose(root @ root, gram, atol=1e-12)
    np.testing.assert_allclose(root, root.T, atol=1e-12)
    assert np.linalg.eigvalsh(root).min() > 0
    turned = rotated_rows(rows[:5], 5)
    np.testing.assert_allclose(turned.T @ turned, rows[:5].T @ rows[:5], atol=1e-12)
    q = polar_factor(rows)
    np.testing.assert_allclose(q.T @ q, np.eye(7), atol=1e-12)
    np.testing.assert_allclose(q @ symmetric_root(gram), rows, atol=1e-12)


def test_rounding_errors_are_no_part_of_a_root():
    """√1e-16 is 1e-8: a root of rounding errors would be anything but rounding errors."""
    rows = np.random.default_rng(1).standard_normal((3, 6))
    root = symmetric_root(rows.T @ rows)
    assert np.sum(np.linalg.eigvalsh(root) > 1e-12) == 3


def test_rotated_rows_do_not_know_which_row_was_which():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((6, 9))
    q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    np.testing.assert_allclose(rotated_rows(q @ rows, 6), rotated_rows(rows, 6), atol=1e-12)
    centred = rows - rows.mean(axis=0)
    small = rotated_rows(centred, 5)
    np.testing.assert_allclose(small.T @ small, centred.T @ centred, atol=1e-12)
    assert np.abs(small).max(axis=1).min() > 0.1


# --- numbers of factors that cannot be told apart ---


def candidates_with(evidences, bounds=None, tol=0.05):
    """Candidates with these evidences, {K: (evidence, error)}."""

    class Here:
        def __init__(self, k):
            self.state = type("State", (), {"n_factors": k})
            self.total = (bounds or {}).get(k, -float(k))

    found: Any = Candidates(tol, 0.0, SearchSettings())
    found.evidence_by_k = {k: Evidence(*one) for k, one in evidences.items()}
    numbers = set(evidences) | set(bounds or {})
    found.best_by_k = {k: Here(k) for k in numbers}
    found.curve = {k: Point(Here(k).total, 1, Status.CONVERGED, 0.0) for k in numbers}
    return found


@pytest.mark.parametrize(
    ("evidences", "chosen", "tied"),
    [
        ({2: (-50, 0.1), 3: (-10, 0.1), 4: (-30, 0.1)}, 3, []),
        ({3: (-11.0, 0.01), 4: (-10.0, 0.01)}, 3, []),  # within two nats, without doubt
        ({3: (-13.0, 0.01), 4: (-10.0, 0.01)}, 4, []),  # not within, without doubt
        ({3: (-12.05, 0.1), 4: (-10.0, 0.1)}, 3, [4]),  # on the edge: either
        ({3: (-12.6, 0.1), 4: (-10.0, 0.1)}, 4, [3]),
        ({6: (-12, 0.4), 7: (-10.5, 0.7), 8: (-10, 0.8), 5: (-15.9, 0.3)}, 6, [5, 7, 8]),
    ],
)
def test_numbers_that_other_draws_might_have_chosen_are_named(evidences, chosen, tied):
    candidates = candidates_with(evidences)
    assert candidates.chosen.state.n_factors == chosen
    assert candidates.tied == tied


def test_choices_under_other_draws_are_among_those_named():
    """Evidences with their errors drawn again: the choice is the chosen one or a tied one."""
    rng = np.random.default_rng(0)
    missed = flips = 0
    for _ in range(400):
        truth = {k: -float(rng.exponential(4.0)) for k in range(2, 6)}
        error = float(rng.uniform(0.1, 1.0))

        def drawn(truth=truth, error=error):
            return candidates_with(
                {k: (v + error * rng.standard_normal(), error) for k, v in truth.items()}
            )

        one, other = drawn(), drawn()
        k = other.chosen.state.n_factors
        flips += k != one.chosen.state.n_factors
        missed += k != one.chosen.state.n_factors and k not in one.tied
    assert flips > 20  # so that there is something to name
    assert missed <= 0.1 * flips


def test_bounds_that_differ_by_less_than_tol_are_tied():
    assert candidates_with({}, {3: -10.0, 4: -10.02, 5: -12.0}).tied == [4]
    assert candidates_with({}, {3: -10.0, 4: -11.0}).tied == []


def test_weights_take_the_error_of_the_evidence_into_account():
    exact = weights_of_k([-10.0, -12.0], [0.0, 0.0], 1000)
    assert exact == pytest.approx([1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))])
    unsure = weights_of_k([-10.0, -12.0], [3.0, 3.0], 1000)
    # By quadrature: the mean of a logistic function of a normal variable of mean 2, sd 3√2.
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    first = weights @ (1 / (1 + np.exp(-2 - 3 * np.sqrt(2) * nodes))) / weights.sum()
    assert unsure == pytest.approx([first, 1 - first], abs=0.03)
    assert unsure[0] < exact[0] - 0.1
