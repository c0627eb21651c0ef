"""What differs between the answers of two machines, and what may."""

from collections import defaultdict

import numpy as np

TOL = 0.05
"""Of the bound, in nats: that of a run."""
PARSIMONY = 2.0
"""The smallest K within so many nats of the best evidence is chosen."""
ALLOWED = {
    "bound": TOL,
    "loadings": 1e-8,
    "noise": 1e-8,
    "covariance": 1e-8,
    "scores": 1e-8,
    "imputed": 1e-8,
    "draws of loadings": 1e-7,
    "draws of noise": 1e-7,
    "draws of covariance": 1e-7,
    "imputed draws": 1e-7,
    # Sorted and aligned in single precision.
    "interval of covariance": 5e-6,
    "interval of shares": 5e-6,
    "varimax": 2e-5,
    # A bound is the value of one draw. Where the criterion of a draw is flat, rounding decides
    # where its rotation ends: bounds differed by 2.1e-4 also with a tolerance of 1e-6.
    "intervals after varimax": 1e-3,
}
"""Differences that rounding makes, on the scale of standardised columns. With the same signs of
eigenvectors draws were found to differ by 4e-12 between kernels; the rest is for others."""


def tie(one, other):
    """Is the choice between the two K within three errors of the evidence?

    The smaller of the two was chosen because it is less than `PARSIMONY` behind the best, the other
    one because it is more.
    """
    smaller = min(int(one["K"]), int(other["K"]))
    for table in (one, other):
        value = dict(zip(table["table K"], table["table evidence"], strict=True))
        error = dict(zip(table["table K"], table["table error"], strict=True))
        best = max(value, key=lambda k: -np.inf if np.isnan(value[k]) else value[k])
        lead = value[best] - value.get(smaller, np.nan) - PARSIMONY
        if abs(lead) < 3 * np.hypot(error[best], error.get(smaller, np.nan)):
            return True
    return False


def differences(one, other):
    """Words for each answer that differs by more than is allowed."""
    found = []
    if int(one["K"]) != int(other["K"]):
        if "table K" in one and tie(one, other):
            return []
        return [f"K {one['K']} and {other['K']}"]
    if str(one.get("status")) != str(other.get("status")):
        found.append(f"status {one['status']} and {other['status']}")
    for what, allowed in ALLOWED.items():
        if what in one:
            largest = distance(one[what], other[what])
            if not largest <= allowed:
                found.append(f"{what} {largest:.1e}")
    return found


def distance(a, b):
    if a.shape != b.shape:
        return np.inf
    return float(np.max(np.abs(a - b), initial=0.0))


def read(*paths):
    """Answers by case."""
    found: defaultdict[str, dict[str, np.ndarray]] = defaultdict(dict)
    for path in paths:
        with np.load(path) as file:
            for name in file.files:
                case, what = name.split("|")
                found[case][what] = file[name]
    return dict(found)


def largest(one, other):
    """By quantity: the largest difference over the cases of the same K, and of which case."""
    found: dict[str, tuple[float, str]] = {}
    for case in one.keys() & other.keys():
        a, b = one[case], other[case]
        if int(a["K"]) != int(b["K"]):
            continue
        for what in ALLOWED.keys() & a.keys():
            found[what] = max(found.get(what, (-1.0, "")), (distance(a[what], b[what]), case))
    return {what: found[what] for what in ALLOWED if what in found}
