"""Fits as files: nothing is lost, nothing of the rows is inside, and nothing bad is read."""

import io
import json
import math
import os
import pickle
import stat
import struct
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from cuspfa import (
    CuspFactorAnalysis,
    CuspPrior,
    EmpiricalBayesSlab,
    GaussianSlab,
    InverseGammaSlab,
    Moments,
    __version__,
    datasets,
)
from cuspfa.data.in_memory import RotatedRows
from cuspfa.errors import CuspError, CuspWarning, FileError, InputError
from cuspfa.inference.updates import Loadings
from cuspfa.io import archive
from cuspfa.io.posterior_format import FIT_VERSION
from cuspfa.posterior import VariationalPosterior, load, load_scores, variational_entries
from support import run_python, variational_posterior

X = datasets.simulate(60, 6, 2, random_state=3).X * np.arange(1, 7) + 5.0
NAMES = ["Größe, cm", 'the "second"', "心拍数", "a\nb\t\\", "", "\ud800 alone"]
MODEL = CuspFactorAnalysis().fit(X)
POSTERIOR = replace(variational_posterior(MODEL), alternatives=(), weight=1.0)


@cache
def with_alternatives():
    """The fit above, with posteriors for one factor and for none beside it."""
    alternatives = [
        replace(
            CuspFactorAnalysis(n_factors=k).fit(X).posterior_,
            statistics=POSTERIOR.statistics,
            weight=0.3 - 0.1 * k,
            fit_info=None,
            provenance=None,
            curve_maker=None,
        )
        for k in (1, 0)
    ]
    return replace(POSTERIOR, weight=0.5, alternatives=tuple(alternatives))


@cache
def fitted(name):
    wide = datasets.simulate(8, 15, 1, random_state=0).X
    slabs = {
        "gaussian": GaussianSlab(0.3),
        "inverse gamma": InverseGammaSlab(2.0, 0.5),
        "pooled": InverseGammaSlab(2.0, 0.4, pooled=np.True_),
        "learned": EmpiricalBayesSlab(),
        "learned, common": EmpiricalBayesSlab(shared=True),
    }
    if name in slabs:
        prior = CuspPrior(alpha=4.0, slab=slabs[name])
        return CuspFactorAnalysis(prior=prior).fit(X).posterior_
    if name == "alternatives":
        return with_alternatives()
    if name == "names":
        return replace(POSTERIOR, names=NAMES, alternatives=())
    if name == "no factors":
        return CuspFactorAnalysis(n_factors=0).fit(X).posterior_
    if name == "finite spike":
        return CuspFactorAnalysis.as_published(search=True).fit(X / 3).posterior_
    if name == "other sticks":
        return CuspFactorAnalysis(prior=CuspPrior(stick_shape=2.0)).fit(X).posterior_
    if name == "rows":
        return CuspFactorAnalysis().fit(wide).posterior_
    if name == "sparse":
        return CuspFactorAnalysis().fit(sparse.csr_array(wide)).posterior_
    if name == "moments":
        return CuspFactorAnalysis().fit_moments(Moments.from_rows(X)).posterior_
    assert name == "dependent columns"
    with pytest.warns(CuspWarning, match="linearly dependent"):
        return CuspFactorAnalysis().fit(np.column_stack([X, X[:, 0] + X[:, 1]])).posterior_


