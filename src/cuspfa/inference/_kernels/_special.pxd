# Functions of one number that C does not have.
from libc.math cimport log


cdef inline double digamma(double x) noexcept nogil:
    """Of x > 0, by recurrence and the asymptotic series."""
    cdef double shift = 0.0, square
    while x < 10.0:
        shift -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    return shift + log(x) - 0.5 / x - square * (
        1.0 / 12 - square * (1.0 / 120 - square * (1.0 / 252 - square * (
            1.0 / 240 - square * (1.0 / 132 - square * (691.0 / 32760 - square / 12))))))


cdef inline double trigamma(double x) noexcept nogil:
    """Of x > 0, by recurrence and the asymptotic series."""
    cdef double shift = 0.0, square
    while x < 10.0:
        shift += 1.0 / (x * x)
        x += 1.0
    square = 1.0 / (x * x)
    return shift + 1.0 / x + 0.5 * square + square / x * (
        1.0 / 6 - square * (1.0 / 30 - square * (1.0 / 42 - square * (
            1.0 / 30 - square * (5.0 / 66 - square * (691.0 / 2730 - square * 7.0 / 6))))))
