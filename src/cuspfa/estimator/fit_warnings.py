"""What a fit has to say besides its result: one warning, each part with what to do."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone

from cuspfa._utils.warn import warn
from cuspfa.errors import ConvergenceWarning, CuspWarning
from cuspfa.inference.gibbs.settings import Gibbs
from cuspfa.inference.variational.run import Status
from cuspfa.inference.variational.settings import MOST_FACTORS, Variational
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.provenance import FACTORS, SEED, STANDARDISED, Provenance, versions
from cuspfa.reporting.summary import DEAD
from cuspfa.rotation.gpa import as_rotation

if TYPE_CHECKING:
    from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
    from cuspfa.inference.engine import Outcome

LONG, SPEED = 60.0, 2e9
"""Seconds from which on a fit to incomplete data is worth a word before it begins, and the
multiplications a second that they are reckoned by."""
ITERATIONS = (40, 300)
"""Iterations of a fit, with the number of factors given and not."""
PUBLIC = (
    *("CuspFactorAnalysis", "CuspPrior", "GaussianSlab", "InverseGammaSlab", "EmpiricalBayesSlab"),
    *("Gibbs", "Rotation", "Variational"),
)
"""Names that settings of a model are written with."""
MUCH = 20.0
"""Nats that each further factor adds where there is no small number of them."""
FEW = 100
"""Draws of a chain below which more of them are advised."""
MOST_TEXT = 10_000
"""Characters of a model that is written down."""


def tell(
    model: CuspFactorAnalysis,
    method: Variational | Gibbs,
    prior: CuspPrior,
    n_factors: int | None,
    concern: str | None,
    outcome: Outcome,
) -> None:
    """Warn once of all that should be known of a fit, and leave it in the posterior's origin.

    `concern` is what the data gave reason for, `n_factors` the number that was asked for.
    """
    if n_factors is not None:
        number = _given(model, prior, n_factors)
    elif outcome.at_ledermann_bound:
        number = _at_ledermann_bound(model, method)
    else:
        number = _found(model, method, outcome)
    ending = None
    if not model.converged_:
        rise = outcome.rise if n_factors is None else None
        ending = _ending(model.status_, method, rise)
    parts = [part for part in (concern, number, ending) if part is not None]
    model.posterior_ = replace(model.posterior_, provenance=_provenance(model, parts))
    if parts:
        warn(" ".join(parts), CuspWarning if ending is None else ConvergenceWarning)


def _provenance(model: CuspFactorAnalysis, warnings: list[str]) -> Provenance:
    """How the model was set, in words and as Python."""
    shown = clone(model, safe=False)
    if getattr(shown.method, "callback", None) is not None:
        shown.set_params(method__callback=None)
    seed, said = model.random_state, "random, not kept"
    if isinstance(seed, Integral):
        said = str(seed)
    elif seed is not None:
        said = "from a generator, whose state is not kept"
        shown.set_params(random_state=None)
    rotation = as_rotation(model.rotation)
    made = shown.__repr__(N_CHAR_MAX=MOST_TEXT)
    return Provenance(
        data="",
        remarks=[],
        settings=[
            (FACTORS, "found" if model.n_factors == "auto" else str(model.n_factors)),
            (STANDARDISED, "yes" if model.standardize else "no"),
            ("rotation", "none (principal axes)" if rotation is None else rotation.method),
            (SEED, said),
        ],
        command="",
        python="\n".join(
            [
                f"from cuspfa import {', '.join(_names(made))}",
                "",
                f"model = {made}.fit(X)  # your data",
                'model.posterior_.report("report.html")',
            ]
        ),
        warnings=warnings,
        versions=versions(),
    )


def _names(code: str) -> list[str]:
    """Public names in it, as one imports them."""
    return sorted(name for name in PUBLIC if f"{name}(" in code)


def cost_of_incomplete(rows: int, patterns: int, columns: int, n_factors: int | None) -> str | None:
    """What a fit to incomplete data will take, if that is long; to be said before it begins."""
    k = 10 if n_factors is None else n_factors
    each = ((rows * k + patterns * k**2 / 2) * columns + 3.0 * patterns * k**3) / SPEED
    total = each * ITERATIONS[n_factors is None]
    if total < LONG:
        return None
    advice = "n_factors given takes a tenth of it; " if n_factors is None else ""
    return (
        f"With missing values in {columns} columns and {patterns} different patterns of them this "
        f"fit takes about {each:.1g} s an iteration and {max(total / 60, 1):.0f} minutes in all. "
        f"{advice}method=Variational(callback=print) shows how it goes on."
    )


def _found(model: CuspFactorAnalysis, method: Variational | Gibbs, outcome: Outcome) -> str | None:
    if isinstance(method, Gibbs):
        most = method.max_columns
        if most is None or most > model.n_features_in_ or model.n_factors_ < most - 1:
            return None
        return (
            f"As many factors were found as max_columns={most} columns allow, and more may be "
            f"there. "
            f"Raise max_columns: {_with(method, max_columns=2 * most)}, or leave it None."
        )
    most = outcome.limit
    if not most:
        return _evidence_rising(outcome.evidence_rising)
    usual = " (the default)" if method.max_factors is None else ""
    told_below = model.status_ == Status.OUT_OF_TIME.value
    more = ", or leave it out" if most < MOST_FACTORS else ""
    parts = (
        f"As many factors were found as max_factors={most}{usual} allows, and more may be there.",
        "" if told_below else _rising(outcome.rise),
        f"Raise max_factors: {_with(method, max_factors=2 * most)}{more}; if this number is what "
        f"you want, say n_factors={most} instead.",
    )
    return " ".join(filter(None, parts))


def _rising(rise: float) -> str:
    """What the bound says of more factors, and what to do; nothing if it did not rise by much."""
    if not rise > MUCH:
        return ""
    return (
        f"The bound still rose by about {rounded(rise)} nats with each factor, as it does where "
        "there is no small number of factors: analyse logarithms of counts, differences of series "
        "that wander, or fewer columns."
    )


def _evidence_rising(rise: float | None) -> str | None:
    """That the evidence would have more factors than were scored, if it would."""
    if rise is None:
        return None
    return (
        f"The evidence still rose by about {rounded(rise)} nats with the last factor, and was not "
        "computed for more: there may be more factors, or no small number of them. The weights of "
        "the numbers of factors do not take this into account."
    )


def rounded(value: float) -> str:
    """To two digits, without an exponent; NaN as it is."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):.{max(digits, 0)}f}"