KINDS = (
    "gaussian",
    "inverse gamma",
    "pooled",
    "learned",
    "learned, common",
    "alternatives",
    "names",
    "no factors",
    "finite spike",
    "other sticks",
    "rows",
    "sparse",
    "moments",
    "dependent columns",
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file with all there can be in one, as bytes."""
    path = tmp_path_factory.mktemp("saved") / "fit.cuspfa"
    replace(with_alternatives(), names=None).save(path, scores=MODEL.transform(X))
    return path.read_bytes()


def read(content, folder, name="changed.cuspfa"):
    path = Path(folder) / name
    path.write_bytes(content)
    return load(path)


def unpacked(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members):
    """As cuspfa packs: checksums, sizes and directory are right, whatever is inside."""
    return b"".join(
        archive.archive_bytes({name: [memoryview(one)] for name, one in members.items()})
    )


def changed(content, change):
    """The same file with something else in its JSON, and right checksums."""
    members = unpacked(content)
    values = json.loads(members["fit.json"])
    change(values)
    return packed(members | {"fit.json": json.dumps(values).encode()})


def assert_same(one, other):
    """Also where there is NaN, and in the same memory order."""
    assert type(one) is type(other) or {type(one), type(other)} == {bool, np.bool_}
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other, strict=True)
        assert one.flags.c_contiguous == other.flags.c_contiguous
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, float) and math.isnan(one):
        assert math.isnan(other)
    elif hasattr(one, "__dict__"):
        for name in vars(one).keys() - {"rows", "rotated_solution"}:  # made when first asked for
            assert_same(vars(one)[name], vars(other)[name])
    else:
        assert one == other


# --- there and back ---


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_posterior_is_the_saved_one(kind, tmp_path):
    posterior = fitted(kind)
    path, again = tmp_path / "fit.cuspfa", tmp_path / "again.cuspfa"
    posterior.save(path)
    loaded = load(str(path))
    assert_same(posterior, loaded)
    assert posterior.prior == loaded.prior
    assert posterior.slab == loaded.slab
    assert repr(posterior) == repr(loaded)
    for how in ({}, {"average_over_k": True}, {"sweeps": 0}, {"mean_field": True}):
        before, after = (one.draw(7, random_state=5, **how) for one in (posterior, loaded))
        assert np.array_equal(before.loadings, after.loadings)
        assert np.array_equal(before.noise_variance, after.noise_variance)
    loaded.save(again)
    assert path.read_bytes() == again.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["again.cuspfa", "fit.cuspfa"]


def test_the_kinds_are_what_they_say():
    assert fitted("no factors").n_active == 0
    assert fitted("sparse").statistics is None
    assert fitted("rows").statistics.gram is None
    assert fitted("gaussian").statistics.gram is not None
    spiked = fitted("finite spike")
    assert spiked.prior.spike is not None
    assert (
        spiked.loadings_distribution.basis.shape[0] <= spiked.loadings_distribution.basis.shape[1]
    )
    assert len({one.n_active for one in (POSTERIOR, *fitted("alternatives").alternatives)}) == 3


def test_alternatives_of_a_search_are_kept(tmp_path):
    for seed in range(2, 20):
        few = datasets.simulate(25, 8, 3, random_state=seed).X
        posterior = CuspFactorAnalysis().fit(few).posterior_
        if posterior.alternatives:
            break
    else:
        pytest.fail("no data set has alternatives")
    posterior.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    assert_same(posterior, loaded)
    assert all(rival.statistics is loaded.statistics for rival in loaded.alternatives)


def test_the_summary_is_the_same(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    posterior = CuspFactorAnalysis().fit(frame).posterior_
    posterior.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    assert str(posterior.summary(n_draws=50)) == str(loaded.summary(n_draws=50))
    assert loaded.names == list("abcdef")
    assert np.array_equal(posterior.sample_correlation, loaded.sample_correlation)


def test_arrays_of_any_memory_order_and_infinite_eigenvalues(tmp_path):
    distribution = POSTERIOR.loadings_distribution
    assert isinstance(distribution, Loadings)
    wide = np.zeros((12, 4))
    wide[::2, ::2] = distribution.mean
    loadings = Loadings(
        wide[::2, ::2], distribution.basis, distribution.weights, np.full(2, np.inf), -math.inf
    )
    replace(POSTERIOR, loadings_distribution=loadings).save(tmp_path / "fit")
    loaded = load(tmp_path / "fit").loadings_distribution
    assert np.array_equal(loaded.mean, distribution.mean)
    assert np.all(loaded.eigenvalues == np.inf)
    assert loaded.log_det == -math.inf


def test_a_posterior_of_numpy_numbers_is_saved(tmp_path):
    fit_info = POSTERIOR.fit_info._replace(n_iter=np.int64(3), converged=np.True_)
    entries = [entry._replace(n_factors=np.int64(entry.n_factors)) for entry in fit_info.search]
    posterior = replace(
        POSTERIOR,
        n_rows=np.int64(60),
        weight=np.float64(1.0),
        fit_info=fit_info._replace(search=entries, lower_bound=np.float64(-1.5)),
    )
    posterior.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    assert type(loaded.n_rows) is int
    assert loaded.fit_info.lower_bound == -1.5


def test_without_statistics(tmp_path):
    path = tmp_path / "fit"
    posterior = with_alternatives()
    posterior.save(path, statistics=False)
    loaded = load(path)
    assert isinstance(loaded, VariationalPosterior)
    assert loaded.statistics is None
    assert all(rival.statistics is None for rival in loaded.alternatives)
    assert "statistics.npy" not in unpacked(path.read_bytes())
    without = posterior.draw(5, random_state=1, sweeps=0)
    assert np.array_equal(without.loadings, loaded.draw(5, random_state=1).loadings)
    with pytest.raises(InputError, match="no statistics are kept"):
        loaded.draw(5, sweeps=3)


def test_the_same_bytes_every_time_and_no_date(tmp_path):
    for name in ("one", "two"):
        POSTERIOR.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with zipfile.ZipFile(tmp_path / "one") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_other_programs_see_a_zip_and_an_npz_file(saved, tmp_path):
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        assert archive.testzip() is None
        content = json.loads(archive.read("fit.json"))
        archive.extractall(tmp_path)
    assert (tmp_path / "alternatives" / "2" / "active.npy").is_file()
    assert (content["format"], content["version"]) == ("cuspfa-fit", FIT_VERSION)
    assert content["library"] == __version__
    assert content["prior"]["slab"]["type"] == "InverseGammaSlab"
    with np.load(io.BytesIO(saved), allow_pickle=False) as arrays:
        assert np.array_equal(arrays["center"], POSTERIOR.center)
        assert np.array_equal(arrays["loadings_mean"], POSTERIOR.loadings_distribution.mean)
        assert arrays["alternatives/2/loadings_mean"].shape == (6, 0)


# --- what is not inside ---


@pytest.mark.parametrize("shape", [(60, 6), (8, 15)])
def test_no_row_score_or_label_is_inside(shape, tmp_path):
    n, p = shape
    rows = datasets.simulate(n, p, 1, random_state=7).X
    frame = pd.DataFrame(rows, index=[f"patient-{i}" for i in range(len(rows))])
    frame.columns = [f"item-{j}" for j in range(rows.shape[1])]
    model = CuspFactorAnalysis().fit(frame)
    model.posterior_.save(tmp_path / "fit")
    content = (tmp_path / "fit").read_bytes()
    assert b"item-3" in content
    assert b"patient" not in content
    centred = rows - rows.mean(axis=0)
    for table in (rows, centred, centred / rows.std(axis=0, ddof=1), model.transform(frame)):
        for number in np.asarray(table, dtype="<f8").ravel():
            assert struct.pack("<d", number) not in content
    assert load_scores(tmp_path / "fit") is None
    held = load(tmp_path / "fit").statistics.rows
    assert len(held) <= min(shape[0] - 1, shape[1])


@pytest.mark.parametrize("wrap", [np.asarray, pd.DataFrame, np.ndarray.tolist, np.asfortranarray])
def test_scores_are_inside_when_asked_for(wrap, tmp_path):
    scores, path = MODEL.transform(X), tmp_path / "fit"
    POSTERIOR.save(path, scores=wrap(scores))
    assert np.array_equal(load_scores(path), scores)
    load(path).save(path)  # a posterior holds no scores
    assert load_scores(path) is None


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.zeros((3, 2)), "of shape (60, 2)"),
        (np.zeros(60), "of shape (60, 2)"),
        (np.full((60, 2), np.nan), "finite"),
        ([["a", "b"]] * 60, "an array of numbers"),
        ([[1.0], [1.0, 2.0]], "an array of numbers"),
    ],
)
def test_wrong_scores_are_refused(scores, message, tmp_path):
    with pytest.raises(InputError) as caught:
        POSTERIOR.save(tmp_path / "fit", scores=scores)
    assert message in str(caught.value)
    assert not os.listdir(tmp_path)


# --- what cannot be saved ---


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    class Other(InverseGammaSlab):
        pass

    wrong: dict[str, dict[str, Any]] = {
        "cannot be there": {"scale": -POSTERIOR.scale},
        "scale.npy of shape": {"scale": np.ones((6, 1))},
        "names are not those": {"names": ["a"]},
        "of type Other": {"slab": Other()},
        "same data and prior": {"alternatives": (replace(POSTERIOR, names=NAMES),)},
        "weight cannot be": {"weight": 1.5},
        "of fit.json": {"names": ["x" * (1 << 24)] * 6},
    }
    for message, values in wrong.items():
        with pytest.raises(InputError, match=message):
            replace(POSTERIOR, **({"alternatives": ()} | values)).save(tmp_path / "fit")
    with pytest.raises(InputError, match="True or False"):
        POSTERIOR.save(tmp_path / "fit", statistics="no")
    assert not os.listdir(tmp_path)


def test_a_file_that_would_be_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "LARGEST_FILE", 5000)
    with pytest.raises(InputError, match="no more than 5,000"):
        POSTERIOR.save(tmp_path / "fit")
    assert not os.listdir(tmp_path)


# --- damage ---


def refused(content, folder):
    """True if it is refused by the one kind of error there is for it, with a message."""
    with pytest.raises(FileError) as caught:
        read(content, folder)
    assert "changed.cuspfa' " in str(caught.value)
    assert len(str(caught.value)) < 600
    assert str(caught.value).endswith(".")
    return True


def test_a_file_cut_off_anywhere_is_refused(saved, tmp_path):
    for length in {*range(60), *range(60, len(saved), 89), len(saved) - 1}:
        assert refused(saved[:length], tmp_path)


def test_any_byte_that_is_changed_is_noticed(saved, tmp_path):
    end = len(saved) - 80  # in the directory, and after it
    for position in {*range(46), *range(46, end, 37), *range(end, len(saved))}:
        damaged = bytearray(saved)
        damaged[position] ^= 1 << position % 8
        assert refused(damaged, tmp_path), position


HUNDRED_EXAMPLES = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@HUNDRED_EXAMPLES
@given(data=st.data())
def test_other_damage_is_noticed(saved, tmp_path, data):
    first = data.draw(st.integers(0, len(saved)))
    last = data.draw(st.integers(first, min(len(saved), first + 300)))
    middle = data.draw(st.binary(max_size=40))
    damaged = saved[:first] + middle + saved[last:]
    assert damaged == saved or refused(damaged, tmp_path)


@HUNDRED_EXAMPLES
@given(data=st.data())
def test_any_other_json_with_right_checksums_is_refused_or_read(saved, tmp_path, data):
    """Whoever can write checksums still meets no other error."""
    members = unpacked(saved)
    values = json.loads(members["fit.json"])
    place = values
    while True:  # walk down to some entry
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        below = place[key]
        if not isinstance(below, (dict, list)) or not below or data.draw(st.booleans()):
            break
        place = below
    numbers = st.integers() | st.floats()
    place[key] = data.draw(
        st.none() | st.booleans() | numbers | st.text(max_size=5) | st.lists(numbers, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "n"]), numbers, max_size=2)
    )  # fmt: skip
    content = packed(members | {"fit.json": json.dumps(values).encode()})
    try:
        found = read(content, tmp_path)
    except FileError:
        return
    found.summary(n_draws=2)
    found.draw(2, random_state=0, average_over_k=True)


@HUNDRED_EXAMPLES
@given(content=st.binary(max_size=200))
def test_noise_is_refused(tmp_path, content):
    assert refused(content, tmp_path)
    assert refused(b"PK\3\4" + content, tmp_path)


def test_an_array_with_right_checksum_and_wrong_numbers(saved, tmp_path):
    members = unpacked(saved)
    wrong = [("center", np.nan), ("alternatives/1/active", -0.1), ("active", 1.1)]
    signed = [
        name for name in variational_entries.POSITIVE if name != "counts"
    ]  # of incomplete data alone
    wrong += [(name, number) for name in signed for number in (0.0, -1.0)]
    wrong += [(name, -1e-3) for name in variational_entries.NOT_NEGATIVE]
    for name, number in wrong:
        assert refused(with_number(members, name, number), tmp_path), name
    for name in variational_entries.NOT_NEGATIVE:  # zero may be there
        assert read(with_number(members, name, 0.0), tmp_path).n_active == 2


def test_counts_of_data_with_missing_values_are_positive(tmp_path):
    incomplete = X.copy()
    incomplete[::5, 1] = np.nan
    CuspFactorAnalysis(n_factors=1).fit(incomplete).posterior_.save(tmp_path / "fit")
    members = unpacked((tmp_path / "fit").read_bytes())
    for number in (0.0, -1.0):
        assert refused(with_number(members, "counts", number), tmp_path)


def test_which_arrays_have_a_sign():
    """Written here once more, so that none is lost there."""
    assert set(variational_entries.POSITIVE) == {"scale", "noise_shape", "noise_rate", "counts"}
    assert set(variational_entries.NOT_NEGATIVE) == {
        "loadings_weights",
        "loadings_eigenvalues",
        "active",
        "tail_variance",
    }


def with_number(members, name, number, place=0):
    """The file with one number of an array replaced."""
    where, at = f"{name}.npy", 128 + 8 * place
    array = members[where][:at] + struct.pack("<d", number) + members[where][at + 8 :]
    return packed(members | {where: array})


@pytest.mark.parametrize("number", [1e308, -1e308, 1e200, 1e-300])
def test_numbers_that_would_overflow(saved, tmp_path, number):
    """They are refused, or harmless: never a warning of NumPy's."""
    members = unpacked(saved)
    must = {
        "loadings_mean",
        "noise_rate",
        "statistics",
        "alternatives/1/loadings_mean",
        "scores_inner",
    }
    for name in (one.removesuffix(".npy") for one in members if one.endswith(".npy")):
        if len(members[f"{name}.npy"]) == 128:  # an empty array
            continue
        try:
            found = read(with_number(members, name, number), tmp_path)
        except FileError:
            continue
        assert name not in must or abs(number) < 1
        found.summary(n_draws=20)
        found.draw(5, random_state=0, average_over_k=True)


def test_what_is_no_covariance(saved, tmp_path):
    members = unpacked(saved)
    for name in (
        "scores_covariance",
        "scores_inner",
        "alternatives/1/scores_covariance",
        "statistics",
    ):
        assert refused(with_number(members, name, -1.0), tmp_path)  # on the diagonal
    for name, number in (("scores_covariance", 10.0), ("scores_inner", 1e4), ("statistics", 1e3)):
        assert refused(with_number(members, name, number, 1), tmp_path)  # not symmetric
        wide = 6 if name == "statistics" else 2
        once = unpacked(with_number(members, name, number, 1))
        assert refused(with_number(once, name, number, wide), tmp_path)  # not positive
    assert refused(with_number(members, "statistics", 0.0), tmp_path)  # a constant column


def test_rows_of_a_constant_column(tmp_path):
    posterior = fitted("rows")
    rows = posterior.statistics.rows.copy()
    rows[:, 2] = 0.0
    known = RotatedRows(None, rows, posterior.statistics.n)
    wrong = replace(posterior, statistics=known, alternatives=())
    with pytest.raises(InputError, match=r"statistics\.npy that cannot be there"):
        wrong.save(tmp_path / "fit")


def test_one_name_for_two_columns(saved, tmp_path):
    with pytest.raises(FileError, match="two of its columns have the same name"):
        read(changed(saved, lambda values: values.update(names=list("abcdea"))), tmp_path)
    assert read(changed(saved, lambda values: values.update(names=list("abcdef"))), tmp_path)


def test_what_does_not_fit_together(saved, tmp_path):
    def set_in(*keys, value):
        def change(values):
            for key in keys[:-1]:
                values = values[key]
            values[keys[-1]] = value

        return change

    changes = {
        "names are not those of 6 columns": set_in("names", value=["a"] * 7),
        "describes no posterior": set_in("parts", value=[]),
        "cut off": set_in("parts", 0, "n_factors", value=3),
        "should have": set_in("parts", 0, "n_factors", value=1),
        "cross-products of 5 instead of 6": set_in("statistics", "n_rows", value=5),
        "cross-products of 6 instead of 7": set_in("n_columns", value=7),
        "n_columns cannot be 1.0": set_in("n_columns", value=1.0),
        "n_columns cannot be True": set_in("n_columns", value=True),
        "n_rows cannot be -1": set_in("n_rows", value=-1),
        "n_rows cannot be 0": set_in("n_rows", value=0),
        "n_rows cannot be 1": set_in("n_rows", value=1),
        "n cannot be 61.0, of 60 rows": set_in("parts", 0, "n", value=61.0),
        "n cannot be 1e+300, of 60 rows": set_in("statistics", "n", value=1e300),
        "kind cannot be 'other'": set_in("kind", value="other"),
        "slab cannot be 'os.system'": set_in("parts", 0, "slab", "type", value="os.system"),
        "slab rate must be": set_in("prior", "slab", "rate", value=-1.0),
        "spike must be": set_in("prior", "spike", value=1.0),
        "prior has wrong or missing entries": set_in("prior", "more", value=1.0),
        "fit.json has wrong or missing entries": set_in("more", value=1.0),
        "weight cannot be 'NaN'": set_in("parts", 0, "weight", value="NaN"),
        "n cannot be 'Infinity'": set_in("parts", 0, "n", value="Infinity"),
        "parts cannot be a list": set_in("parts", value=[{}] * 2000),
        "fit_info has wrong or missing entries": set_in("parts", 0, "fit_info", value={}),
        "scores cannot be 1": set_in("scores", value=1),
    }
    for message, change in changes.items():
        with pytest.raises(FileError) as caught:
            read(changed(saved, change), tmp_path)
        assert message in str(caught.value)
    assert read(changed(saved, lambda values: None), tmp_path).n_active == 2


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"3",
        b"null",
        b'"cuspfa-fit"',
        b"{",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"format": NaN}',
        b'{"format": "cuspfa-fit", "version": ' + b"9" * 10_000 + b"}",
        b'{"format": "cuspfa-fit", "version": "1"}',
        b'{"format": "cuspfa-fit", "version": 0}',
        b'{"format": "cuspfa-fit"}',
        b'{"format": {"a": 1}}',
    ],
)
def test_other_json(saved, tmp_path, text):
    assert refused(packed(unpacked(saved) | {"fit.json": text}), tmp_path)
    assert refused(packed({"fit.json": text}), tmp_path)


