"""Drawing on matplotlib Axes from plain values, for `cuspfa.plots` and for the report."""
