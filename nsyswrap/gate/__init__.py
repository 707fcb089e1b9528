"""The gate: whether the newest runs of a program became slower than the runs before them, or whether runs cannot tell.

All but ``reports`` are functions of numbers, one for each run; it does not matter where the runs are kept.
"""