# --- other files ---


def test_a_newer_file_asks_for_an_upgrade(saved, tmp_path):
    def newer(values):
        values.clear()
        values.update(format="cuspfa-fit", version=99, library="9.1.0", anything=[1, 2])

    for content in (changed(saved, newer), changed(saved, newer)[:-500]):
        with pytest.raises(FileError) as caught:
            read(content, tmp_path)
        message = str(caught.value)
        assert "version 99 of the format, written by cuspfa '9.1.0'" in message
        assert message.endswith("Upgrade cuspfa to read it.")


def test_files_of_other_kinds_are_named(tmp_path):
    table, array, foreign, empty = (io.BytesIO() for _ in range(4))
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("word/document.xml", "text")
    zipfile.ZipFile(empty, "w").close()
    np.save(array, np.ones(3))
    np.savez(table, center=np.ones(3))
    kinds = {
        "it is empty": b"",
        "text or a table": "name,value\nGröße,3\n".encode(),
        "JSON text": json.dumps(POSTERIOR.to_dict(n_draws=20)).encode(),
        "a pickle": pickle.dumps(POSTERIOR),
        "a NumPy array": array.getvalue(),
        "zip file that begins with 'center.npy'": table.getvalue(),
        "zip file that begins with 'word/document.xml'": foreign.getvalue(),
        "an empty zip file": empty.getvalue(),
        "an HDF5 file": b"\x89HDF\r\n\x1a\n",
        "a web page": b"<!DOCTYPE html>",
        "of an unknown kind": b"\0\1\2\3",
        "has format 'cuspfa-summary'": packed({"fit.json": b'{"format": "cuspfa-summary"}'}),
        "has format None": packed({"fit.json": b"{}"}),
    }
    for message, content in kinds.items():
        with pytest.raises(FileError, match="is not a fit saved by cuspfa") as caught:
            read(content, tmp_path)
        assert message in str(caught.value)


