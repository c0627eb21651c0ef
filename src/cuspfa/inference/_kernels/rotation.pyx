"""Gradient projection of one matrix of loadings after the other, to the axes of a criterion.

The definitions are `descend_by_definition` of `cuspfa.rotation.gpa` and the criteria of
`cuspfa.rotation.criteria`. Matrices are row-major.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport exp, fmax, fmin, log, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from ._blas cimport multiply, multiply_at, multiply_bt
from ._square cimport invert, polar

cdef int WORK_BETWEEN_SIGNALS = 1 << 20


cdef double quartic(
    int p, int k, double across, double down, double gamma, double* loadings, double* slope,
    double* columns,
) noexcept nogil:
    """The value of `Quartic`, and its gradient; `columns` (K) is for sums of squares."""
    cdef int j, h
    cdef double square, row, weight, value = 0.0, total = 0.0
    if down != 0.0 or gamma != 0.0:
        for h in range(k):
            columns[h] = 0.0
        for j in range(p):
            for h in range(k):
                columns[h] += loadings[j * k + h] * loadings[j * k + h]
        for h in range(k):
            total += columns[h]
    for j in range(p):
        row = 0.0
        for h in range(k):
            row += loadings[j * k + h] * loadings[j * k + h]
        for h in range(k):
            square = loadings[j * k + h] * loadings[j * k + h]
            weight = (row - square) * across
            if down != 0.0:
                weight += down * (columns[h] - square)
            if gamma != 0.0:
                weight -= gamma / p * (total - columns[h])
            value += square * weight
            slope[j * k + h] = weight * loadings[j * k + h]
    return value / 4


cdef double geomin(int p, int k, double delta, double* loadings, double* slope) noexcept nogil:
    """The value of `Geomin`, and its gradient."""
    cdef int j, h
    cdef double own, mean, value = 0.0
    for j in range(p):
        mean = 0.0
        for h in range(k):
            mean += log(loadings[j * k + h] * loadings[j * k + h] + delta)
        mean = exp(mean / k)
        value += mean
        for h in range(k):
            own = loadings[j * k + h]
            slope[j * k + h] = 2.0 / k * own / (own * own + delta) * mean
    return value


cdef int on_axes(
    int p, int k, bint oblique, double* stack, double* axes, double* turned, double* back,
    double* work,
) noexcept nogil:
    """Loadings on axes T, and T⁻¹. Not 0 if T is singular."""
    if not oblique:
        multiply(p, k, k, stack, axes, turned)
        return 0
    memcpy(work, axes, k * k * sizeof(double))
    if invert(k, work, back) != 0:
        return 1
    multiply_bt(p, k, k, stack, back, turned)
    return 0


cdef void project(
    int p, int k, bint oblique, double* stack, double* turned, double* axes, double* back,
    double* slope, double* uphill, double* work, double* inner,
) noexcept nogil:
    """The gradient in T, along the directions that keep T what it has to be."""
    cdef int i, h
    cdef double along
    if oblique:
        multiply_at(k, k, p, turned, slope, work)
        multiply(k, k, k, work, back, inner)
        for h in range(k):
            along = 0.0
            for i in range(k):
                along -= axes[i * k + h] * inner[h * k + i]
            for i in range(k):
                uphill[i * k + h] = -inner[h * k + i] - axes[i * k + h] * along
        return
    multiply_at(k, k, p, stack, slope, uphill)
    multiply_at(k, k, k, axes, uphill, work)
    for i in range(k):
        for h in range(k):
            inner[i * k + h] = (work[i * k + h] + work[h * k + i]) / 2
    multiply(k, k, k, axes, inner, work)
    for i in range(k * k):
        uphill[i] -= work[i]


cdef int retract(int k, bint oblique, double* axes, double* work, double* inner) noexcept nogil:
    """Back to unit columns, or to the nearest orthogonal matrix; not 0 if there is none."""
    cdef int i, h
    cdef double length
    if not oblique:
        return polar(k, axes, work, inner)
    for h in range(k):
        length = 0.0
        for i in range(k):
            length += axes[i * k + h] * axes[i * k + h]
        length = sqrt(length)
        for i in range(k):
            axes[i * k + h] /= length
    return 0


def descend(
    const double[:, :, ::1] stack, double[:, :, ::1] axes, double[::1] values,
    unsigned char[::1] converged, double[::1] enough, double[::1] squared_norm, bint oblique,
    bint is_geomin, double across, double down, double gamma, int most_steps, int most_halvings,
    int remembered, double least_descent, double most_growth, double nearly_flat,
):
    """Descend from `axes` (B, K, K), which become T, with values and convergence by matrix.

    `across` is δ of geomin. Returns the number of matrices done: fewer than B if the axes of the
    next became singular.
    """
    cdef int size = stack.shape[0], p = stack.shape[1], k = stack.shape[2], kk = k * k, pk = p * k
    cdef int b, i, number, halving, info = 0
    cdef long long since = 0, each = <long long> pk * k + 2 * kk * k
    cdef double value, there_value, step, length, along, highest, change
    cdef bint found
    cdef double* memory = <double*> malloc((4 * pk + 8 * kk + k + remembered) * sizeof(double))
    if memory == NULL:
        raise MemoryError("No memory for a rotation of these loadings.")
    cdef double* turned = memory
    cdef double* slope = turned + pk
    cdef double* there = slope + pk
    cdef double* there_slope = there + pk
    cdef double* back = there_slope + pk
    cdef double* uphill = back + kk
    cdef double* before = uphill + kk
    cdef double* uphill_before = before + kk
    cdef double* moved = uphill_before + kk
    cdef double* there_back = moved + kk
    cdef double* work = there_back + kk
    cdef double* inner = work + kk
    cdef double* columns = inner + kk
    cdef double* recent = columns + k
    cdef double* own
    cdef double* at
    try:
        with nogil:
            for b in range(size):
                own, at = <double*> &stack[b, 0, 0], &axes[b, 0, 0]
                info = on_axes(p, k, oblique, own, at, turned, back, work)
                if info != 0:
                    break
                if is_geomin:
                    value = geomin(p, k, across, turned, slope)
                else:
                    value = quartic(p, k, across, down, gamma, turned, slope, columns)
                for i in range(remembered):
                    recent[i] = value
                step, converged[b] = 1.0, False
                for number in range(most_steps):
                    since += each
                    if since > WORK_BETWEEN_SIGNALS:
                        since = 0
                        with gil:
                            PyErr_CheckSignals()
                    project(p, k, oblique, own, turned, at, back, slope, uphill, work, inner)
                    length = 0.0
                    for i in range(kk):
                        length += uphill[i] * uphill[i]
                    length = sqrt(length)
                    if not length > enough[b]:
                        converged[b] = True
                        break
                    if number == 0:  # short enough to stay in the valley where it begins
                        step = 1.0 / fmax(length, squared_norm[b])
                    else:
                        along, change = 0.0, 0.0
                        for i in range(kk):
                            along += (at[i] - before[i]) * (uphill[i] - uphill_before[i])
                            change += (at[i] - before[i]) * (at[i] - before[i])
                        step = fmin(change / along, most_growth * step) if along > 0 else 2 * step
                    memcpy(before, at, kk * sizeof(double))
                    memcpy(uphill_before, uphill, kk * sizeof(double))
                    highest = recent[0]
                    for i in range(1, remembered):
                        highest = fmax(highest, recent[i])
                    found = False
                    for halving in range(most_halvings):
                        for i in range(kk):
                            moved[i] = at[i] - step * uphill[i]
                        info = retract(k, oblique, moved, work, inner)
                        if info == 0:
                            info = on_axes(p, k, oblique, own, moved, there, there_back, work)
                        if info != 0:
                            break
                        if is_geomin:
                            there_value = geomin(p, k, across, there, there_slope)
                        else:
                            there_value = quartic(
                                p, k, across, down, gamma, there, there_slope, columns
                            )
                        found = there_value < highest - least_descent * length * length * step
                        if found:
                            break
                        step /= 2.0
                    if info != 0:
                        break
                    if not found:  # no step lowers it beyond rounding error: as low as it gets
                        converged[b] = length < nearly_flat * enough[b]
                        break
                    value = there_value
                    memcpy(at, moved, kk * sizeof(double))
                    turned, there = there, turned
                    slope, there_slope = there_slope, slope
                    back, there_back = there_back, back
                    recent[number % remembered] = value
                if info != 0:
                    break
                values[b] = value
    finally:
        free(memory)
    return size if info == 0 else b
