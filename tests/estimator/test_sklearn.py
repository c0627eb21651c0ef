"""scikit-learn's contract: its own checks, meta-estimators, frames, pickles, notebooks."""

import os
import pickle
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from joblib import Parallel, delayed
from numpy.testing import assert_allclose
from sklearn import set_config
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from cuspfa import CuspFactorAnalysis, CuspPrior, Moments, Variational, datasets
from cuspfa.errors import CuspWarning, DataError
from support import run_python

X = datasets.simulate(150, 8, 2, random_state=3).X
NAMES = [f"item {j}" for j in range(8)]


def expected_failures(estimator):
    """None: every check passes."""
    return {}


def all_checks():
    """scikit-learn's own mark with its checks in a list: pytest dislikes the iterator of 1.6."""
    random = CuspFactorAnalysis(method=Variational(init="random", n_init=2))
    mark = parametrize_with_checks(
        [CuspFactorAnalysis(), random], expected_failed_checks=expected_failures
    ).mark
    return pytest.mark.parametrize(mark.args[0], list(mark.args[1]), **mark.kwargs)


# scikit-learn skips its array API check unless SCIPY_ARRAY_API is set before SciPy is imported;
# `test_every_check_passes_with_the_array_api_too` runs it so.
@all_checks()
def test_scikit_learn_check(estimator, check):
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        # Some of its data sets have a constant-but-for-one-row column, or as few rows.
        check(estimator)


@pytest.mark.long
def test_every_check_passes_with_the_array_api_too():
    program = (
        "from collections import Counter\n"
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from cuspfa import CuspFactorAnalysis\n"
        "results = check_estimator(CuspFactorAnalysis(), on_fail=None)\n"
        "print(Counter(one['status'] for one in results))\n"
    )
    done = run_python("-c", program, env={**os.environ, "SCIPY_ARRAY_API": "1"}, check=True)
    assert "'passed'" in done.stdout
    for word in ("failed", "skipped", "xfail"):
        assert word not in done.stdout


def test_pipeline_and_cross_validation():
    pipeline = make_pipeline(StandardScaler(), CuspFactorAnalysis(), LinearRegression())
    target = X @ np.arange(8.0)
    assert pipeline.fit(X, target).score(X, target) > 0.5
    assert pipeline[:-1].get_feature_names_out().tolist() == ["factor1", "factor2"]
    scores = cross_val_score(CuspFactorAnalysis(), X, cv=3)
    assert np.all(np.isfinite(scores))


def test_grid_search_over_the_method_and_the_number_of_factors():
    grid = {"n_factors": [0, 2], "method__tol": [0.5, 0.01], "prior": [None, CuspPrior(alpha=2.0)]}
    search = GridSearchCV(CuspFactorAnalysis(method=Variational()), grid, cv=3).fit(X)
    assert search.best_params_["n_factors"] == 2
    assert search.best_estimator_.n_factors_ == 2


def test_pickle_and_clone():
    model = CuspFactorAnalysis(prior=CuspPrior(alpha=3.0), random_state=1).fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.transform(X), model.transform(X), rtol=0)
    assert_allclose(
        again.posterior_.draw(5, random_state=0).loadings,
        model.posterior_.draw(5, random_state=0).loadings,
        rtol=0,
    )
    copy = clone(model)
    assert not hasattr(copy, "components_")
    assert copy.get_params(deep=False) == model.get_params(deep=False)


FRAMES = {
    "pandas": lambda x: pd.DataFrame(x, columns=NAMES),
    "polars": lambda x: pl.DataFrame(x, schema=NAMES),
    "pyarrow": lambda x: pa.table(dict(zip(NAMES, x.T, strict=True))),
}


RENAMED = {
    "pandas": lambda frame: frame.rename(columns={"item 7": "item 9"}),
    "polars": lambda frame: frame.rename({"item 7": "item 9"}),
    "pyarrow": lambda frame: frame.rename_columns([*NAMES[:7], "item 9"]),
}
CHOSEN = {
    "pandas": lambda frame, names: frame[names],
    "polars": lambda frame, names: frame[names],
    "pyarrow": lambda frame, names: frame.select(names),
}