def test_a_file_packed_again_is_told_apart(saved, tmp_path):
    for kind in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        again = io.BytesIO()
        with zipfile.ZipFile(again, "w", kind) as archive:
            for name, content in unpacked(saved).items():
                archive.writestr(name, content)
        with pytest.raises(FileError, match="packed again by another program"):
            read(again.getvalue(), tmp_path)


# --- hostile files ---


def npy_of(array):
    made = io.BytesIO()
    np.save(made, array, allow_pickle=True)
    return made.getvalue()


class Trap:
    """What a pickle may do."""

    target: Path

    def __reduce__(self):
        return (os.mkdir, (str(Trap.target),))


def test_object_arrays_are_refused_and_not_run(saved, tmp_path):
    Trap.target = tmp_path / "trapped"
    members = unpacked(saved)
    trap = npy_of(np.array([Trap()], dtype=object))
    for content in (trap, trap[: len(members["center.npy"])].ljust(len(members["center.npy"]))):
        assert refused(packed(members | {"center.npy": content}), tmp_path)
    assert not Trap.target.exists()


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i8", "<c16", "<U2", "|V8", "|O"])
def test_other_types_of_number_are_refused(saved, tmp_path, dtype):
    members = unpacked(saved)
    whole = members["center.npy"]
    header = whole[:128].replace(b"'<f8'", f"'{dtype}'".encode())[:127].ljust(127) + b"\n"
    with pytest.raises(FileError, match="no array of float64 of shape .6,. as center.npy"):
        read(packed(members | {"center.npy": header + whole[128:]}), tmp_path)


