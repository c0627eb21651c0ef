"""The sampler over single cells: the joint distribution with labels, and what it shares with Gibbs.

Draws from the joint distribution are written from the model alone. Many chains, each with data of
its own, are moved by a few sweeps; no feature may change in the mean.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, CuspPrior, GaussianSlab, Gibbs, InverseGammaSlab
from cuspfa.data.cells import CellTable
from cuspfa.errors import CuspWarning
from cuspfa.inference.cellwise import kernels, sampler
from cuspfa.inference.cellwise.sampler import CellKernel, sample_cells
from cuspfa.inference.gibbs import chain, labels, settings
from cuspfa.inference.gibbs.chain import GibbsState, Kept, Model, sweep
from cuspfa.inference.gibbs.labels import ProcessColumns
from cuspfa.inference.kernels import Chains, Scales
from cuspfa.model.likelihoods.kinds import ColumnLikelihood, LikelihoodTable
from cuspfa.model.likelihoods.mixed import MixedLikelihood, Part
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from joint_draws import largest_change

LEVELS = ((0, 1, 2), (0, 1), (0, 1, 2), (0, 1))
CUT_SD, N, H, CHAINS, SPIKE, ALPHA = 1.2, 6, 3, 4000, 0.05, 2.0
SLABS = {"fixed": GaussianSlab(0.7), "inverse gamma": InverseGammaSlab(3.0, 1.5)}


def draw_joint(slab: Any, link: str, rng: np.random.Generator) -> tuple[GibbsState, CellKernel]:
    """All unknowns from the prior, and answers given them, for each chain its own."""
    p = len(LEVELS)
    v = np.concatenate([rng.beta(1.0, ALPHA, (CHAINS, H - 1)), np.ones((CHAINS, 1))], axis=1)
    rest = np.cumprod(1.0 - v, axis=1)
    weights = v * np.concatenate([np.ones((CHAINS, 1)), rest[:, :-1]], axis=1)
    label = np.sum(rng.random((CHAINS, H, 1)) > np.cumsum(weights, axis=1)[:, None], axis=2)
    active = label > np.arange(H)
    theta = np.full((CHAINS, H), SPIKE)
    if isinstance(slab, GaussianSlab):
        theta[active], hyper = slab.variance, None
    else:
        theta[active] = slab.rate / rng.gamma(slab.shape, size=int(active.sum()))
        hyper = slab.start_hyperparameters(CHAINS)
    loadings = np.sqrt(theta) * rng.standard_normal((p, CHAINS, H))
    linear = np.einsum("bnh,pbh->bnp", rng.standard_normal((CHAINS, N, H)), loadings)
    cuts, values = np.full((CHAINS, p, 2), np.inf), np.empty((CHAINS, N, p))
    precision = np.ones((CHAINS, p))
    noise = rng.standard_normal(linear.shape)
    if link == "logit":  # logistic numbers are a mixture of normal ones
        precision = _logistic_precision(rng, linear.shape)
        noise = noise / np.sqrt(precision)
    z = linear + noise
    for j, own in enumerate(LEVELS):
        count = len(own) - 1
        cuts[:, j, :count] = np.sort(CUT_SD * rng.standard_normal((CHAINS, count)), axis=1)
        values[:, :, j] = np.sum(z[:, :, j, None] > cuts[:, j, None, :], axis=2)
    values[:, 0, 0] = np.nan  # whatever it is, a sweep does not know it
    one = OrdinalLikelihood(LEVELS, tuple("abcd"), link, CUT_SD, gap_shape=1.0)
    likelihood = MixedLikelihood((Part(one, np.arange(p)),))
    packed = likelihood.pack((cuts,))
    with np.errstate(divide="ignore"):
        log_s = np.log(rest)
    columns = ProcessColumns(active, log_s, np.full(CHAINS, H))
    variance = np.full((p, CHAINS), 1.0 if link == "probit" else np.pi**2 / 3)
    chains = Chains(loadings, variance, Scales(theta, hyper, active))
    kernel = CellKernel(values, likelihood, packed[0], linear[0])
    return GibbsState(chains, columns, (z, precision, packed, linear)), kernel


def _logistic_precision(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Of a logistic number: 1/(4K²), K² the sum of exponentials E_k/(2k²) (Andrews & Mallows)."""
    k = np.arange(1, 60)
    total = np.zeros(shape)
    for one in k:
        total += rng.standard_exponential(shape) / (2.0 * one**2)
    return 1.0 / (4.0 * total)


