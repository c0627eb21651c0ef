"""The tables of the two papers."""
