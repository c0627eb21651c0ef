"""Counts split among factors, in expectation and at random; moments of gamma distributions.

The definitions are `expected_split` and `draw_split` of `cuspfa.inference.factorization.split`, and
`gammas` of `cuspfa.inference.factorization.state`. Random numbers are the same in the same order.
Matrices are row-major.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport exp, lgamma, log
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from numpy.random cimport bitgen_t
from numpy.random.c_distributions cimport binomial_t, random_binomial, random_standard_uniform

from ._special cimport digamma

ctypedef fused index:
    int
    long long


def expected_split(
    const index[::1] indptr, const index[::1] indices, const double[::1] counts,
    const double[:, ::1] scores, const double[:, ::1] loadings,
    double[:, ::1] by_row, double[:, ::1] by_column,
):
    """Add the expected parts to their sums; return Σ x log Σ_h θ_ih β_jh."""
    cdef Py_ssize_t n = scores.shape[0], k = scores.shape[1], i, cell, h
    cdef double total, share, log_rates = 0.0
    cdef const double* score
    cdef const double* loading
    cdef double* row
    cdef double* column
    if k == 0 or loadings.shape[0] == 0:
        return 0.0
    with nogil:
        for i in range(n):
            score, row = &scores[i, 0], &by_row[i, 0]
            for cell in range(indptr[i], indptr[i + 1]):
                loading = &loadings[indices[cell], 0]
                column = &by_column[indices[cell], 0]
                total = 0.0
                for h in range(k):
                    total += score[h] * loading[h]
                log_rates += counts[cell] * log(total)
                share = counts[cell] / total
                for h in range(k):
                    row[h] += share * loading[h]
                    column[h] += share * score[h]
            for h in range(k):
                row[h] *= score[h]
        for i in range(loadings.shape[0]):
            for h in range(k):
                by_column[i, h] *= loadings[i, h]
    return log_rates


def draw_split(
    const index[::1] indptr, const index[::1] indices, const double[::1] counts,
    const double[:, ::1] scores, const double[:, ::1] loadings,
    double[:, ::1] by_row, double[:, ::1] by_column, double largest_single, rng,
):
    """Add random parts to their sums; return Σ x log Σ_h θ_ih β_jh."""
    cdef Py_ssize_t n = scores.shape[0], k = scores.shape[1], i, j, cell, h, event, large = 0
    cdef double total, target, log_rates = 0.0
    cdef long long left, drawn
    cdef double share
    cdef double* cumulative
    cdef binomial_t known
    cdef bitgen_t* bits
    if k == 0 or loadings.shape[0] == 0:
        return 0.0
    lock = rng.bit_generator.lock
    bits = <bitgen_t*> PyCapsule_GetPointer(rng.bit_generator.capsule, "BitGenerator")
    cumulative = <double*> malloc(k * sizeof(double))
    if cumulative == NULL:
        raise MemoryError
    memset(&known, 0, sizeof(binomial_t))
    try:
        with lock, nogil:
            for i in range(n):
                for cell in range(indptr[i], indptr[i + 1]):
                    j, total = indices[cell], 0.0
                    for h in range(k):
                        total += scores[i, h] * loadings[j, h]
                        cumulative[h] = total
                    log_rates += counts[cell] * log(total)
                    if counts[cell] > largest_single:
                        large += 1
                        continue
                    for event in range(<Py_ssize_t> counts[cell]):
                        target, h = random_standard_uniform(bits) * total, 0
                        while h < k - 1 and cumulative[h] <= target:
                            h += 1
                        by_row[i, h] += 1.0
                        by_column[j, h] += 1.0
            for i in range(n if large else 0):
                for cell in range(indptr[i], indptr[i + 1]):
                    if counts[cell] <= largest_single:
                        continue
                    j, total = indices[cell], 0.0
                    for h in range(k):
                        total += scores[i, h] * loadings[j, h]
                    left = <long long> counts[cell]
                    for h in range(k):
                        drawn = left
                        if h < k - 1 and left:
                            share = scores[i, h] * loadings[j, h] / total
                            share = min(max(share, 0.0), 1.0)
                            drawn = random_binomial(bits, share, left, &known)
                        by_row[i, h] += drawn
                        by_column[j, h] += drawn
                        left -= drawn
                        total -= scores[i, h] * loadings[j, h]
    finally:
        free(cumulative)
    return log_rates


def gamma_moments(
    const double[:, ::1] shape, const double[:, ::1] rate, double[:, ::1] mean, double[:, ::1] geometric,
    double[::1] log_sums,
):
    """Fill E x, exp(E log x) and the column sums of E log x; return the sum of the entropies.

    `rate` has one row for all or a row for each.
    """
    cdef Py_ssize_t m = shape.shape[0], k = shape.shape[1], i, h, own
    cdef bint each = rate.shape[0] == m
    cdef double a, psi, log_rate, entropy = 0.0
    with nogil:
        for i in range(m):
            own = i if each else 0
            for h in range(k):
                a, log_rate = shape[i, h], log(rate[own, h])
                psi = digamma(a)
                mean[i, h] = a / rate[own, h]
                geometric[i, h] = exp(psi - log_rate)
                log_sums[h] += psi - log_rate
                entropy += a - log_rate + lgamma(a) + (1.0 - a) * psi
    return entropy
