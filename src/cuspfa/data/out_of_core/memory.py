"""How much memory is free, and the refusal of work that needs more."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from cuspfa._utils.arguments import is_whole, must_be
from cuspfa.errors import InputError

FREE_MEMORY_SHARE = 0.8
"""Share of the free memory that a fit may use by default."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


class MemoryLimitError(InputError, MemoryError):
    """The work needs more memory than is allowed. Raised before it begins."""


def allowed_bytes(limit: Any, name: str = "memory_limit") -> int | None:
    """Memory that may be used: as given, or a share of the free memory; None if unknown."""
    if limit is None:
        free = free_bytes()
        return None if free is None else int(FREE_MEMORY_SHARE * free)
    if is_whole(limit) and limit > 0:
        return int(limit)
    found = _SIZE.fullmatch(limit) if isinstance(limit, str) else None
    if found is None or not float(found[1]):
        raise must_be(name, "a number of bytes, or text such as '4GB'", limit)
    units = _BINARY if found[3] else _UNITS
    return int(float(found[1]) * units[found[2].lower()])


def check_fits(needed: int, allowed: int | None, what: str, advice: str) -> None:
    """Refuse work that needs more memory than is allowed."""
    if allowed is not None and needed > allowed:
        raise MemoryLimitError(
            f"{what} needs about {format_bytes(needed)} of memory, and {format_bytes(allowed)} "
            f"may be taken (memory_limit). {advice}"
        )


def format_bytes(size: float) -> str:
    """A number of bytes with its unit."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{max(size, 0) / 1e3:.3g} kB"


def free_bytes() -> int | None:
    """Memory that is free without swapping, in a container within its limit."""
    found = [size for size in (_machine(), _container()) if size is not None]
    return min(found, default=None)


def _machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:  # other systems do not report free memory: half of all memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return None


def _container() -> int | None:
    group = Path("/sys/fs/cgroup")
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            limit = int((group / most).read_text(encoding="ascii"))
            return max(0, limit - int((group / used).read_text(encoding="ascii")))
        except (OSError, ValueError):  # none, or "max"
            continue
    return None
