"""The pictures of the README and the tutorial: they show each one that the tool makes, and no other."""

import re
from pathlib import Path

import tutorial_pictures as tool

ROOT = Path(__file__).resolve().parents[2]


def test_readme_and_tutorial_show_each_picture_that_the_tool_makes() -> None:
    made = {f"{name}.png" for name in tool.PICTURES}
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/tutorial.md")]
    shown = re.findall(r"!\[[^\]]+\]\((?:docs/)?images/([\w-]+\.png)\)", "".join(pages))
    assert set(shown) == made == {path.name for path in tool.IMAGES.iterdir()}
    assert all((tool.IMAGES / name).read_bytes().startswith(b"\x89PNG") for name in made)
