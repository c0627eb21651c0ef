"""The iterations of a run for complete data and a spike at zero, with their bound.

The definition is `cuspfa.inference.variational.run` with the steps it calls. Matrices are
row-major: loadings and cross products (p, K), others (K, K). Where the second moments of the scores
are diagonal, as they are after an accepted scale-rotation step, loadings need no eigendecomposition.
"""

from libc.math cimport exp, fabs, fmax, fmin, INFINITY, isfinite, lgamma, log, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from scipy.linalg.cython_blas cimport dtrsm
from scipy.linalg.cython_lapack cimport dpotrf, dpotri

from ._blas cimport multiply, multiply_at, multiply_bt
from ._eigen cimport eigen, row
from ._special cimport digamma, trigamma

cdef double LOG_2PI = 1.8378770664093453
cdef double E = 2.718281828459045
cdef double TINY = 2.2250738585072014e-308
cdef double SURE_STEP = 1e-4  # as in the definition
cdef double STEP_ROUNDING = 1e-13  # as in the definition

cdef enum Slab:
    GAUSSIAN = 0
    INVERSE_GAMMA = 1
    PLUG_IN = 2

cdef enum Ending:
    GOES_ON = 0
    CONVERGED = 1
    PRUNED = 2
    FELL = 3
    FAILED = 4


cdef struct Problem:
    int p
    int k
    int r               # rows of the data, 0 where they are given by their Gram matrix
    double n
    double* data        # (p, p) Gram matrix or (r, p) rows
    double* squares     # (p,)
    double* shape       # (p,) of q(σ²)
    double log_shapes   # the sum of their digamma functions
    double prior_shape
    double prior_rate
    double noise_constant   # what the noise term has that does not depend on the rates
    double label_term
    int slab
    bint pooled
    double floor        # smallest plug-in variance
    double hyper_rate
    double hyper_scale
    double hyper_spread


cdef struct State:
    double* mean        # (p, K)
    double* basis       # (K, K)
    double* weights     # (p,)
    double* eigenvalues # (K,)
    double* rate        # (p,)
    double* cross       # (p, K)
    double* second      # (K, K)
    double* norms       # (K,) expected squared norms of the columns
    double* lower       # (K, K) L and Uᵀ of the last scale-rotation step, which mean and basis
    double* rows        # are still to be multiplied with if `turned`
    double loadings_log_det
    double scores_log_det
    double residual     # Σ_j τ_j E Σ_i (y_ij − λ_jᵀη_i)²
    double a
    double b
    bint diagonal       # is `second` diagonal?
    bint plain          # is `basis` diagonal?
    bint turned


cdef struct Work:
    double* spread      # (p, K)
    double* precision   # (p,) of the noise
    double* rss         # (p,)
    double* wide        # (max(p, r), K)
    double* scores      # (r, K)
    double* one         # (K, K) each
    double* two
    double* three
    double* four
    double* eigen       # (3, K, K) and (K,)
    double* totals      # (K,) each
    double* prior
    double* root
    double* values
    double* x
    double* line


cdef double sum_of_logs(int size, double* values) noexcept nogil:
    """Σ log of positive numbers; one logarithm for four of them unless their product overflows."""
    cdef double total = 0.0, product
    cdef int h = 0
    while h + 4 <= size:
        product = (values[h] * values[h + 1]) * (values[h + 2] * values[h + 3])
        if 1e-280 < product < 1e280:
            total += log(product)
        else:
            total += log(values[h]) + log(values[h + 1]) + log(values[h + 2]) + log(values[h + 3])
        h += 4
    while h < size:
        total += log(values[h])
        h += 1
    return total


cdef double loadings_row(
    int k, double precision, row eigenvalues, row inverse, row second, row cross,
    row spread, row totals, row mean, row line,
) noexcept nogil:
    """Spread and mean of the loadings of one column, and its residual squares without s_j."""
    cdef double d, part, one, even = 0.0, odd = 0.0
    cdef int h
    for h in range(k):
        d = 1.0 + precision * eigenvalues[h]
        part = 1.0 / d
        one = precision * part * cross[h] * inverse[h]
        spread[h] = part
        totals[h] *= d
        mean[h] = one
        line[h] = one * (one * second[h] - 2.0 * cross[h]) + part * eigenvalues[h]
    # Two sums, so that one addition need not wait for another.
    for h in range(0, k - 1, 2):
        even += line[h]
        odd += line[h + 1]
    if k % 2 == 1:
        even += line[k - 1]
    return even + odd


