"""Functions over arrays in compiled code, built on the user's machine; where they cannot be, numpy does the same."""
