"""Variational Bayes: the engine of Legramanti (2020)."""
