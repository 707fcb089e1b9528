"""Names, numbers and times of a step's drawing: what fits on a wide page and on a narrow one, without overlap."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nsyswrap.render.step_columns import ColumnCluster

# Pixels of the drawing on a page of 1,280 and of 390 pixels, and of a letter of its texts.
WIDTHS = (("wide", 960), ("narrow", 340))
LETTER = 7.6
# Half a numbered circle with the space around it, and the space around a text.
_HALF, _SPACE = 9, 6
# A circle moves aside in steps of so many pixels, at most so often.
_NUDGE, _NUDGES = 4, 15
_TICKS = 6


class Wanted(NamedTuple):
    """A mark to be placed: its columns, its number or none, its texts from long to short, its target and its title."""

    cluster: ColumnCluster
    number: str
    texts: tuple[str, ...]
    anchor: str
    title: str


class Mark(NamedTuple):
    """A placed mark.

    Attributes:
        fits: "wide" or "narrow": the page that shows it.
        x: Position in per cent of the drawing.
        number: Number of the finding; empty for none.
        dx: Middle of the circle, pixels from the position.
        text: Text beside it; empty for none.
        text_dx: Start of the text, pixels from the position.
        plate: Width of the plate behind circle and text in pixels; 0 for none.
        anchor: Anchor of the finding; empty for none.
        title: What it says in full.
    """

    fits: str
    x: str
    number: str
    dx: int
    text: str
    text_dx: int
    plate: int
    anchor: str
    title: str


class Tick(NamedTuple):
    """A time of the axis: position in per cent, text, and on which pages it is shown: ``wide`` or all."""

    x: str
    text: str
    fits: str


def place(wanted: Iterable[Wanted], columns: float) -> list[Mark]:
    """Return marks on wide and on narrow pages. A text that has no room is left out; so is a circle that finds none.

    Args:
        wanted: The marks, the most important first.
        columns: Columns of the whole drawing.
    """
    ordered = list(wanted)
    return [mark for fits, width in WIDTHS for mark in _placed(ordered, columns, fits, width)]


class Label(NamedTuple):
    """The text of a part of a bar, the width of its plate in pixels, and the pages that show it: ``all``, ``wide``."""

    text: str
    plate: int
    fits: str


def label(texts: Sequence[str], share_percent: float) -> Label:
    """Return the first text that has room in a part of a bar, else one that no page shows.

    Args:
        texts: What the part may say, from long to short.
        share_percent: Width of the part, as a share of the page's width.
    """
    for text in texts:
        plate = round(LETTER * len(text)) + 2 * _SPACE
        fits = [share_percent / 100 * width >= plate + 2 * _SPACE for _, width in WIDTHS]
        if fits[0]:
            return Label(text, plate, "all" if fits[1] else "wide")
    return Label("", 0, "")


def ticks(length: int) -> Iterator[Tick]:
    """Yield the ticks of an axis of so many ns, from the start of the step."""
    power = 10 ** max(len(str(max(length // _TICKS, 1))) - 1, 0)
    step = next(one * power for one in (1, 2, 5, 10) if one * power * _TICKS >= length)
    scale, unit = next(
        (size, name) for size, name in ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns")) if size <= step
    )
    for number, at in enumerate(range(0, length, step)):
        x = 100 * at / length
        if x <= 95:  # noqa: PLR2004 - a text at the right edge would be cut
            yield Tick(f"{x:.2f}", f"{at // scale} {unit}" if at else "0", "wide" if number % 2 else "")


def _placed(wanted: Sequence[Wanted], columns: float, fits: str, width: int) -> Iterable[Mark]:
    """Yield the marks of a page of one width."""
    taken: list[tuple[float, float]] = []
    for one in wanted:
        left, right = one.cluster.first / columns * width, one.cluster.last / columns * width
        before = 2 * _HALF + _SPACE if one.number else _SPACE
        for text in one.texts:
            plate = before + round(LETTER * len(text)) + _SPACE
            if left + plate + _SPACE <= right and _is_free(taken, left, left + plate):
                taken.append((left, left + plate))
                yield Mark(fits, _percent(left, width), one.number, _HALF + 2, text, before + 2, plate, *one[3:])
                break
        else:
            at = _free_place(taken, one.cluster.middle / columns * width, width) if one.number else None
            if at is not None:
                taken.append((at - _HALF, at + _HALF))
                yield Mark(fits, _percent(at, width), one.number, 0, "", 0, 0, *one[3:])


def _is_free(taken: Sequence[tuple[float, float]], start: float, end: float) -> bool:
    return all(end <= first or start >= last for first, last in taken)


def _free_place(taken: Sequence[tuple[float, float]], middle: float, width: int) -> float | None:
    """Return the free place for a circle that is nearest to where it belongs; None where all near places are taken."""
    for number in range(2 * _NUDGES + 1):
        aside = (number + 1) // 2 * _NUDGE
        moved = middle - aside if number % 2 else middle + aside
        at = min(max(moved, float(_HALF)), float(width - _HALF))
        if _is_free(taken, at - _HALF, at + _HALF):
            return at
    return None


def _percent(pixels: float, width: int) -> str:
    return f"{100 * pixels / width:.2f}"