@pytest.mark.parametrize("library", FRAMES)
def test_frames_in_every_method(library):
    make = FRAMES[library]
    renamed = RENAMED[library](make(X))
    model, plain = CuspFactorAnalysis().fit(make(X)), CuspFactorAnalysis().fit(X)
    assert model.feature_names_in_.tolist() == NAMES
    assert_allclose(model.transform(make(X)), plain.transform(X))
    assert_allclose(model.score_samples(make(X)), plain.score_samples(X))
    with pytest.raises(DataError, match=r"(?s)feature names should match.*item 9"):
        model.transform(renamed)
    with pytest.raises(DataError, match="must be in the same order as they were in fit"):
        model.score(CHOSEN[library](make(X), NAMES[::-1]))
    with pytest.raises(DataError, match="seen at fit time, yet now missing:\n- item 7"):
        model.score_samples(CHOSEN[library](make(X), NAMES[:7]))
    with pytest.raises(DataError, match="feature names should match"):
        model.transform(RENAMED[library](make(np.full_like(X, np.nan))))  # names before values
    with pytest.warns(UserWarning, match="X has feature names, but .* fitted without"):
        assert_allclose(plain.transform(make(X)), plain.transform(X))
    with pytest.raises(ValueError, match="X has 7 features, but .* is expecting 8"):
        plain.transform(X[:, :7])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.transform(X)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output(library):
    model = CuspFactorAnalysis().set_output(transform=library)
    frame = FRAMES[library](X)
    scores = model.fit_transform(frame)
    assert type(scores) is type(frame)
    assert list(scores.columns) == ["factor1", "factor2"]
    assert_allclose(scores.to_numpy(), CuspFactorAnalysis().fit_transform(X))
    if library == "pandas":
        odd = frame.set_index(np.arange(150) + 1000)
        assert model.fit_transform(odd).index.tolist() == odd.index.tolist()


def test_the_view_in_a_notebook():
    model = CuspFactorAnalysis()
    assert "number of factors" not in model._repr_html_()
    model.fit(X)
    for page in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert '<td style="text-align:left">number of factors</td>' in page
        assert "CuspFactorAnalysis" in page
        # The last thing inside the body, not behind it; scikit-learn 1.6 has no body.
        assert page.removesuffix("</body>").endswith("</table>")
        assert page.endswith("</body>") == ("<body>" in page)
        check = Tags()
        check.feed(page)
        assert not check.open
    set_config(display="text")
    try:
        assert not hasattr(model, "_repr_html_")
        assert set(model._repr_mimebundle_()) == {"text/plain"}
    finally:
        set_config(display="diagram")


class Tags(HTMLParser):
    """Tags that are open; a closing one must be of the last that was opened."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag != "input":  # has no end
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        pass


def test_nearly_constant_columns_are_named_in_one_warning():
    data = np.random.default_rng(0).normal(size=(300, 30))
    data[:, 3] = data[:, 20:27] = 1.0
    data[[5, 9], 3], data[range(10, 17), range(20, 27)] = 2.0, 5.0
    frame = pd.DataFrame(data, columns=[f"v{j}" for j in range(30)])
    with pytest.warns(CuspWarning) as caught:
        CuspFactorAnalysis(n_factors=1).fit(frame)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert "column 'v3' (index 3), column 'v20'" in message
    assert "and 3 more are nearly constant: at most 3 of 300 rows differ" in message
    assert "Drop them" in message
    assert caught[0].filename == __file__
    data[:30, 3] = np.arange(30)  # negative control: many rows differ
    data[:30, 20:27] = np.random.default_rng(1).normal(size=(30, 7))
    CuspFactorAnalysis(n_factors=1).fit(data)


LOUD = CuspFactorAnalysis(method=Variational(max_factors=1))
CALLS = {
    "fit": lambda: LOUD.fit(X),
    "fit_transform": lambda: LOUD.fit_transform(X),
    "fit_moments": lambda: LOUD.fit_moments(Moments.from_rows(X)),
    "not converged": lambda: CuspFactorAnalysis(
        n_factors=2, method=Variational(max_iter=1, tol=1e-9)
    ).fit(X),
    "pipeline": lambda: make_pipeline(StandardScaler(), LOUD).fit(X),
    "pipeline, frames": lambda: (
        make_pipeline(StandardScaler(), LOUD).set_output(transform="pandas").fit_transform(X)
    ),
    "search": lambda: GridSearchCV(LOUD, {"standardize": [True]}, cv=2, refit=False).fit(X),
    "threads": lambda: Parallel(1)(delayed(LOUD.fit)(X) for _ in range(1)),
    "names": lambda: CuspFactorAnalysis().fit(FRAMES["pandas"](X)).transform(X),
    "names, pipeline": lambda: (
        make_pipeline(CuspFactorAnalysis()).fit(X).transform(FRAMES["pandas"](X))
    ),
    "moments": lambda: Moments.from_correlation([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]], 9),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_warnings_point_at_the_call(call):
    with pytest.warns(CuspWarning) as caught:
        call()
    assert {one.filename for one in caught} == {__file__}


def test_a_failed_refit_leaves_the_old_result():
    model = CuspFactorAnalysis().fit(X)
    before = model.transform(X)
    with pytest.raises(DataError):
        model.fit(np.full((5, 3), np.nan))
    with pytest.raises(ValueError, match="n_factors must be at most the 3 columns"):
        model.set_params(n_factors=5).fit(X[:, :3])
    assert np.array_equal(model.transform(X), before)


def test_zero_rows():
    model = CuspFactorAnalysis().fit(X)
    assert model.transform(X[:0]).shape == (0, 2)
    with pytest.raises(DataError, match="0 sample"):
        model.score(X[:0])
