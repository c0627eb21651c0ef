# Products of row-major matrices by BLAS, whose matrices are column-major: operands change places.
from scipy.linalg.cython_blas cimport dgemm


cdef inline void multiply(int m, int n, int k, double* a, double* b, double* c) noexcept nogil:
    """C (m, n) = A (m, k) B (k, n)."""
    cdef double one = 1.0, zero = 0.0
    dgemm("N", "N", &n, &m, &k, &one, b, &n, a, &k, &zero, c, &n)


cdef inline void multiply_at(int m, int n, int k, double* a, double* b, double* c) noexcept nogil:
    """C (m, n) = Aᵀ B with A (k, m), B (k, n)."""
    cdef double one = 1.0, zero = 0.0
    dgemm("N", "T", &n, &m, &k, &one, b, &n, a, &m, &zero, c, &n)


cdef inline void multiply_bt(int m, int n, int k, double* a, double* b, double* c) noexcept nogil:
    """C (m, n) = A Bᵀ with A (m, k), B (n, k)."""
    cdef double one = 1.0, zero = 0.0
    dgemm("T", "N", &n, &m, &k, &one, b, &k, a, &k, &zero, c, &n)


cdef inline void add_product(int m, int n, int k, double* a, double* b, double* c) noexcept nogil:
    """C (m, n) += A (m, k) B (k, n)."""
    cdef double one = 1.0
    dgemm("N", "N", &n, &m, &k, &one, b, &n, a, &k, &one, c, &n)
