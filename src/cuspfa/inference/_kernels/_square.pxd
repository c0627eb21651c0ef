# Inverses and polar factors of small row-major matrices.
from libc.math cimport fabs, isfinite, sqrt
from libc.string cimport memcpy


cdef inline int invert(int k, double* a, double* out) noexcept nogil:
    """out = A⁻¹ by Gauss and Jordan with row pivots; A is overwritten. Not 0 if A is singular."""
    cdef int i, j, h, best
    cdef double pivot, factor, held
    for i in range(k):
        for j in range(k):
            out[i * k + j] = 1.0 if i == j else 0.0
    for i in range(k):
        best = i
        for h in range(i + 1, k):
            if fabs(a[h * k + i]) > fabs(a[best * k + i]):
                best = h
        pivot = a[best * k + i]
        if pivot == 0.0 or not isfinite(pivot):
            return 1
        if best != i:
            for j in range(k):
                held = a[i * k + j]
                a[i * k + j] = a[best * k + j]
                a[best * k + j] = held
                held = out[i * k + j]
                out[i * k + j] = out[best * k + j]
                out[best * k + j] = held
        pivot = 1.0 / pivot
        for j in range(k):
            a[i * k + j] *= pivot
            out[i * k + j] *= pivot
        for h in range(k):
            factor = a[h * k + i]
            if h == i or factor == 0.0:
                continue
            for j in range(k):
                a[h * k + j] -= factor * a[i * k + j]
                out[h * k + j] -= factor * out[i * k + j]
    return 0


cdef inline int polar(int k, double* x, double* work, double* inverse) noexcept nogil:
    """The orthogonal polar factor in the place of x, by Newton's iteration X ← ½(sX + X⁻ᵀ/s).

    The scale s makes the norms of both parts equal until the iteration converges by itself (Higham,
    1986). `work` and `inverse` (K, K). Not 0 if x is singular.
    """
    cdef int step, i, j, size = k * k
    cdef double norm, inverse_norm, scale = 1.0, moved, new, other
    cdef bint near = False
    for step in range(100):
        memcpy(work, x, size * sizeof(double))
        if invert(k, work, inverse) != 0:
            return 1
        if not near:
            norm, inverse_norm = 0.0, 0.0
            for i in range(size):
                norm += x[i] * x[i]
                inverse_norm += inverse[i] * inverse[i]
            scale = sqrt(sqrt(inverse_norm / norm))
        else:
            scale = 1.0
        other, moved = 1.0 / scale, 0.0
        for i in range(k):
            for j in range(k):
                new = 0.5 * (scale * x[i * k + j] + other * inverse[j * k + i])
                moved += (new - x[i * k + j]) * (new - x[i * k + j])
                work[i * k + j] = new
        memcpy(x, work, size * sizeof(double))
        if not isfinite(moved):
            return 1
        # Steps are squared: after one below 1e-8 what is left is rounding error.
        if near and moved < 1e-16 * k:
            return 0
        near = moved < 1e-2 * k
    return 1
