"""Sweeps of the Gibbs sampler for complete data, with a given or a changing number of columns.

The definition is `cuspfa.inference.gibbs.chain.sweep`, with the same random numbers in the same
order; scores, loadings, noise and scales are drawn by the functions of `sweeps.pyx`.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport INFINITY, exp, expm1, fmax, fmin, lgamma, log, log1p, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from numpy.random cimport bitgen_t
from numpy.random.c_distributions cimport (
    random_beta,
    random_logistic,
    random_standard_exponential_fill,
    random_standard_normal_fill,
    random_standard_uniform_fill,
)

from .sweeps cimport (
    Chains,
    allocate,
    draw_given_scales,
    draw_rotation,
    draw_variances,
    give_back,
    release,
    squared_norms,
    take_in,
)


cdef struct Process:
    double alpha
    double stick_shape
    double spike
    double slab_variance    # of active columns where variances are given
    int most
    long start_adapt        # below 0: the number of columns does not change
    double rate_0
    double rate_1
    long every              # sweeps between scale-rotation moves; 0: none
    unsigned char* active   # (B, H)
    double* log_s           # (B, H)
    int* terms              # (B,)
    unsigned char* chosen   # (B,)
    int* counts             # (H,)
    int* moved              # (H,)
    unsigned char* new_active
    double* new_log_s
    double* new_variances


cdef double log_odds(Chains* at, Process* own, int b, double constant, double norm) noexcept nogil:
    """`log_odds` of a column; `constant` is that of the chain's slab."""
    cdef double inactive = -0.5 * (at.p * log(own.spike) + norm / own.spike)
    if at.drawn:
        return constant - (at.a[b] + 0.5 * at.p) * log(at.b[b] + 0.5 * norm) - inactive
    return constant - 0.5 * norm / own.slab_variance - inactive


cdef void draw_labels_and_sticks(Chains* at, Process* own) noexcept nogil:
    """`draw_labels` and `draw_sticks`."""
    cdef int size = at.size, k = at.k, b, h, label, terms, i
    cdef double* logistic = at.random
    cdef double* exponential = at.random + size * k
    cdef double* uniform = at.random + 2 * size * k
    cdef double* row
    cdef double inactive, target, constant, half = 0.5 * at.p
    cdef long beyond
    cdef double total
    cdef bint here
    for i in range(size * k):
        logistic[i] = random_logistic(at.bits, 0.0, 1.0)
    random_standard_exponential_fill(at.bits, size * k, exponential)
    random_standard_uniform_fill(at.bits, size * k, uniform)
    for b in range(size):
        row, terms = own.log_s + b * k, own.terms[b]
        memset(own.counts, 0, terms * sizeof(int))
        if at.drawn:
            constant = at.a[b] * log(at.b[b]) - lgamma(at.a[b]) + lgamma(at.a[b] + half)
        else:
            constant = -half * log(own.slab_variance)
        for h in range(k):
            i = b * k + h
            if h >= terms:
                own.active[i] = False
                continue
            inactive = -expm1(row[h])
            here = logistic[i] < (
                log_odds(at, own, b, constant, at.norms[i]) + row[h] - log(inactive)
            )
            own.active[i] = here
            target = row[h] - exponential[i] if here else log1p(-uniform[i] * inactive)
            label = 0
            while label < terms - 1 and not row[label] <= target:
                label += 1
            # Rounding must not move a label past its column.
            label = max(label, h + 1) if here else min(label, h)
            own.counts[label] += 1
        # The sticks of this chain are not drawn yet: those of all come after all labels.
        for h in range(terms):
            own.new_log_s[b * k + h] = own.counts[h]
    for b in range(size):
        row, terms, beyond, total = own.log_s + b * k, own.terms[b], 0, 0.0
        for h in range(terms):
            beyond += <long> own.new_log_s[b * k + h]
        for h in range(terms - 1):
            label = <int> own.new_log_s[b * k + h]
            beyond -= label
            total += log(random_beta(at.bits, own.alpha + beyond, own.stick_shape + label))
            row[h] = total
        for h in range(terms - 1, k):
            row[h] = -INFINITY


cdef void set_variances(Chains* at, Process* own) noexcept nogil:
    """`with_labels`."""
    cdef int b, h, i
    for b in range(at.size):
        for h in range(at.k):
            i = b * at.k + h
            if h >= own.terms[b]:
                at.variances[i] = 0.0
            elif not own.active[i]:
                at.variances[i] = own.spike
            elif not at.drawn:
                at.variances[i] = own.slab_variance


