"""Finds, installs and runs nsys; does not read its captures."""
