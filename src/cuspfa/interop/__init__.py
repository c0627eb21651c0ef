"""Other libraries' objects."""
