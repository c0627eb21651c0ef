"""A folder of draws, written while the chains run; a run that was killed continues from it.

    chains.json              format, version and the settings all chains share
    chains-0.json            progress of group 0: sweep, generator's state, draws in each file
    chains-0-draws-3.npz     the draws between two checkpoints
    chains-0-state-3.npz     the state at the last one

A file is written whole or not at all, and the group's JSON last: files that it does not name are
ignored.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cuspfa.errors import FileError, InputError
from cuspfa.inference.gibbs.chain import GibbsState, Kept, Model
from cuspfa.inference.gibbs.labels import ProcessColumns
from cuspfa.inference.kernels import Chains, Scales
from cuspfa.io.atomic import replacing

if TYPE_CHECKING:
    from cuspfa.inference.gibbs.settings import Gibbs

CHECKPOINT_FORMAT, CHECKPOINT_VERSION = "cuspfa-chains", 1


def settings_of(
    method: Gibbs,
    model: Model,
    n_factors: int | None,
    model_error: float,
    streams: list[np.random.Generator],
) -> dict[str, Any]:
    """Settings and data that must be the same for chains to continue; not the number of draws.

    `streams` are the generators of the groups. Nothing is drawn from them.
    """
    data = hashlib.sha256()
    for part in model.data.identity:
        data.update(np.ascontiguousarray(part).tobytes())
    return {
        "n_chains": int(method.n_chains),
        "n_groups": len(streams),
        "burn_in": int(method.burn_in),
        "thin": int(method.thin),
        "start_adapt": None if model.start_adapt is None else int(model.start_adapt),
        "adapt_rate": list(model.adapt_rate),
        "most_terms": int(model.most),
        "scale_rotation_every": int(model.scale_rotation_every),
        "init": str(method.init),
        "n_factors": n_factors,
        "model_error": float(model_error),
        "spike": model.spike,
        "prior": repr(model.prior),
        "n_columns": len(model.data.variances),
        "data": data.hexdigest(),
        "random_state": streams[0].bit_generator.seed_seq.generate_state(4).tolist(),
    }


class Store:
    """The folder of checkpoints."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, settings: dict[str, Any], *, any_seed: bool = False) -> None:
        """Make the folder, or check that its chains are of these settings.

        `any_seed`: chains of any `random_state` may continue.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(
                f"checkpoint_dir must be a folder. Got the file {str(self.folder)!r} instead."
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"checkpoint_dir: the folder {str(self.folder)!r} cannot be made: {error}."
            ) from None
        head = self.folder / "chains.json"
        if not head.exists():
            if any(self.folder.iterdir()):
                raise InputError(
                    f"checkpoint_dir must be an empty folder, or one with chains of cuspfa in "
                    f"it. Got "
                    f"{str(self.folder)!r}, which holds other files."
                )
            write_json(
                head,
                {"format": CHECKPOINT_FORMAT, "version": CHECKPOINT_VERSION, "settings": settings},
            )
            return
        content = read_json(head)
        if (
            content.get("format") != CHECKPOINT_FORMAT
            or content.get("version") != CHECKPOINT_VERSION
        ):
            raise FileError(
                f"{str(head)!r} is of format {content.get('format')!r}, version "
                f"{content.get('version')!r}; this cuspfa reads {CHECKPOINT_FORMAT!r}, version "
                f"{CHECKPOINT_VERSION}."
            )
        known = content.get("settings") or {}
        for name, value in settings.items():
            if name == "random_state" and any_seed:
                continue
            if known.get(name) != value:
                if name == "random_state":
                    raise InputError(
                        f"checkpoint_dir: the folder {str(self.folder)!r} holds chains of another "
                        "random_state. Use the same to go on, random_state=None to go on with "
                        "whichever the folder has, or another folder."
                    )
                what = "data" if name == "data" else f"{name} = {known.get(name)!r}"
                raise InputError(
                    f"checkpoint_dir: the folder {str(self.folder)!r} holds chains of other {what}"
                    + ("" if name == "data" else f" instead of {value!r}")
                    + ". Use the same settings and data to go on, or another folder."
                )

    def group(self, number: int) -> GroupFiles:
        """The files of a group of chains that are drawn together."""
        return GroupFiles(self.folder, number)


class GroupFiles:
    """Checkpoints of a group of chains that are drawn together."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder, self._name = folder, f"chains-{number}"
        self._head = folder / f"{self._name}.json"
        self._counts: list[int] = []
        if self._head.exists():
            counts = read_json(self._head).get("draws")
            if not isinstance(counts, list) or not all(type(one) is int for one in counts):
                raise _damaged(self._head, "the number of draws is missing in it")
            self._counts = counts

    def _file(self, what: str, number: int) -> Path:
        return self._folder / f"{self._name}-{what}-{number}.npz"

    def found(self) -> tuple[GibbsState, int, dict[str, Any]] | None:
        """The last state, its sweep and the generator's state; None at the beginning."""
        if not self._counts:
            return None
        content = read_json(self._head)
        file = self._file("state", len(self._counts) - 1)
        arrays = read_arrays(file)
        try:
            state = _state_in(arrays)
        except (KeyError, TypeError):
            raise _damaged(file, "it does not hold the state of chains") from None
        try:
            return state, int(content["sweep"]), dict(content["generator"])
        except (KeyError, TypeError, ValueError):
            raise _damaged(
                self._head, "the sweep or the state of the generator is missing in it"
            ) from None

    def write(
        self, kept: Kept | None, state: GibbsState, at: int, generator: dict[str, Any]
    ) -> None:
        """New draws, the state, and last the JSON that names both."""
        number = len(self._counts)
        if kept is not None:
            named = {key: part for key, part in kept._asdict().items() if part is not None}
            _write_arrays(self._file("draws", number), named)
        _write_arrays(self._file("state", number), _state_out(state))
        counts = [*self._counts, 0 if kept is None else len(kept.noise)]
        content = {
            "version": CHECKPOINT_VERSION,
            "draws": counts,
            "sweep": at,
            "generator": generator,
        }
        write_json(self._head, content)
        self._file("state", number - 1).unlink(missing_ok=True)
        self._counts = counts

    def all_kept(self) -> list[Kept]:
        """The draws of all files that the JSON names; an error where one of them is damaged."""
        return [
            self._kept(self._file("draws", number), count)
            for number, count in enumerate(self._counts)
            if count
        ]

    @staticmethod
    def _kept(file: Path, count: int) -> Kept:
        arrays = read_arrays(file)
        try:
            kept = Kept(**arrays)
        except TypeError:
            raise _damaged(file, "it does not hold draws") from None
        lengths = {len(part) for part in arrays.values() if part.ndim}
        if lengths != {count}:
            raise _damaged(file, f"it does not hold the {count} draws that were written")
        return kept