def test_a_huge_claimed_shape_takes_no_memory(saved, tmp_path):
    huge = 1 << 40

    def columns(values):
        values["n_columns"] = huge
        values["statistics"]["n_rows"] = huge

    def factors(values):
        values["parts"][0]["n_factors"] = huge

    def rows(values):
        values["statistics"].update(type="rows", n_rows=huge)

    def trace(values):
        values["parts"][0]["fit_info"]["n_trace"] = huge

    for change in (columns, factors, rows, trace):
        with pytest.raises(FileError, match="cut off"):
            read(changed(saved, change), tmp_path)
    members = unpacked(saved)
    whole = members["center.npy"]
    header = whole[:128].replace(b"(6,), }" + b" " * 20, b"(1099511627776,), }        ")
    assert len(header) == 128
    assert header != whole[:128]
    assert refused(packed(members | {"center.npy": header + whole[128:]}), tmp_path)


def test_a_file_whose_sizes_lie(saved, tmp_path):
    """In the header of the first member, and beyond what the JSON may have."""
    for size in (1 << 20, (1 << 26) + 1, 0xFFFFFFFF):
        lying = bytearray(saved)
        struct.pack_into("<II", lying, 18, size, size)
        assert refused(lying, tmp_path)


def test_a_zip_bomb_is_not_unpacked(saved, tmp_path):
    members = unpacked(saved)
    for name in ("fit.json", "center.npy"):
        bomb = io.BytesIO()
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members.items():
                archive.writestr(member, bytes(1 << 25) if member == name else content)
        assert len(bomb.getvalue()) < 100_000
        assert refused(bomb.getvalue(), tmp_path)