cdef void scale_row(
    int k, double precision, row mean, row spread, row scaled, row totals
) noexcept nogil:
    cdef int h
    for h in range(k):
        scaled[h] = precision * mean[h]
        totals[h] += precision * spread[h]


cdef double log_density(Problem* at, double a, double b, double norm) noexcept nogil:
    """φ of one column without what depends on the hyperparameters alone."""
    cdef double variance
    if at.slab == GAUSSIAN:
        return -0.5 * norm / a
    if at.slab == INVERSE_GAMMA:
        return -(a + 0.5 * at.p) * log(b + 0.5 * norm)
    variance = fmax(norm / at.p, at.floor)
    return -0.5 * at.p * log(variance) - 0.5 * norm / variance


cdef double density_constant(Problem* at, double a, double b) noexcept nogil:
    """What `log_density` leaves out."""
    cdef double constant = -0.5 * at.p * LOG_2PI
    if at.slab == GAUSSIAN:
        return constant - 0.5 * at.p * log(a)
    if at.slab == INVERSE_GAMMA:
        return constant + a * log(b) - lgamma(a) + lgamma(a + 0.5 * at.p)
    return constant


cdef double prior_precision(Problem* at, double a, double b, double norm) noexcept nogil:
    if at.slab == GAUSSIAN:
        return 1.0 / a
    if at.slab == INVERSE_GAMMA:
        return (a + 0.5 * at.p) / (b + 0.5 * norm)
    return 1.0 / fmax(norm / at.p, at.floor)


cdef double px_scale(Problem* at, double a, double b, double value) noexcept nogil:
    """Best x of the scale-rotation step; each form of a root where it does not cancel."""
    cdef double half, product, linear, root
    if at.slab == GAUSSIAN:
        half, product = 0.5 * (at.n - at.p), value / a
        root = sqrt(half * half + product)
        return half + root if half >= 0.0 else product / (root - half)
    if at.slab == INVERSE_GAMMA:
        half = 0.5 * value
        linear = half + (at.p - at.n) * b
        root = sqrt(linear * linear + 4.0 * b * (at.n + 2.0 * a) * half)
        if linear <= 0.0:
            return (root - linear) / (2.0 * b)
        return 2.0 * (at.n + 2.0 * a) * half / fmax(root + linear, TINY)
    return at.n


cdef double log_hyperprior(Problem* at, double a, double b) noexcept nogil:
    cdef double u = log(a), spread
    if not at.pooled:
        return 0.0
    spread = (log(b) - u - log(at.hyper_scale)) / at.hyper_spread
    return (
        2.0 * (u + log(at.hyper_rate)) - at.hyper_rate * a
        - 0.5 * spread * spread - log(at.hyper_spread) - 0.5 * LOG_2PI
    )


cdef double log_densities(
    Problem* at, double a, double b, double* norms, double* line
) noexcept nogil:
    """Σ of `log_density` over the columns."""
    cdef double total = 0.0
    cdef int h
    if at.slab != INVERSE_GAMMA:
        for h in range(at.k):
            total += log_density(at, a, b, norms[h])
        return total
    for h in range(at.k):
        line[h] = b + 0.5 * norms[h]
    return -(a + 0.5 * at.p) * sum_of_logs(at.k, line)


cdef double profile(Problem* at, double a, double b, double* norms, double* line) noexcept nogil:
    return (
        log_densities(at, a, b, norms, line)
        + at.k * density_constant(at, a, b) + log_hyperprior(at, a, b)
    )