def _state_out(state: GibbsState) -> dict[str, Any]:
    chains, columns, rest = state
    arrays: dict[str, Any] = {"loadings": chains.loadings, "noise": chains.noise}
    arrays |= {f"rest_{number}": one for number, one in enumerate(rest)}
    scales = chains.scales
    arrays["scales_variances"] = scales.variances
    if scales.free is not None:
        arrays["scales_free"] = scales.free
    if scales.hyperparameters is not None:
        arrays["n_hyperparameters"] = np.array(len(scales.hyperparameters))
        for number, values in enumerate(scales.hyperparameters):
            arrays[f"hyperparameter_{number}"] = values
    if columns is not None:
        arrays |= {f"columns_{key}": value for key, value in columns._asdict().items()}
    return arrays


def _state_in(arrays: dict[str, Any]) -> GibbsState:
    hyper = None
    if "n_hyperparameters" in arrays:
        number = int(arrays["n_hyperparameters"])
        hyper = tuple(arrays[f"hyperparameter_{one}"] for one in range(number))
    scales = Scales(arrays["scales_variances"], hyper, arrays.get("scales_free"))
    columns = None
    if "columns_active" in arrays:
        columns = ProcessColumns(*(arrays[f"columns_{key}"] for key in ProcessColumns._fields))
    number = sum(name.startswith("rest_") for name in arrays)
    rest = tuple(arrays[f"rest_{one}"] for one in range(number))
    if "mean" in arrays:  # as an earlier version called it
        rest = (arrays["mean"],)
    return GibbsState(Chains(arrays["loadings"], arrays["noise"], scales), columns, rest)


def _write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)


def _damaged(path: Path, reason: object) -> FileError:
    return FileError(
        f"checkpoint_dir: the file {str(path)!r} is missing or damaged: {reason}. Delete the "
        f"folder to draw "
        "the chains anew, or choose another."
    )


def read_arrays(path: Path) -> dict[str, Any]:
    """All arrays of a file; no pickled object is loaded."""
    try:
        with open(path, "rb") as file:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                raise ValueError("it is no archive of arrays")
            with content:
                return {name: content[name] for name in content.files}
    except (
        *(OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError),
        *(zipfile.BadZipFile, zlib.error),
    ) as error:
        raise _damaged(path, _reason(error)) from None


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is not there"
    return str(error).rstrip(".") or type(error).__name__


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write the whole file or nothing."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a dictionary, or raise an error that names the file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path, _reason(error)) from None
    if not isinstance(content, dict):
        raise _damaged(path, "it holds no settings")
    return content
