"""Parts of the evidence that are many small steps.

The definition is `direction_metrics` of `cuspfa.inference.variational.collapsed_bound`. Matrices are
row-major.
"""


def direction_metrics(
    double[:, ::1] metric, Py_ssize_t[:, ::1] place, Py_ssize_t[::1] turn,
    double[:, ::1] scales, double[:, ::1] between, double[:, ::1] turns,
):
    """Fill the metric between scale directions, between these and rotations, between rotations.

    `place` (K, K) is the number of a pair of columns and `turn` that of its rotation, −1 for a
    column with itself.
    """
    cdef Py_ssize_t k = place.shape[0], h, other, h2, other2, i = 0, j, s, t
    cdef double straight, mirrored, crossed, uncrossed, half, half2
    with nogil:
        for h in range(k):
            for other in range(h, k):
                half, s, j = 0.5 if h == other else 1.0, turn[i], 0
                for h2 in range(h + 1):
                    half2 = 0.5
                    for other2 in range(h2, k):
                        if j > i:
                            break
                        t = turn[j]
                        straight = metric[place[h, h2], place[other, other2]]
                        mirrored = metric[place[other, other2], place[h, h2]]
                        crossed = metric[place[other, h2], place[h, other2]]
                        uncrossed = metric[place[other2, h], place[h2, other]]
                        scales[i, j] = (
                            half * half2 * (straight + mirrored + (crossed + uncrossed))
                        )
                        scales[j, i] = scales[i, j]
                        if t >= 0:
                            between[i, t] = half * (straight - mirrored + crossed - uncrossed)
                        if s >= 0:
                            between[j, s] = half2 * (straight - mirrored + uncrossed - crossed)
                        if s >= 0 and t >= 0:
                            turns[s, t] = straight + mirrored - (crossed + uncrossed)
                            turns[t, s] = turns[s, t]
                        half2 = 1.0
                        j += 1
                i += 1
