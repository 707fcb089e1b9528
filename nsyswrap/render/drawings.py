"""Drawings of documents: elements of SVG, made of plain values.

Horizontal places are per cent of the width, so that a drawing fits any screen; vertical ones are pixels.
"""

from collections.abc import Mapping
from typing import NamedTuple


def decimal(value: float, places: int = 2) -> str:
    """Return a number as text without trailing zeros."""
    return f"{value:.{places}f}".rstrip("0").rstrip(".") or "0"


class Shape(NamedTuple):
    """An element of a drawing.

    Attributes:
        tag: Its name in SVG.
        words: What a ``text`` says.
        title: What is shown under the pointer; empty for nothing.
        href: Where it leads; empty for nowhere.
    """

    tag: str
    attributes: Mapping[str, str]
    words: str = ""
    title: str = ""
    href: str = ""
    parts: tuple["Shape", ...] = ()


def shape(  # noqa: PLR0913 - one argument a field
    tag: str,
    look: str,
    *,
    words: str = "",
    title: str = "",
    href: str = "",
    parts: tuple[Shape, ...] = (),
    **attributes: object,
) -> Shape:
    """Return an element of a drawing, with the fields of ``Shape``; ``look`` is its class, empty for none.

    Other attributes have ``_`` for ``-``. Colours hold where style sheets are forbidden.
    """
    named = {name.replace("_", "-"): str(value) for name, value in attributes.items()}
    return Shape(tag, {"class": look, **named} if look else named, words, title, href, parts)


class Picture(NamedTuple):
    """A drawing as wide as its place.

    Attributes:
        shapes: Its elements; horizontal places are per cent, vertical ones pixels.
        alt: What it shows; empty where the numbers beside it say the same.
        width: Its width; 100 % for that of its place.
        box: Width and height of its own scale, which is stretched to its place; empty for none.
        title: Its name, before its heading.
        caption: Its heading.
        edges: Texts at the upper and the lower edge of the scale.
        ends: Texts at the left and the right edge.
        note: A sentence below it.
        role: What it is for readers that do not see it: "group" where parts of it are links.
    """

    shapes: tuple[Shape, ...]
    height: int
    alt: str = ""
    width: str = "100%"
    box: str = ""
    title: str = ""
    caption: str = ""
    edges: tuple[str, str] = ("", "")
    ends: tuple[str, str] = ("", "")
    note: str = ""
    role: str = "img"


def difference_bar(difference: float, most: float) -> Picture:
    """Return a difference as a bar to the left or the right of the middle.

    Args:
        difference: New minus base.
        most: The difference that fills half of the cell; larger ones fill it, too.
    """
    half = 50 * min(abs(difference) / (most or 1.0), 1.0)
    look, fill = ("less", "#0054A9") if difference < 0 else ("more-time", "#8A5A00")
    middle = shape("line", "middle", x1="50%", x2="50%", y2=10, stroke="#929292")
    x = 50 - half if difference < 0 else 50
    bar = shape("rect", look, x=f"{x:.2f}%", width=f"{half:.2f}%", y=1, height=8, fill=fill)
    return Picture((middle, bar), 10, width="112")
