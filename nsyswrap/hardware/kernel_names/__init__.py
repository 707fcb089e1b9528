"""Classify kernels by name: rules for the use of tensor cores, and readers of precision, library and operation."""
