"""Screening of columns and rows."""
