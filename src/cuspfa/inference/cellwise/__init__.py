"""Inference where each cell has a weight of its own: ordinal, binary and mixed columns."""
