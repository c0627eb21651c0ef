"""An installed cuspfa, tried from outside the clone: `make test-release` calls it.

The library fits and reads back what it saved; the program fits a file and writes a report.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import cuspfa


def main() -> None:
    if (Path.cwd() / "src" / "cuspfa").exists():
        sys.exit("Run this outside the clone.")
    data = cuspfa.datasets.load_bfi(subset="paper").data
    model = cuspfa.CuspFactorAnalysis(random_state=0).fit(data)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        model.posterior_.save(place / "fit.cusp")
        again = cuspfa.CuspFactorAnalysis.from_posterior(cuspfa.load(place / "fit.cusp"))
        np.testing.assert_array_equal(again.transform(data), model.transform(data))
        np.savetxt(place / "answers.csv", data, delimiter=",", header="", comments="")
        command = [sys.executable, "-m", "cuspfa", "fit", "answers.csv", "--report", "r.html"]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        if not (place / "r.html").read_text(encoding="utf-8").lower().startswith("<!doctype html"):
            sys.exit("The report is not a page.")
    sys.stdout.write(f"cuspfa {cuspfa.__version__}, K = {model.n_factors_}. ")


if __name__ == "__main__":
    main()