cdef double update_hyperparameters(Problem* at, State* state, double* line) noexcept nogil:
    """One safeguarded Newton step for (log a, log b); the profile after it."""
    cdef double a = state.a, b = state.b, half = 0.5 * at.p, inverse, off, slope, part
    cdef double one, two, own, other, mixed, mean, radius, low, high, x, y, length, along, across
    cdef double parts = 0.0, variances = 0.0, here, there, new_a, new_b, largest
    cdef int h, halving
    if not at.pooled:
        return profile(at, a, b, state.norms, line)
    inverse = 1.0 / (at.hyper_spread * at.hyper_spread)
    for h in range(at.k):
        part = line[h] = b / (b + 0.5 * state.norms[h])
        parts += part
        variances += part * (1.0 - part)
    slope = sum_of_logs(at.k, line) + at.k * (digamma(a + half) - digamma(a))
    off = (log(b / a) - log(at.hyper_scale)) * inverse
    one = a * slope + 2.0 - at.hyper_rate * a + off
    two = at.k * a - (a + half) * parts - off
    own = a * slope + a * a * at.k * (trigamma(a + half) - trigamma(a)) - at.hyper_rate * a - inverse
    mixed = a * (at.k - parts) + inverse
    other = -(a + half) * variances - inverse
    # Uphill along both axes of the Hessian, whatever the sign of its curvature.
    mean, radius = 0.5 * (own + other), sqrt(0.25 * (own - other) * (own - other) + mixed * mixed)
    low, high = mean - radius, mean + radius
    x, y = mixed, high - own
    if fabs(own - low) > fabs(high - own):
        x, y = high - other, mixed
    length = sqrt(x * x + y * y)
    if length > 0.0:
        x, y = x / length, y / length
    else:
        x, y = 1.0, 0.0
    along = (x * one + y * two) / fmax(fabs(high), 1e-8)
    across = (-y * one + x * two) / fmax(fabs(low), 1e-8)
    one, two = x * along - y * across, y * along + x * across
    largest = fmax(fabs(one), fabs(two))
    length = fmin(1.0, 2.0 / fmax(largest, 1e-300))
    one, two = one * length, two * length
    here = -INFINITY  # near the optimum rounding would decide
    if largest * length >= SURE_STEP:
        here = profile(at, a, b, state.norms, line)
    for halving in range(10):
        new_a = fmin(fmax(a * exp(one), 1e-6), 1e6)
        new_b = fmin(fmax(b * exp(two), 1e-6), 1e6)
        there = profile(at, new_a, new_b, state.norms, line)
        if there >= here:
            state.a, state.b = new_a, new_b
            return there
        one, two = 0.5 * one, 0.5 * two
    return profile(at, a, b, state.norms, line)


cdef int step_loadings(Problem* at, State* old, State* new, Work* work) noexcept nogil:
    """The loadings, and the residual squares that the noise needs."""
    cdef int p = at.p, k = at.k, j, h, i, info
    cdef double precision, total = 0.0, largest = 0.0, size = 1.0
    cdef double* rows = work.one
    for h in range(k):
        work.prior[h] = prior_precision(at, old.a, old.b, old.norms[h])
        work.totals[h] = 1.0
    total = -p * sum_of_logs(k, work.prior)
    if old.diagonal:
        for h in range(k):
            new.eigenvalues[h] = old.second[h * k + h] / work.prior[h]
            work.root[h] = 1.0 / work.prior[h]
            work.x[h] = old.second[h * k + h]
    else:
        for h in range(k):
            work.root[h] = 1.0 / sqrt(work.prior[h])
        for h in range(k):
            for i in range(k):
                work.two[h * k + i] = work.root[h] * old.second[h * k + i] * work.root[i]
        info = eigen(k, work.two, new.eigenvalues, rows, work.eigen)
        if info != 0:
            return info
        for h in range(k):
            new.eigenvalues[h] = fmax(new.eigenvalues[h], 0.0)
            for i in range(k):
                new.basis[h * k + i] = work.root[h] * rows[i * k + h]
        # In the basis, M has the eigenvalues on its diagonal.
        multiply(p, k, k, old.cross, new.basis, work.wide)
        for h in range(k):
            work.root[h] = 1.0
            work.x[h] = new.eigenvalues[h]
    new.plain, new.turned = old.diagonal, False
    for h in range(k):
        largest = fmax(largest, new.eigenvalues[h])
    for j in range(p):
        precision = new.weights[j] = at.shape[j] / old.rate[j]
        # A logarithm only where the product of the factors of a determinant might overflow.
        size *= 1.0 + precision * largest
        if size > 1e280:
            total -= sum_of_logs(k, work.totals)
            for h in range(k):
                work.totals[h] = 1.0
            size = 1.0 + precision * largest
        work.rss[j] = at.squares[j] + loadings_row(
            k, precision, new.eigenvalues, work.root, work.x,
            (old.cross if old.diagonal else work.wide) + j * k,
            work.spread + j * k, work.totals, new.mean + j * k, work.line,
        )
    for h in range(k):
        total -= log(work.totals[h])
    new.loadings_log_det = total
    if old.diagonal:
        for h in range(k):
            work.root[h] = sqrt(work.root[h])
            for i in range(k):
                new.basis[h * k + i] = 0.0
            new.basis[h * k + h] = work.root[h]
    else:
        multiply_bt(p, k, k, new.mean, new.basis, work.wide)
        memcpy(new.mean, work.wide, p * k * sizeof(double))
    return 0


