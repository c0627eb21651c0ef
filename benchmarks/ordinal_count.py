"""The number of factors of ordinal and binary columns, beside the Gaussian model on the codes.

`CUSPFA_K_SETS` changes how many data sets of each design are made. One of all eight designs takes
about 25 s of processor time. Sets are stored as they are done: a run that was cut off goes on.
"""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks.ordinal_designs import DESIGNS_NOTE, KINDS, simulated
from benchmarks.record import codes_note, row, save, stored_sets
from cuspfa import CuspFactorAnalysis
from cuspfa._utils.warn import silent

SETS = int(os.environ.get("CUSPFA_K_SETS", "25"))
P, K = 15, 3
ROWS = (300, 1000)


def counted(kind: str, n: int, number: int) -> dict[str, Any]:
    """K of one data set by both models, and the seconds of the ordinal fit."""
    data = simulated(kind, n, P, K, 100_000 * (KINDS.index(kind) + 1) + n + 7 * number)
    began = time.process_time()
    with silent():
        found = CuspFactorAnalysis(likelihood="ordinal", random_state=0).fit(data.rows).n_factors_
        spent = time.process_time() - began
        other = CuspFactorAnalysis(random_state=0).fit(data.rows).n_factors_
    return {"ordinal": int(found), "Gaussian": int(other), "fit": round(spent, 2)}


def ordinal_count() -> list[dict[str, Any]]:
    began = time.perf_counter()
    # All designs of one set, then the next: a run that is cut off has as many of each.
    keys = [(kind, n, number) for number in range(SETS) for kind in KINDS for n in ROWS]
    sets = stored_sets("ordinal_count", keys, counted)
    lines, right, gaussian = [], 0, 0
    for kind in KINDS:
        for n in ROWS:
            own = [one for one in sets if tuple(one["key"][:2]) == (kind, n)]
            found, other = ([one[name] for one in own] for name in ("ordinal", "Gaussian"))
            right, gaussian = right + found.count(K), gaussian + other.count(K)
            spent = sum(one["fit"] for one in own) / len(own)
            lines.append(
                row(
                    f"{kind}, n = {n}: K = {K} found",
                    f"{found.count(K)} of {len(own)}{others(found)}; {spent:.1f} s a fit",
                    f"Gaussian: {other.count(K)}{others(other)}",
                )
            )
    pooled = row(
        f"K = {K}, {P} items, eight designs, n = 300 and 1000",
        f"right in {right} of {len(sets)} sets ({100 * right / len(sets):.1f} %)",
        f"Gaussian model on the same codes: {gaussian} ({100 * gaussian / len(sets):.1f} %)",
        "≥ 90 %",
        right >= 0.9 * len(sets),
    )
    return save(
        "ordinal_count",
        "The number of factors of ordinal and binary columns",
        [pooled, *lines],
        notes=[
            DESIGNS_NOTE,
            f"{len(sets)} data sets. K is chosen by bridge sampling, the default of both models.",
            codes_note(sets),
        ],
        began=began,
        details=sets,
    )


def others(found: list[int]) -> str:
    """How often each wrong K was found."""
    wrong = sorted(set(found) - {K})
    text = ", ".join(f"{found.count(k)} times {k}" for k in wrong)
    return f" ({text})" if text else ""
