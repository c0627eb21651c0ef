"""Draw the README's picture: `make figures`."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from cuspfa import CuspFactorAnalysis, datasets

HERE = Path(__file__).parent


def front_picture() -> None:
    """Where twenty random starts end, and the loadings of the best."""
    bfi = datasets.load_bfi(subset="paper")
    model = CuspFactorAnalysis.as_published("variational", random_state=0).fit(bfi.data)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(8.4, 3.6), width_ratios=[1.0, 1.25], layout="constrained"
    )

    k = [entry.n_factors for entry in model.search_]
    bounds = [entry.lower_bound for entry in model.search_]
    left.plot(k, bounds, "o", color="#0072b2", alpha=0.55, label="a random start")
    left.plot(
        model.n_factors_, model.lower_bound_, "D", color="#d55e00", ms=8, label="the best, kept"
    )
    left.set(xlabel="active factors", ylabel="evidence lower bound", title="20 starts, one answer")
    left.set_xticks(range(min(k), max(k) + 1))
    left.legend(frameon=False, loc="lower left")

    image = right.imshow(model.loadings_.T, cmap="PuOr_r", vmin=-1, vmax=1, aspect="auto")
    right.set_xticks(np.arange(25), bfi.feature_names, rotation=90, fontsize=7)
    right.set_yticks(np.arange(model.n_factors_), [f"F{i + 1}" for i in range(model.n_factors_)])
    right.set_title("Mean loadings, 25 personality items")
    figure.colorbar(image, ax=right, shrink=0.9)
    figure.savefig(HERE / "front.png", dpi=150)


if __name__ == "__main__":
    front_picture()