cdef void step_noise(Problem* at, State* old, State* new, Work* work) noexcept nogil:
    """The best rates, and half as far again: at most by a factor √e."""
    cdef int j
    cdef double best, part
    for j in range(at.p):
        best = at.prior_rate + 0.5 * work.rss[j]
        part = fmin(fmax(best / old.rate[j], 1.0 / E), E)
        new.rate[j] = best * sqrt(part)


cdef void add_spread(
    Problem* at, State* state, double* totals, double* out, Work* work
) noexcept nogil:
    """out (K, K) += F diag(totals) Fᵀ."""
    cdef int k = at.k, h, i
    if state.plain:
        for h in range(k):
            out[h * k + h] += state.basis[h * k + h] * state.basis[h * k + h] * totals[h]
        return
    for h in range(k):
        for i in range(k):
            work.four[h * k + i] = state.basis[h * k + i] * totals[i]
    multiply_bt(k, k, k, work.four, state.basis, work.three)
    for h in range(k):
        for i in range(k):
            out[h * k + i] += work.three[h * k + i]


cdef int step_scores(Problem* at, State* new, Work* work) noexcept nogil:
    """The scores, and Σ_j τ_j E Σ_i (y_ij − λ_jᵀη_i)²: what the bound needs of the residuals."""
    cdef int p = at.p, k = at.k, r = at.r, j, h, i, info = 0
    cdef double precision, even, odd, log_det = 0.0, squares = 0.0, fitted = 0.0, explained = 0.0
    cdef double* mean
    cdef double* cross
    for h in range(k):
        work.totals[h] = 0.0
    for j in range(p):
        precision = work.precision[j] = at.shape[j] / new.rate[j]
        scale_row(
            k, precision, new.mean + j * k, work.spread + j * k, work.wide + j * k, work.totals
        )
    multiply_at(k, k, p, new.mean, work.wide, work.one)
    add_spread(at, new, work.totals, work.one, work)
    # A copy of the weighted products, as their factor and inverse overwrite them.
    memcpy(work.two, work.one, k * k * sizeof(double))
    for h in range(k):
        work.one[h * k + h] += 1.0
    dpotrf("U", &k, work.one, &k, &info)
    if info != 0:
        return info
    for h in range(k):
        log_det -= 2.0 * log(work.one[h * k + h])
    new.scores_log_det = at.n * log_det
    dpotri("U", &k, work.one, &k, &info)
    if info != 0:
        return info
    for h in range(k):
        for i in range(h):
            work.one[i * k + h] = work.one[h * k + i]
    # W = diag(τ) μ V, then YᵀYW and WᵀYᵀYW.
    multiply(p, k, k, work.wide, work.one, work.scores)
    if r == 0:
        multiply(p, k, p, at.data, work.scores, new.cross)
        multiply_at(k, k, p, work.scores, new.cross, new.second)
    else:
        multiply(r, k, p, at.data, work.scores, work.wide)
        multiply_at(p, k, r, at.data, work.wide, new.cross)
        multiply_at(k, k, r, work.wide, work.wide, new.second)
    for h in range(k):
        for i in range(k):
            new.second[h * k + i] += at.n * work.one[h * k + i]
    for h in range(k):
        for i in range(h):
            precision = 0.5 * (new.second[h * k + i] + new.second[i * k + h])
            new.second[h * k + i] = precision
            new.second[i * k + h] = precision
    new.diagonal = False
    # Σ τ_j (s_j − 2 μ_jᵀcross_j + tr(E[λ_j λ_jᵀ] M))
    for j in range(p):
        mean, cross = new.mean + j * k, new.cross + j * k
        even, odd = 0.0, 0.0
        for h in range(0, k - 1, 2):
            even += mean[h] * cross[h]
            odd += mean[h + 1] * cross[h + 1]
        if k % 2 == 1:
            even += mean[k - 1] * cross[k - 1]
        explained += work.precision[j] * (even + odd)
        squares += work.precision[j] * at.squares[j]
    for h in range(k):
        even = 0.0
        for i in range(k):
            even += work.two[h * k + i] * new.second[h * k + i]
        fitted += even
    new.residual = squares - 2.0 * explained + fitted
    return 0


