"""
How wrong may the model be?
===========================

No small number of factors is exactly true. With enough rows every small departure becomes a
factor, so the number of factors grows with the size of the sample. This page shows it on the
personality items, and what tolerating a small error does.
"""

# %%
# The number grows with the rows
# ------------------------------
# Two numbers for growing samples of the same people: factors that can be told from chance, and
# those that remain if the population may be off by an RMSEA of 0.05.

import matplotlib.pyplot as plt

from cuspfa import CuspFactorAnalysis, datasets, plots

X = datasets.load_bfi(subset="items", as_frame=True).data.dropna()
sizes = [150, 300, 600, 1200, len(X)]
curves = [CuspFactorAnalysis().fit(X[:n]).posterior_.model_error_curve for n in sizes]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for error, style in ((0.0, "o-"), (0.05, "s--")):
    left.plot(sizes, [curve.at(error).n_factors for curve in curves], style, label=f"RMSEA {error}")
left.set(xlabel="people", ylabel="number of factors", ylim=(0, None))
left.legend(title="tolerated error")
whole = CuspFactorAnalysis().fit(X)
plots.plot_model_error(whole.posterior_, ax=right)

# %%
# *Left: number of factors by the number of people. Right: number of factors of all people by
# tolerated error; hollow points are numbers that are as good.*
#
# Without error the number keeps growing. With an error of 0.05, which is usually called a close
# fit, it hardly depends on the number of people.
#
# What are the factors that go?
# -----------------------------
# Look at them before they are dropped. An error can also hide factors that are real and have few
# items.

for factor, items in enumerate(whole.posterior_.align(n_draws=200).top_items(2), 1):
    if factor > 5:
        print(factor, ", ".join(f"{item.name} {item.loading:+.2f}" for item in items))

# %%
# The factors that remain
# -----------------------

tolerant = CuspFactorAnalysis(model_error=0.05, rotation="oblimin").fit(X)
figure, ax = plt.subplots(figsize=(6, 6), layout="constrained")
plots.plot_loadings(tolerant.posterior_, ax=ax)

# %%
# *Loadings of the factors that remain at an RMSEA of 0.05, rotated by oblimin.*
#
# The price of an error
# ---------------------
# If the model may be wrong, no number of rows determines the loadings beyond that error.
# Intervals become wider.

same = CuspFactorAnalysis(n_factors=tolerant.n_factors_, rotation="oblimin").fit(X)
for name, model in (("exact", same), ("RMSEA 0.05", tolerant)):
    lower, upper = model.posterior_.interval("communality")
    print(f"{name:11} mean width of the intervals of communalities: {(upper - lower).mean():.3f}")

# %%
# Conclusion
# ----------
# Eleven factors can be told from chance, and the small ones are pairs of similar statements. Five
# or so remain if an error of 0.05 is tolerated, for small samples as for large ones. Report both,
# and look at what the small factors consist of before calling them error.
