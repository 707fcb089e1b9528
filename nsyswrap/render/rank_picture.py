"""The picture of one step of a job: a row for each rank on one time axis, and collectives from arrival to end.

Horizontal positions are per cent of the axis, vertical ones pixels. The height of a colour is its share of a segment,
so its area is its time.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.model import Section
from nsyswrap.render import summary_model
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.page_tables import Span
from nsyswrap.render.rank_rows import WAITS, said
from nsyswrap.render.vocabulary import rule_name

# The parts of a stack from its bottom: column, key of the colour, and fill without a style sheet.
PARTS = (
    ("compute_ns", "compute", "#0054A9"),
    ("copies_ns", "copy", "#604900"),
    ("transfer_ns", "communication", "#873267"),
    ("wait_ns", "rank_wait", "#B5638F"),
    ("idle_ns", "idle", "url(#idle)"),
)
# Colours of texts on these fills, with a contrast of at least 4.5:1.
_ON_DARK, _ON_LIGHT = "#FFFFFF", "#000000"
_TEXT_ON = {"compute": _ON_DARK, "copy": _ON_DARK, "communication": _ON_DARK, "rank_wait": _ON_LIGHT, "idle": _ON_DARK}
_NAME_WIDTH = 24
# Pixels of a letter, of the narrowest and of a wide page, and the least height of a part with a text.
_LETTER, _NARROW, _WIDE, _TEXT_HEIGHT = 6.3, 340, 980, 12
_MOST_LINES = 4
# A collective has a line where a rank waits for it for this share of the axis, or where it is the longest. Ours.
_LINE_SHARE = 0.05
_TICKS = 5


class PixelSizes(NamedTuple):
    """Pixels: head of a row, its bar, its lane of collectives, half a mark, distance of rows; and rows a label."""

    head: int
    bar: int
    lane: int
    mark: int
    pitch: int
    every: int


_SIZES = ((8, PixelSizes(17, 24, 6, 5, 58, 1)), (24, PixelSizes(0, 15, 4, 4, 22, 1)))
_SMALL = PixelSizes(0, 6, 2, 4, 9, 8)


class SegmentPart(NamedTuple):
    """A colour of a segment: its key, its fill without a style sheet, top and height in pixels."""

    key: str
    fill: str
    y: str
    height: str


class SegmentLabel(NamedTuple):
    """A text in a segment: middle of the segment in per cent, baseline in pixels, and on which pages it fits."""

    text: str
    x: str
    y: str
    key: str
    fill: str
    fits: str


class SegmentView(NamedTuple):
    """A segment: position and width in per cent, its parts, its texts, and a sentence about it."""

    x: str
    width: str
    parts: tuple[SegmentPart, ...]
    labels: tuple[SegmentLabel, ...]
    title: str


class CollectiveBar(NamedTuple):
    """A collective on one rank: where it waits and where it transfers, in per cent; and whether it has a mark."""

    x: str
    wait: str
    transfer_x: str
    transfer: str
    is_marked: bool


class RankView(NamedTuple):
    """One rank: its name, why others wait for it, top of its bar and its lane in pixels, segments and collectives."""

    name: str
    brief: str
    short: str
    said: str
    is_late: bool
    y: int
    lane_y: int
    anchor: str
    segments: tuple[SegmentView, ...]
    bars: tuple[CollectiveBar, ...]


class LastArrival(NamedTuple):
    """The arrival of the last rank at a collective: position in per cent, and a sentence."""

    x: str
    title: str


class RankTick(NamedTuple):
    """A time of the axis: position in per cent, and its text."""

    x: str
    text: str


class PictureView(NamedTuple):
    """One step of all ranks.

    Attributes:
        title: Which step.
        note: What is drawn of it.
        label: The picture in one sentence.
        rows: The ranks.
        lines: When the last rank arrived, at the collectives with the longest waits.
        ticks: Times of the axis.
        sizes: Heights.
        height: Height of all rows.
        left: Width of the column of names, per cent.
    """

    title: str
    note: str
    label: str
    rows: tuple[RankView, ...]
    lines: tuple[LastArrival, ...]
    ticks: tuple[RankTick, ...]
    sizes: PixelSizes
    height: int
    left: float


class TimeAxis(NamedTuple):
    """The time axis of a picture, in ns."""

    start_ns: int
    end_ns: int

    def x(self, at_ns: int) -> float:
        """Return the position of a time in per cent."""
        return 100 * (at_ns - self.start_ns) / max(self.end_ns - self.start_ns, 1)


Row = summary_model.Row


def sizes_for(ranks: int) -> PixelSizes:
    """Return the sizes of a picture of a number of ranks."""
    return next((sizes for most, sizes in _SIZES if ranks <= most), _SMALL)


def pictures(section: Section) -> tuple[PictureView, ...]:
    """Return the picture of each step that the section on ranks has."""
    ranks = {int(row["rank"]): row for row in summary_model.rows(section, "ranks")}
    segments, bars = summary_model.rows(section, "segments"), summary_model.rows(section, "collectives")
    found = []
    for step in summary_model.rows(section, "steps"):
        name = step["step"]
        mine = [row for row in segments if row["step"] == name]
        if mine:
            found.append(_picture(step, ranks, mine, [row for row in bars if row["step"] == name]))
    return tuple(found)


def _picture(step: Row, ranks: Mapping[int, Row], segments: Sequence[Row], bars: Sequence[Row]) -> PictureView:
    axis = TimeAxis(int(step["start_ns"]), int(step["end_ns"]))
    drawn = sorted({int(row["rank"]) for row in segments})
    awaited = _awaited(axis, bars)
    sizes = sizes_for(len(drawn))
    rows = []
    for at, number in enumerate(drawn):
        mine = [row for row in segments if row["rank"] == number]
        its = [row for row in bars if row["rank"] == number]
        rows.append(_row(ranks[number], (at, sizes, axis), mine, its, awaited))
    name = elide(str(step["step"]), _NAME_WIDTH)
    late = [row.name for row in rows if row.is_late]
    return PictureView(
        title=f"{name.capitalize()}, {units.duration(step['length_ns'])}",
        note=_note(step),
        label=f"{name} on {len(rows)} ranks" + (f"; late: {', '.join(late)}" if late else ""),
        rows=tuple(rows),
        lines=tuple(_lines(axis, bars, awaited)),
        ticks=tuple(_ticks(axis)),
        sizes=sizes,
        height=len(rows) * sizes.pitch,
        left=0.0 if sizes.head else 7.0,
    )


def _note(step: Row) -> str:
    """Return which step it is, and how many of its collectives are drawn."""
    which = "the median" if step["which"] == "median" else "the longest waits"
    drawn, every = int(step["collective_count"]), int(step["all_collectives"])
    part = f"; the longest {drawn} of {units.count(every)} collectives" if drawn < every else ""
    return f"{which} of {units.counted(int(step['step_count']), 'step')} that all ranks take in the window{part}"


def _row(
    rank: Row,
    place: tuple[int, PixelSizes, TimeAxis],
    segments: Sequence[Row],
    bars: Sequence[Row],
    awaited: Mapping[int, int],
) -> RankView:
    at, sizes, axis = place
    top = at * sizes.pitch + sizes.head
    number, is_late = int(rank["rank"]), bool(rank["late"])
    span = Span(int(segments[0]["start_ns"]), int(segments[-1]["end_ns"]))
    is_labelled = is_late or at % sizes.every == 0
    return RankView(
        name=f"rank {number}, GPU {rank['device_id']}",
        brief=f"rank {number}",
        short=str(number) if is_labelled else "",
        said=said(rank) if sizes.head else "",
        is_late=is_late,
        y=top,
        lane_y=top + sizes.bar + 1,
        anchor=span.anchor,
        segments=_labelled_once([_segment(row, axis, top, sizes) for row in segments]),
        bars=tuple(_bar(row, axis, is_marked=row["is_last"] and row["collective"] in awaited) for row in bars),
    )


def _segment(row: Row, axis: TimeAxis, top: int, sizes: PixelSizes) -> SegmentView:
    left, right = axis.x(int(row["start_ns"])), axis.x(int(row["end_ns"]))
    whole = max(int(row["end_ns"]) - int(row["start_ns"]), 1)
    parts, below = [], float(top + sizes.bar)
    for column, key, fill in PARTS:
        height = sizes.bar * int(row[column]) / whole
        if height >= 0.05:  # noqa: PLR2004 - a twentieth of a pixel cannot be seen
            below -= height
            parts.append(SegmentPart(key, fill, f"{below:.1f}", f"{height:.1f}"))
    labels = _labels(row, parts, left, right) if sizes.head else ()
    return SegmentView(_per_cent(left), _per_cent(right - left), tuple(parts), labels, _title(row))


def _labelled_once(segments: Sequence[SegmentView]) -> tuple[SegmentView, ...]:
    """Return segments; where several have the same text, only the widest keeps it."""
    widest: dict[tuple[str, str], float] = {}
    for one in segments:
        for label in one.labels:
            widest[label.text, label.fits] = max(widest.get((label.text, label.fits), 0.0), float(one.width))
    found = []
    for one in segments:
        kept = [label for label in one.labels if widest.get((label.text, label.fits)) == float(one.width)]
        found.append(one._replace(labels=tuple(kept)))
        widest.update({(label.text, label.fits): -1.0 for label in kept})
    return tuple(found)


def _labels(row: Row, parts: Sequence[SegmentPart], left: float, right: float) -> tuple[SegmentLabel, ...]:
    """Return the longest text that fits on a wide page, and the longest that fits on a narrow one."""
    largest = max(parts, key=lambda part: float(part.height), default=None)
    if largest is None or float(largest.height) < _TEXT_HEIGHT:
        return ()
    texts = _texts(row)
    wide, narrow = (
        next((text for text in texts if len(text) * _LETTER + 6 <= (right - left) / 100 * page), "")
        for page in (_WIDE, _NARROW)
    )
    x, y = _per_cent((left + right) / 2), f"{float(largest.y) + float(largest.height) / 2 + 4:.1f}"
    about = (x, y, largest.key, _TEXT_ON[largest.key])
    if wide == narrow:
        return (SegmentLabel(wide, *about, "both"),) if wide else ()
    shown = [(wide, "wide"), (narrow, "narrow")]
    return tuple(SegmentLabel(text, *about, fits) for text, fits in shown if text)


def _texts(row: Row) -> tuple[str, ...]:
    """Return what a segment is in words, the longest first."""
    if row["what"] == "wait":
        whom = [f"{WAITS} for rank {row['waits_for_rank']}"] if int(row["waits_for_rank"]) >= 0 else []
        return (*whom, WAITS)
    if row["what"] == "transfer":
        return ("transfer",)
    phase = elide(str(row["phase"]), _NAME_WIDTH) if row["phase"] not in ("", "none") else ""
    reason = visible(rule_name(str(row["rule"]))) if row["rule"] else ""
    idles = int(row["idle_ns"]) * 2 > int(row["end_ns"]) - int(row["start_ns"])
    if idles and reason:
        return tuple(text for text in (f"{phase}: {reason}" if phase else reason, phase) if text)
    return (phase,) if phase else ()


def _title(row: Row) -> str:
    """Return a sentence about a segment: what it is, its length, and the parts of its time."""
    length = units.duration(int(row["end_ns"]) - int(row["start_ns"]))
    words = {"compute_ns": "compute", "copies_ns": "copies", "transfer_ns": "transfer", "wait_ns": "waiting"}
    words["idle_ns"] = f"idle ({visible(rule_name(str(row['rule'])))})" if row["rule"] else "idle"
    times = [f"{words[column]} {units.duration(int(row[column]))}" for column, *_ in PARTS if row[column]]
    return f"{(*_texts(row), 'no phase')[0]}, {length}: {', '.join(times)}"


def _bar(row: Row, axis: TimeAxis, *, is_marked: bool) -> CollectiveBar:
    start, arrival, end = (axis.x(int(row[name])) for name in ("start_ns", "arrival_ns", "end_ns"))
    return CollectiveBar(
        _per_cent(start), _per_cent(arrival - start), _per_cent(arrival), _per_cent(end - arrival), is_marked
    )


def _awaited(axis: TimeAxis, bars: Sequence[Row]) -> dict[int, int]:
    """Return the collectives that get a line, with the longest wait of a rank in each, in ns."""
    longest: dict[int, int] = {}
    for row in bars:
        wait = int(row["arrival_ns"]) - int(row["start_ns"])
        longest[int(row["collective"])] = max(longest.get(int(row["collective"]), 0), wait)
    ordered = sorted(longest, key=lambda each: -longest[each])[:_MOST_LINES]
    least = _LINE_SHARE * (axis.end_ns - axis.start_ns)
    return {
        each: longest[each] for at, each in enumerate(ordered) if longest[each] >= least or (not at and longest[each])
    }


def _lines(axis: TimeAxis, bars: Sequence[Row], awaited: Mapping[int, int]) -> Iterator[LastArrival]:
    """Yield the arrival of the last rank at these collectives."""
    for row in bars:
        if row["is_last"] and row["collective"] in awaited:
            wait = units.duration(awaited[row["collective"]])
            title = f"rank {row['rank']} arrives last at this {row['kind']}; the first rank waits {wait}"
            yield LastArrival(_per_cent(axis.x(int(row["arrival_ns"]))), visible(title))


def _ticks(axis: TimeAxis) -> Iterator[RankTick]:
    """Yield round times of the axis, from its start."""
    length = axis.end_ns - axis.start_ns
    least = max(length / _TICKS, 1)
    power = 10 ** (len(str(int(least))) - 1)
    distance = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)
    for at in range(0, length, distance):
        yield RankTick(
            _per_cent(100 * at / length), units.duration(at).replace(".00 ", " ").replace(".0 ", " ") if at else "0"
        )


def _per_cent(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"
