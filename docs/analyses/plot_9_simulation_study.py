"""
A simulation study
==================

How many rows does it take to find three factors? A simulation study answers such questions:
simulate data sets of known structure, fit each, and count. Fits take fractions of a second, and
``joblib`` runs them on several cores.
"""

# %%
# The design
# ----------
# Twelve items, four for each of three factors, with loadings from 0.4 to 0.7. The rows vary from
# 50 to 400. Each cell of the design has 40 data sets. The seed of a data set is its number in the
# design, so that it is the same with any number of jobs, and can be made again alone.

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed

from cuspfa import CuspFactorAnalysis, retention

ITEMS, FACTORS, SETS = 12, 3, 40
ROWS = (50, 100, 200, 400)
N_JOBS = 2


def one(n, number):
    """The number of factors by the evidence and by parallel analysis, and covered correlations."""
    rng = np.random.default_rng([n, number])
    loadings = np.kron(np.eye(FACTORS), np.ones((ITEMS // FACTORS, 1)))
    loadings *= rng.uniform(0.4, 0.7, (ITEMS, 1))
    noise = 1 - (loadings**2).sum(axis=1)
    rows = rng.standard_normal((n, FACTORS)) @ loadings.T
    rows += rng.standard_normal((n, ITEMS)) * np.sqrt(noise)
    model = CuspFactorAnalysis().fit(rows)
    by_parallel = retention.parallel_analysis(np.corrcoef(rows, rowvar=False), n).n_factors
    lower, upper = model.posterior_.interval("correlation", n_draws=400)
    truth = loadings @ loadings.T + np.diag(noise)
    pairs = np.triu_indices(ITEMS, 1)
    covered = ((lower <= truth) & (truth <= upper))[pairs].mean()
    return model.n_factors_, by_parallel, covered


design = [(n, number) for n in ROWS for number in range(SETS)]
results = Parallel(n_jobs=N_JOBS)(delayed(one)(*cell) for cell in design)
found = np.array(results).reshape(len(ROWS), SETS, 3)

# %%
# Results
# -------

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for column, label in ((0, "evidence"), (1, "parallel analysis")):
    right_number = (found[:, :, column] == FACTORS).mean(axis=1)
    error = np.sqrt(right_number * (1 - right_number) / SETS)
    left.errorbar(ROWS, right_number, yerr=error, fmt="o-", capsize=3, label=label)
left.set(xlabel="rows", ylabel="share of sets with three factors", ylim=(-0.05, 1.05), xscale="log")
left.set_xticks(ROWS, [str(n) for n in ROWS])
left.legend()
covered = found[:, :, 2]
right.errorbar(
    ROWS, covered.mean(axis=1), yerr=covered.std(axis=1) / np.sqrt(SETS), fmt="o", capsize=3
)
right.axhline(0.95, color="black")
right.set(xlabel="rows", ylabel="share of correlations inside", ylim=(0.85, 1.0), xscale="log")
right.set_xticks(ROWS, [str(n) for n in ROWS])
for ax in (left, right):
    ax.minorticks_off()

# %%
# *Left: how often three factors are found, with Monte Carlo standard errors. Right: how many of
# the true correlations are inside their 95 % intervals.*

for n, cell in zip(ROWS, found, strict=True):
    counts = np.bincount(cell[:, 0].astype(int), minlength=5)
    print(f"{n:4} rows, number of factors 0, 1, 2, ...: {counts}")

# %%
# Conclusion
# ----------
# With loadings around 0.55 and four items for each factor some 100 to 200 rows are needed. With
# fewer rows the number found is too small rather than too large. Before a study of your own, put
# its loadings and rows into ``one``, and read off how many rows it needs.
