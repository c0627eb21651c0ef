"""
Ten million rows by Dask
========================

For data with more rows than columns a fit needs only the means and the cross-products of the
columns, so rows can be read block by block, on one machine or on many. This page fits a Dask
array whose rows are made when they are needed, so that they are never in memory together.
The cost of a pass grows with the number of rows, and the fit after the pass does not depend on
it.
"""

# %%
# A table that is larger than its parts
# -------------------------------------
# Two million values in each block, and a seed for each, so that a block can be made again
# anywhere.

import time

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from cuspfa import CuspFactorAnalysis, Moments, datasets

N = 10_000_000
P, K, ROWS_IN_A_BLOCK = 20, 4, 100_000
truth = datasets.simulate(2, P, K, design="falling", random_state=5)


def block(number):
    """Rows of one block: the same whenever and wherever it is made."""
    rng = np.random.default_rng([17, number])
    scores = rng.standard_normal((ROWS_IN_A_BLOCK, K))
    noise = rng.standard_normal((ROWS_IN_A_BLOCK, P)) * np.sqrt(truth.noise_variance)
    return scores @ truth.loadings.T + noise


def rows(n):
    """The first n rows."""
    from dask import delayed

    shape = (ROWS_IN_A_BLOCK, P)
    blocks = [
        da.from_delayed(delayed(block)(number), shape, dtype=float)
        for number in range(n // ROWS_IN_A_BLOCK)
    ]
    return da.concatenate(blocks)


X = rows(N)
print(
    f"{X.shape[0]:,} rows, {X.shape[1]} columns, {X.nbytes / 1e9:.1f} GB in {X.npartitions} blocks"
)

# %%
# A fit
# -----
# The array goes to ``fit`` like any other. With a client of a cluster the sums are computed
# there.


def fitted(n):
    """A fit to the first n rows, the error of its covariances, and seconds."""
    begin = time.perf_counter()
    model = CuspFactorAnalysis().fit(rows(n))
    seconds = time.perf_counter() - begin
    return model, np.sqrt(np.mean((model.get_covariance() - truth.covariance) ** 2)), seconds


whole = fitted(N)
print(f"{whole[0].n_factors_} factors, {whole[2]:.0f} s with all passes")

# %%
# What the rows are good for
# --------------------------
# The moments of a part of the blocks are all that is needed for a fit to that part.

sizes = [100_000, 1_000_000, N]
_, errors, seconds = zip(*(fitted(n) for n in sizes[:-1]), whole, strict=True)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.loglog(sizes, errors, "o-")
variance = np.diag(truth.covariance)
spread = np.sqrt(np.mean(np.outer(variance, variance) + truth.covariance**2))  # of one row
left.loglog(sizes, spread / np.sqrt(sizes), "k--", label="expected, 1/√n")
left.set(xlabel="rows", ylabel="error of the covariances")
left.legend()
right.plot(sizes, seconds, "o-")
right.set(xlabel="rows", ylabel="seconds", xlim=(0, None), ylim=(0, None))

# %%
# *Left: root mean square error of the covariances, and that which is expected of a sample
# covariance. It falls as 1/√n; in single tables it is up to a third smaller or larger. Right:
# time of a whole fit, with making the rows; it is that of this build, which may have had other
# work to do.*
#
# Sites that exchange sums
# ------------------------
# Moments add up. Two sites can fit a model together and exchange 231 numbers each, but no row.

here, there = (
    Moments.from_rows(np.concatenate([block(number) for number in part]))
    for part in (range(0, 3), range(3, 5))
)
together = CuspFactorAnalysis().fit_moments(here + there)
print(f"{together.n_factors_} factors from {here.n:,.0f} and {there.n:,.0f} rows")

# %%
# Conclusion
# ----------
# The number of rows is no limit: they are read once, and what is kept has the size of the
# covariance matrix. More rows make the covariances more precise, as 1/√n. If the rows are on many
# machines, the sums travel, and the rows stay.
