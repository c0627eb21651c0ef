"""Other programs on the same data: one file for each, what they share in `common.py`, and the
section in `section.py`."""

from benchmarks.peers.section import peers as peers
