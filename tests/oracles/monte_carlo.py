"""Terms of a bound by Monte Carlo: draws from q, and whether an exact term is their mean."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats


def draw_common(y, mu_eta, V_eta, mu, V, A, B, hyper, draws, rng):
    """Draws of lambda, sigma^2 from q, and of the terms that all settings share."""
    n, p = y.shape
    K = mu.shape[1]
    q_lambda = [stats.multivariate_normal(mu[j], V[j]) for j in range(p)]
    q_eta = [stats.multivariate_normal(mu_eta[i], V_eta) for i in range(n)]
    q_sigma2 = [stats.invgamma(A, scale=B[j]) for j in range(p)]
    lam = np.stack([q.rvs(draws, random_state=rng).reshape(draws, K) for q in q_lambda], axis=1)
    eta = np.stack([q.rvs(draws, random_state=rng).reshape(draws, K) for q in q_eta], axis=1)
    sigma2 = np.stack([q.rvs(draws, random_state=rng) for q in q_sigma2], axis=1)
    mean = np.einsum("sih,sjh->sij", eta, lam)
    prior = stats.invgamma(hyper.a_sigma, scale=hyper.b_sigma)
    terms = {
        "likelihood": stats.norm.logpdf(y, mean, np.sqrt(sigma2)[:, None, :]).sum(axis=(1, 2)),
        "scores_prior": stats.norm.logpdf(eta).sum(axis=(1, 2)),
        "noise_prior": prior.logpdf(sigma2).sum(axis=1),
        "loadings_entropy": -sum(q_lambda[j].logpdf(lam[:, j]) for j in range(p)),
        "scores_entropy": -sum(q_eta[i].logpdf(eta[:, i]) for i in range(n)),
        "noise_entropy": -sum(q_sigma2[j].logpdf(sigma2[:, j]) for j in range(p)),
    }
    return lam, sigma2, terms


def less_variable(state):
    """A state in which no block fits another either, but whose draws vary less."""
    return replace(
        state,
        mu_eta=0.5 * state.mu_eta,
        V_eta=0.2 * state.V_eta,
        mu_lambda=0.5 * state.mu_lambda,
        V_lambda=0.2 * state.V_lambda,
        B_sigma=3.0 * state.B_sigma,
    )


def standard_errors(value, draws):
    return abs(value - draws.mean()) / (draws.std() / np.sqrt(draws.size))


def check_terms(terms, samples):
    """Each term and their sum are means of the draws; wrong by 0.5, they are not."""
    terms, samples = dict(terms), dict(samples)
    assert terms.keys() == samples.keys()
    terms["total"] = sum(terms.values())
    samples["total"] = sum(samples.values())
    for name, draws in samples.items():
        if np.std(draws) < 1e-12:  # a constant
            assert terms[name] == pytest.approx(np.mean(draws), abs=1e-11), name
            continue
        assert standard_errors(terms[name], draws) < 4.5, name
        # The control: a constant wrong by 0.5 is seen, in each term and in their sum.
        assert standard_errors(terms[name] - 0.5, draws) > 9, name
        assert standard_errors(terms[name] + 0.5, draws) > 9, name
