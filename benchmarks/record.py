"""Result rows, the machine they were made on, and where they are kept."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
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


def _revision() -> str:
    """The commit, with a plus sign if files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        found = subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


REVISION = _revision()
"""Read before a section writes its result."""


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
        "revision": REVISION,
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
    table: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Write benchmarks/results/<section>.json and give the rows back.

    `table` has the `heads` and the `body` of a further table on the page of the section.
    """
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
        "table": table,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False, default=_plain)
    (RESULTS / f"{section}.json").write_text(text + "\n", encoding="utf-8")
    return rows


def stored_sets(
    section: str, keys: Iterable[tuple[Any, ...]], measure: Callable[..., dict[str, Any]]
) -> list[dict[str, Any]]:
    """What `measure` gave for each key, written to <section>_sets.jsonl as it comes.

    A run that was cut off goes on where it ended. To begin anew, remove the file. Sets of the file
    that were not asked for are given too.
    """
    path = RESULTS / f"{section}_sets.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = {tuple(one["key"]): one for one in map(json.loads, lines)}
    for key in keys:
        if key in found:
            continue
        began = time.process_time()
        one = {"key": key, **measure(*key)}
        one |= {"seconds": round(time.process_time() - began, 2), "code": CODE}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(one, ensure_ascii=False, default=_plain) + "\n")
        found[key] = one
        if len(found) % 20 == 0:
            print(f"  {section}: {len(found)} sets", flush=True)
    return list(found.values())


def codes_note(sets: Iterable[dict[str, Any]]) -> str:
    """Which code the stored sets ran on."""
    found = Counter(str(one.get("code", "unknown")) for one in sets)
    said = ", ".join(f"{code} ({number})" for code, number in found.items())
    return f"Code that the data sets were fitted with, and their number: {said}."


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value)} has no place in JSON")