cdef int step_px(Problem* at, State* new, Work* work) noexcept nogil:
    """The scale-rotation step, and the columns' norms.

    Mean loadings and their basis are turned in the end alone: the next iteration and the bound do
    not need them.
    """
    cdef int p = at.p, k = at.k, j, h, i, info = 0
    cdef double log_det, after, before, root, one = 1.0
    cdef double* gram = work.two
    for h in range(k):
        work.totals[h] = 0.0
    for j in range(p):
        for h in range(k):
            work.totals[h] += work.spread[j * k + h]
    multiply_at(k, k, p, new.mean, new.mean, gram)
    add_spread(at, new, work.totals, gram, work)
    memcpy(new.lower, new.second, k * k * sizeof(double))
    dpotrf("U", &k, new.lower, &k, &info)
    if info != 0:
        return info
    for h in range(k):
        for i in range(h + 1, k):
            new.lower[h * k + i] = 0.0
    multiply(k, k, k, gram, new.lower, work.four)
    multiply_at(k, k, k, new.lower, work.four, work.one)
    info = eigen(k, work.one, work.values, new.rows, work.eigen)
    if info != 0:
        return info
    for h in range(k):
        work.values[h] = fmax(work.values[h], TINY)
        work.x[h] = px_scale(at, new.a, new.b, work.values[h])
        work.prior[h] = work.values[h] / work.x[h]
        work.root[h] = new.lower[h * k + h]
        new.norms[h] = gram[h * k + h]
    log_det = 0.5 * sum_of_logs(k, work.x) - sum_of_logs(k, work.root)
    after = log_densities(at, new.a, new.b, work.prior, work.line)
    before = log_densities(at, new.a, new.b, new.norms, work.line)
    for h in range(k):
        after -= 0.5 * work.x[h]
        before -= 0.5 * new.second[h * k + h]
    if not after + (at.n - p) * log_det >= before - STEP_ROUNDING * (fabs(after) + fabs(before)):
        return 0
    # R = diag(√x) Uᵀ L⁻¹
    for h in range(k):
        root = sqrt(work.x[h])
        for i in range(k):
            work.one[h * k + i] = root * new.rows[h * k + i]
    dtrsm("L", "U", "N", "N", &k, &k, &one, new.lower, &k, work.one, &k)
    multiply_bt(p, k, k, new.cross, work.one, work.wide)
    memcpy(new.cross, work.wide, p * k * sizeof(double))
    for h in range(k):
        for i in range(k):
            new.second[h * k + i] = 0.0
        new.second[h * k + h] = work.x[h]
        new.norms[h] = work.prior[h]
    new.loadings_log_det -= 2.0 * p * log_det
    new.scores_log_det += 2.0 * at.n * log_det
    new.diagonal, new.turned = True, True
    return 0