@pytest.mark.parametrize("name", ["../escaped.npy", "/escaped.npy", "C:\\escaped", "more.npy"])
def test_members_of_other_names_are_refused(saved, tmp_path, name):
    inner = tmp_path / "inner"
    inner.mkdir()
    members = unpacked(saved)
    extra = {**members, name: members["center.npy"]}
    first = {name: members["center.npy"], **members}
    renamed = {(name if key == "scale.npy" else key): one for key, one in members.items()}
    for other in (extra, first, renamed):
        assert refused(packed(other), inner)
    assert os.listdir(tmp_path) == ["inner"]
    assert os.listdir(inner) == ["changed.cuspfa"]


def test_members_in_another_order_twice_or_missing_are_refused(saved, tmp_path):
    members = unpacked(saved)
    names = list(members)
    order = {name: members[name] for name in [names[0], *reversed(names[1:])]}
    missing = {name: one for name, one in members.items() if name != "scale.npy"}
    for other in (order, missing):
        assert refused(packed(other), tmp_path)
    center = members["center.npy"]
    piece = archive._local("center.npy", 0, len(center)) + center
    assert refused(saved + piece, tmp_path)
    assert refused(b"#!/bin/sh\n" + saved, tmp_path)


# --- the file system ---


def test_paths_of_all_kinds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    POSTERIOR.save("plain")
    POSTERIOR.save(Path("Größe 心.cuspfa"))
    POSTERIOR.save(str(tmp_path / ("x" * 250)))
    assert load(b"plain").n_active == 2
    assert load("Größe 心.cuspfa").n_active == 2
    assert load(tmp_path / ("x" * 250)).n_active == 2
    for wrong in (None, 3, ["plain"], io.BytesIO()):
        with pytest.raises(InputError, match="path must be a text or a path"):
            POSTERIOR.save(wrong)
        with pytest.raises(InputError, match="path must be a text or a path"):
            load(wrong)
    with pytest.raises(InputError, match="the name of a file"):
        POSTERIOR.save("a\0b")
    with pytest.raises(InputError, match="the name of a file"):
        load("a\0b")


