"""Distributions of the data given loadings and scores, one in each file."""
