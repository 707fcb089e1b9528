"""Blocks of rich as text for a terminal."""

import io
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType


def printed(blocks: Iterable[RenderableType], *, width: int, colour: bool) -> str:
    """Return blocks below each other as text for a terminal, without blanks at the ends of lines.

    Args:
        blocks: What is printed.
        width: Largest line width in columns.
        colour: Whether to add terminal colours.
    """
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        height=100,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
    )
    console.print(Group(*blocks))
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n")).rstrip() + "\n"