def test_missing_files_folders_and_directories(tmp_path):
    (tmp_path / "file").write_text("text")
    for read_one in (load, load_scores):
        with pytest.raises(FileNotFoundError, match="nothing-here"):
            read_one(tmp_path / "nothing-here")
        with pytest.raises(InputError, match="path must be a file. Got the directory"):
            read_one(tmp_path)
        with pytest.raises(FileError, match="text or a table"):
            read_one(tmp_path / "file")
    with pytest.raises(InputError, match="path must be a file. Got the directory"):
        POSTERIOR.save(tmp_path)
    with pytest.raises(InputError, match="there is no directory .*Create it"):
        POSTERIOR.save(tmp_path / "no" / "fit")
    with pytest.raises(InputError, match="there is no directory"):
        POSTERIOR.save(tmp_path / "file" / "fit")
    with pytest.raises(InputError, match="the name of a file. Got ''"):
        POSTERIOR.save("")
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="the device or pipe"):
        load(tmp_path / "pipe")
    with pytest.raises(InputError, match="the device or pipe"):
        POSTERIOR.save(tmp_path / "pipe")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(InputError, match="no permission to write in"):
            POSTERIOR.save(tmp_path / "fit")
    finally:
        tmp_path.chmod(0o700)


def test_no_permission_is_said_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "old").write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(variational_entries.VariationalEntries, "describe", None)
    with pytest.raises(InputError, match="no permission to write in"):
        POSTERIOR.save(tmp_path / "fit")
    with pytest.raises(InputError, match="no permission to write to .*old"):
        POSTERIOR.save(tmp_path / "old")
    assert (tmp_path / "old").read_text() == "old"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
