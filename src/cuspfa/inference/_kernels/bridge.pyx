"""Draws of bridge sampling rotated towards the mean of the proposal and whitened; their ratio.

The definitions are `whitened_by_definition` of `cuspfa.inference.variational.bridge_proposal`, and
`root_by_definition` and `principal_norms` of `bridge_sampling`. Matrices are row-major.
"""

from libc.math cimport exp, fabs, fmax, fmin, isnan
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from ._blas cimport multiply, multiply_at
from ._eigen cimport eigen_unsorted, jacobi
from ._square cimport polar

# Up to this size eigenvalues are found by Jacobi's method.
cdef int SMALL = 6


def whitened(
    double[:, :, ::1] loadings, double[:, ::1] mean, shift, double[::1] rows,
    double[:, ::1] inverse, double[::1] weights, double[::1] eigenvalues,
    double[::1] quadratic, double[:, :, ::1] moved,
):
    """Fill Σ_j δ_jᵀ V_j^{-1} δ_j (B,) and Σ_j μ_j δ_jᵀ V_j^{-1} (B, K, K).

    `loadings` (p, B, K); `inverse` is F⁻¹, `weights` and `eigenvalues` are those of `Loadings`.
    `shift` is None or what `Shift.kernel_arguments` returns. Returns 0, or 1 where a draw has no
    rotation towards the mean.
    """
    cdef int p = loadings.shape[0], size = loadings.shape[1], k = loadings.shape[2]
    cdef int b, j, h, m = 0, info = 0
    cdef double weight, own, factor, total
    cdef double[:, ::1] change, directions, gains, turned
    cdef double[::1] root
    cdef bint shifted = shift is not None
    if shifted:
        change, root, directions, gains, turned = shift
        m = directions.shape[1]
    cdef double* memory = <double*> malloc((5 * p * k + 2 * m * k + 4 * k * k) * sizeof(double))
    if memory == NULL:
        raise MemoryError("No memory for the densities of these draws.")
    cdef double* draw = memory
    cdef double* center = draw + p * k
    cdef double* scaled = center + p * k
    cdef double* delta = scaled + p * k
    cdef double* coordinates = delta + p * k
    cdef double* products = coordinates + p * k
    cdef double* turned_products = products + m * k
    cdef double* towards = turned_products + m * k
    cdef double* one = towards + k * k
    cdef double* two = one + k * k
    cdef double* transposed = two + k * k
    with nogil:
        for h in range(k):
            for j in range(k):
                transposed[h * k + j] = inverse[j, h]
        for b in range(size):
            for j in range(p):
                memcpy(draw + j * k, &loadings[j, b, 0], k * sizeof(double))
            if shifted:
                for j in range(p):
                    weight = change[j, b]
                    for h in range(k):
                        scaled[j * k + h] = weight * directions[j, h]
                multiply_at(m, k, p, &directions[0, 0], scaled, products)
                for j in range(m):
                    for h in range(k):
                        products[j * k + h] *= gains[j, h]
                multiply(m, k, k, products, &turned[0, 0], turned_products)
                multiply(p, k, m, &directions[0, 0], turned_products, center)
                for j in range(p):
                    for h in range(k):
                        center[j * k + h] = mean[j, h] + root[j] * center[j * k + h]
            else:
                memcpy(center, &mean[0, 0], p * k * sizeof(double))
            for j in range(p):
                for h in range(k):
                    scaled[j * k + h] = rows[j] * center[j * k + h]
            multiply_at(k, k, p, draw, scaled, towards)
            info = polar(k, towards, one, two)
            if info != 0:
                break
            multiply(p, k, k, draw, towards, delta)
            for j in range(p * k):
                delta[j] -= center[j]
            multiply(p, k, k, delta, transposed, coordinates)
            total = 0.0
            for j in range(p):
                weight = weights[j]
                for h in range(k):
                    own, factor = coordinates[j * k + h], 1.0 + weight * eigenvalues[h]
                    coordinates[j * k + h] = own * factor
                    total += own * own * factor
            quadratic[b] = total
            multiply_at(k, k, p, &mean[0, 0], coordinates, one)
            multiply(k, k, k, one, &inverse[0, 0], &moved[b, 0, 0])
        free(memory)
    return info


def bennett_root(
    double[::1] above, double[::1] below, double start, double tolerance, int most_steps
):
    """The root of Bennett's equation; `start` NaN means the middle of both means."""
    cdef int size = above.shape[0], others = below.shape[0], i, step
    cdef double low = above[0], high = above[0], value, part, new, slope
    cdef double rising, falling, squares, squares_below, mean = 0.0, mean_below = 0.0
    with nogil:
        for i in range(size):
            low, high = fmin(low, above[i]), fmax(high, above[i])
            mean += above[i]
        for i in range(others):
            low, high = fmin(low, below[i]), fmax(high, below[i])
            mean_below += below[i]
        low, high = low - 1.0, high + 1.0
        value = 0.5 * (mean / size + mean_below / others) if isnan(start) else start
        for step in range(most_steps):
            rising = falling = squares = squares_below = 0.0
            for i in range(size):
                part = 1.0 / (1.0 + exp(value - above[i]))
                rising += part
                squares += part * part
            for i in range(others):
                part = 1.0 / (1.0 + exp(below[i] - value))
                falling += part
                squares_below += part * part
            rising, falling = rising / size, falling / others
            slope = rising - squares / size + falling - squares_below / others
            if rising > falling:
                low = value
            else:
                high = value
            new = value + (rising - falling) / slope if slope > 0.0 else low
            if not low < new < high:
                new = 0.5 * (low + high)
            part, value = fabs(new - value), new
            if part < tolerance:
                break
    return value


def eigenvalues(double[:, :, ::1] matrices, double[:, ::1] out):
    """Fill the eigenvalues of B symmetric matrices, in any order; 0 if all converged."""
    cdef int size = matrices.shape[0], k = matrices.shape[1], b, h, info = 0
    cdef double* memory = <double*> malloc(3 * k * k * sizeof(double))
    cdef double* rows = memory + k * k
    cdef double* work = rows + k * k
    if memory == NULL:
        raise MemoryError("No memory for the eigenvalues of these draws.")
    with nogil:
        for b in range(size):
            memcpy(memory, &matrices[b, 0, 0], k * k * sizeof(double))
            if k <= SMALL:
                jacobi(k, memory, rows)
                for h in range(k):
                    out[b, h] = memory[h * k + h]
            else:
                info |= eigen_unsorted(k, memory, &out[b, 0], rows, work)
        free(memory)
    return info
