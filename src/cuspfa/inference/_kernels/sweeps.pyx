"""Exact sweeps of B chains for complete data, and their likelihoods.

The definition is `cuspfa.inference.kernels`, with the same random numbers in the same order: those
of a step are drawn first for all chains, and then chain after chain is moved. Inside, the matrices
of a chain are row-major with the columns of Y last, Λᵀ (K, p), so that the products with the data
are one product for all chains. Rotations and shears go through `LANES` chains at once, with the
chains last.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport INFINITY, cos, exp, fmax, isfinite, lgamma, log, rint, sin, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from numpy.random cimport bitgen_t
from numpy.random.c_distributions cimport (
    random_chisquare,
    random_standard_exponential_fill,
    random_standard_gamma,
    random_standard_normal_fill,
    random_standard_uniform_fill,
)
from scipy.linalg.cython_blas cimport dgemm
from scipy.linalg.cython_lapack cimport dpotrf, dtrtri

from ._blas cimport multiply, multiply_at, multiply_bt
from ._eigen cimport eigen_unsorted

cdef double LOG_2PI = 1.8378770664093453
cdef double PI = 3.141592653589793
cdef double TINY = 2.2250738585072014e-308
cdef int HYPER_STEPS = 10
# Up to this size a Cholesky factor is found without LAPACK.
cdef int SMALL = 32
# Up to this length products of rows are made without BLAS.
cdef int LONG_ROW = 64

cdef enum:
    LANES = 4


# --- small matrices ---


cdef void add_product(
    bint at, bint bt, int m, int n, int k, double* a, int lda, double* b, int ldb,
    double beta, double* c, int ldc,
) noexcept nogil:
    """C (m, n) = A B + beta C for row-major matrices, with Aᵀ or Bᵀ where `at` or `bt`."""
    cdef double one = 1.0
    dgemm(
        "T" if bt else "N", "T" if at else "N", &n, &m, &k, &one, b, &ldb, a, &lda, &beta, c, &ldc
    )


cdef void symmetric_product(int k, int p, double* x, double* y, double* out) noexcept nogil:
    """out (k, k) = XYᵀ where that is symmetric, for X and Y (k, p).

    Short rows are quicker without BLAS, which copies both matrices first.
    """
    cdef int h, i, j, rest = p - p % 4
    cdef double one, two, three, four
    cdef double* a
    cdef double* b
    if p > LONG_ROW:
        multiply_bt(k, k, p, x, y, out)
        return
    for h in range(k):
        a = x + h * p
        for i in range(h + 1):
            b = y + i * p
            one = two = three = four = 0.0
            for j in range(0, rest, 4):
                one += a[j] * b[j]
                two += a[j + 1] * b[j + 1]
                three += a[j + 2] * b[j + 2]
                four += a[j + 3] * b[j + 3]
            for j in range(rest, p):
                one += a[j] * b[j]
            one = (one + two) + (three + four)
            out[h * k + i] = one
            out[i * k + h] = one


cdef int inverse_root(int k, double* s, double* out) noexcept nogil:
    """out = L⁻¹, lower triangular, for s = LLᵀ; s becomes L. Not 0 where s has no such root."""
    cdef int i, j, h, info = 0
    cdef double total, inverse
    if k > SMALL:
        dpotrf("U", &k, s, &k, &info)
        if info != 0:
            return info
        memcpy(out, s, k * k * sizeof(double))
        dtrtri("U", "N", &k, out, &k, &info)
        for i in range(k):
            for j in range(i + 1, k):
                out[i * k + j] = 0.0
        return info
    for i in range(k):
        for j in range(i + 1):
            total = s[i * k + j]
            for h in range(j):
                total -= s[i * k + h] * s[j * k + h]
            if j < i:
                s[i * k + j] = total * out[j * k + j]
            elif total > 0.0:
                s[i * k + i] = sqrt(total)
                out[i * k + i] = 1.0 / s[i * k + i]
            else:
                return i + 1
    for i in range(k):
        inverse = out[i * k + i]
        for j in range(k):
            out[i * k + j] = 0.0
        for h in range(i):
            total = -s[i * k + h] * inverse
            for j in range(h + 1):
                out[i * k + j] += total * out[h * k + j]
        out[i * k + i] = inverse
    return 0


cdef double sum_of_logs(int k, double* values, unsigned char* counted, double b) noexcept nogil:
    """Σ log(b + E/2) of the columns that are counted; four factors for each logarithm."""
    cdef double total = 0.0, product = 1.0, factor
    cdef int h, held = 0
    for h in range(k):
        if counted != NULL and not counted[h]:
            continue
        factor = b + 0.5 * values[h]
        if not 1e-70 < factor < 1e70:
            total += log(factor)
            continue
        product *= factor
        held += 1
        if held == 4:
            total += log(product)
            product, held = 1.0, 0
    return total + log(product)


# --- memory and layout ---


cdef double* take(double** free_part, long size) noexcept nogil:
    cdef double* here = free_part[0]
    free_part[0] = here + size
    return here


cdef int allocate(Chains* at, int capacity) noexcept nogil:
    """Memory for state and work of up to `capacity` columns; 0 if there is none."""
    cdef long p = at.p, r = at.r, size = at.size, k = capacity, tall = max(p, r, k), total, random
    cdef double* part
    cdef int h, i, j
    random = max(3 * k * (k - 1) // 2, r * k + k * k + k, k * (k + 6), p * k, p, 3 * k, 4)
    total = (
        size * (3 * k * p + p + 2 * k + 2 + k * r + k * k + random + 6)
        + 3 * k * tall + LANES * (3 * k * k + 4 * k) + 3 * k * k + 2 * k + r * p
    )
    at.memory = <double*> malloc(total * sizeof(double))
    at.every = <int*> malloc(k * sizeof(int))
    if at.memory == NULL or at.every == NULL:
        release(at)
        return 0
    part = at.memory
    at.loadings = take(&part, size * k * p)
    at.cross, at.scaled = take(&part, size * k * p), take(&part, size * k * p)
    at.noise = take(&part, size * p)
    at.variances, at.norms = take(&part, size * k), take(&part, size * k)
    at.a, at.b = take(&part, size), take(&part, size)
    at.scores, at.second = take(&part, size * k * r), take(&part, size * k * k)
    at.random, at.kept = take(&part, size * random), take(&part, 6 * size)
    at.part, at.part2 = take(&part, k * tall), take(&part, 2 * k * tall)
    at.lanes_c, at.lanes_m = take(&part, LANES * k * k), take(&part, LANES * k * k)
    at.lanes_root = take(&part, LANES * k * k)
    at.lanes_theta, at.lanes_there = take(&part, LANES * k), take(&part, LANES * k)
    at.lanes_x, at.lanes_v = take(&part, LANES * k), take(&part, LANES * k)
    at.one, at.two, at.three = take(&part, k * k), take(&part, k * k), take(&part, k * k)
    at.values, at.roots = take(&part, k), take(&part, k)
    at.columns = take(&part, r * p)
    for i in range(r):
        for j in range(p):
            at.columns[j * r + i] = at.rows[i * p + j]
    for h in range(k):
        at.every[h] = h
    at.free = NULL
    return 1


cdef void release(Chains* at) noexcept nogil:
    free(at.memory)
    free(at.every)


cdef void take_in(Chains* at, double* loadings, double* noise) noexcept nogil:
    """The state from loadings (p, B, K) and noise (p, B)."""
    cdef int j, b, h, p = at.p, k = at.k, size = at.size
    for j in range(p):
        for b in range(size):
            at.noise[b * p + j] = noise[j * size + b]
            for h in range(k):
                at.loadings[(b * k + h) * p + j] = loadings[(j * size + b) * k + h]


cdef void give_back(Chains* at, double* loadings, double* noise) noexcept nogil:
    """The opposite of `take_in`."""
    cdef int j, b, h, p = at.p, k = at.k, size = at.size
    for j in range(p):
        for b in range(size):
            noise[j * size + b] = at.noise[b * p + j]
            for h in range(k):
                loadings[(j * size + b) * k + h] = at.loadings[(b * k + h) * p + j]


cdef double* rows_of(Chains* at, double* matrix, int width, int* chosen, int count) noexcept nogil:
    """Rows of a matrix (K, width): itself where all are chosen, else copied to `part2`."""
    cdef int h
    if count == at.k:
        return matrix
    for h in range(count):
        memcpy(at.part2 + h * width, matrix + chosen[h] * width, width * sizeof(double))
    return at.part2


cdef void turn_rows(
    Chains* at, double* turn, double* matrix, int width, int* chosen, int count
) noexcept nogil:
    """Chosen rows of a matrix (K, width) become `turn` (count, count) times them."""
    cdef int h
    multiply(count, width, count, turn, rows_of(at, matrix, width, chosen, count), at.part)
    for h in range(count):
        memcpy(matrix + chosen[h] * width, at.part + h * width, width * sizeof(double))


cdef void load_gram(Chains* at, int b, int lane, int* moved, int count) noexcept nogil:
    """ΛᵀΛ of these columns of chain b, in a lane."""
    cdef double* own = rows_of(at, at.loadings + b * at.k * at.p, at.p, moved, count)
    cdef int i
    symmetric_product(count, at.p, own, own, at.one)
    for i in range(count * count):
        at.lanes_c[i * LANES + lane] = at.one[i]


cdef void unit_lanes(double* matrix, int k) noexcept nogil:
    cdef int h, lane
    memset(matrix, 0, LANES * k * k * sizeof(double))
    for h in range(k):
        for lane in range(LANES):
            matrix[(h * k + h) * LANES + lane] = 1.0


# --- the rotation of the loadings ---


cdef inline void rotate_rows(
    double* one, double* two, double* cosine, double* sine, int k
) noexcept nogil:
    """Two rows (k, LANES) are rotated."""
    cdef int i, lane
    cdef double[LANES] c
    cdef double[LANES] s
    cdef double[LANES] x
    cdef double[LANES] y
    for lane in range(LANES):
        c[lane], s[lane] = cosine[lane], sine[lane]
    # All is read before any is written, so that the lanes are computed at once.
    for i in range(k):
        for lane in range(LANES):
            x[lane], y[lane] = one[i * LANES + lane], two[i * LANES + lane]
        for lane in range(LANES):
            one[i * LANES + lane] = c[lane] * x[lane] + s[lane] * y[lane]
        for lane in range(LANES):
            two[i * LANES + lane] = c[lane] * y[lane] - s[lane] * x[lane]


cdef inline void copy_to_column(double* matrix, int row, int k) noexcept nogil:
    """Column `row` of a symmetric matrix (k, k, LANES) becomes that row."""
    cdef int i, lane
    for i in range(k):
        for lane in range(LANES):
            matrix[(i * k + row) * LANES + lane] = matrix[(row * k + i) * LANES + lane]


cdef void draw_rotation(Chains* at, int* moved, int count) noexcept nogil:
    """`rotate_loadings` of these columns."""
    cdef int k = count, size = at.size, b, block, first, lane, h, other
    cdef int pair, i, any_moved
    cdef double[LANES] cosine
    cdef double[LANES] sine
    cdef double angle, co, si, own, others, mixed, half, rate, ratio
    cdef double* random = at.random
    cdef double* c = at.lanes_c
    cdef double* root = at.lanes_root
    cdef double* row
    cdef double* row2
    if not at.drawn:
        return
    for pair in range(k * (k - 1) // 2):
        random_standard_uniform_fill(at.bits, 2 * size, random + 3 * pair * size)
        random_standard_exponential_fill(at.bits, size, random + (3 * pair + 2) * size)
    for block in range((size + LANES - 1) // LANES):
        first = block * LANES
        for lane in range(LANES):
            load_gram(at, min(first + lane, size - 1), lane, moved, k)
        unit_lanes(root, k)
        pair = 0
        for h in range(k):
            for other in range(h + 1, k):
                random = at.random + 3 * pair * size
                pair += 1
                row, row2 = c + h * k * LANES, c + other * k * LANES
                any_moved = 0
                for lane in range(LANES):
                    b = min(first + lane, size - 1)
                    cosine[lane], sine[lane] = 1.0, 0.0
                    if at.free != NULL and not (
                        at.free[b * at.k + moved[h]] and at.free[b * at.k + moved[other]]
                    ):
                        continue
                    angle = PI * (2.0 * random[b] - 1.0) * exp(-4.0 * random[size + b])
                    co, si = cos(angle), sin(angle)
                    own, others = row[h * LANES + lane], row2[other * LANES + lane]
                    mixed = 2.0 * co * si * row[other * LANES + lane]
                    half, rate = at.a[b] + 0.5 * at.p, 2.0 * at.b[b]
                    ratio = (
                        (rate + co * co * own + mixed + si * si * others)
                        * (rate + si * si * own - mixed + co * co * others)
                        / ((rate + own) * (rate + others))
                    )
                    if random[2 * size + b] > half * log(ratio):
                        cosine[lane], sine[lane], any_moved = co, si, 1
                if not any_moved:
                    continue
                rotate_rows(row, row2, cosine, sine, k)
                rotate_rows(
                    root + h * k * LANES, root + other * k * LANES, cosine, sine, k
                )
                # The corner has its columns rotated too; the rest is symmetric.
                rotate_rows(row + h * LANES, row + other * LANES, cosine, sine, 1)
                rotate_rows(row2 + h * LANES, row2 + other * LANES, cosine, sine, 1)
                copy_to_column(c, h, k)
                copy_to_column(c, other, k)
        for lane in range(min(LANES, size - first)):
            for i in range(k * k):
                at.two[i] = root[i * LANES + lane]
            turn_rows(at, at.two, at.loadings + (first + lane) * at.k * at.p, at.p, moved, k)


# --- the scales ---


cdef void squared_norms(Chains* at) noexcept nogil:
    cdef int i, j, p = at.p
    cdef double total
    for i in range(at.size * at.k):
        total = 0.0
        for j in range(p):
            total += at.loadings[i * p + j] * at.loadings[i * p + j]
        at.norms[i] = total


cdef double pooled_log_density(Chains* at, int b, double u, double w) noexcept nogil:
    """`InverseGammaSlab.pooled_log_density` of a chain, without constants."""
    cdef double shape = exp(u), half = 0.5 * at.p, spread
    cdef int h, number = at.k
    cdef unsigned char* counted = NULL
    if at.free != NULL:
        counted, number = at.free + b * at.k, 0
        for h in range(at.k):
            number += counted[h]
    spread = (w - u - log(at.hyper_scale)) / at.hyper_spread
    return (
        number * (shape * w - lgamma(shape) + lgamma(shape + half))
        - (shape + half) * sum_of_logs(at.k, at.norms + b * at.k, counted, exp(w))
        + 2.0 * u - at.hyper_rate * shape - 0.5 * spread * spread
    )


cdef void draw_hyperparameters(Chains* at) noexcept nogil:
    """`InverseGammaSlab._draw_pooled`."""
    cdef int b, step, size = at.size
    cdef double* u = at.kept
    cdef double* w = at.kept + size
    cdef double* here = at.kept + 2 * size
    cdef double* random = at.random
    cdef double width, new_u, new_w, there
    for b in range(size):
        u[b], w[b] = log(at.a[b]), log(at.b[b])
        here[b] = pooled_log_density(at, b, u[b], w[b])
    for step in range(HYPER_STEPS):
        random_standard_uniform_fill(at.bits, size, random)
        random_standard_normal_fill(at.bits, 2 * size, random + size)
        random_standard_exponential_fill(at.bits, size, random + 3 * size)
        for b in range(size):
            width = exp(-2.5 + 3.2 * random[b])
            new_u = u[b] + width * random[size + b]
            new_w = w[b] + width * random[size + b] + 0.5 * width * random[2 * size + b]
            there = pooled_log_density(at, b, new_u, new_w)
            if -random[3 * size + b] < there - here[b]:
                u[b], w[b], here[b] = new_u, new_w, there
    for b in range(size):
        at.a[b], at.b[b] = exp(u[b]), exp(w[b])


cdef void draw_variances(Chains* at) noexcept nogil:
    """`draw_scales`, for columns with the squared norms `norms`."""
    cdef int b, h, i
    cdef double gamma
    if not at.drawn:
        return
    if at.pooled:
        draw_hyperparameters(at)
    for b in range(at.size):
        for h in range(at.k):
            i = b * at.k + h
            gamma = random_standard_gamma(at.bits, at.a[b] + 0.5 * at.p)
            if at.free == NULL or at.free[i]:
                at.variances[i] = (at.b[b] + 0.5 * at.norms[i]) / gamma


# --- scores, loadings and noise ---


cdef int draw_scores(Chains* at) noexcept nogil:
    """`draw_scores`: cross and second moments."""
    cdef int p = at.p, r = at.r, k = at.k, size = at.size, b, h, i, j, info
    cdef long rest = <long> rint(at.n) - r, few = 0
    cdef double* root = at.two
    cdef double* normal = at.random
    cdef double* more = at.random + <long> size * r * k
    cdef double* chi = more + <long> size * k * k
    cdef double* own
    random_standard_normal_fill(at.bits, <long> size * r * k, normal)
    if 0 < rest < k:
        few = rest
        random_standard_normal_fill(at.bits, size * few * k, more)
    elif rest > 0:
        random_standard_normal_fill(at.bits, <long> size * k * k, more)
        for b in range(size):
            for h in range(k):
                chi[b * k + h] = random_chisquare(at.bits, rest - h)
    for b in range(size):
        own = at.part2
        for j in range(p):
            own[j] = 1.0 / at.noise[b * p + j]
        for h in range(k):
            for j in range(p):
                at.part[h * p + j] = at.loadings[(b * k + h) * p + j] * own[j]
        symmetric_product(k, p, at.loadings + b * k * p, at.part, at.one)
        for h in range(k):
            at.one[h * k + h] += 1.0
        info = inverse_root(k, at.one, root)
        if info != 0:
            return info
        multiply_at(k, k, k, root, root, at.three)
        multiply(k, p, k, at.three, at.part, at.scaled + b * k * p)
        # What the rows of zeros add to the second moments.
        if few:
            multiply(few, k, k, more + b * few * k, root, at.part)
            multiply_at(k, k, few, at.part, at.part, at.second + b * k * k)
        elif rest > 0:
            own = more + b * k * k
            for h in range(k):
                own[h * k + h] = sqrt(chi[b * k + h])
                for i in range(h + 1, k):
                    own[h * k + i] = 0.0
            multiply_at(k, k, k, root, own, at.one)
            symmetric_product(k, k, at.one, at.one, at.second + b * k * k)
        else:
            memset(at.second + b * k * k, 0, k * k * sizeof(double))
        add_product(
            True, True, k, r, k, root, k, normal + <long> b * r * k, k, 0.0,
            at.scores + <long> b * k * r, r,
        )
    add_product(
        False, False, size * k, r, p, at.scaled, p, at.columns, r, 1.0, at.scores, r
    )
    multiply(size * k, p, r, at.scores, at.rows, at.cross)
    for b in range(size):
        own = at.scores + <long> b * k * r
        symmetric_product(k, r, own, own, at.one)
        for i in range(k * k):
            at.second[b * k * k + i] += at.one[i]
    return 0


cdef double generalised_inverse_gaussian(
    double power, double linear, double inverse, double* random, int stride
) noexcept nogil:
    """`_generalised_inverse_gaussian` of one chain, whose numbers are `stride` apart."""
    cdef double root = sqrt(power * power + linear * inverse), mode, width, proposal, here, there
    cdef double v = 0.0, z
    cdef int step
    mode = log((power + root) / linear if power >= 0.0 else inverse / (root - power))
    width = 1.1 / sqrt(root)
    here = -0.5 * (linear + inverse) + 0.5 * (mode / width) * (mode / width)
    for step in range(3):
        z = random[2 * step * stride]
        proposal = mode + width * z
        there = (
            power * proposal - 0.5 * (linear * exp(proposal) + inverse * exp(-proposal))
            + 0.5 * z * z
        )
        if -random[(2 * step + 1) * stride] < there - here:
            v, here = proposal, there
    return exp(v)


cdef inline void add_row(double* to, double* row, double* x, int k) noexcept nogil:
    """A row (k, LANES) gets x times another."""
    cdef int i, lane
    cdef double[LANES] factor
    cdef double[LANES] sums
    for lane in range(LANES):
        factor[lane] = x[lane]
    for i in range(k):
        for lane in range(LANES):
            sums[lane] = to[i * LANES + lane] + factor[lane] * row[i * LANES + lane]
        for lane in range(LANES):
            to[i * LANES + lane] = sums[lane]


cdef bint all_free(Chains* at, int column) noexcept nogil:
    cdef int b
    if at.free != NULL:
        for b in range(at.size):
            if not at.free[b * at.k + column]:
                return False
    return True


cdef void scale_rotate(Chains* at, int* moved, int count) noexcept nogil:
    """`scale_rotate_scores` of these columns: cross and second moments, and variances."""
    cdef int k = count, size = at.size, p = at.p, b, block, first, lane, h, other
    cdef int i, column
    cdef long stride = (k + 6) * <long> size
    cdef double* random = at.random
    cdef double* m = at.lanes_m
    cdef double* c = at.lanes_c
    cdef double* root = at.lanes_root
    cdef double* theta = at.lanes_theta
    cdef double* there = at.lanes_there
    cdef double* normal
    cdef double* one
    cdef double* two
    cdef double* x
    cdef double* shears = at.lanes_x
    cdef double* v = at.lanes_v
    cdef double[LANES] u
    cdef double precision, inverse, own
    for h in range(k):
        random_standard_normal_fill(at.bits, (k - 1) * size, random)
        random += (k - 1) * size
        if not at.drawn or not all_free(at, moved[h]):
            for i in range(3):
                random_standard_normal_fill(at.bits, size, random + 2 * i * size)
                random_standard_exponential_fill(at.bits, size, random + (2 * i + 1) * size)
        random += 6 * size
        if at.drawn:
            for b in range(size):
                random[b] = random_standard_gamma(at.bits, 0.5 * at.n + at.a[b])
        random += size
    for block in range((size + LANES - 1) // LANES):
        first = block * LANES
        for lane in range(LANES):
            b = min(first + lane, size - 1)
            load_gram(at, b, lane, moved, k)
            for h in range(k):
                own = at.variances[b * at.k + moved[h]]
                there[h * LANES + lane] = 1.0 if own > 0.0 else 0.0
                theta[h * LANES + lane] = own if own > 0.0 else INFINITY
                for i in range(k):
                    m[(h * k + i) * LANES + lane] = (
                        at.second[(b * at.k + moved[h]) * at.k + moved[i]]
                    )
        unit_lanes(root, k)
        for h in range(k):
            normal = at.random + h * stride
            one = m + h * k * LANES
            # Until all columns have their x, ΛᵀΛ is needed in row h alone, which they do not change.
            two = c + h * k * LANES
            for lane in range(LANES):
                shears[h * LANES + lane] = 0.0
            for other in range(k):
                if other == h:
                    continue
                x = shears + other * LANES
                for lane in range(LANES):
                    b = min(first + lane, size - 1)
                    inverse = 1.0 / theta[other * LANES + lane]
                    precision = (
                        m[(other * k + other) * LANES + lane] + two[h * LANES + lane] * inverse
                    )
                    x[lane] = there[other * LANES + lane] * (
                        (two[other * LANES + lane] * inverse - one[other * LANES + lane])
                        / precision
                        + normal[b] / sqrt(precision)
                    )
                    m[(other * k + h) * LANES + lane] = one[other * LANES + lane]
                normal += size
                add_row(one, m + other * k * LANES, x, k)
                for lane in range(LANES):
                    one[h * LANES + lane] += x[lane] * one[other * LANES + lane]
                add_row(root + h * k * LANES, root + other * k * LANES, x, k)
            # ΛᵀΛ loses x vᵀ + v xᵀ with v = row h − ½x‖λ_h‖².
            for i in range(k):
                for lane in range(LANES):
                    shears[i * LANES + lane] *= -1.0
                    v[i * LANES + lane] = (
                        two[i * LANES + lane]
                        + 0.5 * shears[i * LANES + lane] * two[h * LANES + lane]
                    )
            for other in range(k):
                add_row(c + other * k * LANES, v, shears + other * LANES, k)
                add_row(c + other * k * LANES, shears, v + other * LANES, k)
            column = moved[h]
            for lane in range(LANES):
                b = min(first + lane, size - 1)
                i = h * LANES + lane
                u[lane] = 1.0
                if there[i] > 0.0:
                    if at.drawn and (at.free == NULL or at.free[b * at.k + column]):
                        own = normal[6 * size + b]
                        u[lane] = own / (0.5 * one[i] + at.b[b] / theta[i])
                        theta[i] /= u[lane]
                    else:
                        own = fmax(c[(h * k + h) * LANES + lane] / theta[i], TINY)
                        u[lane] = generalised_inverse_gaussian(
                            0.5 * (at.n - p), one[i], own, normal + b, size
                        )
                u[lane] = sqrt(u[lane])
            for i in range(k):
                for lane in range(LANES):
                    one[i * LANES + lane] *= u[lane]
                    root[(h * k + i) * LANES + lane] *= u[lane]
                    c[(h * k + i) * LANES + lane] /= u[lane]
            for lane in range(LANES):
                one[h * LANES + lane] *= u[lane]
                c[(h * k + h) * LANES + lane] /= u[lane]
            copy_to_column(m, h, k)
            copy_to_column(c, h, k)
        for lane in range(min(LANES, size - first)):
            store_moved(at, first + lane, lane, moved, k)


cdef void store_moved(Chains* at, int b, int lane, int* moved, int count) noexcept nogil:
    """What a chain has after `scale_rotate`, from its lane."""
    cdef int k = at.k, h, i, j
    cdef double total
    cdef double* second = at.second + b * k * k
    for h in range(count):
        if at.lanes_there[h * LANES + lane] > 0.0:
            at.variances[b * k + moved[h]] = at.lanes_theta[h * LANES + lane]
    for i in range(count * count):
        at.two[i] = at.lanes_root[i * LANES + lane]
    turn_rows(at, at.two, at.cross + b * k * at.p, at.p, moved, count)
    if count == k:
        for i in range(k * k):
            second[i] = at.lanes_m[i * LANES + lane]
        return
    turn_rows(at, at.two, second, k, moved, count)
    for i in range(k):
        for h in range(count):
            total = 0.0
            for j in range(count):
                total += second[i * k + moved[j]] * at.two[h * count + j]
            at.part[h] = total
        for h in range(count):
            second[i * k + moved[h]] = at.part[h]


cdef int draw_loadings(Chains* at) noexcept nogil:
    """`draw_loadings`."""
    cdef int p = at.p, k = at.k, size = at.size, b, h, i, j, info
    cdef double* vectors = at.two
    cdef double* turned
    cdef double* row
    cdef double* noisy
    cdef double* second
    cdef double* precision = at.part2
    cdef double d, spread
    random_standard_normal_fill(at.bits, <long> p * size * k, at.random)
    for b in range(size):
        second = at.second + b * k * k
        for h in range(k):
            at.roots[h] = sqrt(at.variances[b * k + h])
        for h in range(k):
            for i in range(k):
                at.one[h * k + i] = at.roots[h] * second[h * k + i] * at.roots[i]
        info = eigen_unsorted(k, at.one, at.values, vectors, at.three)
        for h in range(k):
            if info != 0 or not isfinite(at.values[h]):
                return 1
        for h in range(k):
            for i in range(k):
                at.three[h * k + i] = vectors[h * k + i] * at.roots[i]
        turned, noisy = at.scaled, at.part
        multiply(k, p, k, at.three, at.cross + b * k * p, turned)
        add_product(
            False, True, k, p, k, vectors, k, at.random + b * k, size * k, 0.0, noisy, p
        )
        for j in range(p):
            precision[j] = 1.0 / at.noise[b * p + j]
        for h in range(k):
            d = fmax(at.values[h], 0.0)
            row = turned + h * p
            for j in range(p):
                spread = 1.0 / (1.0 + d * precision[j])
                row[j] = row[j] * spread * precision[j] + sqrt(spread) * noisy[h * p + j]
        multiply_at(k, p, k, at.three, turned, at.loadings + b * k * p)
    return 0


cdef void draw_noise(Chains* at) noexcept nogil:
    """`draw_noise`."""
    cdef int p = at.p, k = at.k, size = at.size, b, h, j
    cdef double* own
    cdef double* cross
    cdef double* rss = at.part2
    cdef double shape = at.noise_shape + 0.5 * at.n
    for j in range(p * size):
        at.random[j] = random_standard_gamma(at.bits, shape)
    for b in range(size):
        own, cross = at.loadings + b * k * p, at.cross + b * k * p
        multiply(k, p, k, at.second + b * k * k, own, at.part)
        memcpy(rss, at.squares, p * sizeof(double))
        for h in range(k):
            for j in range(p):
                rss[j] += own[h * p + j] * (at.part[h * p + j] - 2.0 * cross[h * p + j])
        for j in range(p):
            at.noise[b * p + j] = (
                (at.noise_rate + 0.5 * fmax(rss[j], 0.0)) / at.random[j * size + b]
            )


cdef int draw_given_scales(Chains* at, int* moved, int count) noexcept nogil:
    """`draw_given_scales`; not 0 where a matrix is not positive definite."""
    cdef int info = draw_scores(at)
    if info == 0:
        if count:
            scale_rotate(at, moved, count)
        info = draw_loadings(at)
    if info == 0:
        draw_noise(at)
    return info


# --- entry points ---


def sweep(
    double[:, ::1] rows, double[::1] squares, double n, double noise_shape, double noise_rate,
    bint drawn, bint pooled, double hyper_rate, double hyper_scale, double hyper_spread,
    double[:, :, ::1] loadings, double[:, ::1] noise, double[:, ::1] variances,
    double[::1] a, double[::1] b, unsigned char[:, ::1] active, int number, bit_generator,
):
    """`number` sweeps of `sweep_complete`; the arrays of the state are overwritten.

    `a` and `b` (B,) are not used where the variances are given; `active` None means that all
    columns are. Returns 0, or another number where a matrix is not positive definite.
    """
    cdef Chains at
    cdef int done, info = 0
    cdef long each
    at.p, at.size, at.k, at.r = loadings.shape[0], loadings.shape[1], loadings.shape[2], rows.shape[0]
    at.n, at.noise_shape, at.noise_rate = n, noise_shape, noise_rate
    at.drawn, at.pooled = drawn, pooled
    at.hyper_rate, at.hyper_scale, at.hyper_spread = hyper_rate, hyper_scale, hyper_spread
    at.bits = <bitgen_t*> PyCapsule_GetPointer(bit_generator.capsule, "BitGenerator")
    at.rows, at.squares = &rows[0, 0], &squares[0]
    if not allocate(&at, at.k):
        raise MemoryError("No memory for the sweeps of these chains.")
    if active is not None:
        at.free = &active[0, 0]
    each = at.size * sizeof(double)
    with bit_generator.lock, nogil:
        take_in(&at, &loadings[0, 0, 0], &noise[0, 0])
        memcpy(at.variances, &variances[0, 0], at.k * each)
        if drawn:
            memcpy(at.a, &a[0], each)
            memcpy(at.b, &b[0], each)
        for done in range(number):
            draw_rotation(&at, at.every, at.k)
            squared_norms(&at)
            draw_variances(&at)
            info = draw_given_scales(&at, at.every, at.k)
            if info != 0:
                break
        give_back(&at, &loadings[0, 0, 0], &noise[0, 0])
        memcpy(&variances[0, 0], at.variances, at.k * each)
        if drawn:
            memcpy(&a[0], at.a, each)
            memcpy(&b[0], at.b, each)
        release(&at)
    return info


def log_likelihoods(
    double[:, ::1] rows, double[::1] squares, double n, double[:, :, ::1] loadings,
    double[:, ::1] noise, double[::1] out,
):
    """`marginal_log_likelihoods` of B draws, written to `out` (B,).

    Returns 0, or another number where a matrix is not positive definite.
    """
    cdef int p = loadings.shape[0], size = loadings.shape[1], k = loadings.shape[2], r = rows.shape[0]
    cdef int b, h, j, info = 0
    cdef double log_det, quadratic, inverse
    cdef double* memory = <double*> malloc((2 * k * p + 2 * k * r + 2 * k * k) * sizeof(double))
    cdef double* own = memory
    cdef double* scaled = own + k * p
    cdef double* half = scaled + k * p
    cdef double* turned = half + k * r
    cdef double* precision = turned + k * r
    cdef double* root = precision + k * k
    if memory == NULL:
        raise MemoryError("No memory for the likelihoods of these draws.")
    with nogil:
        for b in range(size):
            log_det, quadratic = 0.0, 0.0
            for j in range(p):
                inverse = 1.0 / noise[j, b]
                log_det += log(noise[j, b])
                quadratic += squares[j] * inverse
                for h in range(k):
                    own[h * p + j] = loadings[j, b, h]
                    scaled[h * p + j] = loadings[j, b, h] * inverse
            symmetric_product(k, p, own, scaled, precision)
            for h in range(k):
                precision[h * k + h] += 1.0
            info = inverse_root(k, precision, root)
            if info != 0:
                break
            multiply_bt(k, r, p, scaled, &rows[0, 0], half)
            multiply(k, r, k, root, half, turned)
            for j in range(k * r):
                quadratic -= turned[j] * turned[j]
            for h in range(k):
                log_det -= 2.0 * log(root[h * k + h])
            out[b] = -0.5 * (n * (p * LOG_2PI + log_det) + quadratic)
        free(memory)
    return info
