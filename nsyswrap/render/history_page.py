"""The history as one HTML page in the style of the report: the trend of each program, without network or script.

The template escapes all values; texts that programs and users chose go through ``visible`` first.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nsyswrap import units
from nsyswrap.gate import noise_words
from nsyswrap.gate.change_points import Shape
from nsyswrap.gate.recorded import parts_of_run, run_name
from nsyswrap.gate.trends import LevelChange, PartMove, Trend
from nsyswrap.render import overview_page
from nsyswrap.render.distinct_names import shorten_all
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.history_chart import HEIGHT, RunChart, describe, run_chart
from nsyswrap.rules import rule_name
from nsyswrap.runs.run import ListedProgram, RunRow

STYLES = ("page.css", "tables.css", "history.css")
SCRIPTS = ("copying.js", "page.js", "tables.js", "history.js")
_TITLE_WIDTH = 70
_ARGUMENTS_WIDTH = 160
_CONTENTS_WIDTH = 36
# So many changes are in the verdict; the sections have all.
_MOST_NAMED = 3
# The fewest runs in which a change can be found: two on each side. Source: change_points.
_FEWEST = 4


class MoveRow(NamedTuple):
    """A part of a step that moved: its words, its times, and its difference as a bar about the middle."""

    words: str
    before: str
    after: str
    delta: str
    x: str
    width: str
    less: bool


class ChangeView(NamedTuple):
    """A change of level: its number, a sentence, and what moved."""

    number: int
    words: str
    slower: bool
    rows: tuple[MoveRow, ...]


class RunLine(NamedTuple):
    """A run as a row of the table; ``parts`` are whole ns a step, in the order of the section's names."""

    anchor: str
    name: str
    href: str
    started: str
    commit: str
    mean: str
    mean_ns: int
    median: str
    median_ns: str
    spread: str
    limit: str
    words: str
    parts: str


class ProgramView(NamedTuple):
    """The section of a program."""

    key: str
    title: str
    arguments: str
    about: tuple[tuple[str, str], ...]
    sentence: str
    notes: tuple[str, ...]
    chart: RunChart | None
    changes: tuple[ChangeView, ...]
    names: str
    runs: tuple[RunLine, ...]


class HistoryPage(NamedTuple):
    """What the page shows.

    Attributes:
        trends: The programs, the last one that ran first.
        reports: Address of the report of each run, by its id, relative to the page; only of those that are there.
        others: Programs without a section.
        run_count: Number of all runs.
    """

    trends: Sequence[Trend]
    reports: Mapping[str, str]
    others: Sequence[ListedProgram]
    run_count: int


def render(page: HistoryPage) -> str:
    """Return the history as one self-contained HTML page."""
    return overview_page.render("history.html.j2", STYLES, SCRIPTS, _values(page))


def _values(page: HistoryPage) -> dict[str, Any]:
    programs = [_program(number, trend, page.reports) for number, trend in enumerate(page.trends, 1)]
    contents = [("verdict", "Verdict"), *zip((one.key for one in programs), _brief(page.trends), strict=True)]
    others = [(_words(one), units.count(one.run_count), one.last_started_utc[:10]) for one in page.others]
    return {
        "title": units.counted(page.run_count, "run"),
        "about": [("programs", units.count(len(page.trends) + len(page.others)))],
        "verdict": visible(verdict(page.trends)),
        "programs": programs,
        "others": [tuple(map(visible, row)) for row in others],
        "contents": [*contents, *([("others", "Other programs")] if others else [])],
        "height": HEIGHT,
    }


def _brief(trends: Sequence[Trend]) -> list[str]:
    """Return the programs without their folders, cut so that they stay different."""
    names = [f"{one.program.program.rpartition('/')[2]} {one.program.arguments or ''}".strip() for one in trends]
    return shorten_all(list(map(visible, names)), _CONTENTS_WIDTH)


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
        named = [f"{_short(one)} is {word} since {_since(one, one.changes[-1])} ({_share(one)})" for one in some]
        sentences += [f"{each}." for each in named[:_MOST_NAMED]]
        if len(named) > _MOST_NAMED:
            sentences.append(f"{len(named) - _MOST_NAMED} more are {word}, too.")
    drifts = [one for one in trends if one.shape is Shape.DRIFT]
    sentences += [f"{_short(one)} drifts by {units.change(one.drift)}." for one in drifts[:_MOST_NAMED]]
    if not sentences and all(len(one.runs) < _FEWEST for one in trends):
        return f"No program has {_FEWEST} runs, the fewest that can show a change."
    return " ".join(sentences) or "No program changed its step time with a commit."


def _short(trend: Trend) -> str:
    return elide(f"{trend.program.program} {trend.program.arguments}".strip(), _TITLE_WIDTH)


def _since(trend: Trend, change: LevelChange) -> str:
    return run_name(trend.runs[change.first].row)


def _share(trend: Trend) -> str:
    return f"{units.change(trend.changes[-1].share)} a step"