def _with(method: Variational | Gibbs, **settings: float) -> str:
    """The engine with these settings changed and all others as they are, to be typed."""
    return f"method={clone(method).set_params(callback=None, **settings)!r}"


def _at_ledermann_bound(model: CuspFactorAnalysis, method: Variational | Gibbs) -> str:
    k, p = model.n_factors_, model.n_features_in_
    return (
        f"{k} factor(s) leave correlation unexplained, but no more than {k} can be told apart by "
        f"{p} columns (Ledermann's bound). To have more all the same, say so: "
        f"{_with(method, max_factors=k + 1)}."
    )


def _given(model: CuspFactorAnalysis, prior: CuspPrior, n_factors: int) -> str | None:
    kept = model.n_factors_
    if kept != n_factors:
        return (
            f"n_factors={n_factors} was asked for, but the prior's spike of {prior.spike} leaves "
            f"{kept} of them active. Use a narrower spike, or none: prior=CuspPrior(spike=None)."
        )
    shares = np.sum(model.loadings_**2, axis=0) / model.n_features_in_
    empty = int(np.sum(shares < DEAD))
    if not empty:
        return None
    has = "has" if empty == 1 else "have"
    return (
        f"n_factors={n_factors} was asked for, but {empty} of them {has} no loadings worth the "
        f"name: the data support {n_factors - empty} of these. Ask for fewer, or have the number "
        "found: n_factors='auto'."
    )


def _ending(status: str, method: Variational | Gibbs, rise: float | None = None) -> str:
    """How it ended, and what to do; `rise` of the bound if the number of factors was searched."""
    if isinstance(method, Gibbs):
        status = f"{status[0].upper()}{status[1:]}."
        if status.startswith("Out of time"):
            return f"{status} To draw them all, raise max_time={method.max_time} or leave it out."
        few = method.n_draws < FEW  # thinning alone does not make these enough
        longer = {"n_draws": Gibbs().n_draws} if few else {"thin": 4 * method.thin}
        ((name, value),) = longer.items()
        return f"{status} For longer chains, {name}={value}: {_with(method, **longer)}."
    if status == Status.OUT_OF_TIME.value:
        assert method.max_time is not None
        seconds = float(f"{10 * method.max_time:.6g}")  # no 0.30000000000000004
        given = "" if rise is None else "; or give the number of factors"
        parts = (
            f"Out of time: the search stopped at max_time={method.max_time:g} seconds, and the "
            "best of what was tried by then is kept.",
            "" if rise is None else _rising(rise),
            f"To go on, raise max_time: {_with(method, max_time=seconds)}, or leave it out{given}.",
        )
        return " ".join(filter(None, parts))
    if status != Status.MAX_ITER.value:
        return f"{status.capitalize()}."
    return (
        f"Not converged: the fit stopped at max_iter={method.max_iter} iterations. To go on, raise "
        f"max_iter: {_with(method, max_iter=2 * method.max_iter)}; or be content with less, "
        f"by a tol above {method.tol:g}."
    )
