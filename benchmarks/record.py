"""Result rows, the machine they were made on, and where they are kept."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


def _digest() -> str:
    """Short hash of the package's code, so that results can be matched with a version of it."""
    source = Path(__file__).parents[1] / "src" / "cuspfa"
    files = sorted(path for ending in ("*.py", "*.p[xy][xd]") for path in source.rglob(ending))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:10]


CODE = _digest()


def row(
    what: str, measured: str, against: str, required: str | None = None, ok: bool | None = None
) -> dict[str, Any]:
    """One line of a table; `required` None marks a figure given for information."""
    return {
        "what": what,
        "measured": measured,
        "against": against,
        "required": required,
        "ok": None if required is None else bool(ok),
    }


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS"),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "cuspfa")},
        "code": CODE,
        "date": datetime.now(UTC).date().isoformat(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((s.split(":")[1].strip() for s in lines if s.startswith("model name")), "unknown")


def save(
    section: str,
    title: str,
    rows: list[dict[str, Any]],
    *,
    notes: list[str],
    began: float,
    details: list[dict[str, Any]] | None = None,
    figure: str | None = None,
) -> list[dict[str, Any]]:
    """Write benchmarks/results/<section>.json and give the rows back."""
    RESULTS.mkdir(exist_ok=True)
    content = {
        "section": section,
        "title": title,
        "machine": machine(),
        "seconds": round(time.perf_counter() - began, 1),
        "notes": notes,
        "rows": rows,
        "details": details or [],
        "figure": figure,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False, default=_plain)
    (RESULTS / f"{section}.json").write_text(text + "\n", encoding="utf-8")
    return rows


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value)} has no place in JSON")
