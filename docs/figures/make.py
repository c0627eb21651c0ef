"""Draw the pictures of the README and of the page on figures: `make figures`.

`scaling.png` is drawn by `python -m benchmarks scaling`, with the times that it measures.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from cuspfa import CuspFactorAnalysis, Variational, datasets, plots
from cuspfa.reporting.figures.canvas import colours

HERE = Path(__file__).parent
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#888888"


def front_picture() -> None:
    """What the bound and the evidence say of the number of factors, and the loadings."""
    bfi = datasets.load_bfi(subset="items")
    complete = ~np.isnan(bfi.data).any(axis=1)
    x = bfi.data[complete]
    model = CuspFactorAnalysis().fit(x)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(8.8, 3.8), width_ratios=[1.0, 1.35], layout="constrained"
    )

    counts = range(5, 11)  # asked for more, factors die: the line would be that of fewer
    fixed = [CuspFactorAnalysis(n_factors=k, method=Variational()).fit(x) for k in counts]
    bounds = np.array([one.lower_bound_ for one in fixed])
    left.plot(counts, bounds - bounds.max(), "o-", color=GREY, label="evidence lower bound")
    scored = [entry for entry in model.search_ if not np.isnan(entry.evidence)]
    top = max(entry.evidence for entry in scored)
    left.plot(
        [entry.n_factors for entry in scored],
        [entry.evidence - top for entry in scored],
        "D-",
        color=BLUE,
        label="evidence, scores integrated out",
    )
    left.axvline(model.n_factors_, color=ORANGE, lw=1.2, ls="--", label="chosen")
    left.set(
        xlabel="number of factors",
        ylabel="nats below the best",
        title="How many factors?",
        xlim=(4.7, 12.3),
        ylim=(-120, 8),
    )
    left.set_xticks(range(5, 13))
    left.legend(framealpha=1.0, edgecolor="none", loc="lower right", fontsize=8)

    image = right.imshow(model.loadings_.T, cmap=colours(), vmin=-1, vmax=1, aspect="auto")
    right.set_xticks(np.arange(25), bfi.feature_names, rotation=90, fontsize=7)
    right.set_yticks(
        np.arange(model.n_factors_), [f"F{i + 1}" for i in range(model.n_factors_)], fontsize=7
    )
    right.set_title("Mean loadings (principal axes)")
    figure.colorbar(image, ax=right, shrink=0.9)
    figure.savefig(HERE / "front.png", dpi=150)


def pictures_of_plots() -> None:
    """What docs/plots.md shows, by the calls it shows."""
    x = datasets.load_bfi(subset="items", as_frame=True).data.dropna()
    posterior = CuspFactorAnalysis().fit(x).posterior_
    draws = posterior.draw(500, random_state=0)
    left, _ = plots.plot_search(posterior, draws=draws)
    forests = plots.plot_forest(posterior, [1, 2, 3], draws=draws)
    loadings = plots.plot_loadings(posterior)
    for name, ax in {
        "plots_search.png": left,
        "plots_model_error.png": plots.plot_model_error(posterior),
        "plots_scree.png": plots.plot_scree(posterior),
        "plots_loadings.png": loadings,
        "plots_forest.png": forests[0],
    }.items():
        ax.figure.savefig(HERE / name, dpi=110)


if __name__ == "__main__":
    front_picture()
    pictures_of_plots()
