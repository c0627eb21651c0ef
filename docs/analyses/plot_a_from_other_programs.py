"""
From psych, SPSS, factor_analyzer or MOFA
=========================================

The same analysis as in the program you know, and what is different. The data are those of the
example that psych documents most: ``fa(bfi[1:25], nfactors = 5)``.
"""

# %%
# ``fa(R, nfactors = 5, n.obs = 2800)``
# -------------------------------------
# psych computes correlations of pairs of columns. A matrix is fitted by its moments.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from cuspfa import CuspFactorAnalysis, Moments, Rotation, datasets, retention, rotate

X = datasets.load_bfi(subset="items", as_frame=True).data
moments = Moments.from_correlation(X.corr().to_numpy(), n=2800, names=list(X))
model = CuspFactorAnalysis(n_factors=5, rotation="oblimin").fit_moments(moments)

# %%
# psych prints loadings sorted by factor. ``top_items`` does it with intervals, which psych has by
# bootstrap only.

model.posterior_.align().top_items(3)

# %%
# The pattern matrix of psych, from its published output, for three statements of each trait,
# beside ours:

PSYCH = pd.DataFrame(
    {
        "N": {"N1": 0.81, "N2": 0.78, "N3": 0.71, "E1": -0.06, "E2": 0.10, "E4": 0.01},
        "E": {"N1": 0.10, "N2": 0.04, "N3": -0.10, "E1": -0.56, "E2": -0.68, "E4": 0.59},
    }
)
loadings = pd.DataFrame(model.loadings_, index=list(X))
n_factor, e_factor = (int(np.argmax(np.abs(loadings.loc[item]))) for item in ("N1", "E2"))
ours = loadings.loc[PSYCH.index, [n_factor, e_factor]].set_axis(["N", "E"], axis=1)
ours *= np.sign((ours * PSYCH).sum())
pd.concat({"psych": PSYCH, "cuspfa": ours.round(2)}, axis=1)

# %%
# The signs of factors are a convention of each program. The rest of the difference is that psych
# uses minimum residuals and cuspfa the likelihood: scikit-learn's maximum likelihood agrees with
# cuspfa to 0.003.
#
# ``fa.parallel`` and the number of factors
# -----------------------------------------

parallel = retention.parallel_analysis(X.corr().to_numpy(), 2800).n_factors
free = CuspFactorAnalysis().fit(X)
curve = free.posterior_.model_error_curve
print(
    f"parallel analysis {parallel}; told from chance {free.n_factors_}; "
    f"at RMSEA 0.05 {curve.at(0.05).n_factors}"
)

# %%
# SPSS: Kaiser normalisation
# --------------------------
# SPSS normalises rows before it rotates. ``Rotation`` has the option; other names are the same.

plain = CuspFactorAnalysis(n_factors=5).fit(X).loadings_
kaiser = rotate(plain, Rotation("varimax", normalize=True))
without = rotate(plain, Rotation("varimax", normalize=False))
figure, ax = plt.subplots(figsize=(4.2, 4), layout="constrained")
order = [int(np.argmax(np.abs(without.loadings.T @ column))) for column in kaiser.loadings.T]
ax.plot(np.abs(without.loadings[:, order]).ravel(), np.abs(kaiser.loadings).ravel(), "o", alpha=0.5)
ax.plot([0, 1], [0, 1], "k-", linewidth=0.8)
ax.set(xlabel="varimax, as it is", ylabel="varimax, Kaiser normalisation", title="size of loadings")

# %%
# *Sizes of the loadings with and without Kaiser normalisation. They differ by a few hundredths.*
#
# factor_analyzer: the same names
# -------------------------------
# ``FactorAnalyzer(n_factors=5, rotation="promax").fit(X)`` becomes
# ``CuspFactorAnalysis(n_factors=5, rotation="promax").fit(X)``. ``loadings_``, ``structure_`` and
# ``transform`` have the same names. Missing values need no ``impute`` option.
#
# MOFA: several tables of the same rows
# -------------------------------------
# MOFA has one table, a *view*, for each kind of measurement of the same samples. Here views are
# put side by side. Columns are standardised, and each has a noise variance of its own, so that
# views of other units do no harm. What MOFA shows first is the variance that each factor explains
# in each view:

views = {"agreeableness": "A", "conscientiousness": "C", "extraversion": "E", "neuroticism": "N"}
columns = [name for name in X if name[0] in views.values()]
side_by_side = CuspFactorAnalysis(n_factors=4, rotation="varimax").fit(X[columns])
explained = pd.DataFrame(
    {
        view: (side_by_side.loadings_[[c[0] == letter for c in columns]] ** 2).mean(axis=0)
        for view, letter in views.items()
    },
    index=[f"factor {h}" for h in range(1, 5)],
)
figure, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
image = ax.imshow(100 * explained, cmap="Blues", vmin=0)
ax.set(xticks=range(4), xticklabels=list(views), yticks=range(4), yticklabels=explained.index)
ax.tick_params(axis="x", rotation=20)
figure.colorbar(image, label="variance explained, %")

# %%
# *Share of the variance of each view that each factor explains.*
#
# What MOFA has and this does not: a sparsity prior for each view, which switches a factor off in
# a whole view, and groups of samples.
#
# Conclusion
# ----------
# Loadings, rotations and scores are what you know, with other names at most. New are intervals of
# everything, a number of factors that is estimated with the model, and missing values without
# imputation. Missing are TLI and groups.