@pytest.mark.parametrize("old", [False, True])
def test_the_whole_file_or_nothing(error, where, old, tmp_path, monkeypatch):
    path = tmp_path / "fit"
    if old:
        path.write_text("old")

    def fail(*_):
        raise error

    def half(members, whole=archive.archive_bytes):
        pieces = whole(members)
        for _ in range(5):
            yield next(pieces)
        raise error

    if where == "write":
        monkeypatch.setattr(archive, "archive_bytes", half)
    elif where == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(type(error)):
        POSTERIOR.save(path)
    assert os.listdir(tmp_path) == (["fit"] if old else [])
    assert not old or path.read_text() == "old"


@pytest.mark.skipif(os.name != "posix", reason="modes and links are POSIX's")
def test_modes_and_links_are_kept(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    POSTERIOR.save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert load(real).n_active == 2
    before = os.umask(0o027)
    try:
        POSTERIOR.save(tmp_path / "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_another_process_draws_the_same(tmp_path):
    POSTERIOR.save(tmp_path / "fit")
    code = (
        "import sys; from cuspfa import load;"
        "print(load(sys.argv[1]).draw(5, random_state=1).loadings.tobytes().hex())"
    )
    done = run_python("-c", code, str(tmp_path / "fit"), check=True)
    assert done.stdout.strip() == POSTERIOR.draw(5, random_state=1).loadings.tobytes().hex()


def test_the_error_is_one_of_ours():
    assert issubclass(FileError, InputError)
    assert issubclass(FileError, CuspError)
    assert issubclass(FileError, ValueError)
