"""Incomplete rows, pattern by pattern: sums over their scores, and few missing values filled in.

The definitions are `numpy_sums` of `cuspfa.missing.score_sums`, `packed_inverses` of
`cuspfa.missing.patterns` and `FewMissing` of `cuspfa.missing.likelihood`. Blocks of patterns stay in
the processor's cache. Symmetric matrices are packed, patterns last.
"""

from libc.math cimport log
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from scipy.linalg.cython_lapack cimport dpotrf, dpotri

from ._blas cimport add_product, multiply_bt

cdef enum:
    WIDTH = 32      # patterns of a block
    LOGS = 4        # pivots whose product has one logarithm
    BY_LAPACK = 16  # missing values from which on a matrix is left to LAPACK


cdef inline int place(int k, int i, int j) noexcept nogil:
    """Where entry (i, j) with i <= j is packed."""
    return i * k - (i * (i - 1)) // 2 + j - i


cdef void invert(int k, double* a, double* log_det, double* work) noexcept nogil:
    """WIDTH packed matrices (K(K+1)/2, WIDTH) become their inverses, pivot by pivot.

    `work` (2K + 2, WIDTH).
    """
    cdef double* column = work
    cdef double* row = work + k * WIDTH
    cdef double* product = work + 2 * k * WIDTH
    cdef double* inverse = product + WIDTH
    cdef double* pivot
    cdef double* to
    cdef double* one
    cdef double* two
    cdef int h, i, j, w
    for w in range(WIDTH):
        log_det[w], product[w] = 0.0, 1.0
    for h in range(k):
        for i in range(k):
            to, one = column + i * WIDTH, a + (place(k, i, h) if i < h else place(k, h, i)) * WIDTH
            for w in range(WIDTH):
                to[w] = one[w]
        pivot = column + h * WIDTH
        for w in range(WIDTH):
            product[w] *= pivot[w]
        if h % LOGS == LOGS - 1 or h == k - 1:
            for w in range(WIDTH):
                log_det[w] += log(product[w])
                product[w] = 1.0
        for w in range(WIDTH):
            inverse[w] = 1.0 / pivot[w]
        for i in range(k):
            to, one = row + i * WIDTH, column + i * WIDTH
            for w in range(WIDTH):
                to[w] = inverse[w] * one[w]
        for i in range(k):
            one = column + i * WIDTH
            for j in range(i, k):
                to, two = a + place(k, i, j) * WIDTH, row + j * WIDTH
                for w in range(WIDTH):
                    to[w] -= one[w] * two[w]
        for i in range(k):
            to, one = a + (place(k, i, h) if i < h else place(k, h, i)) * WIDTH, row + i * WIDTH
            for w in range(WIDTH):
                to[w] = one[w]
        to = a + place(k, h, h) * WIDTH
        for w in range(WIDTH):
            to[w] = -inverse[w]
    for i in range(k * (k + 1) // 2 * WIDTH):
        a[i] = -a[i]


def invert_packed(double[:, ::1] a, int k, double[::1] log_det):
    """Matrices (K(K+1)/2, u), packed, become their inverses; their log-determinants (u,)."""
    cdef int size = a.shape[0], h, w, wide
    cdef long begin = 0, u = a.shape[1]
    cdef double* memory = <double*> malloc((size + 2 * k + 3) * WIDTH * sizeof(double))
    if memory == NULL:
        raise MemoryError("No memory for the inverses of score precisions.")
    cdef double* block = memory
    cdef double* logs = block + size * WIDTH
    cdef double* work = logs + WIDTH
    with nogil:
        while begin < u:
            wide = min(WIDTH, u - begin)
            for h in range(size):
                for w in range(WIDTH):
                    # What is beyond the last matrix repeats it, so that its pivots are positive.
                    block[h * WIDTH + w] = a[h, begin + min(w, wide - 1)]
            invert(k, block, logs, work)
            for h in range(size):
                for w in range(wide):
                    a[h, begin + w] = block[h * WIDTH + w]
            for w in range(wide):
                log_det[begin + w] = logs[w]
            begin += WIDTH
        free(memory)


def sum_scores(
    const double[:, ::1] rows, const double[::1] ones, const unsigned char[:, ::1] patterns,
    const double[::1] sizes, const Py_ssize_t[::1] starts, double part,
    double[:, ::1] signal, double[:, ::1] weights, double[:, ::1] pull,
    double[:, ::1] cross, double[:, ::1] sums, double[:, ::1] by_column,
    double[::1] total, double[::1] spread, double[::1] mean,
):
    """Adds the sums of `ScoreSums` to zeros: `cross`, `sums` and `by_column` with columns last.

    `signal` (K(K+1)/2, p), `weights` and `pull` (K, p) are those of the definition, transposed.
    Returns Σ_i f log|V_i|.
    """
    cdef int p = rows.shape[1], k = weights.shape[0], half = signal.shape[0]
    cdef int u, r, h, i, j, w, rows_of, most = WIDTH
    cdef long begin = 0, last, count = patterns.shape[0], first
    cdef double value, scale, result = 0.0
    for last in range(count):
        most = max(most, <int> (starts[last + 1] - starts[last]))
    cdef double* memory = <double*> malloc(
        ((3 * half + 4 * k + 3) * WIDTH + p * WIDTH + (2 * k + 1) * most) * sizeof(double)
    )
    if memory == NULL:
        raise MemoryError("No memory for the scores of incomplete rows.")
    cdef double* observed = memory                 # (WIDTH, p)
    cdef double* matrices = observed + p * WIDTH   # (K(K+1)/2, WIDTH) each
    cdef double* totals = matrices + half * WIDTH
    cdef double* spreads = totals + half * WIDTH
    cdef double* logs = spreads + half * WIDTH
    cdef double* pulls = logs + WIDTH              # (K, WIDTH) each
    cdef double* levels = pulls + k * WIDTH
    cdef double* work = levels + k * WIDTH
    cdef double* towards = work + (2 * k + 2) * WIDTH  # (K, rows)
    cdef double* scores = towards + k * most
    cdef int* of_row = <int*> (scores + k * most)      # pattern of each row
    cdef double* one
    cdef double* two
    cdef double* to
    with nogil:
        memset(totals, 0, 2 * half * WIDTH * sizeof(double))
        while begin < count:
            last, first = begin, starts[begin]
            while last < count and last < begin + WIDTH and starts[last + 1] - first <= most:
                last += 1
            u, r = <int> (last - begin), <int> (starts[last] - first)
            memset(observed, 0, p * WIDTH * sizeof(double))
            for w in range(u):
                for j in range(p):
                    observed[w * p + j] = patterns[begin + w, j]
                for i in range(<int> (starts[begin + w] - first), <int> (starts[begin + w + 1] - first)):
                    of_row[i] = w
            # Places without a pattern have no column: their precision is the identity.
            multiply_bt(half, WIDTH, p, &signal[0, 0], observed, matrices)
            for h in range(k):
                to = matrices + place(k, h, h) * WIDTH
                for w in range(WIDTH):
                    to[w] += 1.0
            invert(k, matrices, logs, work)
            multiply_bt(k, WIDTH, p, &pull[0, 0], observed, pulls)
            multiply_bt(k, r, p, &weights[0, 0], <double*> &rows[first, 0], towards)
            for h in range(k):
                for i in range(r):
                    towards[h * r + i] += ones[first + i] * pulls[h * WIDTH + of_row[i]]
            memset(scores, 0, k * r * sizeof(double))
            for h in range(k):
                for j in range(k):
                    one = matrices + (place(k, j, h) if j < h else place(k, h, j)) * WIDTH
                    two, to = towards + j * r, scores + h * r
                    if r == u:  # one row each
                        for i in range(r):
                            to[i] += one[i] * two[i]
                    else:
                        for i in range(r):
                            to[i] += one[of_row[i]] * two[i]
            for w in range(u):
                result -= part * sizes[begin + w] * logs[w]
                logs[w] = part * sizes[begin + w]
            for w in range(u, WIDTH):
                logs[w] = 0.0
            # Now `matrices` become Σ_i m_i m_iᵀ + f V_i over the rows of each pattern.
            for h in range(half):
                one, two = matrices + h * WIDTH, spreads + h * WIDTH
                for w in range(WIDTH):
                    one[w] *= logs[w]
                    two[w] += one[w]
            h = 0
            for i in range(k):
                for j in range(i, k):
                    one, two = scores + i * r, scores + j * r
                    to = matrices + h * WIDTH
                    if r == u:
                        for w in range(r):
                            to[w] += one[w] * two[w]
                    else:
                        for w in range(r):
                            to[of_row[w]] += one[w] * two[w]
                    h += 1
            for h in range(half * WIDTH):
                totals[h] += matrices[h]
            memset(levels, 0, k * WIDTH * sizeof(double))
            for h in range(k):
                for i in range(r):
                    value = ones[first + i] * scores[h * r + i]
                    levels[h * WIDTH + of_row[i]] += value
                    mean[h] += value
            add_product(half, p, WIDTH, matrices, observed, &by_column[0, 0])
            add_product(k, p, WIDTH, levels, observed, &sums[0, 0])
            add_product(k, p, r, scores, <double*> &rows[first, 0], &cross[0, 0])
            begin = last
        for h in range(half):
            for w in range(WIDTH):
                total[h] += totals[h * WIDTH + w]
                spread[h] += spreads[h * WIDTH + w]
        free(memory)
    return result


cdef int invert_one(int m, double* a, double* log_det, double* work) noexcept nogil:
    """A positive definite matrix becomes its inverse; 0 if it succeeded. `work` (m,)."""
    cdef int h, i, j, info = 0
    cdef double pivot, part, turn
    log_det[0] = 0.0
    if m >= BY_LAPACK:
        dpotrf("U", &m, a, &m, &info)
        if info != 0:
            return info
        for h in range(m):
            log_det[0] += 2.0 * log(a[h * m + h])
        dpotri("U", &m, a, &m, &info)
        for h in range(m):
            for i in range(h):
                a[i * m + h] = a[h * m + i]
        return info
    for h in range(m):
        pivot = a[h * m + h]
        if not pivot > 0.0:
            return 1
        log_det[0] += log(pivot)
        part = 1.0 / pivot
        for i in range(m):
            work[i] = a[h * m + i]
        for i in range(m):
            turn = part * work[i]
            for j in range(m):
                a[i * m + j] -= turn * work[j]
        for i in range(m):
            a[h * m + i] = part * work[i]
            a[i * m + h] = part * work[i]
        a[h * m + h] = -part
    for i in range(m * m):
        a[i] = -a[i]
    return 0


def fill(
    double[:, ::1] precision, double[:, ::1] projected, double[:, ::1] side,
    const double[::1] sizes, const Py_ssize_t[::1] starts, const Py_ssize_t[::1] first,
    const Py_ssize_t[::1] missing, double[:, ::1] filled, double[:, ::1] spread,
):
    """Expected values of missing values into `filled` (r, p), their covariances added to `spread`.

    `projected` (r, K) and `side` (p, K) give −P y at missing values as products of their rows, and
    `missing` the missing columns of pattern u from place `first[u]` on. Returns 0, or another
    number where a matrix is not positive definite, the sum of `explained` and the log-determinants.
    """
    cdef int k = projected.shape[1], m, i, j, h, info = 0, most = 1
    cdef long u, row, count = sizes.shape[0]
    cdef double log_det = 0.0, log_dets = 0.0, explained = 0.0, value
    cdef const Py_ssize_t* at
    for u in range(count):
        most = max(most, <int> (first[u + 1] - first[u]))
    cdef double* memory = <double*> malloc((most * most + 2 * most) * sizeof(double))
    if memory == NULL:
        raise MemoryError("No memory for the missing values of a row.")
    cdef double* matrix = memory
    cdef double* pull = matrix + most * most
    cdef double* work = pull + most
    with nogil:
        for u in range(count):
            m = <int> (first[u + 1] - first[u])
            if m == 0:
                continue
            at = &missing[first[u]]
            for i in range(m):
                for j in range(m):
                    matrix[i * m + j] = precision[at[i], at[j]]
            info = invert_one(m, matrix, &log_det, work)
            if info != 0:
                break
            log_dets += sizes[u] * log_det
            for i in range(m):
                for j in range(m):
                    spread[at[i], at[j]] += sizes[u] * matrix[i * m + j]
            for row in range(starts[u], starts[u + 1]):
                for i in range(m):
                    value = 0.0
                    for h in range(k):
                        value += projected[row, h] * side[at[i], h]
                    pull[i] = value
                for i in range(m):
                    value = 0.0
                    for j in range(m):
                        value += matrix[i * m + j] * pull[j]
                    filled[row, at[i]] = value
                    explained += value * pull[i]
        free(memory)
    return info, explained, log_dets
