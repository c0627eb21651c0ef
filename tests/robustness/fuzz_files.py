"""Atheris on the reader of saved fits: `make fuzz` (needs `pip install --group fuzz`).

Bytes are taken as they are, or as a list of changes to a good file that is packed again with right
checksums, so that what lies behind these is tried too. What is read must also be of use. Anything
but a CuspError, more than a GB at once, or ten seconds for one file is a failure.
"""

from __future__ import annotations

import io
import json
import struct
import sys
import tempfile
import warnings
import zipfile
from contextlib import nullcontext
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

try:
    import atheris
except ImportError:  # the corpus can be tried without, see test_corpus.py
    atheris = None

with (
    atheris.instrument_imports(include=["cuspfa.posterior", "cuspfa.io"])
    if atheris
    else nullcontext()
):
    import numpy as np

    from cuspfa import CuspFactorAnalysis, Gibbs, datasets
    from cuspfa.errors import CuspError
    from cuspfa.estimator import load as saved
    from cuspfa.io import archive

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 10**6, 2**31, 2**63, 10**30, 0.0, -0.0, 1e-300, 0.5),
    *(1e300, -1.5, "", "a", "gaussian", "x" * 200, [], [1], {}, {"a": 1}, [[]], "NaN", "gibbs"),
)
NUMBERS = (0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e300, 1e-300, 5e-324, 1e99, 1e-99, 2.0)


@cache
def good_files(folder: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """JSON and arrays of fits of every kind."""
    rows = datasets.simulate(30, 4, 1, random_state=3).X
    incomplete = rows.copy()
    incomplete[::5, 0] = np.nan
    models = [
        CuspFactorAnalysis(n_factors=1, rotation="oblimin").fit(rows),
        CuspFactorAnalysis().fit(rows),
        CuspFactorAnalysis(n_factors=2).fit(datasets.simulate(5, 8, 1, random_state=0).X),
        CuspFactorAnalysis(n_factors=1).fit(incomplete),
        CuspFactorAnalysis(
            method=Gibbs(n_draws=3, n_chains=2, burn_in=3, thin=1), random_state=0
        ).fit(rows),
        CuspFactorAnalysis(n_factors=1, model_error=0.05).fit(rows),
    ]
    found = []
    for model in models:
        path = folder / "good.cuspfa"
        model.posterior_.save(path)
        with zipfile.ZipFile(path) as packed:
            arrays = {
                name: np.lib.format.read_array(io.BytesIO(packed.read(name)))
                for name in packed.namelist()[1:]
            }
            found.append((json.loads(packed.read("fit.json")), arrays))
    return found


def places(value, path=()):
    """Paths of all entries of nested lists and dictionaries."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*path, key))


def changed(data: bytes, folder: Path) -> bytes:
    """A good file with changes, each of four bytes: what, where, where, by what."""
    which, *_ = data
    content, arrays = good_files(folder)[which % len(good_files(folder))]
    content = json.loads(json.dumps(content))
    arrays = {name: array.copy(order="K") for name, array in arrays.items()}
    for start in range(1, min(len(data) - 3, 40), 4):
        what, where, choice = struct.unpack_from("<BHB", data, start)
        if what < 128:
            paths = list(places(content))
            *way, last = paths[where % len(paths)]
            holder = content
            for key in way:
                holder = holder[key]
            if what < 20 and isinstance(holder, dict):
                del holder[last]
            else:
                holder[last] = deepcopy(VALUES[choice % len(VALUES)])
        else:
            array = arrays[sorted(arrays)[what % len(arrays)]]
            if array.size:
                array.flat[where % array.size] = NUMBERS[choice % len(NUMBERS)]
    members = {"fit.json": [memoryview(json.dumps(content).encode())]}
    members |= {name: archive.as_npy(array) for name, array in arrays.items()}
    return b"".join(bytes(piece) for piece in archive.archive_bytes(members))


def try_file(content: bytes, folder: Path) -> None:
    """Read it, and use it if it can be read."""
    path = folder / "tried.cuspfa"
    path.write_bytes(content)
    try:
        posterior = saved.load(path)
        with np.errstate(all="ignore"):
            posterior.draw(2, random_state=0)
            assert np.all(np.isfinite(posterior.covariance))
            posterior.interval("correlation", n_draws=5)
    except CuspError:
        return


def one(data: bytes, folder: Path) -> None:
    if not data:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try_file(data[1:] if data[0] == 255 else changed(data, folder), folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            good_files(Path(name))
        # What is instrumented grows by itself, ten kilobytes a file: the limit is of single pieces.
        limits = ["-malloc_limit_mb=1024", "-rss_limit_mb=6000", "-timeout=10"]
        atheris.Setup([*sys.argv, *limits], lambda data: one(data, Path(name)))
        atheris.Fuzz()
