"""What a fit answers, as arrays: `python -m kernels.answers file.npz` writes them."""

import argparse
import os
import sys
import time
import warnings

import numpy as np

from cuspfa import CuspFactorAnalysis, Gibbs
from cuspfa.errors import CuspWarning
from kernels.cases import ALL, FEW, Case, rows
from kernels.settings import assert_in_effect, selected

DRAWS = 200
GIBBS = {"n_draws": 20, "n_chains": 2, "burn_in": 20, "thin": 1}


def fitted(case, X=None):
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        return case.model().fit(rows(case.data) if X is None else X)


def search(model):
    """What the search says: K, how it ended, bound, and the table over K."""
    table = model.search_
    return {
        "K": np.array(model.n_factors_),
        "status": np.array(model.status_),
        "bound": np.array(model.lower_bound_),
        "table K": np.array([one.n_factors for one in table]),
        "table bound": np.array([one.lower_bound for one in table]),
        "table evidence": np.array([one.evidence for one in table]),
        "table error": np.array([getattr(one, "evidence_error", np.nan) for one in table]),
    }


def answers(model, X):
    """All that is compared of a fit, on the scale of standardised columns."""
    found = search(model)
    posterior = model.posterior_
    draws = posterior.draw(DRAWS, random_state=0)
    some = draws.only(slice(8))
    s = np.nanstd(X, axis=0)
    found |= {
        "loadings": model.loadings_,
        "noise": model.noise_variance_ / s**2,
        "covariance": model.get_covariance() / np.outer(s, s),
        "draws of loadings": draws.loadings / s[:, None],
        "draws of noise": draws.noise_variance / s**2,
        "draws of covariance": some.covariance / np.outer(s[:8], s[:8]),
        "interval of covariance": np.array(posterior.interval("covariance", draws=draws))
        / np.outer(s, s),
        "interval of shares": np.array(posterior.interval("explained_variance_ratio", draws=draws)),
        "scores": model.transform(X[:20]),
        "imputed": model.impute(missing(X[:20])) / s,
        "imputed draws": model.impute(missing(X[:20]), n_draws=2, random_state=0) / s,
    }
    if 2 <= model.n_factors_ <= 8:
        table = posterior.align("varimax", draws=draws).table()
        found["varimax"] = table.mean
        found["intervals after varimax"] = np.array([table.lower, table.upper])
    return found


def missing(X):
    """Every seventh value of a column left out, of each column in other rows."""
    row, column = np.indices(X.shape)
    return np.where((row + 3 * column) % 7 == 2, np.nan, X)


def gibbs(X):
    """A short run of the sampler; forty sweeps from the variational fit."""
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        model = CuspFactorAnalysis(method=Gibbs(**GIBBS), random_state=0).fit(X)
    posterior = model.posterior_
    s = np.nanstd(X, axis=0)
    loadings, noise = posterior.loadings_draws / s[:, None], posterior.noise_variance_draws / s**2
    return {
        "K": np.array(model.n_factors_),
        "draws of noise": noise,
        "draws of covariance": loadings @ loadings.mT + noise[:, :, None] * np.eye(len(s)),
    }


def with_missing(X):
    """A fit to rows of which every seventh value is missing."""
    X = missing(X[:200, :15])
    return answers(fitted(Case("", "default"), X), X)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--all", action="store_true", help="all data sets with all priors")
    parser.add_argument("--only", nargs="*", help="parts of names of cases")
    parser.add_argument("--progress", action="store_true")
    given = parser.parse_args(argv)
    if "CUSPFA_KERNEL_SETTING" in os.environ:
        assert_in_effect()
        sys.stdout.write(f"uses {selected()}\n")
    found: dict[str, np.ndarray] = {}
    for name, work in tasks(ALL if given.all else FEW):
        if given.only and not any(part in name for part in given.only):
            continue
        began = time.perf_counter()
        found |= {f"{name}|{what}": value for what, value in work().items()}
        if given.progress:
            sys.stderr.write(f"{name} {time.perf_counter() - began:.1f} s\n")
    np.savez(given.out, **found)


def tasks(cases):
    """Names and functions without arguments."""
    for case in cases:
        X = rows(case.data)
        yield str(case), lambda case=case, X=X: answers(fitted(case), X)
    for data in ("wine", "paper", "diabetes", "simulated 1", "simulated 2"):
        yield f"{data}/gibbs", lambda data=data: gibbs(rows(data))
        yield f"{data}/missing", lambda data=data: with_missing(rows(data))


if __name__ == "__main__":
    main()
