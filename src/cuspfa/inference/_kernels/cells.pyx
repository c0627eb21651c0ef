"""Single cells: expectation propagation of rows, and responses between their limits.

The definitions are `propagate` of `cuspfa.inference.cellwise.marginal`, and `truncated_normal` and
`OrdinalLikelihood.log_density` in `cuspfa.model.likelihoods`. Matrices are row-major.

A cell is an interval (lower, upper) of a response with a noise variance of its column; where both
ends are equal it is the value of the response, and where they are NaN it is missing.
"""

from libc.math cimport exp, fabs, fmax, fmin, isnan, log, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from scipy.special.cython_special cimport erfcx, log_ndtr, ndtr, ndtri, ndtri_exp

cdef double OUTERMOST = 1e6
cdef double FAR_OUT = -25.0
cdef double DRAWN_BY_LOGS = -30.0
cdef double ROOT_HALF = 0.70710678118654752440
cdef double ROOT_HALF_PI = 1.25331413731550025121
cdef double LOG_ROOT_2PI = 0.91893853320467274178
cdef double LOG_2PI = 1.83787706640934548356


cdef double interval(double lower, double upper, double* a, double* b) noexcept nogil:
    """log{Φ(u) − Φ(l)}, and φ(u)/P, φ(l)/P; see `links.py`."""
    cdef bint reflected = lower + upper > 0.0
    cdef double low = -upper if reflected else lower
    cdef double high = -lower if reflected else upper
    cdef double total, logs, at_high, at_low, ratio
    if high < FAR_OUT:
        ratio = exp(0.5 * (high - low) * (high + low))
        total = erfcx(-high * ROOT_HALF)
        if ratio > 0.0:
            total = total - ratio * erfcx(-low * ROOT_HALF)
        total = ROOT_HALF_PI * total
        logs = log(total) - 0.5 * high * high - LOG_ROOT_2PI
        at_high, at_low = 1.0 / total, ratio / total
    else:
        total = ndtr(high) - (ndtr(low) if low > -40.0 else 0.0)
        logs = log(total)
        at_high = exp(-0.5 * high * high - LOG_ROOT_2PI) / total if high < 40.0 else 0.0
        at_low = exp(-0.5 * low * low - LOG_ROOT_2PI) / total if low > -40.0 else 0.0
    if reflected:
        a[0], b[0] = at_low, at_high
    else:
        a[0], b[0] = at_high, at_low
    return logs


cdef int inverse(int k, double* matrix, double* root, double* out, double* log_det) noexcept nogil:
    """The inverse of a positive definite matrix by its Cholesky root. Not 0 if it is none."""
    cdef int i, j, l
    cdef double total
    log_det[0] = 0.0
    for i in range(k):
        for j in range(i + 1):
            total = matrix[i * k + j]
            for l in range(j):
                total -= root[i * k + l] * root[j * k + l]
            if i == j:
                if total <= 0.0:
                    return 1
                root[i * k + i] = sqrt(total)
                log_det[0] += log(total)
            else:
                root[i * k + j] = total / root[j * k + j]
    # The inverse of the root, in its place.
    for i in range(k):
        root[i * k + i] = 1.0 / root[i * k + i]
        for j in range(i):
            total = 0.0
            for l in range(j, i):
                total -= root[i * k + l] * root[l * k + j]
            root[i * k + j] = total * root[i * k + i]
    for i in range(k):
        for j in range(i + 1):
            total = 0.0
            for l in range(i, k):
                total += root[l * k + i] * root[l * k + j]
            out[i * k + j] = out[j * k + i] = total
    return 0


