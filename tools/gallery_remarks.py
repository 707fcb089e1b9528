# ruff: noqa: INP001 - a part of tools/gallery.py, not a package
"""What docs/results.md adds by hand: where ours differ in direction from the source's, and why."""

# Title of a claim in gallery_cases -> a paragraph under its tables.
REMARKS: dict[str, str] = {}
