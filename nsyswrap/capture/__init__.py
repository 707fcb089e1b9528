"""Finds, installs and runs nsys; reads nothing it wrote."""
