"""Comparison of two reports: whether a step is faster or slower, how sure that is, and which amounts changed."""
