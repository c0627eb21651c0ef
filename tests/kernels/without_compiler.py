"""A fit in an environment without the compiled core, or with it (`--core`); prints K and bound.

Called by `make test-no-compiler`, which compares the two.
"""

import argparse
import sys
import warnings

from cuspfa import CuspFactorAnalysis
from cuspfa.datasets import load_bfi
from cuspfa.errors import PerformanceWarning
from cuspfa.inference._kernels import kernel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--core", action="store_true")
    expected = parser.parse_args().core
    if (kernel("iteration") is not None) != expected:
        sys.exit(f"The compiled core should {'' if expected else 'not '}be there.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = CuspFactorAnalysis().fit(load_bfi(subset="paper").data)
    told = any(issubclass(one.category, PerformanceWarning) for one in caught)
    if told == expected:
        sys.exit(f"Warnings: {[str(one.message) for one in caught]}")
    bound = model.posterior_.fit_info.lower_bound
    sys.stdout.write(f"K = {model.n_factors_}, bound {bound:.6f}\n")


if __name__ == "__main__":
    main()