def features(state: GibbsState, values: Any) -> Any:
    chains, columns, (_, _, packed, linear) = state
    omega = np.einsum("pbh,qbh->bpq", chains.loadings, chains.loadings)
    assert columns is not None
    active, log_s = columns.active, columns.log_survivors
    answers, squares = values[:, :, 1].mean(axis=1), np.sum(chains.loadings**2, axis=0)
    return np.array(
        [
            np.log(np.trace(omega, axis1=1, axis2=2)),
            omega[:, 0, 1] / np.sqrt(omega[:, 0, 0] * omega[:, 1, 1]),
            packed[:, 0],
            packed[:, 1],
            packed[:, 2] * (answers - 0.5),
            np.tanh(linear[:, 1, 1]) * (values[:, 1, 1] - 0.5),
            np.log(np.sum(linear**2, axis=(1, 2))),
            active.sum(axis=1),
            active[:, 1] * np.log(squares[:, 1]),
            log_s[:, 0],
            log_s[:, 1] + 0.3 * active[:, 0],
            np.log(chains.scales.variances[:, 0]),
            active[:, 2] * (values[:, 1:, 2] == values[:, 1:, 0]).mean(axis=1),
        ]
    ).T


def largest_z(slab: Any, link: str = "probit", sweeps: int = 6) -> float:
    """Of the changes of the features of each chain and of their squares, over all chains."""
    rng = np.random.default_rng(0)
    state, kernel = draw_joint(slab, link, rng)
    prior = CuspPrior(alpha=ALPHA, slab=slab)
    model = Model(kernel, prior, SPIKE, H, None, (-1.0, -5e-4), 2)
    before = features(state, kernel.values)
    for at in range(1, sweeps + 1):
        state = sweep(state, at, model, rng)
    found: float = largest_change(before, features(state, kernel.values))
    return found


@pytest.mark.parametrize(
    ("slab", "link"),
    [("fixed", "probit"), ("inverse gamma", "probit"), ("inverse gamma", "logit")],
)
def test_sweeps_leave_the_joint_distribution_unchanged(slab: str, link: str) -> None:
    assert largest_z(SLABS[slab], link) < 4.0


@pytest.mark.parametrize("name", ["labels", "pseudo-data", "precision"])
def test_a_broken_step_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    link = "probit"
    if name == "labels":  # counted to the slab with the column itself

        def one_off(odds: Any, columns: Any, rng: Any) -> Any:
            before = np.zeros((len(columns.active), 1))
            shifted = np.concatenate([before, columns.log_survivors[:, :-1]], axis=1)
            return labels.draw_labels(odds, columns._replace(log_survivors=shifted), rng)

        monkeypatch.setattr(chain, "draw_labels", one_off)
    else:  # pseudo-data too far from the center, or taken for more precise than they are
        link = "probit" if name == "pseudo-data" else "logit"
        right = kernels.draw_scores_and_loadings

        def wrong(chains: Any, known: Any, pseudo: Any, *others: Any) -> Any:
            if name == "pseudo-data":
                pseudo = pseudo._replace(values=1.15 * pseudo.values)
            else:
                pseudo = pseudo._replace(precision=2.0 * pseudo.precision)
            return right(chains, known, pseudo, *others)

        monkeypatch.setattr(sampler, "draw_scores_and_loadings", wrong)
    assert largest_z(SLABS["inverse gamma"], link) > 7.0


# --- runs ---


