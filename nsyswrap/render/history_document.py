"""The history as a page: the trend of each program, where its level changes, what moved there, and its runs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.gate.change_points import SeriesShape
from nsyswrap.gate.recorded import run_name
from nsyswrap.gate.timed_runs import noise_words, parts_of_accounts
from nsyswrap.gate.trends import Level, LevelChange, PartMove, Trend
from nsyswrap.render.distinct_names import shorten_all
from nsyswrap.render.document import PAGE, Block, Column, Document, DocumentSection, Facts, Hero, Lines, Pictures, Table
from nsyswrap.render.drawings import Picture, Shape, decimal, difference_bar, shape
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.measured_hero import MeasuredTime, hero
from nsyswrap.render.run_document import commit_of, spread, started
from nsyswrap.rules import rule_name
from nsyswrap.runs.run import ListedProgram, RunRow

_TITLE_WIDTH = 70
_ARGUMENTS_WIDTH = 160
_CONTENTS_WIDTH = 36
# So many changes are in the verdict; the sections have all.
_MOST_NAMED = 3
# The fewest runs in which a change can be found: two on each side. Source: change_points.
_FEWEST = 4
_CHARTS = (
    "The charts show the time per step of each run, in order of commits. Blue: level, and noise of unchanged runs. "
    "Ticks: another commit. A run leads to its report, or to its row in the list. The scales do not begin at 0."
)
_HEIGHT = 190
# Room above the highest and below the lowest run, as a share of the scale; a flat series has a scale of this much.
_ROOM = 0.08
_LEAST_SCALE = 0.04
# A run this many times as long as the longest level is drawn at the edge: it would press all others together.
_MOST = 1.5
_BAND = 4.0


class HistoryPage(NamedTuple):
    """What the page shows.

    Attributes:
        trends: The programs, the last one that ran first.
        reports: Address of the report of each run, by its id, relative to the page; only of those that are there.
        others: Programs without a section.
    """

    trends: Sequence[Trend]
    reports: Mapping[str, str]
    others: Sequence[ListedProgram]
    run_count: int


def document(page: HistoryPage) -> Document:
    """Return the history as a document."""
    names = [f"{one.program.program.rpartition('/')[2]} {one.program.arguments or ''}".strip() for one in page.trends]
    brief = shorten_all(names, _CONTENTS_WIDTH)
    numbered = enumerate(zip(page.trends, brief, strict=True), 1)
    charts = (_CHARTS,) if any(len(one.runs) > 1 for one in page.trends) else ()
    return Document(
        command="history",
        title=units.counted(page.run_count, "run"),
        about=(("programs", units.count(len(page.trends) + len(page.others))),),
        verdict=verdict(page.trends),
        lead=(*_hero(page.trends), Lines(charts, "fine", PAGE)),
        sections=(
            *(_program(f"program-{number}", trend, page.reports, name) for number, (trend, name) in numbered),
            DocumentSection(
                "others",
                "Other programs",
                "they ran less recently; to see one: history page --program NAME",
                (_others(page.others),),
            ),
        ),
        scripts=("history.js",),
    )


def _others(listed: Sequence[ListedProgram]) -> Table:
    return Table(
        "others",
        "Other programs",
        (
            Column("program", "program", "text", [_words(one) for one in listed]),
            Column("count", "runs", "count", [one.run_count for one in listed]),
            Column("last", "last started", "text", [one.last_started_utc[:10] for one in listed]),
        ),
    )


def _words(listed: ListedProgram) -> str:
    program = listed.program
    gpus = f", {units.times(program.gpu_count, program.gpu)}" if program.gpu and program.gpu_count else ""
    return elide(f"{program.program} {program.arguments}".strip() + gpus, _ARGUMENTS_WIDTH)


def verdict(trends: Sequence[Trend]) -> str:
    """Return in some sentences which programs became slower or faster with their last change of level."""
    changed = [one for one in trends if one.changes and one.changes[-1].is_of_commit is not False]
    slower, faster = ([one for one in changed if (one.changes[-1].share > 0) is more] for more in (True, False))
    sentences = []
    for some, word in ((slower, "slower"), (faster, "faster")):
        last = [(one, one.changes[-1]) for one in some]
        named = [
            f"{_short(one)} is {word} since {_since(one, at)} ({units.change(at.share)} a step)" for one, at in last
        ]
        sentences += [f"{each}." for each in named[:_MOST_NAMED]]
        if len(named) > _MOST_NAMED:
            sentences.append(f"{len(named) - _MOST_NAMED} more are {word}, too.")
    drifts = [one for one in trends if one.shape is SeriesShape.DRIFT]
    sentences += [f"{_short(one)} drifts by {units.change(one.drift)}." for one in drifts[:_MOST_NAMED]]
    if not sentences and all(len(one.runs) < _FEWEST for one in trends):
        return f"No program has {_FEWEST} runs, the fewest that can show a change."
    return " ".join(sentences) or "No program changed its step time with a commit."


def _hero(trends: Sequence[Trend]) -> tuple[Hero, ...]:
    """Return the step before and after the last change of level of the program that changed most."""
    changed = [one for one in trends if one.changes and one.changes[-1].is_of_commit is not False]
    most = max(changed, key=lambda one: abs(one.changes[-1].share), default=None)
    if most is None:
        return ()
    before, after = most.levels[-2:]
    since = _since(most, most.changes[-1])
    times = MeasuredTime(f"{_short(most)} before", before.middle_ns), MeasuredTime(f"since {since}", after.middle_ns)
    return hero(*times, sure="measured, middle of the runs of each level")


def _short(trend: Trend) -> str:
    return elide(f"{trend.program.program} {trend.program.arguments}".strip(), _TITLE_WIDTH)


def _since(trend: Trend, change: LevelChange) -> str:
    return run_name(trend.runs[change.first].row)


def _program(key: str, trend: Trend, reports: Mapping[str, str], brief: str) -> DocumentSection:
    program = trend.program
    anchors = {one.row.run_id: f"{key}-run-{at}" for at, one in enumerate(trend.runs, 1)}
    gpus = units.times(program.gpu_count, program.gpu) if program.gpu and program.gpu_count else "none"
    ranks = f"{program.rank} of {program.ranks}" if program.rank else str(program.ranks)
    about = (("GPUs", gpus), ("rank" if program.rank else "ranks", ranks), ("machine", program.host or "unknown"))
    links = {run_id: reports.get(run_id, f"#{anchor}") for run_id, anchor in anchors.items()}
    title = elide(program.program or "unknown program", _TITLE_WIDTH)
    blocks = (
        Facts(about),
        Lines((sentence(trend),)),
        Lines(tuple(_notes(trend)), "fine"),
        Pictures((_chart(trend, links, title),) if len(trend.runs) > 1 else ()),
        *(block for at, one in enumerate(trend.changes, 1) for block in _change(f"{key}-change-{at}", at, trend, one)),
        _runs(key, trend, anchors, reports),
    )
    return DocumentSection(key, title, elide(program.arguments or "", _ARGUMENTS_WIDTH), blocks, brief)


def sentence(trend: Trend) -> str:
    """Return what the step of a program does."""
    if not trend.runs:
        return "No run has measured steps."
    last = trend.levels[-1]
    now = units.duration(last.middle_ns)
    noise = f" Unchanged runs may differ by {noise_words(last.noise)}." if math.isfinite(last.noise) else ""
    if trend.shape is SeriesShape.DRIFT:
        return f"A step drifts by {units.change(trend.drift)} from the first of these runs to the last."
    if trend.changes:
        change = trend.changes[-1]
        return f"A step takes {now} since {_since(trend, change)}, {units.change(change.share)}.{_why(change)}{noise}"
    if len(trend.runs) < _FEWEST:
        return f"A step takes {now}. To find a change it takes at least {_FEWEST} runs."
    return f"A step takes {now}, and its level does not change.{noise}"


def _why(change: LevelChange) -> str:
    others = "".join(f" {each}" for each in change.others)
    if change.is_of_commit is None:
        return f"{others} The commit is unknown there."
    return others + (
        "" if change.is_of_commit else " The commit is the same there, so look at the machine and the data."
    )


def _notes(trend: Trend) -> Iterator[str]:
    shown = len(trend.runs) + trend.without_steps
    if trend.run_count > shown:
        yield f"The last {shown} of {units.count(trend.run_count)} runs are read; --runs reads more."
    if trend.without_steps:
        runs = "1 run has" if trend.without_steps == 1 else f"{trend.without_steps} runs have"
        yield f"{runs} no measured steps."


def _change(name: str, number: int, trend: Trend, change: LevelChange) -> Iterator[Block]:
    """Yield a change of level, with the parts of a step that moved."""
    before, after = trend.levels[number - 1], trend.levels[number]
    times = f"{units.duration(after.middle_ns)} instead of {units.duration(before.middle_ns)}"
    words = f"{number}. {units.change(change.share)} a step since {_since(trend, change)} ({times}).{_why(change)}"
    if not change.moved:
        yield Lines((words,))
    yield Table(name, words, _moves(change.moved), is_titled=True, most={"html": len(change.moved)})


def _moves(moved: Sequence[PartMove]) -> tuple[Column, ...]:
    most = max((abs(one.delta_ns) for one in moved), default=0.0)
    deltas = [round(one.delta_ns) for one in moved]
    return (
        Column("part", "part of a step", "text", [one.words for one in moved]),
        Column("before_ns", "before", "ns", [round(one.before_ns) for one in moved]),
        Column("after_ns", "after", "ns", [round(one.after_ns) for one in moved]),
        Column("delta_ns", "difference", "ns", deltas, [units.difference(one.delta_ns, "ns") for one in moved]),
        Column("", "less | more", "picture", [difference_bar(one.delta_ns, most) for one in moved]),
    )


def _runs(key: str, trend: Trend, anchors: Mapping[str, str], reports: Mapping[str, str]) -> Table:
    """Return the runs, the newest first as `history list` has them; the script reads their parts, in ns a step."""
    runs = trend.runs[::-1]
    rows, parts = [one.row for one in runs], [parts_of_accounts(one.accounts) for one in runs]
    names = list(dict.fromkeys(name for each in reversed(parts) for name in each))
    attributes = tuple(
        {
            "id": anchors[row.run_id],
            "data-words": visible(describe(row)),
            "data-mean": str(round(row.mean_ns or 0.0)),
            "data-parts": " ".join(str(round(each.get(name, 0.0))) for name in names),
        }
        for row, each in zip(rows, parts, strict=True)
    )
    return Table(
        f"{key}-runs",
        f"Runs of {elide(trend.program.program, _TITLE_WIDTH)}",
        (
            Column(
                "run", "run", "text", [row.run_id[:10] for row in rows],
                links=[reports.get(row.run_id, "") for row in rows],
            ),
            Column("started", "started (UTC)", "text", [started(row) for row in rows]),
            Column("commit", "commit", "text", [commit_of(row) for row in rows]),
            Column("mean_ns", "time per step", "ns", [round(row.mean_ns or 0.0) for row in rows]),
            Column("median_ns", "median step", "ns", [row.median_ns for row in rows]),
            Column("spread", "p05 to p95", "text", [spread(row) for row in rows]),
            Column("limit", "limited by", "text", [row.verdict_rule and rule_name(row.verdict_rule) for row in rows]),
        ),
        most={"html": len(rows)},
        folded=PAGE,
        row_attributes=attributes,
        attributes={"data-names": "\n".join(map(visible, names))},
    )  # fmt: skip


def describe(row: RunRow) -> str:
    """Return a run in words: its name, its start and its time per step."""
    changes = " with changes" if row.is_dirty else ""
    when = f", {started(row)} UTC" if row.started_utc else ""
    return f"{run_name(row)}{changes}{when}: {units.duration(row.mean_ns or 0.0)} a step"


def _chart(trend: Trend, links: Mapping[str, str], title: str) -> Picture:
    """Return the time per step of each run: levels with their noise, changes, commits, and a dot for a run."""
    times = [one.row.mean_ns or 0.0 for one in trend.runs]
    low, high = _scale(times, trend.levels)
    above = sum(ns > high for ns in times)
    longer = f"{above} longer run{'' if above == 1 else 's'} at the upper edge." if above else ""
    return Picture(
        tuple(_shapes(trend, links, low, high)),
        _HEIGHT,
        f"Time per step of {len(times)} runs of {title}",
        edges=(units.duration(high), units.duration(low)),
        ends=(run_name(trend.runs[0].row), run_name(trend.runs[-1].row)),
        note=longer,
    )


def _shapes(trend: Trend, links: Mapping[str, str], low: float, high: float) -> Iterator[Shape]:
    count = len(trend.runs)

    def x(place: float) -> str:
        return f"{decimal(100 * place / count)}%"

    def y(ns: float) -> float:
        return _HEIGHT * (1 - (min(max(ns, low), high) - low) / (high - low))

    yield shape("rect", "ground-fill", width="100%", height=_HEIGHT, fill="#929292", fill_opacity=".08")
    for level in () if trend.shape is SeriesShape.DRIFT else trend.levels:
        # The level itself where the noise is unknown.
        noise = level.noise if math.isfinite(level.noise) and level.noise < _BAND else 0.0
        top, bottom = y(level.middle_ns * (1 + noise)), y(level.middle_ns / (1 + noise))
        band = {"y": decimal(top), "height": decimal(bottom - top), "fill": "#0054A9", "fill-opacity": ".16"}
        yield Shape("rect", {"class": "noise", "x": x(level.first), "width": x(level.end - level.first), **band})
        middle = decimal(y(level.middle_ns))
        yield shape(
            "line", "level", x1=x(level.first), x2=x(level.end), y1=middle, y2=middle, stroke="#0054A9", stroke_width=2
        )
    states = [(one.row.commit, one.row.is_dirty) for one in trend.runs]
    for at in range(1, count):
        if states[at] != states[at - 1]:
            yield shape("line", "middle", x1=x(at), x2=x(at), y1=_HEIGHT - 7, y2=_HEIGHT, stroke="#55616F")
    for at, change in enumerate(trend.changes, 1):
        place = x(change.first)
        yield shape("line", "change", x1=place, x2=place, y2=_HEIGHT, stroke="#16202C", stroke_dasharray="4 3")
        yield shape("text", "word", words=str(at), x=place, dx=4, y=13, font_size=12, fill="#16202C")
    for at, one in enumerate(trend.runs):
        ns = one.row.mean_ns or 0.0
        look, inner = ("run above", "none") if ns > high else ("run", "#16202C")
        yield shape(
            "circle", look, title=describe(one.row), href=links[one.row.run_id],
            cx=x(at + 0.5), cy=decimal(y(ns)), r=4, fill=inner, stroke="#16202C",
        )  # fmt: skip


def _scale(times: Sequence[float], levels: Sequence[Level]) -> tuple[float, float]:
    """Return the edges of the scale: it holds the runs and the levels, and not much more."""
    longest = max(one.middle_ns for one in levels)
    most = min(max(times), _MOST * longest)
    low, high = min(times), max(most, longest)
    room = max(_ROOM * (high - low), _LEAST_SCALE / 2 * high)
    return max(low - room, 0.0), high + room
