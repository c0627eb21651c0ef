"""
Counts of words: which topics are in a library's documentation?
===============================================================

Counts are not measurements: most cells of a table of words are zero, and a word is used more
often where a text is longer. Poisson factorization takes a text as a sum of topics. This page
finds the topics in the documentation of SciPy, which is installed with this package. A table of
species on plots is analysed in the same way, with plots for texts and species for words.
"""

# %%
# A table of counts
# -----------------
# Each row is a function of SciPy, each column a word of its documentation. Words of the language
# and of all scientific documentation are left out. With another release of SciPy the numbers
# differ a little.

import importlib
import re
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from cuspfa import CuspPoissonFactorization

MODULES = ("stats", "linalg", "signal", "optimize", "interpolate", "spatial")
COMMON = set(
    """the and for that this with are from have which not can will used use using see also array
    ndarray float int bool optional default none true false example examples import numpy scipy
    plt returns return parameters parameter notes references given value values number input output
    function method one two has its all when where each must may type shape then should other than
    print same following first second only result results raises more data object called such over
    doi vol journal new such been into between they any but versionadded math left right
    print below above size length set show plot fig axes axis dtype like out ndim keyword arguments
    argument str bytes tuple list array_like scalar class based instead does def self label legend
    title xlabel ylabel subplots rng random default_rng press university http https www org pyplot
    matplotlib just both it's these there while because however since either along cupy pytorch
    torch dask linspace func args array_api jax support supported stats linalg lower check finite
    whether could true_ well single every many""".split()
)


def documentation():
    """Words of each public function of six modules of SciPy."""
    for module in MODULES:
        library = importlib.import_module(f"scipy.{module}")
        for name in sorted(library.__all__):
            text = getattr(library, name).__doc__ or ""
            words = re.findall(r"[a-z]{4,}", text.lower())
            if module != "stats" or name in {"ttest_ind", "norm", "pearsonr"} or "_" in name:
                yield f"{module}.{name}", Counter(word for word in words if word not in COMMON)


counts = dict(documentation())
counts = {name: words for name, words in counts.items() if sum(words.values()) >= 120}
total = Counter()
for words in counts.values():
    total.update(words.keys())
vocabulary = [word for word, texts in total.most_common() if texts >= 12][:150]
table = pd.DataFrame(
    [[words[word] for word in vocabulary] for words in counts.values()],
    index=list(counts),
    columns=vocabulary,
    dtype=float,
)
print(f"{len(table)} texts, {len(vocabulary)} words, {100 * np.mean(table == 0):.0f} % zeros")

# %%
# Topics
# ------
# The number of topics is limited to eight, so that the page is built quickly; ``search_`` says
# whether another one would have been accepted.

model = CuspPoissonFactorization(max_factors=8, random_state=0).fit(table)
top = model.posterior_.top_items(6)
for topic in range(1, model.n_factors_ + 1):
    own = [f"{word.name} {100 * word.share:.0f} %" for word in top if word.factor == topic]
    print(topic, ", ".join(own))

# %%
# Each line is a topic with its most frequent words, and the part of the topic that each word has.

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
parts = model.transform(table)
parts = pd.DataFrame(parts / parts.sum(axis=1, keepdims=True), index=table.index)
by_module = parts.groupby([name.split(".")[0] for name in table.index]).mean()
image = ax.imshow(by_module, cmap="Blues", vmin=0, aspect="auto")
ax.set(
    xticks=range(by_module.shape[1]),
    xticklabels=[word.name for word in model.posterior_.top_items(1)],
    yticks=range(len(by_module)),
    yticklabels=by_module.index,
    xlabel="topic, by its most frequent word",
)
ax.tick_params(axis="x", rotation=30)
figure.colorbar(image, label="mean part of a text")

# %%
# *How much of each topic the texts of a module have, on average. The modules were not given to
# the fit.*
#
# Are the counts Poisson?
# -----------------------
# The residual dispersion is 1 if counts vary as Poisson variables around their rates. Words come
# in clumps: a text that has a word once has it again.

print(f"residual dispersion: {model.posterior_.totals.dispersion_of_all:.1f}")

# %%
# Conclusion
# ----------
# The topics follow the modules, though the model was not given the modules: statistics has a
# topic of tests and one of distributions, and filters are a part of signal processing. The
# residual dispersion is far above 1, because words are repeated within a text. Then small topics
# are often single words that a few texts repeat, and the number of topics means little; the large
# ones can be interpreted. With species on plots the same is true where individuals stand in
# groups.
