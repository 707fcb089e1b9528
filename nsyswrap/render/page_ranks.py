"""The ranks on a page: a headline, the picture of a step, the table rank by rank, and who waits for whom."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nsyswrap.base import units
from nsyswrap.model import Report, Section
from nsyswrap.render import charts, report_cards, summary_model
from nsyswrap.render.charts import LegendRow
from nsyswrap.render.document import PAGE, PAGES, SLIM, Bars, Block, Column, Fold, Lines, Pictures, Table, times
from nsyswrap.render.drawings import Picture, shape
from nsyswrap.render.rank_picture import PARTS, pictures, sizes_for
from nsyswrap.render.rank_rows import MOST_BY_NUMBER, in_order, reason, why
from nsyswrap.render.summary_model import Row
from nsyswrap.rules.ranks import LATE, WITHOUT_CAUSE

# Segments of the pictures on the slim page. Ours: the page is to stay below 60 kB.
_SLIM_SEGMENTS = 12
# Pixels: the most width of the drawn matrix and of a cell. A cell is as high as a row of the picture beside it.
_MATRIX_WIDTH, _WIDEST_CELL = 320, 20
# The headline names a rank that is not late beyond chance from this share of its time on. Ours.
_NAMED_SHARE = 0.05
# Shades of a cell, by share of the longest wait. Ours. Cells below the first are blank.
_SHADES = (0.02, 0.1, 0.25, 0.5, 0.75)
_OPACITIES = (".12", ".3", ".5", ".75", "1")
_LABELS = {
    "compute": "compute",
    "copy": "copies and memsets",
    "communication": "transfer",
    "rank_wait": "waiting for other ranks",
    "idle": "idle",
}
_LEGEND = tuple(LegendRow(key, _LABELS[key], "", fill, "", "", "0", "") for _, key, fill in PARTS)


def ranks(report: Report) -> Iterator[Block]:
    """Yield the blocks of a page about the ranks; none where the report has none or one rank only.

    A slim page has the pictures where they are small, else the first ranks of the table.
    """
    section = report.section("ranks")
    found = summary_model.rows(section, "ranks")
    if section is None or not found:
        return
    is_of_steps = section.window.is_of_steps
    measure = "mean step" if is_of_steps else "window"
    said, links = zip(*_said(report, found, "a step" if is_of_steps else "in the window"), strict=True)
    yield Lines(said, "headline", PAGES, links)
    yield Bars((), _LEGEND, forms=PAGES)
    steps = pictures(section)
    is_small = bool(steps) and len(summary_model.rows(section, "segments")) <= _SLIM_SEGMENTS
    waits = matrix(section, {int(row["rank"]) for row in found if row["late"]}, measure)
    beside = (waits,) if isinstance(waits, Picture) else ()
    yield Pictures((*steps, *beside), is_wide=True)
    yield Pictures(steps if is_small else (), SLIM, is_wide=True)
    yield _table(found, measure, is_slim=not is_small)
    yield Fold("Who waits for whom", (waits,) if isinstance(waits, Table) else ())
    yield Lines(section.notes, "fine", PAGES)


def _said(report: Report, rows: Sequence[Row], measure: str) -> tuple[tuple[str, str], ...]:
    """Return the headlines on late ranks, each with the anchor of its finding; without any, that none is late."""
    late = [
        (view.headline, view.anchor)
        for group, view in zip(summary_model.finding_groups(report), report_cards.cards(report), strict=True)
        if group[0].rule == LATE.key
    ]
    if late:
        return tuple(late)
    waited = units.share_of(sum(row["wait_ns"] for row in rows), sum(row["length_ns"] for row in rows))
    first = max(rows, key=lambda row: int(row["waited_for_ns"]))
    longest = ""
    if first["rule"] not in WITHOUT_CAUSE and first["waited_for_ns"] >= _NAMED_SHARE * first["length_ns"]:
        time = units.duration(int(first["waited_for_ns"]))
        longest = f" Longest for rank {first['rank']}, {time} {measure}: {why(first)}."
    return ((f"No rank is late beyond chance. Ranks wait for one another for {waited} of their time.{longest}", ""),)


def _table(found: Sequence[Row], measure: str, *, is_slim: bool) -> Table:
    """Return the ranks, each with its bar on the scale of the longest one."""
    longest, ordered = max(int(row["length_ns"]) for row in found), in_order(found)
    fills = [(key, fill) for _, key, fill in PARTS]
    bars = []
    for row in ordered:
        parts = [int(row[column]) for column, *_ in PARTS]
        bars.append(charts.cell_bar([*fills, ("", "")], [*parts, longest - sum(parts)]))
    late = ["late" if row["late"] else "" for row in ordered]
    labels = {
        "length_ns": measure.rsplit(maxsplit=1)[-1],
        "compute_ns": "compute",
        "copies_ns": "copies",
        "wait_ns": "waiting",
    }
    labels |= {"transfer_ns": "transfer", "idle_ns": "idle", "waited_for_ns": "others wait"}
    columns = (
        Column("rank", "rank", "number", [int(row["rank"]) for row in ordered], tags=late),
        Column("device_id", "GPU", "number", [int(row["device_id"]) for row in ordered]),
        Column("", "colours as above", "picture", bars),
        *(times(name, label, [int(row[name]) for row in ordered]) for name, label in labels.items()),
        Column("why", "first cause", "text", list(map(reason, ordered))),
    )
    return Table(
        "ranks-ranks",
        f"{measure.capitalize()} of each rank",
        columns,
        forms=PAGES if is_slim else PAGE,
        noun="ranks",
        is_titled=True,
        row_attributes=tuple({"class": "late-rank"} if each else {} for each in late),
    )


def matrix(section: Section, late: set[int], measure: str) -> Table | Picture | None:
    """Return who waits for whom: numbers for a few ranks, else a picture; None where none does."""
    rows = summary_model.rows(section, "matrix")
    if not rows:
        return None
    numbers = sorted(int(row["rank"]) for row in summary_model.rows(section, "ranks"))
    size = max(-(-len(numbers) // 64), 1)
    groups = [(part[0], part[-1]) for part in (numbers[at : at + size] for at in range(0, len(numbers), size))]
    place = {first: at for at, (first, _) in enumerate(groups)}
    names = tuple(str(first) if first == last else f"{first} to {last}" for first, last in groups)
    waits = {
        (place[int(row["waiting_first"])], place[int(row["late_first"])]): int(row["mean_wait_ns"]) for row in rows
    }
    most = max(waits.values(), default=0) or 1
    shades = {where: sum(ns >= share * most for share in _SHADES) for where, ns in waits.items()}
    title = f"Who waits for whom, {measure}"
    if len(groups) > MOST_BY_NUMBER:
        is_late = [any(first <= one <= last for one in late) for first, last in groups]
        marks = [(at, str(groups[at][0]), is_late[at]) for at in range(len(groups))]
        every = max(len(groups) // 8, 1)
        shown = [mark for mark in marks if mark[-1] or mark[0] % every == 0]
        drawn = _map(shades, len(groups), shown, _longest(waits, names))
        return drawn._replace(title=title, caption="row waits for column")
    every_rank = range(len(groups))
    columns = (
        Column("waiting", "waiting", "text", [f"rank {name} waits" for name in names]),
        *(
            times(f"for_{name}_ns", f"for rank {name}", [waits.get((at, to), 0) for at in every_rank])._replace(
                cells=[units.duration(waits[at, to]) if waits.get((at, to)) else "" for at in every_rank],
                shades=[shades.get((at, to), 0) for at in every_rank],
            )
            for to, name in enumerate(names)
        ),
    )
    return Table("ranks-matrix", title, columns, is_titled=True)


def _map(
    shades: Mapping[tuple[int, int], int], count: int, marks: Sequence[tuple[int, str, bool]], longest: str
) -> Picture:
    """Return the shades of all pairs as a picture, with labels of some rows and columns."""
    across, down = min(_WIDEST_CELL, _MATRIX_WIDTH // count), sizes_for(count).pitch
    width, height = across * count, down * count
    shapes = [shape("rect", "ground", width=width, height=height, fill="#929292", fill_opacity=".12")]
    for column, row, rows, shade in _blocks(shades, count):
        place: dict[str, Any] = {"x": column * across, "y": row * down, "width": across, "height": rows * down}
        shapes.append(shape("rect", "p-rank_wait", **place, fill="#B5638F", fill_opacity=_OPACITIES[shade - 1]))
    for at, text, is_late in marks:
        look, bold = "rank-name late" if is_late else "rank-name", {"font_weight": 650} if is_late else {}
        for x, y, anchor in ((-5, (at + 0.5) * down + 3, "end"), ((at + 0.5) * across, height + 14, "middle")):
            words: dict[str, Any] = {
                "words": text,
                "x": x,
                "y": y,
                "text_anchor": anchor,
                "font_size": 12,
                "fill": "#16202C",
                **bold,
            }
            shapes.append(shape("text", look, **words))
    inner = shape("svg", "", x=40, width=width, height=height + 24, overflow="visible", parts=tuple(shapes))
    return Picture((inner,), height + 24, f"Who waits for whom; {longest}", width=str(width + 44))


def _blocks(shades: Mapping[tuple[int, int], int], count: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the cells of each column as few blocks, each of one shade: column, first row, number of rows, shade."""
    for column in range(count):
        first = 0
        for row in range(1, count + 1):
            shade = shades.get((first, column), 0)
            if row == count or shades.get((row, column), 0) != shade:
                if shade:
                    yield column, first, row - first, shade
                first = row


def _longest(times: dict[tuple[int, int], int], names: Sequence[str]) -> str:
    """Return the longest wait of all pairs in words."""
    (waiting, late), ns = max(times.items(), key=lambda pair: (pair[1], (-pair[0][0], -pair[0][1])))
    return f"longest: {names[waiting]} waits {units.duration(ns)} for {names[late]}"
