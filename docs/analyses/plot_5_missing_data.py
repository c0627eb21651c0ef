"""
Missing data: a fit without imputation, and a regression with it
================================================================

People skip questions. A fit does not need complete rows, and nothing has to be filled in before
it. Other analyses need complete tables. Then several tables are imputed, each is analysed, and
the results are pooled. This page does both, with values removed on purpose so that the truth is
known.
"""

# %%
# Remove values at random, given what was observed
# ------------------------------------------------
# Complete answers of 800 people to 15 statements. People who describe themselves as careless (a
# high C4) skip other statements about three times as often. So the statements are missing at
# random: whether they are missing depends on C4, which is observed.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from cuspfa import CuspFactorAnalysis, datasets, plots

complete = datasets.load_bfi(subset="items", as_frame=True).data.dropna().iloc[:800]
complete = complete[[name for name in complete if name[0] in "CEN"]].astype(float)
rng = np.random.default_rng(3)
careless = complete["C4"] >= 4
chance = np.where(careless, 0.35, 0.12)[:, None]
skipped = rng.random(complete.shape) < chance
skipped[:, list(complete).index("C4")] = False
X = complete.mask(skipped)
print(f"{100 * skipped.mean():.0f} % of the answers are missing")
print(f"{X.dropna().shape[0]} of {len(X)} people have answered everything")

# %%
# A fit to what was observed
# --------------------------
# Three fits: to all answers before they were removed, to the answers that are left, and to the
# few people without a missing answer.

settings = {"n_factors": 3, "rotation": "oblimin"}
fits = {
    "all answers": CuspFactorAnalysis(**settings).fit(complete),
    "with missing values": CuspFactorAnalysis(**settings).fit(X),
    "complete people only": CuspFactorAnalysis(**settings).fit(X.dropna()),
}
truth = fits["all answers"].get_covariance()
for name, model in fits.items():
    error = np.sqrt(np.mean((model.get_covariance() - truth) ** 2))
    print(f"{name:22} root mean square difference of covariances {error:.3f}")

# %%

figure, axes = plt.subplots(1, 3, figsize=(11, 4.5), layout="constrained", sharex=True)
for ax, (name, model) in zip(axes, fits.items(), strict=True):
    plots.plot_communality(model.posterior_, ax=ax)
    ax.set_title(name)

# %%
# *Communalities with 95 % intervals. With missing values the intervals are a little wider than
# with all answers; with complete people only they are much wider.*
#
# A regression on imputed tables
# ------------------------------
# Do people who often feel blue (N4) find it more difficult to approach others (E2)? The slope of
# E2 on N4, by least squares. Filling in expected values would make the slope too certain. So
# twenty tables are drawn, each is analysed, and the results are pooled by Rubin's rules.


def slope(table):
    """Slope of E2 on N4 and its squared standard error."""
    x, y = table["N4"] - table["N4"].mean(), table["E2"] - table["E2"].mean()
    b = (x * y).sum() / (x * x).sum()
    return b, ((y - b * x) ** 2).sum() / (len(x) - 2) / (x * x).sum()


model = CuspFactorAnalysis().fit(X)
m = 20
drawn = model.impute(X, n_draws=m, random_state=0)
each = np.array([slope(pd.DataFrame(table, columns=X.columns)) for table in np.asarray(drawn)])
between, within = each[:, 0].var(ddof=1), each[:, 1].mean()
pooled = (each[:, 0].mean(), within + (1 + 1 / m) * between)
fraction = (1 + 1 / m) * between / pooled[1]
results = {
    "all answers": slope(complete),
    "20 imputed tables": pooled,
    "expected values": slope(model.impute(X)),
    "complete people only": slope(X.dropna()),
}

figure, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
for place, (name, (estimate, variance)) in enumerate(results.items()):
    ax.errorbar(estimate, place, xerr=1.96 * np.sqrt(variance), fmt="o", capsize=4)
    print(f"{name:22} {estimate:.3f} ± {np.sqrt(variance):.3f}")
ax.set(yticks=range(len(results)), yticklabels=list(results), xlabel="slope of E2 on N4")
ax.invert_yaxis()
print(f"part of the variance that is due to missing values: {100 * fraction:.0f} %")

# %%
# *The slope of E2 on N4 with 95 % intervals.*
#
# Conclusion
# ----------
# A fit uses all that was observed. Only 101 of 800 people have answered everything, and the
# others need not be thrown away. For other analyses, draw several tables and pool: the pooled
# interval is a little wider than that of the complete data, as it should be. The slope by
# expected values is not to be trusted: it is too large, because what is filled in has no noise.
# All of this assumes that the causes of missing answers are in the table.