cdef void finish(Problem* at, State* state, Work* work) noexcept nogil:
    """Mean loadings and basis as the last scale-rotation step leaves them: R⁻¹ = L U diag(1/√x)."""
    cdef int k = at.k, h, i
    cdef double root
    if not state.turned:
        return
    for h in range(k):
        root = sqrt(state.second[h * k + h])
        for i in range(k):
            work.one[i * k + h] = state.rows[h * k + i] / root
    multiply(k, k, k, state.lower, work.one, work.two)
    multiply(at.p, k, k, state.mean, work.two, work.wide)
    memcpy(state.mean, work.wide, at.p * k * sizeof(double))
    multiply_at(k, k, k, work.two, state.basis, work.one)
    memcpy(state.basis, work.one, k * k * sizeof(double))
    state.turned, state.plain = False, False


cdef void bound(Problem* at, State* state, double* terms, Work* work) noexcept nogil:
    """Likelihood, loadings, scores, noise, labels and sticks.

    The term of the loadings has the profile of the hyperparameters already.
    """
    cdef int p = at.p, k = at.k, j, h
    cdef double log_rates = sum_of_logs(p, state.rate), precisions = 0.0, total
    for j in range(p):
        precisions += work.precision[j]
    total = state.scores_log_det + at.n * k
    for h in range(k):
        total -= state.second[h * k + h]
    terms[0] = 0.5 * (
        at.n * (at.log_shapes - log_rates - p * LOG_2PI) - state.residual
    )
    terms[1] += 0.5 * (state.loadings_log_det + p * k * (1.0 + LOG_2PI))
    terms[2] = 0.5 * total
    terms[3] = at.noise_constant - at.prior_shape * log_rates - at.prior_rate * precisions
    terms[4] = at.label_term
    terms[5] = 0.0


cdef int iterate_once(
    Problem* at, State* old, State* new, double* terms, Work* work
) noexcept nogil:
    """One iteration; not 0 if a matrix was not positive definite."""
    cdef int info
    new.a, new.b = old.a, old.b
    info = step_loadings(at, old, new, work)
    if info == 0:
        step_noise(at, old, new, work)
        info = step_scores(at, new, work)
    if info == 0:
        info = step_px(at, new, work)
    if info == 0:
        terms[1] = update_hyperparameters(at, new, work.line)
        bound(at, new, terms, work)
    return info


cdef void first_norms(Problem* at, State* state) noexcept nogil:
    """Expected squared norms of the columns of a state that comes from elsewhere."""
    cdef int p = at.p, k = at.k, j, h, i
    cdef double total
    for h in range(k):
        state.norms[h] = 0.0
    for j in range(p):
        for h in range(k):
            state.norms[h] += state.mean[j * k + h] * state.mean[j * k + h]
    for i in range(k):
        total = 0.0
        for j in range(p):
            total += 1.0 / (1.0 + state.weights[j] * state.eigenvalues[i])
        for h in range(k):
            state.norms[h] += state.basis[h * k + i] * state.basis[h * k + i] * total


cdef void reflect(Problem* at, State* state, double tied) noexcept nogil:
    """`with_sign_rule`: the first of the largest mean loadings of each factor becomes positive."""
    cdef int p = at.p, k = at.k, j = 0, h
    cdef double largest, size
    for h in range(k):
        largest = 0.0
        for j in range(p):
            largest = fmax(largest, fabs(state.mean[j * k + h]))
        for j in range(p):
            size = fabs(state.mean[j * k + h])
            if size >= tied * largest:
                break
        if not state.mean[j * k + h] < 0.0:
            continue
        for j in range(p):
            state.mean[j * k + h] = -state.mean[j * k + h]
            state.cross[j * k + h] = -state.cross[j * k + h]
        for j in range(k):
            state.basis[h * k + j] = -state.basis[h * k + j]
            if j != h:
                state.second[h * k + j] = -state.second[h * k + j]
                state.second[j * k + h] = -state.second[j * k + h]


cdef double* take(double** free_part, long size) noexcept nogil:
    cdef double* here = free_part[0]
    free_part[0] = here + size
    return here