def propagate(
    double[:, ::1] lower, double[:, ::1] upper, double[::1] noise, double[:, ::1] loadings,
    double[:, ::1] tau, double[:, ::1] nu,
    double[::1] logs, double[:, ::1] mean, double[:, :, ::1] covariance, double[::1] log_det,
    int iterations, double tolerance, double damping, double least_damping, int patience,
):
    """EP of each row, from τ and ν that are given; all others are filled. Gives the number of rows
    that have not converged."""
    cdef Py_ssize_t n = lower.shape[0], p = lower.shape[1], i, j
    cdef int k = loadings.shape[1], size = loadings.shape[1] * loadings.shape[1]
    cdef int number, h, g, left = 0
    cdef double* work = <double*> malloc((2 * size + 3 * k + 2 * p + 1) * sizeof(double))
    cdef double* matrix = work
    cdef double* root = matrix + size
    cdef double* towards = root + size
    cdef double* own_mean = towards + k
    cdef double* spread = own_mean + k
    cdef double* new_tau = spread + k
    cdef double* new_nu = new_tau + p
    cdef double before, found, own_damping, f, v, rest, cm, cv, sd, a, b, t, u, x, det
    cdef double value, slope, curvature, l_end, u_end
    cdef bint done
    if work == NULL:
        raise MemoryError
    with nogil:
        for i in range(n):
            before, own_damping, done, det = 1e300, damping, False, 0.0
            memset(own_mean, 0, k * sizeof(double))
            for number in range(iterations):
                memset(matrix, 0, size * sizeof(double))
                memset(towards, 0, k * sizeof(double))
                for j in range(p):
                    t, u = tau[i, j], nu[i, j]
                    if t == 0.0 and u == 0.0:
                        continue
                    for h in range(k):
                        x = t * loadings[j, h]
                        towards[h] += u * loadings[j, h]
                        for g in range(h + 1):
                            matrix[h * k + g] += x * loadings[j, g]
                for h in range(k):
                    matrix[h * k + h] += 1.0
                if inverse(k, matrix, root, &covariance[i, 0, 0] if k else root, &det) != 0:
                    break
                found = 0.0
                for h in range(k):
                    own_mean[h] = 0.0
                    for g in range(k):
                        own_mean[h] += covariance[i, h, g] * towards[g]
                    found += own_mean[h] * towards[h]
                found = 0.5 * (found - det)
                for j in range(p):
                    new_tau[j] = new_nu[j] = 0.0
                    l_end, u_end = lower[i, j], upper[i, j]
                    t, u = tau[i, j], nu[i, j]
                    if isnan(l_end):
                        continue
                    f = v = 0.0
                    for h in range(k):
                        x = 0.0
                        for g in range(k):
                            x += covariance[i, h, g] * loadings[j, g]
                        v += x * loadings[j, h]
                        f += own_mean[h] * loadings[j, h]
                    rest = 1.0 - t * v
                    cm, cv = (f - u * v) / rest, v / rest
                    x = noise[j] + cv
                    if l_end == u_end:
                        value = -0.5 * (LOG_2PI + log(x) + (l_end - cm) * (l_end - cm) / x)
                        slope, curvature = (l_end - cm) / x, -1.0 / x
                    else:
                        sd = sqrt(x)
                        l_end, u_end = (l_end - cm) / sd, (u_end - cm) / sd
                        value = interval(l_end, u_end, &a, &b)
                        slope = b - a
                        curvature = fmin(fmax(l_end * b - u_end * a - slope * slope, -1.0), 0.0) / x
                        slope = slope / sd
                    rest = 1.0 + t * cv
                    found += value + 0.5 * log(rest)
                    found += 0.5 * (cm * cm * t - 2.0 * cm * u - u * u * cv) / rest
                    rest = 1.0 + cv * curvature
                    new_tau[j] = fmax(-curvature / rest, 0.0)
                    new_nu[j] = (slope - cm * curvature) / rest
                done = fabs(found - before) < tolerance * (1.0 + fabs(found))
                before = found
                if done:
                    break
                if number > 0 and number % patience == 0:
                    own_damping = fmax(own_damping / 2.0, least_damping)
                for j in range(p):
                    tau[i, j] += own_damping * (new_tau[j] - tau[i, j])
                    nu[i, j] += own_damping * (new_nu[j] - nu[i, j])
            if not done:
                left += 1
            logs[i], log_det[i] = before, -det
            for h in range(k):
                mean[i, h] = own_mean[h]
    free(work)
    return left


cdef inline double between(double lower, double upper, double uniform) noexcept nogil:
    """A standard normal number between the limits; see `truncated_normal` of `responses.py`."""
    cdef bint reflected = lower + upper > 0.0
    cdef double low = -upper if reflected else lower
    cdef double high = -lower if reflected else upper
    cdef double below, drawn, top, bottom
    if high < DRAWN_BY_LOGS:
        top, bottom = log_ndtr(high), log_ndtr(low)
        drawn = ndtri_exp(top + log(uniform + (1.0 - uniform) * exp(bottom - top)))
    else:
        below = ndtr(low) if low > -40.0 else 0.0
        drawn = ndtri(below + uniform * (ndtr(high) - below))
    drawn = fmin(fmax(drawn, low), high)
    return -drawn if reflected else drawn


