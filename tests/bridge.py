"""Between the oracle's states (the paper's letters) and the package's blocks."""

from dataclasses import replace

import numpy as np
from scipy.special import entr

from cuspfa.data.in_memory import GramMatrix, RowMatrix
from cuspfa.data.protocols import CompleteSource
from cuspfa.inference.updates import Loadings, ScoreMoments
from cuspfa.inference.variational import steps
from cuspfa.inference.variational.steps import Tail, VariationalState
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.model.prior import CuspPrior
from cuspfa.model.process import Labels, Sticks
from cuspfa.model.slabs import GaussianSlab
from oracles import algorithm1 as oracle

STEPS = (
    steps.step_loadings,
    steps.step_noise,
    steps.step_scores,
    steps.step_labels,
    steps.step_sticks,
)
"""Algorithm 1 as published; the package has a faster order."""


def prior_of(hyper):
    return CuspPrior(
        alpha=hyper.alpha,
        slab=GaussianSlab(hyper.theta_0),
        spike=hyper.theta_inf,
        noise_shape=hyper.a_sigma,
        noise_rate=hyper.b_sigma,
    )


def source_of(y):
    n, p = y.shape
    return CompleteSource(GramMatrix(y.T @ y, float(n)) if n >= p else RowMatrix(y, float(n)))


def labels_of(kappa):
    upper = np.triu(kappa, 1).sum(axis=1)
    lower = np.tril(kappa).sum(axis=1)
    return Labels(upper, lower, kappa.sum(axis=0), float(entr(kappa).sum()))


def scores_of(y, mu_eta, v_eta):
    n = len(y)
    log_det = n * np.linalg.slogdet(v_eta)[1]
    return ScoreMoments(y.T @ mu_eta, mu_eta.T @ mu_eta + n * v_eta, log_det, float(n))


def loadings_of(mu, v_shared):
    """Rows with one common covariance, which the shared basis can hold."""
    d, u = np.linalg.eigh(v_shared)
    p = len(mu)
    return Loadings(mu, u, np.ones(p), 1.0 / d - 1.0, p * float(np.sum(np.log(d))))


def row_covariances(loadings):
    return np.einsum("ak,jk,bk->jab", loadings.basis, loadings.spread, loadings.basis)


def package_state(y, s, hyper):
    """The package's state with all H columns explicit (their covariances must be all alike)."""
    p = y.shape[1]
    return VariationalState(
        loadings_of(s.mu_lambda, s.V_lambda[0]),
        Noise(np.full(p, float(s.A_sigma)), s.B_sigma),
        scores_of(y, s.mu_eta, s.V_eta),
        Tail(0, np.zeros(p), 1.0),
        labels_of(s.kappa),
        Sticks(s.A_v, s.B_v),
        GaussianSlab(hyper.theta_0),
    )


def literal_state(y, loadings, inactive_variance, noise, sticks, hyper):
    """The oracle's state of K explicit factors and as many inactive ones as there are sticks left.

    Their loadings have mean zero and the variances `inactive_variance`, one for each variable.
    Factors are labelled with certainty as active or inactive. The scores are updated.
    """
    p, k = loadings.mean.shape
    h = len(sticks.a) + 1
    covariances = np.zeros((p, h, h))
    covariances[:, :k, :k] = row_covariances(loadings)
    inactive = np.arange(k, h)
    covariances[:, inactive, inactive] = inactive_variance[:, None]
    kappa = np.zeros((h, h))
    kappa[np.arange(h), np.where(np.arange(h) < k, h - 1, 0)] = 1.0
    state = oracle.State(
        mu_eta=None,
        V_eta=None,
        mu_lambda=np.pad(loadings.mean, ((0, 0), (0, h - k))),
        V_lambda=covariances,
        A_sigma=noise.shape[0],
        B_sigma=noise.rate,
        kappa=kappa,
        A_v=sticks.a,
        B_v=sticks.b,
    )
    return oracle.step3_scores(y, state, hyper)


def share_covariance(s):
    """The oracle state whose rows all have the first row's covariance."""
    return replace(s, V_lambda=np.broadcast_to(s.V_lambda[0], s.V_lambda.shape).copy())


def pairwise_correlations(rows):
    """Correlations of the rows in which both variables were answered, as psych makes them."""
    p = rows.shape[1]
    r = np.eye(p)
    for i in range(p):
        for j in range(i):
            both = ~np.isnan(rows[:, i]) & ~np.isnan(rows[:, j])
            r[i, j] = r[j, i] = np.corrcoef(rows[both, i], rows[both, j])[0, 1]
    return r
