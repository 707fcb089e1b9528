"""The picture of one step of a job: a row for each rank on one time axis, and collectives from arrival to end.

Horizontal positions are per cent of the axis, vertical ones pixels. The height of a colour is its share of a segment,
so its area is its time.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nsyswrap.base import units
from nsyswrap.model import Section
from nsyswrap.render import summary_model
from nsyswrap.render.document import Span
from nsyswrap.render.drawings import Picture, Shape, decimal, shape
from nsyswrap.render.escape import elide, visible
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


def pictures(section: Section) -> tuple[Picture, ...]:
    """Return the picture of each step that the section on ranks has; each rank leads to its time in the timeline."""
    ranks = {int(row["rank"]): row for row in summary_model.rows(section, "ranks")}
    segments, bars = summary_model.rows(section, "segments"), summary_model.rows(section, "collectives")
    found = []
    for step in summary_model.rows(section, "steps"):
        name = step["step"]
        mine = [row for row in segments if row["step"] == name]
        if mine:
            its = [row for row in bars if row["step"] == name]
            found.append(_picture(step, ranks, mine, its))
    return tuple(found)


def _picture(step: Row, ranks: Mapping[int, Row], segments: Sequence[Row], bars: Sequence[Row]) -> Picture:
    axis = TimeAxis(int(step["start_ns"]), int(step["end_ns"]))
    drawn = sorted({int(row["rank"]) for row in segments})
    awaited, sizes = _awaited(axis, bars), sizes_for(len(drawn))
    height, left = len(drawn) * sizes.pitch, 0.0 if sizes.head else 7.0
    tops = {number: at * sizes.pitch + sizes.head for at, number in enumerate(drawn)}
    late = [number for number in drawn if ranks[number]["late"]]
    lanes = []
    for number in drawn:
        mine = [row for row in segments if row["rank"] == number]
        parts = _rank(ranks[number], axis, tops[number], sizes, mine)
        span = Span(int(mine[0]["start_ns"]), int(mine[-1]["end_ns"]))
        lanes.append(
            shape(
                "g",
                "rank-row",
                parts=(
                    *_head(ranks[number], tops[number], sizes),
                    *_linked(ranks[number], parts, span, len(drawn)),
                    *_frame(ranks[number], tops[number], sizes),
                    *(
                        each
                        for row in bars
                        if row["rank"] == number
                        for each in _collective(row, axis, tops[number], sizes)
                    ),
                    *_labels(mine, axis, tops[number], sizes),
                ),
            )
        )
    last = [row for row in bars if row["is_last"] and row["collective"] in awaited]
    inner = (
        *_ticks(axis, height),
        *lanes,
        *(_line(row, axis, awaited, height) for row in last),
        *(_mark(row, axis, tops[int(row["rank"])], sizes) for row in last),
    )
    name = elide(str(step["step"]), _NAME_WIDTH)
    names = ", ".join(_name(ranks[number]) for number in late)
    box: dict[str, Any] = {"x": f"{left}%", "width": f"{100 - left}%", "height": height + 24, "overflow": "visible"}
    shapes = (
        *(_short(number, tops[number], sizes, left, is_late=number in late)
          for at, number in enumerate(drawn) if left and (number in late or at % sizes.every == 0)),
        shape("svg", "", **box, parts=inner),
    )  # fmt: skip
    return Picture(
        shapes,
        height + 24,
        f"{name} on {len(drawn)} ranks" + (f"; late: {names}" if late else ""),
        title=f"{name.capitalize()}, {units.duration(step['length_ns'])}",
        caption=_note(step),
        role="group",
    )


def _name(rank: Row) -> str:
    return f"rank {int(rank['rank'])}, GPU {rank['device_id']}"


def _note(step: Row) -> str:
    """Return which step it is, and how many of its collectives are drawn."""
    which = "the median" if step["which"] == "median" else "the longest waits"
    drawn, every = int(step["collective_count"]), int(step["all_collectives"])
    part = f"; the longest {drawn} of {units.count(every)} collectives" if drawn < every else ""
    steps = units.counted(int(step["step_count"]), "step")
    return f"{which} of {steps} that all ranks take in the window{part}; \N{BLACK DIAMOND} arrives last at a collective"


def _short(number: int, top: int, sizes: PixelSizes, left: float, *, is_late: bool) -> Shape:
    """Return the number of a rank beside its bar, where bars are too close for names above them."""
    is_small = sizes.bar < 10  # noqa: PLR2004 - pixels; ours, smaller bars have smaller numbers
    place: dict[str, Any] = {"x": f"{left - 1}%", "y": top + sizes.bar - (0 if is_small else 2), "text_anchor": "end"}
    look = "rank-name late" if is_late else "rank-name"
    place |= {"font_weight": 650} if is_late else {}
    return shape("text", look, words=str(number), **place, font_size=10 if is_small else 12, fill="#16202C")


def _head(rank: Row, top: int, sizes: PixelSizes) -> Iterator[Shape]:
    """Yield the name of a rank above its bar, and why others wait for it, where there is room."""
    if not sizes.head:
        return
    why = said(rank)
    words = [shape("tspan", "", words=_name(rank), font_weight=650)]
    words += [shape("tspan", "rank-said", words=why, dx=8)] if why else []
    look = "rank-name late" if rank["late"] else "rank-name"
    yield shape("text", look, x=0, y=top - 5, font_size=12, fill="#16202C", parts=tuple(words))


def _linked(rank: Row, parts: tuple[Shape, ...], span: Span, ranks: int) -> tuple[Shape, ...]:
    """Return the bar of a rank as a link to its time; of many ranks, the tab key reaches the late ones."""
    is_late = bool(rank["late"])
    named = {"href": f"#{span.anchor}", **({"tabindex": "-1"} if ranks > _SIZES[-1][0] and not is_late else {})}
    title = f"{_name(rank)}{', late' if is_late else ''}, in the timeline"
    return (Shape("a", named, title=title, parts=parts),)


def _rank(rank: Row, axis: TimeAxis, top: int, sizes: PixelSizes, segments: Sequence[Row]) -> tuple[Shape, ...]:
    """Return the bar of a rank: its ground and its segments."""
    ground = shape("rect", "hit", width="100%", y=top, height=sizes.bar, fill="#929292", fill_opacity=".12")
    drawn = []
    for row in segments:
        left, right = axis.x(int(row["start_ns"])), axis.x(int(row["end_ns"]))
        place: dict[str, Any] = {"x": f"{decimal(left)}%", "width": f"{decimal(right - left)}%"}
        parts = tuple(
            shape("rect", f"p-{key}", **place, y=f"{y:.1f}", height=f"{height:.1f}", fill=fill)
            for key, fill, y, height in _stack(row, top, sizes)
        )
        drawn.append(Shape("g", {"aria-hidden": "true"}, title=f"rank {int(rank['rank'])}: {_title(row)}", parts=parts))
    return (ground, *drawn)


def _stack(row: Row, top: int, sizes: PixelSizes) -> list[tuple[str, str, float, float]]:
    """Return key, fill, top and height in pixels of each colour of a segment."""
    whole, below, found = max(int(row["end_ns"]) - int(row["start_ns"]), 1), float(top + sizes.bar), []
    for column, key, fill in PARTS:
        height = sizes.bar * int(row[column]) / whole
        if height >= 0.05:  # noqa: PLR2004 - a twentieth of a pixel cannot be seen
            below -= height
            found.append((key, fill, below, height))
    return found


def _frame(rank: Row, top: int, sizes: PixelSizes) -> Iterator[Shape]:
    if rank["late"]:
        yield shape(
            "rect", "rank-frame", width="100%", y=top - 1, height=sizes.bar + 2, fill="none", stroke="#B3261E",
            stroke_width=1.5, pointer_events="none",
        )  # fmt: skip


def _collective(row: Row, axis: TimeAxis, top: int, sizes: PixelSizes) -> Iterator[Shape]:
    """Yield a collective on one rank below its bar: where it waits, and where it transfers."""
    start, arrival, end = (axis.x(int(row[name])) for name in ("start_ns", "arrival_ns", "end_ns"))
    place = {"y": str(top + sizes.bar + 1), "height": str(sizes.lane)}
    if (width := decimal(arrival - start)) != "0":
        x = f"{decimal(start)}%"
        waits = {"class": "p-rank_wait", "x": x, "width": f"{width}%", **place, "fill": "#B5638F"}
        yield Shape("rect", {**waits, "fill-opacity": ".6"})
    x, width = f"{decimal(arrival)}%", f"{decimal(end - arrival)}%"
    yield Shape("rect", {"class": "p-communication", "x": x, "width": width, **place, "fill": "#873267"})


def _labels(segments: Sequence[Row], axis: TimeAxis, top: int, sizes: PixelSizes) -> Iterator[Shape]:
    """Yield the text of each segment: the longest that fits on a wide page, and the longest that fits on a narrow one.

    Where several segments have the same text, only the widest has it.
    """
    widest: dict[tuple[str, str], tuple[float, Shape]] = {}
    for row in segments if sizes.head else ():
        key, _, y, height = max(_stack(row, top, sizes), key=lambda part: part[-1], default=("", "", 0.0, 0.0))
        if height < _TEXT_HEIGHT:
            continue
        left, right = axis.x(int(row["start_ns"])), axis.x(int(row["end_ns"]))
        wide, narrow = (
            next((text for text in _texts(row) if len(text) * _LETTER + 6 <= (right - left) / 100 * page), "")
            for page in (_WIDE, _NARROW)
        )
        place: dict[str, Any] = {
            "x": f"{decimal((left + right) / 2)}%",
            "y": f"{y + height / 2 + 4:.1f}",
            "font_size": 12,
        }
        for text, fits in [(wide, "both")] if wide == narrow else [(wide, "wide"), (narrow, "narrow")]:
            hidden: dict[str, Any] = {"display": "none"} if fits == "narrow" else {}
            drawn = shape(
                "text", f"rank-text on-{key} {fits}", words=text, **place, text_anchor="middle", fill=_TEXT_ON[key],
                **hidden, aria_hidden="true",
            )  # fmt: skip
            if text and right - left > widest.get((text, fits), (0.0, drawn))[0]:
                widest[text, fits] = right - left, drawn
    yield from (drawn for _, drawn in widest.values())


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


def _line(row: Row, axis: TimeAxis, awaited: Mapping[int, int], height: int) -> Shape:
    """Return the arrival of the last rank at a collective as a line through all ranks."""
    x, wait = f"{decimal(axis.x(int(row['arrival_ns'])))}%", units.duration(awaited[row["collective"]])
    title = visible(f"rank {row['rank']} arrives last at this {row['kind']}; the first rank waits {wait}")
    return shape(
        "line", "median", title=title, x1=x, x2=x, y2=height, stroke="#16202C", stroke_dasharray="2 3",
        stroke_opacity=".7",
    )  # fmt: skip


def _mark(row: Row, axis: TimeAxis, top: int, sizes: PixelSizes) -> Shape:
    """Return the mark of the last rank at a collective, on its lane."""
    x, y, half = f"{decimal(axis.x(int(row['start_ns'])))}%", top + sizes.bar + 1 + sizes.lane / 2, sizes.mark
    path = shape("path", "mark", d=f"M0 {-half}L{half} 0L0 {half}L{-half} 0Z", fill="#16202C")
    return shape("svg", "", x=x, y=y, width=1, height=1, overflow="visible", parts=(path,))


def _ticks(axis: TimeAxis, height: int) -> Iterator[Shape]:
    """Yield round times of the axis, from its start."""
    length = axis.end_ns - axis.start_ns
    least = max(length / _TICKS, 1)
    power = 10 ** (len(str(int(least))) - 1)
    distance = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)
    for at in range(0, length, distance):
        x = f"{decimal(100 * at / length)}%"
        words = units.duration(at).replace(".00 ", " ").replace(".0 ", " ") if at else "0"
        middle: dict[str, Any] = {"text_anchor": "middle"} if at else {}
        yield shape("line", "ground", x1=x, x2=x, y2=height, stroke="#929292", stroke_opacity=".3")
        yield shape("text", "rank-tick", words=words, x=x, y=height + 17, font_size=12, fill="#55616F", **middle)
