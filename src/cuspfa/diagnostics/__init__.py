"""Checks of data, fit and prior."""
