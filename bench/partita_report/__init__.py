"""`partita report`: charts, summaries and comparisons of what `partita bench --json` and the app jacobi2d wrote.

results.py reads files, summary.py is what is kept of their samples, charts.py draws, compare.py judges two runs. Only charts.py
needs more than Python's own library.
"""
