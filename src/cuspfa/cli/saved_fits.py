"""Saved fits in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cuspfa.data.tables.reader import no_such_file
from cuspfa.errors import InputError

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior


def load_fit(path: Path) -> Posterior:
    """The posterior in a file."""
    from cuspfa.posterior.files import load

    if path.is_dir():
        raise InputError(f"{str(path)!r} is a directory. Give a fit, as cuspfa fit -o writes it.")
    try:
        return load(path)
    except FileNotFoundError:
        raise no_such_file(path) from None
    except PermissionError:
        raise InputError(f"no permission to read {str(path)!r}.") from None
