"""Reads the SQLite export of nsys; interprets nothing."""
