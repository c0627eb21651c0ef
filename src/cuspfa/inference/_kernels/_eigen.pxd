# Eigendecomposition of small symmetric matrices.
from libc.math cimport fabs, sqrt
from libc.string cimport memcpy

from ._blas cimport multiply, multiply_bt

cdef enum:
    # Up to this size Jacobi is used.
    JACOBI = 8
    MOST_SWEEPS = 40
    # Each takes four products; further ones would take longer than starting anew.
    MOST_ROUNDS = 4


cdef extern from *:
    # Rows that do not overlap, so that the compiler may work on two numbers at once.
    ctypedef double* row "double* __restrict"


cdef inline void quotients(int i, row values, row entries, row turns) noexcept nogil:
    cdef double one = values[i]
    cdef int j
    for j in range(i):
        turns[j] = entries[j] / (one - values[j])


cdef inline void corrected(int i, row values, row entries, row norms) noexcept nogil:
    """Entries beside the diagonal, for vectors that are not quite orthogonal."""
    cdef double one = values[i]
    cdef int j
    for j in range(i):
        entries[j] -= 0.5 * (one + values[j]) * norms[j]


cdef inline double add_turns(
    int i, int k, double* values, double* entries, double* line, double* turns
) noexcept nogil:
    """Row and column i of the turns that make entries of row i zero; their sum of squares."""
    cdef double one = fabs(values[i]), size = 0.0
    cdef int j
    quotients(i, values, entries, line)
    for j in range(i):
        # Rounding error does not turn vectors of equal eigenvalues.
        if fabs(entries[j]) <= 1e-14 * (one + fabs(values[j])):
            continue
        turns[i * k + j] += line[j]
        turns[j * k + i] -= line[j]
        size += 2.0 * line[j] * line[j]
    return size


cdef inline double first_turns(
    int k, double* at, double* norms, double* values, double* line, double* turns
) noexcept nogil:
    """Turns that make the matrix `at` diagonal to first order, and the sum of their squares.

    `norms` are the products of the vectors, NULL where these are the axes.
    """
    cdef int i, j
    cdef double part, size = 0.0
    for i in range(k * k):
        turns[i] = 0.0
    for i in range(k):
        values[i] = at[i * k + i]
        if norms == NULL:
            continue
        # What the vector's squared norm lacks.
        part = 1.0 - norms[i * k + i]
        values[i] /= 1.0 - part
        turns[i * k + i] = 0.5 * part
        size += 0.25 * part * part
        for j in range(i):
            part = -0.5 * norms[i * k + j]
            turns[i * k + j] = part
            turns[j * k + i] = part
            size += 2.0 * part * part
        corrected(i, values, at + i * k, norms + i * k)
    for i in range(k):
        size += add_turns(i, k, values, at + i * k, line, turns)
    return size


cdef inline double second_turns(
    int k, double* s, double* values, double* turns, double* rows, double* product, double* line
) noexcept nogil:
    """Turns T to second order, for vectors I + T + T²/2, which are orthogonal to fourth order.

    With s = D + O and T of first order, exp(T) s exp(−T) = D + (TO − OT)/2 to second order.
    Returns the sum of squares of what is added to the turns.
    """
    cdef int i, j
    cdef double size = 0.0
    multiply(k, k, k, turns, s, product)
    for i in range(k):
        for j in range(k):
            # TO = Ts − TD
            product[i * k + j] -= turns[i * k + j] * values[j]
    for i in range(k):
        values[i] += product[i * k + i]
    for i in range(k):
        for j in range(i):
            product[i * k + j] = 0.5 * (product[i * k + j] + product[j * k + i])
        size += add_turns(i, k, values, product + i * k, line, turns)
    multiply(k, k, k, turns, turns, product)
    for i in range(k * k):
        rows[i] = turns[i] + 0.5 * product[i]
    for i in range(k):
        rows[i * k + i] += 1.0
    return size