cdef void place(State* state, double** part, int p, int k) noexcept nogil:
    state.mean = take(part, p * k)
    state.basis = take(part, k * k)
    state.weights = take(part, p)
    state.eigenvalues = take(part, k)
    state.rate = take(part, p)
    state.cross = take(part, p * k)
    state.second = take(part, k * k)
    state.norms = take(part, k)
    state.lower = take(part, k * k)
    state.rows = take(part, k * k)
    state.turned = False


def iterate(
    double[:, ::1] data, bint is_gram, double n, double[::1] squares,
    double[::1] shape, double[::1] log_shape, double prior_shape, double prior_rate,
    double noise_constant, double label_term,
    int slab, bint pooled, double a, double b, double floor,
    double hyper_rate, double hyper_scale, double hyper_spread,
    double[:, ::1] mean, double[:, ::1] basis, double[::1] weights, double[::1] eigenvalues,
    double[::1] rate, double[:, ::1] cross, double[:, ::1] second, double[::1] norms,
    double loadings_log_det, double scores_log_det,
    double[::1] terms, bint begun, double tol, double target, double hope, double rounding,
    double tied, double[::1] trace,
):
    """Iterations until the bound grows by less than `tol`, falls, or cannot reach `target`.

    At most as many as `trace` is long. The arrays of the state and `terms`, the bound of the last
    iteration if one has been made (`begun`), are overwritten; so are `norms`, the expected squared
    norms of the columns, which are computed if none has been made. In the end factors are reflected
    by the rule of `with_sign_rule`, `tied` the part of the largest loading that counts as equal.
    Returns the number of iterations, why it ended, a, b and the two log-determinants.
    """
    cdef Problem at
    cdef State one, two
    cdef State* old = &one
    cdef State* new = &two
    cdef Work work
    cdef int p = mean.shape[0], k = mean.shape[1], r = 0 if is_gram else data.shape[0], h, i, info
    cdef int done = 0, most = trace.shape[0], ending = GOES_ON, tall = max(p, r)
    cdef double total = 0.0, before, growth, sizes
    cdef double[6] found = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    cdef double* memory
    cdef double* part
    cdef long size
    at.p, at.k, at.r, at.n = p, k, r, n
    at.data, at.squares, at.shape = &data[0, 0], &squares[0], &shape[0]
    at.log_shapes, at.noise_constant = 0.0, noise_constant
    for h in range(p):
        at.log_shapes += log_shape[h]
        at.noise_constant += (prior_shape - shape[h]) * log_shape[h] + shape[h]
    at.prior_shape, at.prior_rate = prior_shape, prior_rate
    at.label_term, at.slab, at.pooled, at.floor = label_term, slab, pooled, floor
    at.hyper_rate, at.hyper_scale, at.hyper_spread = hyper_rate, hyper_scale, hyper_spread
    size = (
        2 * (2 * p * k + 4 * k * k + 2 * p + 2 * k)
        + 3 * tall * k + 2 * p + 7 * k * k + 7 * k
    )
    memory = <double*> malloc(size * sizeof(double))
    if memory == NULL:
        raise MemoryError(f"No memory for {size} numbers of an iteration.")
    part = memory
    place(old, &part, p, k)
    place(new, &part, p, k)
    work.spread, work.wide = take(&part, tall * k), take(&part, tall * k)
    work.scores = take(&part, tall * k)
    work.precision, work.rss = take(&part, p), take(&part, p)
    work.one, work.two, work.three = take(&part, k * k), take(&part, k * k), take(&part, k * k)
    work.four = take(&part, k * k)
    work.eigen = take(&part, 3 * k * k + k)
    work.totals, work.prior, work.root = take(&part, k), take(&part, k), take(&part, k)
    work.values, work.x = take(&part, k), take(&part, k)
    work.line = take(&part, k)
    memcpy(old.mean, &mean[0, 0], p * k * sizeof(double))
    memcpy(old.basis, &basis[0, 0], k * k * sizeof(double))
    memcpy(old.weights, &weights[0], p * sizeof(double))
    memcpy(old.eigenvalues, &eigenvalues[0], k * sizeof(double))
    memcpy(old.rate, &rate[0], p * sizeof(double))
    memcpy(old.cross, &cross[0, 0], p * k * sizeof(double))
    memcpy(old.second, &second[0, 0], k * k * sizeof(double))
    old.loadings_log_det, old.scores_log_det = loadings_log_det, scores_log_det
    old.a, old.b = a, b
    if begun:
        memcpy(old.norms, &norms[0], k * sizeof(double))
    else:
        first_norms(&at, old)
    with nogil:
        old.diagonal = True
        for h in range(k):
            for i in range(k):
                if i != h and old.second[h * k + i] != 0.0:
                    old.diagonal = False
        for h in range(6):
            total += terms[h]
        while done < most:
            info = iterate_once(&at, old, new, found, &work)
            before, total, sizes = total, 0.0, 0.0
            for h in range(6):
                total += found[h]
                sizes += fabs(found[h])
            if info != 0:
                ending = FAILED
                break
            if not isfinite(total):
                ending = FELL
                break
            growth = total - before
            if begun and not growth >= -rounding * sizes:
                ending = FELL
                break
            old, new = new, old
            for h in range(6):
                terms[h] = found[h]
            trace[done] = total
            done += 1
            if begun and growth < tol:
                ending = CONVERGED
                break
            if begun and total + hope * growth < target:
                ending = PRUNED
                break
            begun = True
        finish(&at, old, &work)
        reflect(&at, old, tied)
    memcpy(&mean[0, 0], old.mean, p * k * sizeof(double))
    memcpy(&basis[0, 0], old.basis, k * k * sizeof(double))
    memcpy(&weights[0], old.weights, p * sizeof(double))
    memcpy(&eigenvalues[0], old.eigenvalues, k * sizeof(double))
    memcpy(&rate[0], old.rate, p * sizeof(double))
    memcpy(&cross[0, 0], old.cross, p * k * sizeof(double))
    memcpy(&second[0, 0], old.second, k * k * sizeof(double))
    memcpy(&norms[0], old.norms, k * sizeof(double))
    free(memory)
    return done, ending, old.a, old.b, old.loadings_log_det, old.scores_log_det


