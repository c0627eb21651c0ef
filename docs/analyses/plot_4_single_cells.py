"""
Single cells: gene programmes in an AnnData object
==================================================

A cell runs several gene programmes at a time, and the counts of its genes are sums over the
programmes. This page takes simulated cells, because no count matrix comes with the package and
the pages are built without the network. With simulated cells the truth is known, so the result
can be checked.
"""

# %%
# 300 cells, 120 genes, three types of cells
# ------------------------------------------
# Each type runs one programme of its own, and all cells run a fourth one, such as that of the
# cell cycle, to a varying degree. Cells differ in depth: some have five times as many counts as
# others.

import anndata
import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

import cuspfa

rng = np.random.default_rng(8)
n, p = 300, 120
cell_type = rng.integers(3, size=n)
programmes = rng.gamma(0.25, 1.0, (4, p))
activity = 0.05 * rng.gamma(1.0, 1.0, (n, 4))
activity[np.arange(n), cell_type] += rng.gamma(4.0, 0.25, n)
activity[:, 3] += rng.gamma(0.5, 0.8, n)
depth = rng.gamma(3.0, 1.0, (n, 1))
counts = rng.poisson(depth * activity @ programmes)
cells = anndata.AnnData(sparse.csr_matrix(counts, dtype=float))
cells.var_names = [f"gene {j}" for j in range(p)]
cells.obs["type"] = [f"type {t + 1}" for t in cell_type]
cells.layers["counts"] = cells.X.copy()
print(f"{n} cells, {p} genes, {100 * np.mean(counts == 0):.0f} % zeros")

# %%
# A fit
# -----
# The raw counts are fitted, neither normalised nor transformed. ``fit_anndata`` writes the scores
# to ``obsm``, the loadings to ``varm`` and the residual dispersion of the genes to ``var``.

model = cuspfa.CuspPoissonFactorization(random_state=0)
cuspfa.fit_anndata(cells, layer="counts", model=model)
print(f"{model.n_factors_} programmes found")
print(cells)

# %%
# Programmes and types
# --------------------
# Scores grow with the depth of a cell. Divided by their sum they are the mix of programmes.

mix = cells.obsm["X_cusp"] / cells.obsm["X_cusp"].sum(axis=1, keepdims=True)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
order = np.lexsort((mix.max(axis=1), cell_type))
bottom = np.zeros(n)
for h, shares in enumerate(mix[order].T):
    left.bar(np.arange(n), shares, bottom=bottom, width=1.0, label=f"programme {h + 1}")
    bottom += shares
for edge in np.cumsum(np.bincount(cell_type))[:-1]:
    left.axvline(edge - 0.5, color="black")
left.set(xlabel="cells, ordered by type", ylabel="part of the counts", xlim=(0, n), ylim=(0, 1))
left.legend(ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
agreement = np.corrcoef(np.vstack([model.components_, programmes]))[
    : model.n_factors_, model.n_factors_ :
]
image = right.imshow(agreement, cmap="Blues", vmin=0, vmax=1)
right.set(
    xticks=range(4),
    xticklabels=["type 1", "type 2", "type 3", "shared"],
    yticks=range(model.n_factors_),
    yticklabels=[f"programme {h + 1}" for h in range(model.n_factors_)],
)
figure.colorbar(image, label="correlation over genes")

# %%
# *Left: the mix of programmes in each cell; black lines separate the true types. Right:
# correlation of the loadings that were found (rows) with the true programmes (columns).*
#
# Genes of a programme
# --------------------
# For each programme its genes with the part of the programme's counts that each has, with an
# interval, and the part of the gene's own counts that comes from the programme. A marker has a
# large second number.

model.posterior_.top_items(3).to_frame()

# %%
# Do the programmes explain the counts?
# -------------------------------------

figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.hist(cells.var["cusp_dispersion"], bins=25)
ax.axvline(1.0, color="black")
ax.set(xlabel="residual dispersion of a gene", ylabel="genes")

# %%
# *Residual dispersion of the genes. It is about 1 where counts vary as Poisson variables around
# the fitted rates. Genes far above 1 in real cells are signs of batches, doublets or of a
# programme that is missing.*
#
# Conclusion
# ----------
# The fit found the programmes and their number without knowing the types, and each type has its
# own programme. With real cells, take a few thousand variable genes, and look at the residual
# dispersion before a programme is interpreted.
