"""Matrices of correlations as pictures: vectors where they are small, pixels where they are not."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from cuspfa._typing import Array
from cuspfa.diagnostics.fit_indices import srmr
from cuspfa.reporting.html.content import Content
from cuspfa.reporting.html.svg import Figure, levels

SIDE = 300.0
VECTOR = 60
"""Variables up to which every cell is a shape of its own."""
WIDEST = 1000
"""Of more variables every so many are drawn."""
STEPS = 20
NEGATIVE, POSITIVE = (213, 94, 0), (0, 114, 178)
"""Orange and blue of Okabe & Ito; size is how opaque they are, so that both suit any ground."""


class Matrix(NamedTuple):
    """One of the three pictures."""

    kind: str
    title: str
    note: str
    picture: Markup


def matrices(content: Content) -> list[Matrix]:
    """Correlations of the data, those of the model, and what is left."""
    order = content.axes[0].order
    thin = -(-len(order) // WIDEST)
    chosen = np.ix_(order[::thin], order[::thin])
    fitted = content.fitted[chosen]
    every = "" if thin == 1 else f", every {thin} variables"
    found = [Matrix("fitted", "Fitted", f"by the model{every}", picture(fitted, 1.0, "Fitted"))]
    if content.sample is None:
        return found
    sample = content.sample[chosen]
    left = sample - fitted
    limit = float(np.max(np.abs(left))) or 1.0
    size = srmr(content.sample, content.fitted) if len(content.sample) > 1 else 0.0
    note = f"at most {limit:.2f}, SRMR {size:.3f}"
    return [
        Matrix("sample", "Sample", "of the data", picture(sample, 1.0, "Sample")),
        *found,
        Matrix("residual", "Residual", note, picture(left, limit, "Residual")),
    ]


def picture(values: Array, limit: float, title: str) -> Markup:
    """A square of cells, blue where positive, orange where negative."""
    figure = Figure(f"{title} correlations", SIDE, SIDE)
    found = levels(values, limit, STEPS)
    if len(values) > VECTOR:
        figure.image(0, 0, SIDE, _png(found))
        return figure.markup("matrix")
    cell = SIDE / len(values)
    width = f"{cell:.2f}"
    for level in range(-STEPS, STEPS + 1):
        rows, columns = np.nonzero(found == level)
        if level == 0 or not len(rows):
            continue
        said = "".join(
            f"M{column * cell:.2f} {row * cell:.2f}h{width}v{width}h-{width}z"
            for row, column in zip(rows, columns, strict=True)
        )
        figure.shape("plus" if level > 0 else "minus", said, abs(level) / STEPS)
    return figure.markup("matrix")


def _png(found: Array) -> str:
    """A picture as a data address; its palette has 41 colours that differ in opacity."""
    height, width = found.shape
    pixels = (found + STEPS).astype(np.uint8)
    rows = np.hstack([np.zeros((height, 1), dtype=np.uint8), pixels])  # each begins with its filter
    colours = [NEGATIVE] * STEPS + [(255, 255, 255)] + [POSITIVE] * STEPS
    opacity = [round(255 * abs(level) / STEPS) for level in range(-STEPS, STEPS + 1)]
    pieces = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", bytes(part for colour in colours for part in colour)),
        (b"tRNS", bytes(opacity)),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body))
        + name
        + body
        + struct.pack(">I", zlib.crc32(name + body) & 0xFFFFFFFF)
        for name, body in pieces
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()