def expect_scores(
    double[:, ::1] data, bint is_gram, double n, double[::1] precision,
    double[:, ::1] mean, double[:, ::1] basis, double[::1] weights, double[::1] eigenvalues,
    double[:, ::1] cross, double[:, ::1] second,
):
    """The step of the scores: fills `cross` (p, K) and `second` (K, K).

    The definition is `CompleteSource.expect_scores` of `cuspfa.data.protocols`. Returns 0, or
    another number where a matrix is not positive definite, and Σ_i log|V_i|.
    """
    cdef Problem at
    cdef State state
    cdef Work work
    cdef int p = mean.shape[0], k = mean.shape[1], r = 0 if is_gram else data.shape[0], j, h, info
    cdef int tall = max(p, r)
    cdef double* memory = <double*> malloc(
        (3 * tall * k + 2 * p + 4 * k * k + k) * sizeof(double)
    )
    if memory == NULL:
        raise MemoryError("No memory for the scores of a start.")
    cdef double* part = memory
    at.p, at.k, at.r, at.n = p, k, r, n
    at.data, at.shape, at.squares = &data[0, 0], &precision[0], &precision[0]
    state.mean, state.basis = &mean[0, 0], &basis[0, 0]
    state.cross, state.second, state.plain = &cross[0, 0], &second[0, 0], False
    work.spread, work.wide = take(&part, tall * k), take(&part, tall * k)
    work.scores = take(&part, tall * k)
    state.rate, work.precision = take(&part, p), take(&part, p)
    work.one, work.two = take(&part, k * k), take(&part, k * k)
    work.three, work.four = take(&part, k * k), take(&part, k * k)
    work.totals = take(&part, k)
    with nogil:
        for j in range(p):
            state.rate[j] = 1.0
            for h in range(k):
                work.spread[j * k + h] = 1.0 / (1.0 + weights[j] * eigenvalues[h])
        info = step_scores(&at, &state, &work)
        free(memory)
    return info, state.scores_log_det
