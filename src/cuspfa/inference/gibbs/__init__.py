"""The sampling engine: exact conditional draws, one after the other."""