cdef inline bint refine(
    int k, double* s, double* values, double* rows, double* work
) noexcept nogil:
    """Eigenvalues in any order and eigenvectors as rows, where s is nearly diagonal.

    In the rounds of Ogita and Aishima (2018) the error is squared each time, and all work is in
    products: quicker than a reduction to a tridiagonal matrix. False if the eigenvalues are too
    close for the entries beside the diagonal; s is as it was. `work` (3, K, K) and (K,).
    """
    cdef int i, number
    cdef double size, last
    # Sums of squares of turns: those that need no further round, as what is left is of their order;
    # and those for which turns of second order spare a round.
    cdef double done = 1e-14, small = 2e-5
    cdef double* turns = work
    cdef double* product = work + k * k
    cdef double* norms = work + 2 * k * k
    cdef double* line = work + 3 * k * k
    last = first_turns(k, s, NULL, values, line, turns)
    if not last < 0.25:
        return False
    if done <= last < small:
        size = second_turns(k, s, values, turns, rows, product, line)
        # What is left is of third order, 1e-11 at most, and of fourth order in the products of the
        # vectors. What is computed of them depends on it to second order.
        if size < last and last * last * last < 1e-22:
            return True
    else:
        memcpy(rows, turns, k * k * sizeof(double))
        for i in range(k):
            rows[i * k + i] = 1.0
        if last < done:
            return True
    for number in range(MOST_ROUNDS):
        multiply(k, k, k, rows, s, turns)
        multiply_bt(k, k, k, turns, rows, product)
        multiply_bt(k, k, k, rows, rows, norms)
        size = first_turns(k, product, norms, values, line, turns)
        if not size < 0.25 * last:
            return False
        multiply(k, k, k, turns, rows, product)
        for i in range(k * k):
            rows[i] += product[i]
        # What is left is at most the square of the last turns, about the error of LAPACK.
        if size < done:
            return True
        last = size
    return False


cdef inline void jacobi(int k, double* s, double* rows) noexcept nogil:
    """Cyclic Jacobi: s becomes diagonal, the rows of `rows` the eigenvectors."""
    cdef int sweep, i, j, h
    cdef double apart, ratio, tangent, cosine, sine, one, two, first, second
    cdef bint moved
    for i in range(k * k):
        rows[i] = 0.0
    for i in range(k):
        rows[i * k + i] = 1.0
    for sweep in range(MOST_SWEEPS):
        moved = False
        for i in range(k - 1):
            for j in range(i + 1, k):
                apart = s[i * k + j]
                if fabs(apart) <= 1e-13 * sqrt(fabs(s[i * k + i] * s[j * k + j])):
                    continue
                moved = True
                ratio = (s[j * k + j] - s[i * k + i]) / (2.0 * apart)
                tangent = 1.0 / (fabs(ratio) + sqrt(1.0 + ratio * ratio))
                if ratio < 0.0:
                    tangent = -tangent
                cosine = 1.0 / sqrt(1.0 + tangent * tangent)
                sine = tangent * cosine
                first = s[i * k + i] - tangent * apart
                second = s[j * k + j] + tangent * apart
                for h in range(k):
                    one, two = s[i * k + h], s[j * k + h]
                    s[i * k + h] = cosine * one - sine * two
                    s[j * k + h] = sine * one + cosine * two
                for h in range(k):
                    s[h * k + i] = s[i * k + h]
                    s[h * k + j] = s[j * k + h]
                s[i * k + i], s[j * k + j] = first, second
                s[i * k + j], s[j * k + i] = 0.0, 0.0
                for h in range(k):
                    one, two = rows[i * k + h], rows[j * k + h]
                    rows[i * k + h] = cosine * one - sine * two
                    rows[j * k + h] = sine * one + cosine * two
        if not moved:
            return


cdef inline int eigen(
    int k, double* s, double* values, double* rows, double* work
) noexcept nogil:
    """Eigenvalues, largest first, and eigenvectors as rows; 0 if it succeeded.

    s is overwritten; `work` (3, K, K) and (K,).
    """
    cdef int i, j, best, info = 0
    cdef double one
    if k <= JACOBI:
        jacobi(k, s, rows)
        for i in range(k):
            values[i] = s[i * k + i]
    elif not refine(k, s, values, rows, work):
        info = eigen_unsorted(k, s, values, rows, work)
        if info != 0:
            return info
    for i in range(k - 1):
        best = i
        for j in range(i + 1, k):
            if values[j] > values[best]:
                best = j
        if best != i:
            values[i], values[best] = values[best], values[i]
            for j in range(k):
                one = rows[i * k + j]
                rows[i * k + j] = rows[best * k + j]
                rows[best * k + j] = one
    return info


