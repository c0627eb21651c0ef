"""Exchange with AnnData and ArviZ."""
