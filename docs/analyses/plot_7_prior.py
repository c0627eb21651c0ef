"""
Choosing and criticising a prior
================================

A prior is a statement about the data before they are seen. It can be criticised in three ways: by
data that it would produce, by the results under other priors, and by data that the fitted model
would produce. This page does all three for 126 people and 25 statements, the data of the paper.
"""

# %%
# What does the prior expect?
# ---------------------------
# The prior of the number of factors is a Poisson distribution with mean α, 5 by default.

import matplotlib.pyplot as plt
import numpy as np

from cuspfa import (
    CumulativeShrinkage,
    CuspFactorAnalysis,
    CuspPrior,
    GaussianSlab,
    InverseGammaSlab,
    datasets,
    prior_sensitivity,
)

X = datasets.load_bfi(subset="paper", as_frame=True).data
numbers = np.arange(16)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for alpha in (1, 5, 10):
    left.plot(
        numbers, CumulativeShrinkage(alpha).active_count_pmf(numbers), "o-", label=f"α = {alpha}"
    )
left.set(xlabel="number of factors", ylabel="prior probability")
left.legend()

# The largest correlation among 25 standardised columns under each slab, by simulation.
rng = np.random.default_rng(0)
for theta in (1.0, 0.2, 0.04):
    largest = []
    for _ in range(300):
        loadings = np.sqrt(theta) * rng.standard_normal((25, rng.poisson(5)))
        covariance = loadings @ loadings.T + np.eye(25)
        sd = np.sqrt(np.diag(covariance))
        correlation = covariance / np.outer(sd, sd)
        largest.append(np.abs(correlation[np.triu_indices(25, 1)]).mean())
    right.hist(largest, bins=np.linspace(0, 0.6, 40), alpha=0.6, label=f"slab variance {theta}")
seen = np.abs(np.corrcoef(X.to_numpy(), rowvar=False)[np.triu_indices(25, 1)]).mean()
right.axvline(seen, color="black", label="the data")
right.set(xlabel="mean size of a correlation", ylabel="data sets from the prior")
right.legend()

# %%
# *Left: prior probability of each number of factors. Right: mean size of the correlations in data
# from the prior, for three widths of the loadings; the line is the value of the data.*
#
# The paper's slab has variance 1, which expects a mean of 0.29. The data have 0.17, which a
# variance of 0.2 expects; 0.04 expects a third of it. The default estimates the width from the
# data.
#
# Does the result depend on the prior?
# ------------------------------------

model = CuspFactorAnalysis().fit(X)
slabs = [
    GaussianSlab(1.0),
    GaussianSlab(0.2),
    GaussianSlab(0.04),
    InverseGammaSlab(2, 0.4, pooled=True),
]
by_alpha = prior_sensitivity(model, X, alpha=[0.5, 1, 5, 10])
by_slab = prior_sensitivity(model, X, slab=slabs)
labels = [f"α = {row.alpha:g}" for row in by_alpha]
labels += ["N(0, 1)", "N(0, 0.2)", "N(0, 0.04)", "default"]
found = [row.n_factors for row in (*by_alpha, *by_slab)]
figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
ax.bar(range(len(found)), found, color=["C0"] * len(by_alpha) + ["C1"] * len(by_slab))
ax.set(xticks=range(len(found)), xticklabels=labels, ylabel="number of factors")
ax.tick_params(axis="x", rotation=30)

# %%
# *Number of factors by α (blue) and by slab (orange).*
#
# α has little effect. The width of the slab has one: a slab that is too wide makes each factor
# expensive, and hides the small ones. So the question is whether the width is plausible, which
# the simulation above answers.
#
# Would the fitted model produce such data?
# -----------------------------------------
# Draw parameters from the posterior, draw 126 new people for each, and compare a property of the
# data that the model was not fitted to: the eigenvalues of the correlation matrix.


def eigenvalues(rows):
    """Of the correlations, the largest first."""
    return np.linalg.eigvalsh(np.corrcoef(rows, rowvar=False))[::-1]


wide = CuspPrior(slab=GaussianSlab(1.0))
figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained", sharey=True)
for ax, (name, fit) in zip(
    axes,
    {"default": model, "slab N(0, 1)": CuspFactorAnalysis(prior=wide).fit(X)}.items(),
    strict=True,
):
    drawn = fit.posterior_.draw(100, random_state=1)
    new = []
    for number in range(100):
        loadings, noise = drawn.loadings[number], drawn.noise_variance[number]
        scores = rng.standard_normal((len(X), loadings.shape[1]))
        rows = scores @ loadings.T + rng.standard_normal((len(X), 25)) * np.sqrt(noise)
        new.append(eigenvalues(rows)[:10])
    ax.boxplot(np.array(new), whis=(2.5, 97.5), showfliers=False)
    ax.plot(np.arange(1, 11), eigenvalues(X.to_numpy())[:10], "C1o", label="the data")
    ax.set(title=f"{name}: {fit.n_factors_} factors", xlabel="eigenvalue", ylabel="size")
    ax.legend()

# %%
# *The ten largest eigenvalues in data that the fitted models produce; whiskers have 95 %. The
# points are those of the data.*
#
# Conclusion
# ----------
# The number of factors depends on the width of the slab and little on α. The wide slab expects
# correlations that are nearly twice as large as those of the data, and finds 3 factors. The
# narrow one expects a third of them, and finds 7. With a plausible width, given or estimated,
# there are 4 or 5. Report the default, say what was found under the other priors, and show the
# figure.
