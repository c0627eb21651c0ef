"""Five items of the Law School Admission Test, 1000 persons: patterns of answers and their counts.

LSAT 6 and LSAT 7 of Bock & Lieberman (1970), Psychometrika 35, 179–197, as in the R package psych
(`lsat6`, `lsat7`). A pattern is the number whose binary digits are the answers to items 1 to 5.
"""

import numpy as np

LSAT6 = {
    0: 3, 1: 6, 2: 2, 3: 11, 4: 1, 5: 1, 6: 3, 7: 4, 8: 1, 9: 8, 11: 16, 13: 3, 14: 2, 15: 15,
    16: 10, 17: 29, 18: 14, 19: 81, 20: 3, 21: 28, 22: 15, 23: 80, 24: 16, 25: 56, 26: 21, 27: 173,
    28: 11, 29: 61, 30: 28, 31: 298,
}  # fmt: skip
LSAT7 = {
    0: 12, 1: 19, 2: 1, 3: 7, 4: 3, 5: 19, 6: 3, 7: 17, 8: 10, 9: 5, 10: 3, 11: 7, 12: 7, 13: 23,
    14: 8, 15: 28, 16: 7, 17: 39, 18: 11, 19: 34, 20: 14, 21: 51, 22: 15, 23: 90, 24: 6, 25: 25,
    26: 7, 27: 35, 28: 18, 29: 136, 30: 32, 31: 308,
}  # fmt: skip


def answers(counts):
    """(number of patterns, 5) answers, and (number of patterns,) counts."""
    patterns = np.array([[int(digit) for digit in f"{number:05b}"] for number in counts])
    return patterns.astype(float), np.array(list(counts.values()), dtype=float)
