"""
Ordinal items: does it matter that answers are categories?
==========================================================

An answer from 1 to 6 is a category, not a measurement. The ordinal likelihood has a latent
response for each answer, and thresholds between the categories. This page compares it with the
Gaussian model on the same people: first with all six categories, then with answers reduced to yes
and no.
"""

# %%
# Ten items in six categories
# ---------------------------
# Ten statements on agreeableness (A) and neuroticism (N), and the first 500 people. Answers to
# the A items are skewed: most people say that they care for others.

import matplotlib.pyplot as plt
import numpy as np

from cuspfa import CuspFactorAnalysis, datasets, plots

names = [f"{trait}{number}" for trait in "AN" for number in range(1, 6)]
X = datasets.load_bfi(subset="items", as_frame=True).data[names].iloc[:500]

gaussian = CuspFactorAnalysis(n_factors=2, rotation="oblimin").fit(X)
ordinal = CuspFactorAnalysis(likelihood="ordinal", n_factors=2, rotation="oblimin").fit(X)

# %%
# Loadings of the two models. Those of the ordinal model are of the latent responses, and are a
# little larger, because rounding to categories hides a part of the correlation.


def in_order_of_traits(model):
    """Loadings (10, 2): agreeableness first, signs so that A3 and N1 are positive."""
    loadings = model.loadings_
    own = [np.argmax(np.abs(loadings[names.index(item)])) for item in ("A3", "N1")]
    ordered = loadings[:, own]
    return ordered * np.sign([ordered[names.index("A3"), 0], ordered[names.index("N1"), 1]])


def compare(first, second, labels):
    """Main loadings of each item by two models."""
    figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
    place = np.arange(len(names))
    own = np.repeat([0, 1], 5)
    for shift, model, label in ((-0.15, first, labels[0]), (0.15, second, labels[1])):
        ax.plot(place + shift, np.abs(in_order_of_traits(model)[place, own]), "o", label=label)
    ax.set(xticks=place, xticklabels=names, ylabel="size of the loading", ylim=(0, 1))
    ax.legend()


compare(gaussian, ordinal, ("Gaussian", "ordinal"))

# %%
# *Size of the loading of each item on its own trait, six categories.*
#
# With six categories the two models agree to about 0.1. The Gaussian model is enough here, and
# quicker.
#
# Thresholds and categories
# -------------------------
# Only the ordinal model knows how likely each answer is.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
factor_of_n = int(np.argmax(np.abs(ordinal.loadings_[names.index("N1")]))) + 1
plots.plot_item(ordinal.posterior_, "N1", factor_of_n, ax=left)
plots.plot_information(ordinal.posterior_, factor_of_n, ax=right)

# %%
# *Left: probability of each answer to N1 ("I get angry easily") by the score of neuroticism.
# Right: how much the answers tell about a score; a score is most precise where the curve is
# high.*

ordinal.posterior_.threshold_table().to_frame().head(5)

# %%
# The same items as yes and no
# ----------------------------
# Now answers from 5 on count as yes. Rare answers make small Gaussian correlations, whatever the
# traits are.

yes = (X >= 5).astype(float).where(X.notna())
gaussian_yes = CuspFactorAnalysis(n_factors=2, rotation="oblimin").fit(yes)
ordinal_yes = CuspFactorAnalysis(likelihood="ordinal", n_factors=2, rotation="oblimin").fit(yes)
compare(gaussian_yes, ordinal_yes, ("Gaussian, yes or no", "ordinal, yes or no"))

# %%
# *Size of the loading of each item on its own trait, two categories.*

full, coarse = (np.abs(in_order_of_traits(one)) for one in (ordinal, ordinal_yes))
plain = np.abs(in_order_of_traits(gaussian_yes))
own = (np.arange(10), np.repeat([0, 1], 5))
print(f"mean loading, six categories, ordinal:  {full[own].mean():.2f}")
print(f"mean loading, yes or no, ordinal:       {coarse[own].mean():.2f}")
print(f"mean loading, yes or no, Gaussian:      {plain[own].mean():.2f}")

# %%
# Conclusion
# ----------
# With six categories the choice hardly matters. With two it does: the Gaussian loadings shrink,
# and the ordinal ones stay near those of the full answers, with wider intervals, because yes and
# no say less. Use ``likelihood="ordinal"`` with two to four categories or skewed items, and
# whenever thresholds or probabilities of answers are wanted.
