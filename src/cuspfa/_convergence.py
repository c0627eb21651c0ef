"""The warning of a fit that stopped too early.

Apart from `cuspfa.errors`, which loads it when it is first asked for: scikit-learn, where its
second parent lives, takes much longer to load than `import cuspfa` may.
"""

from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning

from cuspfa.errors import CuspWarning


class ConvergenceWarning(CuspWarning, SklearnConvergenceWarning):  # type: ignore[misc]
    """A fit stopped before its bound settled; the message says what to raise."""

    __module__ = "cuspfa.errors"
