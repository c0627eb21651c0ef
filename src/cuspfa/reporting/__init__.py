"""Summary, figures and report."""
