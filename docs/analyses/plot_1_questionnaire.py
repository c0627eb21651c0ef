"""
A questionnaire, from a file to tables for a paper
==================================================

2800 people rated 25 statements about themselves ("I make friends easily") from 1, very
inaccurate, to 6, very accurate. The questionnaire is meant to measure five traits with five
statements each. Does it? This page goes from the file to the tables of an article.
"""

# %%
# From a file
# -----------
# The data come with the package. They are written to a file here, as if they had been downloaded
# from a survey tool. Some people skipped statements: those fields are empty.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from cuspfa import CuspFactorAnalysis, datasets, plots, read_table

folder = Path(tempfile.mkdtemp())
datasets.load_bfi(subset="items", as_frame=True).data.to_csv(folder / "answers.csv", index=False)

answers = read_table(folder / "answers.csv")
print(
    answers.n_rows, "people,", len(answers.names), "statements,", answers.n_missing_read, "missing"
)

# %%
# How many factors?
# -----------------
# The fit finds the number of factors. Nothing is imputed and no person is dropped.

model = CuspFactorAnalysis().fit(folder / "answers.csv")
summary = str(model.posterior_.summary()).splitlines()
print("\n".join(summary[:10]))

# %%
# With so many people, small factors are told from chance too: two statements with similar wording
# are enough for one. So the figure shows the number of factors that remain if the model may be a
# little wrong.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
plots.plot_model_error(model.posterior_, ax=left)
plots.plot_scree(model.posterior_, ax=right)

# %%
# *Left: the number of factors by the error of the model that is tolerated, as RMSEA; hollow
# points are numbers that are as good. Right: eigenvalues of the data, and what uncorrelated data
# would have.*
#
# Around an RMSEA of 0.05, which is usually called a close fit, five or six factors remain. Five
# is the number that the questionnaire was made for, so the analysis goes on with five. A paper
# should report both numbers: those that can be told from chance, and those that matter.
#
# Five rotated factors
# --------------------
# The criterion "oblimin" looks for axes on which each statement has few large loadings. The
# factors may be correlated. Loadings have 95 % intervals.

five = CuspFactorAnalysis(n_factors=5, rotation="oblimin").fit(folder / "answers.csv")
figure, axes = plt.subplots(1, 5, figsize=(12, 6), layout="constrained", sharey=True)
plots.plot_forest(five.posterior_, "all", ax=axes)

# %%
# *Loadings of the 25 statements on five factors, with 95 % intervals: blue is positive, orange
# negative, grey an interval with zero.*
#
# Each factor has the statements of one trait. The factors get the names of the traits. Some
# statements are worded against their trait: C4 is "I do things in a half-way manner", E2 "I find
# it difficult to approach others". A factor that is led by such a statement is reversed.

names = ["Neuroticism", "Extraversion", "Agreeableness", "Conscientiousness", "Openness"]
trait = {name[0]: name for name in names}
largest = [items[0] for items in five.posterior_.align().top_items(1)]
reversed_items = {"A1", "C4", "C5", "E1", "E2", "O2", "O5"}
posterior = five.posterior_.with_factor_names([trait[item.name[0]] for item in largest])
to_reverse = [
    number
    for number, item in enumerate(largest, 1)
    if (item.loading < 0) != (item.name in reversed_items)
]
posterior = posterior.with_reversed_factors(to_reverse)
for number, item in enumerate(largest, 1):
    sign = "reversed" if number in to_reverse else "as found"
    print(f"factor {number}: {item.name} {item.loading:+.2f}, {trait[item.name[0]]}, {sign}")

# %%
# Tables for the paper
# --------------------
# ``apa_tables`` makes the tables of an article. ``write`` puts them into a file of Word, Excel,
# LaTeX, Markdown or HTML, as the name of the file says.

tables = posterior.apa_tables(suppress=0.3)
tables.write(folder / "tables.html")
tables

# %%
# Conclusion
# ----------
# The questionnaire measures its five traits: 24 of the 25 statements have their largest loading
# on their own trait, and the intervals are narrow. The exception is N4, "I often feel blue":
# people say so if they are neurotic, and as much if they are introverted. Further factors can be
# told from chance. They are small, and are led by statements of different traits that have little
# else in common.
#
# What to report: the number of people and of missing values, the number of factors with and
# without tolerated error, the rotation, and the tables above. ``posterior.report("report.html")``
# writes all of it as one page, and ``cuspfa describe`` a paragraph on the methods.
