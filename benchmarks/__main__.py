"""`python -m benchmarks [section ...]`: run sections (all without a name), rebuild the page."""

from __future__ import annotations

import importlib
import sys
import time

from benchmarks.report import ORDER, report

MODULES = {"sklearn": "chooser"}
"""A section's module, where it is not named like the section."""


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in ORDER]
    if unknown:
        print(f"Unknown section {unknown[0]!r}. The sections: {', '.join(ORDER)}.")
        return 2
    for name in names or ORDER:
        begin = time.perf_counter()
        module = importlib.import_module(f"benchmarks.{MODULES.get(name, name)}")
        print(f"\n{name}", flush=True)
        for line in getattr(module, MODULES.get(name, name))():
            mark = {True: "ok  ", False: "FAIL", None: "    "}[line["ok"]]
            required = f" (required: {line['required']})" if line["required"] else ""
            print(f"  {mark} {line['what']}: {line['measured']} | {line['against']}{required}")
        print(f"  {time.perf_counter() - begin:.0f} s", flush=True)
    print(f"\n{report()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