def truncated_normal(double[::1] lower, double[::1] upper, double[::1] uniform):
    """Standard normal numbers between the limits, in the place of the uniform ones."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(lower.shape[0]):
            uniform[i] = between(lower[i], upper[i], uniform[i])


def responses_between(
    Py_ssize_t[:, ::1] codes, double[:, :, ::1] linear, double[:, :, ::1] ends,
    double[:, :, ::1] uniform,
):
    """Responses N(f, 1) between the cut-points of their categories, in the place of the uniform
    numbers. `ends` (B, q, C + 1) has outermost ones too; a code below zero is a missing value."""
    cdef Py_ssize_t b, i, j, code
    cdef double f
    with nogil:
        for b in range(linear.shape[0]):
            for i in range(linear.shape[1]):
                for j in range(linear.shape[2]):
                    code, f = codes[i, j], linear[b, i, j]
                    if code < 0:
                        uniform[b, i, j] = f + between(
                            -OUTERMOST - f, OUTERMOST - f, uniform[b, i, j]
                        )
                    else:
                        uniform[b, i, j] = f + between(
                            ends[b, j, code] - f, ends[b, j, code + 1] - f, uniform[b, i, j]
                        )


def log_probabilities(
    Py_ssize_t[:, ::1] codes, double[:, :, ::1] linear, double[:, :, ::1] ends, double[:, ::1] out
):
    """Σ_i log P of the categories of each column, (B, q), in the same form."""
    cdef Py_ssize_t b, i, j, code
    cdef double f, lower, upper, low, high, total
    with nogil:
        for b in range(linear.shape[0]):
            for j in range(linear.shape[2]):
                out[b, j] = 0.0
            for i in range(linear.shape[1]):
                for j in range(linear.shape[2]):
                    code, f = codes[i, j], linear[b, i, j]
                    if code < 0:
                        continue
                    lower, upper = ends[b, j, code] - f, ends[b, j, code + 1] - f
                    low = -upper if lower + upper > 0.0 else lower
                    high = -lower if lower + upper > 0.0 else upper
                    if high < FAR_OUT:
                        total = erfcx(-high * ROOT_HALF)
                        total -= exp(0.5 * (high - low) * (high + low)) * erfcx(-low * ROOT_HALF)
                        out[b, j] += log(ROOT_HALF_PI * total) - 0.5 * high * high - LOG_ROOT_2PI
                    else:
                        total = ndtr(high) - (ndtr(low) if low > -40.0 else 0.0)
                        out[b, j] += log(total)


def corrections(
    double[:, ::1] lower, double[:, ::1] upper, double[::1] noise, double[:, ::1] loadings,
    double[:, ::1] tau, double[:, ::1] nu, double[:, ::1] mean, double[:, :, ::1] covariance,
    double[::1] out,
):
    """What third and fourth cumulants add to the log probability of each row; the definition is
    `corrections` of `cuspfa.inference.cellwise.marginal`."""
    cdef Py_ssize_t n = lower.shape[0], p = lower.shape[1], i, j, m
    cdef int k = loadings.shape[1], h, g
    cdef double* work = <double*> malloc((p * k + 2 * p + 1) * sizeof(double))
    cdef double* spread = work
    cdef double* third = spread + p * k
    cdef double* fourth = third + p
    cdef double f, v, rest, cm, cv, sd, x, l, u, a, b, l1, l2, l3, a1, b1, a2, b2, a3, b3, total
    if work == NULL:
        raise MemoryError
    with nogil:
        for i in range(n):
            for j in range(p):
                third[j] = fourth[j] = 0.0
                l, u = lower[i, j], upper[i, j]
                if isnan(l) or l == u:
                    continue
                f = v = 0.0
                for h in range(k):
                    x = 0.0
                    for g in range(k):
                        x += covariance[i, h, g] * loadings[j, g]
                    spread[j * k + h] = x
                    v += x * loadings[j, h]
                    f += mean[i, h] * loadings[j, h]
                if v <= 0.0:
                    continue
                rest = 1.0 - tau[i, j] * v
                cm, cv = (f - nu[i, j] * v) / rest, v / rest
                sd = sqrt(noise[j] + cv)
                l, u = (l - cm) / sd, (u - cm) / sd
                interval(l, u, &a, &b)
                l1 = b - a
                a1, b1 = a * (u - l1), b * (l - l1)
                l2 = b1 - a1
                a2, b2 = a1 * (u - l1) - a * (1.0 + l2), b1 * (l - l1) - b * (1.0 + l2)
                l3 = b2 - a2
                a3 = a2 * (u - l1) - 2.0 * a1 * (1.0 + l2) - a * l3
                b3 = b2 * (l - l1) - 2.0 * b1 * (1.0 + l2) - b * l3
                # Cumulants, divided by powers of the variance of f.
                x = cv / (sd * v)
                third[j] = l3 * x * x * x
                fourth[j] = (b3 - a3) * x * x * x * x
            total = 0.0
            for j in range(p):
                if third[j] == 0.0 and fourth[j] == 0.0:
                    continue
                for m in range(j):
                    x = 0.0
                    for h in range(k):
                        x += spread[j * k + h] * loadings[m, h]
                    total += third[j] * third[m] * x * x * x / 6.0
                    total += fourth[j] * fourth[m] * x * x * x * x / 24.0
            out[i] = total
    free(work)
