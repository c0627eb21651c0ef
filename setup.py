"""The compiled core. All else is in pyproject.toml.

Each `.pyx` file is one optional extension: without a C compiler the installation succeeds, and the
NumPy definitions are used. With CUSPFA_NO_EXTENSIONS=1 no extension is built, so that the wheel is
one for all platforms.
"""

import os
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNELS = Path("src/cuspfa/inference/_kernels")
# One result on every processor: no instructions beyond the baseline, no fused or reordered sums.
UNIX = ["-O3", "-ffp-contract=off", "-fno-math-errno"]
OPTIONS = ["/O2", "/fp:precise"] if os.name == "nt" else UNIX
RANDOM = Path(np.get_include()).parents[1] / "random" / "lib"


class OptionalBuild(build_ext):
    """Extensions that fail for any reason are left out, with a warning."""

    def build_extensions(self) -> None:
        """All that can be built; later steps see these alone."""
        built = []
        for extension in self.extensions:
            try:
                self.build_extension(extension)
                built.append(extension)
            except Exception as error:
                self.warn(f"{extension.name} is not built, NumPy code runs instead: {error}")
        self.extensions = built


extensions = [
    Extension(
        f"cuspfa.inference._kernels.{source.stem}",
        [str(source)],
        include_dirs=[np.get_include()],
        library_dirs=[str(RANDOM)],
        libraries=["npyrandom"] + ([] if os.name == "nt" else ["m"]),
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        extra_compile_args=OPTIONS,
        optional=True,
    )
    for source in sorted(KERNELS.glob("*.pyx"))
    if os.environ.get("CUSPFA_NO_EXTENSIONS") != "1"
]

setup(
    cmdclass={"build_ext": OptionalBuild},
    ext_modules=cythonize(
        extensions,
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "freethreading_compatible": True,
        },
    ),
)