cdef void adapt(Chains* at, Process* own, double rate) noexcept nogil:
    """`adapt`, of chains that are chosen with probability `rate`."""
    cdef int size = at.size, k = at.k, p = at.p, b, h, width = 0, old, last, number
    cdef double* here
    cdef double total, survivor, before
    cdef bint changes = False, shrinks, grows
    # 0: stays, 1: shrinks, 2: grows; counts are the new numbers of columns.
    random_standard_uniform_fill(at.bits, size, at.random)
    for b in range(size):
        own.chosen[b] = 0
        number = 0
        for h in range(k):
            number += own.active[b * k + h]
        own.counts[b] = own.terms[b]
        if at.random[b] < rate:
            if number < own.terms[b] - 1:
                own.chosen[b], own.counts[b] = 1, number + 1
            elif own.terms[b] < own.most:
                own.chosen[b], own.counts[b] = 2, own.terms[b] + 1
        changes |= own.chosen[b] != 0
        width = max(width, own.counts[b])
    if not changes:
        return
    memset(at.scaled, 0, <size_t> size * width * p * sizeof(double))
    memset(own.new_variances, 0, size * width * sizeof(double))
    memset(own.new_active, 0, size * width)
    for h in range(size * width):
        own.new_log_s[h] = -INFINITY
    for b in range(size):
        old, last, number = own.terms[b], own.counts[b] - 1, 0
        shrinks, grows = own.chosen[b] == 1, own.chosen[b] == 2
        before, total = 1.0, 0.0
        for h in range(old):
            survivor = exp(own.log_s[b * k + h])
            if not shrinks or own.active[b * k + h]:
                if shrinks:
                    total += before - survivor
                    own.new_log_s[b * width + number] = log(fmax(1.0 - total, 0.0))
                else:
                    own.new_log_s[b * width + number] = own.log_s[b * k + h]
                memcpy(
                    at.scaled + (b * width + number) * p, at.loadings + (b * k + h) * p,
                    p * sizeof(double),
                )
                own.new_variances[b * width + number] = at.variances[b * k + h]
                own.new_active[b * width + number] = own.active[b * k + h]
                number += 1
            before = survivor
        if grows:
            before = own.new_log_s[b * width + old - 2] if old > 1 else 0.0
            own.new_log_s[b * width + old - 1] = before + log(
                random_beta(at.bits, own.alpha, own.stick_shape)
            )
        if shrinks or grows:
            here = at.scaled + (b * width + last) * p
            random_standard_normal_fill(at.bits, p, here)
            for h in range(p):
                here[h] *= sqrt(own.spike)
            own.new_variances[b * width + last] = own.spike
        own.terms[b] = own.counts[b]
    at.k = width
    at.loadings, at.scaled = at.scaled, at.loadings
    memcpy(at.variances, own.new_variances, size * width * sizeof(double))
    memcpy(own.active, own.new_active, size * width)
    memcpy(own.log_s, own.new_log_s, size * width * sizeof(double))


cdef int sweep_once(Chains* at, Process* own, bint columns, long number) noexcept nogil:
    """`sweep`; not 0 where a matrix is not positive definite."""
    cdef int h, b, count = 0, info
    cdef bint any_free
    if own.every and number % own.every == 0:
        for h in range(at.k):
            any_free = not columns
            if columns:
                for b in range(at.size):
                    any_free |= own.active[b * at.k + h]
            if any_free:
                own.moved[count] = h
                count += 1
    info = draw_given_scales(at, own.moved, count)
    if info != 0:
        return info
    if count > 1:
        draw_rotation(at, own.moved, count)
    squared_norms(at)
    if not columns:
        draw_variances(at)
        return 0
    draw_labels_and_sticks(at, own)
    set_variances(at, own)
    draw_variances(at)
    if own.start_adapt >= 0 and number >= own.start_adapt:
        adapt(at, own, exp(fmin(own.rate_0 + own.rate_1 * number, 0.0)))
    return 0


