"""Rotation and alignment of factors."""
