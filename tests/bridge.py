"""Between the oracle's states (the paper's letters) and the package's blocks."""

import numpy as np
from scipy.special import entr

from cuspfa.blocks import Loadings, Noise, ScoreMoments
from cuspfa.data.arrays import complete_matrix
from cuspfa.data.source import CompleteSource
from cuspfa.prior import CuspPrior, GaussianSlab
from cuspfa.process import Labels, Sticks
from cuspfa.variational.cycle import State
from oracles import algorithm1 as oracle


def prior_of(hyper):
    return CuspPrior(
        alpha=hyper.alpha,
        slab=GaussianSlab(hyper.theta_0),
        spike=hyper.theta_inf,
        noise_shape=hyper.a_sigma,
        noise_rate=hyper.b_sigma,
    )


def source_of(y):
    return CompleteSource(complete_matrix(y, float(len(y))))


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
    return Loadings(mu, u, np.tile(d, (p, 1)), p * float(np.sum(np.log(d))))


def row_covariances(loadings):
    return np.einsum("ak,jk,bk->jab", loadings.basis, loadings.spread, loadings.basis)


def package_state(y, s, shared_covariance=None):
    """The package's state for an oracle state (V_lambda replaced by one common covariance)."""
    v = s.V_lambda[0] if shared_covariance is None else shared_covariance
    p = y.shape[1]
    return State(
        loadings_of(s.mu_lambda, v),
        Noise(np.full(p, float(s.A_sigma)), s.B_sigma),
        scores_of(y, s.mu_eta, s.V_eta),
        labels_of(s.kappa),
        Sticks(s.A_v, s.B_v),
    )


def share_covariance(s):
    """The oracle state whose rows all have the first row's covariance."""
    return oracle.replace(s, V_lambda=np.broadcast_to(s.V_lambda[0], s.V_lambda.shape).copy())
