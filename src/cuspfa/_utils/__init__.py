"""Helpers that know nothing of the model."""