def _program(number: int, trend: Trend, reports: Mapping[str, str]) -> ProgramView:
    key, program = f"program-{number}", trend.program
    anchors = {one.row.run_id: f"{key}-run-{at}" for at, one in enumerate(trend.runs, 1)}
    links = {run_id: reports.get(run_id, f"#{anchor}") for run_id, anchor in anchors.items()}
    parts = [parts_of_run(one) for one in trend.runs]
    names = list(dict.fromkeys(name for each in parts for name in each))
    gpus = units.times(program.gpu_count, program.gpu) if program.gpu and program.gpu_count else "none"
    ranks = f"{program.rank} of {program.ranks}" if program.rank else str(program.ranks)
    about = [("GPUs", gpus), ("rank" if program.rank else "ranks", ranks), ("machine", program.host or "unknown")]
    return ProgramView(
        key=key,
        title=elide(program.program or "unknown program", _TITLE_WIDTH),
        arguments=elide(program.arguments or "", _ARGUMENTS_WIDTH),
        about=tuple((label, visible(words)) for label, words in about),
        sentence=visible(sentence(trend)),
        notes=tuple(_notes(trend)),
        chart=run_chart(trend, links) if len(trend.runs) > 1 else None,
        changes=tuple(_change(at, trend, one) for at, one in enumerate(trend.changes, 1)),
        names="\n".join(map(visible, names)),
        # The newest first, as `history list` has them.
        runs=tuple(
            _line(one.row, anchors[one.row.run_id], reports, [each.get(name, 0.0) for name in names])
            for one, each in zip(reversed(trend.runs), reversed(parts), strict=True)
        ),
    )


def sentence(trend: Trend) -> str:
    """Return what the step of a program does."""
    if not trend.runs:
        return "No run has measured steps."
    last = trend.levels[-1]
    now = units.duration(last.middle_ns)
    noise = f" Unchanged runs may differ by {noise_words(last.noise)}." if math.isfinite(last.noise) else ""
    if trend.shape is Shape.DRIFT:
        return f"A step drifts by {units.change(trend.drift)} from the first of these runs to the last."
    if trend.changes:
        change = trend.changes[-1]
        return f"A step takes {now} since {_since(trend, change)}, {units.change(change.share)}.{_why(change)}{noise}"
    if len(trend.runs) < _FEWEST:
        return f"A step takes {now}. To find a change it takes at least {_FEWEST} runs."
    return f"A step takes {now}, and its level does not change.{noise}"


def _why(change: LevelChange) -> str:
    if change.is_of_commit is None:
        return " The commit is unknown there."
    return "" if change.is_of_commit else " The commit is the same there, so look at the machine and the data."


def _notes(trend: Trend) -> list[str]:
    found, shown = [], len(trend.runs) + trend.without_steps
    if trend.run_count > shown:
        found.append(f"The last {shown} of {units.count(trend.run_count)} runs are read; --runs reads more.")
    if trend.without_steps:
        runs = "1 run has" if trend.without_steps == 1 else f"{trend.without_steps} runs have"
        found.append(f"{runs} no measured steps.")
    return found


def _change(number: int, trend: Trend, change: LevelChange) -> ChangeView:
    before, after = trend.levels[number - 1], trend.levels[number]
    times = f"{units.duration(after.middle_ns)} instead of {units.duration(before.middle_ns)}"
    words = f"{units.change(change.share)} a step since {_since(trend, change)} ({times}).{_why(change)}"
    most = max((abs(one.delta_ns) for one in change.moved), default=0.0)
    return ChangeView(number, visible(words), change.share > 0, tuple(_move(one, most) for one in change.moved))


def _move(one: PartMove, most: float) -> MoveRow:
    half = 50 * abs(one.delta_ns) / (most or 1.0)
    return MoveRow(
        words=visible(one.words),
        before=units.duration(one.before_ns),
        after=units.duration(one.after_ns),
        delta=units.difference(one.delta_ns, "ns"),
        x=f"{50 - half if one.delta_ns < 0 else 50:.1f}",
        width=f"{half:.1f}",
        less=one.delta_ns < 0,
    )


def _line(row: RunRow, anchor: str, reports: Mapping[str, str], parts: Sequence[float]) -> RunLine:
    return RunLine(
        anchor=anchor,
        name=row.run_id[:10],
        href=reports.get(row.run_id, ""),
        started=visible(row.started_utc[:16].replace("T", " ")),
        commit=visible(row.commit[:8] + ("*" if row.is_dirty else "")),
        mean=units.duration(row.mean_ns or 0.0),
        mean_ns=round(row.mean_ns or 0.0),
        median=units.duration(row.median_ns) if row.median_ns is not None else "",
        median_ns="" if row.median_ns is None else str(round(row.median_ns)),
        spread=_spread(row),
        limit=rule_name(row.verdict_rule) if row.verdict_rule else "",
        words=describe(row),
        parts=" ".join(str(round(part)) for part in parts),
    )


def _spread(row: RunRow) -> str:
    if row.p05_ns is None or row.p95_ns is None:
        return ""
    return units.duration_range(row.p05_ns, row.p95_ns)