cdef inline int eigen_unsorted(
    int k, double* s, double* values, double* rows, double* work
) noexcept nogil:
    """Eigenvalues in any order and eigenvectors as rows, by Householder and implicit QL.

    Several times quicker than Jacobi where the matrix is not nearly diagonal; less exact for small
    eigenvalues beside large ones, as LAPACK. s is overwritten; `work` (K, K). 0 if it succeeded.
    """
    cdef int i, j, h, m, step
    cdef double total, f, g, p, c, sn, low, r
    cdef double* e = work
    cdef double* u
    cdef double* to = work + k
    cdef double* z
    # Householder: row i of s becomes u of I − uuᵀ/values[i]; what is left is tridiagonal.
    for i in range(k - 1, 0, -1):
        u = s + i * k
        total = 0.0
        for j in range(i - 1):
            total += u[j] * u[j]
        if total == 0.0:
            values[i], e[i] = 0.0, u[i - 1]
            continue
        f = u[i - 1]
        total += f * f
        g = -sqrt(total) if f >= 0.0 else sqrt(total)
        e[i], u[i - 1] = g, f - g
        total -= f * g
        values[i] = total
        for j in range(i):
            to[j] = 0.0
        for h in range(i):
            f, z = u[h] / total, s + h * k
            for j in range(i):
                to[j] += f * z[j]
        f = 0.0
        for j in range(i):
            f += u[j] * to[j]
        f /= 2.0 * total
        for j in range(i):
            to[j] -= f * u[j]
        for h in range(i):
            f, g, z = u[h], to[h], s + h * k
            for j in range(i):
                z[j] -= f * to[j] + g * u[j]
    # The product of the reflections, row by row, in the place of s.
    values[0] = s[0]
    s[0] = 1.0
    e[0] = 0.0
    for i in range(1, k):
        u, total = s + i * k, values[i]
        values[i] = u[i]
        if total != 0.0:
            for j in range(i):
                to[j] = 0.0
            for h in range(i):
                f, z = u[h] / total, s + h * k
                for j in range(i):
                    to[j] += f * z[j]
            for h in range(i):
                f, z = u[h], s + h * k
                for j in range(i):
                    z[j] -= f * to[j]
        for j in range(i):
            u[j] = 0.0
            s[j * k + i] = 0.0
        u[i] = 1.0
    for i in range(k):
        for j in range(k):
            rows[i * k + j] = s[j * k + i]
    for i in range(1, k):
        e[i - 1] = e[i]
    e[k - 1] = 0.0
    # QL with implicit shifts.
    for i in range(k):
        step = 0
        while True:
            m = i
            while m < k - 1:
                if fabs(e[m]) <= 1.1e-16 * (fabs(values[m]) + fabs(values[m + 1])):
                    break
                m += 1
            if m == i:
                break
            step += 1
            if step > MOST_SWEEPS:
                return 1
            g = (values[i + 1] - values[i]) / (2.0 * e[i])
            r = sqrt(g * g + 1.0)
            g = values[m] - values[i] + e[i] / (g + (r if g >= 0.0 else -r))
            sn, c, p = 1.0, 1.0, 0.0
            h = m - 1
            while h >= i:
                f, low = sn * e[h], c * e[h]
                r = sqrt(f * f + g * g)
                e[h + 1] = r
                if r == 0.0:
                    values[h + 1] -= p
                    e[m] = 0.0
                    break
                sn, c = f / r, g / r
                g = values[h + 1] - p
                r = (values[h] - g) * sn + 2.0 * c * low
                p = sn * r
                values[h + 1] = g + p
                g = c * r - low
                u, z = rows + h * k, rows + (h + 1) * k
                for j in range(k):
                    f = z[j]
                    z[j] = sn * u[j] + c * f
                    u[j] = c * u[j] - sn * f
                h -= 1
            if r == 0.0 and h >= i:
                continue
            values[i] -= p
            e[i], e[m] = g, 0.0
    return 0
