"""Everything cuspfa raises or warns about: one root each, children by stage."""


class CuspError(Exception):
    """Root of all errors raised by cuspfa."""


class InputError(CuspError, ValueError):
    """An argument is out of range; the message names it, what was received and what to do."""


class DataError(InputError):
    """The data cannot be analysed as they are; the message names the column or row."""


class DataTypeError(DataError, TypeError):
    """The data hold objects that are no numbers at all."""


class CuspWarning(UserWarning):
    """Root of all warnings issued by cuspfa."""


class ConvergenceWarning(CuspWarning):
    """A fit stopped before its bound settled; the message says what to raise."""
