# Conditional draws of B chains, for the kernels of both samplers.
from numpy.random cimport bitgen_t


cdef struct Chains:
    int p
    int r                   # rows of the data
    int size                # chains, B
    int k                   # columns now
    double n
    double noise_shape
    double noise_rate
    bint drawn              # are the variances drawn, with inverse gamma distributions?
    bint pooled
    double hyper_rate
    double hyper_scale
    double hyper_spread
    bitgen_t* bits
    double* rows            # (r, p)
    double* squares         # (p,)
    # The state.
    double* loadings        # (B, K, p)
    double* noise           # (B, p)
    double* variances       # (B, K)
    double* a               # (B,)
    double* b               # (B,)
    unsigned char* free     # (B, K) or NULL: all columns are
    # Work.
    double* cross           # (B, K, p) ηᵀY
    double* scaled          # (B, K, p)
    double* scores          # (B, K, r)
    double* second          # (B, K, K) ηᵀη
    double* norms           # (B, K)
    double* random
    double* part            # (K, max(p, r)) each
    double* part2
    double* lanes_c         # (K, K, LANES) each
    double* lanes_m
    double* lanes_root
    double* lanes_theta     # (K, LANES) each
    double* lanes_there
    double* lanes_x
    double* lanes_v
    double* one             # (K, K) each
    double* two
    double* three
    double* values          # (K,)
    double* roots           # (K,)
    double* kept            # (6, B) of the Metropolis steps
    double* columns         # (p, r) the data, transposed
    int* every              # (K,) 0, 1, …
    double* memory          # all of the above but the data


cdef int allocate(Chains* at, int capacity) noexcept nogil
cdef void release(Chains* at) noexcept nogil
cdef void take_in(Chains* at, double* loadings, double* noise) noexcept nogil
cdef void give_back(Chains* at, double* loadings, double* noise) noexcept nogil
cdef void squared_norms(Chains* at) noexcept nogil
cdef void draw_rotation(Chains* at, int* moved, int count) noexcept nogil
cdef void draw_variances(Chains* at) noexcept nogil
cdef int draw_given_scales(Chains* at, int* moved, int count) noexcept nogil
