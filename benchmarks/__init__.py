"""Required figures, measured: `python -m benchmarks [section ...]`."""

import os

# Small matrices run many times slower with many BLAS threads; set before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
