"""What is public can be imported, and results are instances of what is public."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

import cuspfa
from cuspfa import CuspFactorAnalysis, datasets

PACKAGES = ["cuspfa", "cuspfa.posterior", "cuspfa.rotation", "cuspfa.diagnostics"]
X = datasets.simulate(60, 6, 2, random_state=3).X


@pytest.mark.parametrize("name", [*PACKAGES, "cuspfa.fit_indices", "cuspfa.retention"])
def test_all_names_are_there(name):
    parent, _, last = name.rpartition(".")
    package = getattr(importlib.import_module(parent), last) if parent else cuspfa
    for public in package.__all__:
        assert getattr(package, public) is not None
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize("name", PACKAGES)
def test_each_package_can_be_imported_first(name):
    code = f"import {name} as package; [getattr(package, one) for one in package.__all__]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_package_is_quick_to_import():
    code = "import sys, cuspfa.posterior, cuspfa.rotation; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_results_are_of_public_classes():
    from cuspfa import diagnostics, posterior, rotation

    model = CuspFactorAnalysis(n_factors=2).fit(X)
    found = model.posterior_
    assert isinstance(found, posterior.VariationalPosterior)
    assert isinstance(found.draw(5), posterior.Draws)
    assert isinstance(found.interval("mean", n_draws=5), posterior.Interval)
    assert isinstance(found.summary(n_draws=20), posterior.Summary)
    assert isinstance(found.fit_info, posterior.FitInfo)
    assert isinstance(model.search_, posterior.SearchPath)
    assert isinstance(model.factor_scores(X), posterior.FactorScores)
    aligned = found.align(n_draws=5)
    assert isinstance(aligned, rotation.AlignedDraws)
    assert isinstance(aligned.table(), rotation.LoadingTable)
    assert isinstance(aligned.top_items(1)[0][0], rotation.Item)
    assert isinstance(found.rotated_solution, rotation.RotatedLoadings)
    parallel = cuspfa.retention.parallel_analysis(np.corrcoef(X.T), 60)
    assert isinstance(parallel, diagnostics.ParallelAnalysis)