def sweep(
    double[:, ::1] rows, double[::1] squares, double n, double noise_shape, double noise_rate,
    bint drawn, bint pooled, double hyper_rate, double hyper_scale, double hyper_spread,
    double alpha, double stick_shape, double spike, double slab_variance, int most,
    long start_adapt, double rate_0, double rate_1, long every,
    double[:, :, ::1] loadings, double[:, ::1] noise, double[:, ::1] variances,
    double[::1] a, double[::1] b, unsigned char[:, ::1] active, double[:, ::1] log_survivors,
    long long[::1] terms, long first, int number, bit_generator,
):
    """`number` sweeps, the first of them of number `first`.

    `active` None means that the number of columns is given; then `log_survivors` and `terms` are
    not used. Returns whether all matrices were positive definite, and new arrays: loadings, noise,
    variances, a, b, active, log survivors and terms.
    """
    cdef Chains at
    cdef Process own
    cdef int p = loadings.shape[0], size = loadings.shape[1], k = loadings.shape[2], i, info = 0
    cdef int capacity = k
    cdef long done
    cdef bint columns = active is not None
    cdef double* memory
    cdef int* whole
    cdef unsigned char* flags
    if columns and start_adapt >= 0:
        capacity = max(k, min(most, k + number))
    at.p, at.size, at.k, at.r = p, size, k, rows.shape[0]
    at.n, at.noise_shape, at.noise_rate = n, noise_shape, noise_rate
    at.drawn, at.pooled = drawn, pooled
    at.hyper_rate, at.hyper_scale, at.hyper_spread = hyper_rate, hyper_scale, hyper_spread
    at.bits = <bitgen_t*> PyCapsule_GetPointer(bit_generator.capsule, "BitGenerator")
    at.rows, at.squares = &rows[0, 0], &squares[0]
    own.alpha, own.stick_shape, own.spike, own.slab_variance = (
        alpha, stick_shape, spike, slab_variance
    )
    own.most, own.start_adapt, own.rate_0, own.rate_1, own.every = (
        most, start_adapt, rate_0, rate_1, every
    )
    if not allocate(&at, capacity):
        raise MemoryError("No memory for the sweeps of these chains.")
    memory = <double*> malloc(3 * size * capacity * sizeof(double))
    whole = <int*> malloc((2 * size + 2 * capacity) * sizeof(int))
    flags = <unsigned char*> malloc(2 * size * capacity + size)
    if memory == NULL or whole == NULL or flags == NULL:
        release(&at)
        free(memory)
        free(whole)
        free(flags)
        raise MemoryError("No memory for the sweeps of these chains.")
    own.log_s, own.new_log_s = memory, memory + size * capacity
    own.new_variances = memory + 2 * size * capacity
    own.terms, own.moved, own.counts = whole, whole + size, whole + size + capacity
    own.active, own.new_active = flags, flags + size * capacity
    own.chosen = flags + 2 * size * capacity
    with bit_generator.lock, nogil:
        take_in(&at, &loadings[0, 0, 0], &noise[0, 0])
        memcpy(at.variances, &variances[0, 0], size * k * sizeof(double))
        memcpy(at.a, &a[0], size * sizeof(double))
        memcpy(at.b, &b[0], size * sizeof(double))
        if columns:
            at.free = own.active
            memcpy(own.active, &active[0, 0], size * k)
            memcpy(own.log_s, &log_survivors[0, 0], size * k * sizeof(double))
            for i in range(size):
                own.terms[i] = terms[i]
        for done in range(number):
            info = sweep_once(&at, &own, columns, first + done)
            if info != 0:
                break
    k = at.k
    cdef double[:, :, ::1] new_loadings = np.empty((p, size, k))
    cdef double[:, ::1] new_noise = np.empty((p, size))
    cdef double[:, ::1] new_variances = np.empty((size, k))
    cdef double[::1] new_a = np.empty(size)
    cdef double[::1] new_b = np.empty(size)
    cdef unsigned char[:, ::1] new_active = np.empty((size, k), dtype=np.uint8)
    cdef double[:, ::1] new_log_s = np.empty((size, k))
    cdef long long[::1] new_terms = np.empty(size, dtype=np.int64)
    give_back(&at, &new_loadings[0, 0, 0], &new_noise[0, 0])
    memcpy(&new_variances[0, 0], at.variances, size * k * sizeof(double))
    memcpy(&new_a[0], at.a, size * sizeof(double))
    memcpy(&new_b[0], at.b, size * sizeof(double))
    if columns:
        memcpy(&new_active[0, 0], own.active, size * k)
        memcpy(&new_log_s[0, 0], own.log_s, size * k * sizeof(double))
        for i in range(size):
            new_terms[i] = own.terms[i]
    release(&at)
    free(memory)
    free(whole)
    free(flags)
    return (
        info, new_loadings.base, new_noise.base, new_variances.base, new_a.base, new_b.base,
        new_active.base, new_log_s.base, new_terms.base,
    )