def table_of(n: int = 150, seed: int = 1) -> CellTable:
    """Three-point items of two factors."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((6, 2))
    loadings[:3, 0] = loadings[3:, 1] = 1.3
    z = rng.normal(size=(n, 2)) @ loadings.T + rng.normal(size=(n, 6))
    rows = np.searchsorted([-0.7, 0.6], z.ravel()).reshape(z.shape).astype(float)
    rows[0, 0] = np.nan
    columns = [ColumnLikelihood(f"x{j}", "ordinal", "probit", (0, 1, 2), "given") for j in range(6)]
    return CellTable.of(rows, LikelihoodTable(columns))


PRIOR = Gibbs.default_prior()
SHORT = {"n_draws": 30, "n_chains": 2, "burn_in": 20, "thin": 2, "start_adapt": 10}


def run(method: Gibbs, seed: int = 0, **given: Any) -> Kept:
    given = {"n_factors": None} | given
    rng = np.random.default_rng(seed)
    return sample_cells(table_of(), PRIOR, method, rng=rng, **given).drawn.kept


def same(one: Kept, other: Kept) -> bool:
    pairs = zip(one, other, strict=True)
    return all(np.array_equal(a, b) for a, b in pairs if a is not None and b is not None)


def test_chains_continue_from_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "SWEEPS_PER_CHECKPOINT", 20)
    whole = run(Gibbs(**SHORT, checkpoint_dir=tmp_path / "whole"))
    part = Gibbs(**{**SHORT, "n_draws": 10}, checkpoint_dir=tmp_path / "part")
    assert len(run(part).noise) == 10
    longer = run(Gibbs(**SHORT, checkpoint_dir=tmp_path / "part"))
    assert same(whole, longer)
    assert not same(whole, run(Gibbs(**SHORT), seed=1))


@pytest.mark.long
def test_the_number_of_workers_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "LARGEST_JOINT_DATA", 10)  # each chain by itself
    assert same(run(Gibbs(**SHORT)), run(Gibbs(**SHORT), n_jobs=2))


def test_a_given_number_and_random_starts() -> None:
    given = run(Gibbs(**SHORT), n_factors=2)
    assert given.loadings.shape == (30, 2, 6, 2)
    assert given.active.all()
    assert given.thresholds is not None
    assert np.all(np.diff(given.thresholds.reshape(30, 2, 6, 2), axis=3) > 0)
    random = run(Gibbs(**SHORT, init="random", adaptive=False, max_columns=4))
    assert random.loadings.shape[3] == 4
    assert np.all(np.isfinite(random.log_likelihood))


def test_draws_of_a_posterior_are_chain_after_chain() -> None:
    """The first draws of a chain are the same, however many follow."""
    rows, found = table_of(60).rows, []
    for n_draws in (3, 7):
        method = Gibbs(**{**SHORT, "n_draws": n_draws}, init="random", max_columns=3)
        model = CuspFactorAnalysis(likelihood="ordinal", method=method, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CuspWarning)  # chains as short as these have not met
            posterior: Any = model.fit(rows).posterior_
        found.append(posterior.log_likelihood.reshape(2, n_draws))
    np.testing.assert_array_equal(found[0], found[1][:, :3])
    assert len(np.unique(found[1])) == 14


def test_time_ends_the_chains() -> None:
    method = Gibbs(n_draws=100_000, n_chains=2, max_time=0.5)
    cells = sample_cells(table_of(), PRIOR, method, n_factors=2, rng=np.random.default_rng(0))
    assert cells.drawn.out_of_time
    assert 0 < len(cells.drawn.kept.noise) < 100_000


@pytest.mark.long
def test_adaptive_and_fixed_columns_have_the_same_correlations() -> None:
    """Of the latent responses. How many columns are active depends on how many are held."""
    means = []
    for adaptive in (True, False):
        method = Gibbs(n_draws=1500, n_chains=4, burn_in=800, thin=3, adaptive=adaptive)
        kept = run(method.set_params(start_adapt=200))
        omega = np.einsum("dbph,dbqh->dbpq", kept.loadings, kept.loadings)
        sd = np.sqrt(1.0 + np.einsum("dbpp->dbp", omega))
        correlation = omega / sd[..., :, None] / sd[..., None, :]
        means.append(correlation.mean(axis=(0, 1))[np.triu_indices(6, 1)])
    assert np.max(np.abs(means[0] - means[1])) < 0.02
    # The correlations of the codes are another quantity, and told from them.
    codes = np.corrcoef(table_of().rows[1:].T)[np.triu_indices(6, 1)]
    assert np.max(np.abs(means[0] - codes)) > 0.05
