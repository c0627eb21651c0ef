"""Missing data."""
