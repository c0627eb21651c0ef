"""Tables for a paper: loadings, factors, their correlations and the fit; `posterior.apa_tables()`.

`content.py` collects the values, `layout.py` makes rows and notes of them, and each format has a
writer. Numbers are rounded in `layout.py` alone.
"""
