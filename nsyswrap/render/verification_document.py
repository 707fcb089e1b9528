"""The result of `nsyswrap verify`: whether the work is the same, which program is faster, and each check."""

from collections.abc import Iterator
from statistics import geometric_mean

from nsyswrap.base import units
from nsyswrap.base.interval import Interval
from nsyswrap.base.json_codec import NUMBER, Tree, list_of, null_or, record_of
from nsyswrap.experiments.verify import Timing, Verification
from nsyswrap.experiments.verify_checks import WorkCheck, WorkOutcome
from nsyswrap.render import measured_hero
from nsyswrap.render.document import Block, Column, Document, DocumentSection, Entries, Entry, Lines, Table, Tone

SCHEMA = "nsyswrap.verify/1"
MARKER = "<!-- nsyswrap verify -->"
"""The first line of the Markdown: a job finds its earlier comment by it."""
_CHECKS = list_of(record_of(WorkCheck, "name base new outcome words"))
_RATIO = record_of(Interval, low=NUMBER, point=NUMBER, high=NUMBER)
_TIMING = null_or(record_of(Timing, "outcome of ratio base_ns new_ns", ratio=_RATIO))
_TONES: dict[bool | None, Tone] = {True: "good", False: "bad", None: "unsure"}


def document(found: Verification) -> Document:
    """Return the result as a document."""
    failed = tuple(each for each in found.checks if each.outcome is not WorkOutcome.SAME)
    entries = tuple(
        Entry(each.outcome.value, each.name, headline=each.words, lines=(each.words,), severity="problem")
        for each in failed
    )
    return Document(
        command="verify",
        title=f"{found.new} against {found.base}",
        outcome=found.outcome,
        tone=_TONES[found.passes],
        verdict=found.verdict,
        marker=MARKER,
        lead=(*(() if found.timing is None else _bars(found.timing)), Lines(found.notes, "notes")),
        sections=(
            DocumentSection("differences", "What differs", "", (Entries(entries, "differences", (20, 20)),)),
            DocumentSection("checks", "The work", "", (_checks(found.checks),)),
            DocumentSection("time", "Time", "", () if found.timing is None else (_times(found.timing),)),
        ),
    )


def _bars(timing: Timing) -> Iterator[Block]:
    """Yield the mean times of both programs, whose ratio is that of the verdict, and a narrow range."""
    base_ns, runs = geometric_mean(timing.base_ns), units.counted(len(timing.base_ns), "run")
    new = timing.ratio.map(lambda ratio: ratio * base_ns)
    sides = (
        measured_hero.MeasuredTime("BASE", base_ns),
        measured_hero.MeasuredTime("NEW", new.point, new if timing.is_narrow else None),
    )
    yield from measured_hero.hero(*sides, sure=f"measured, {timing.of} of {runs} each")


def _checks(checks: tuple[WorkCheck, ...]) -> Table:
    return Table(
        "checks",
        "The work",
        (
            Column("name", "compared", "text", [each.name for each in checks]),
            Column("base", "BASE", "text", [each.base for each in checks]),
            Column("new", "NEW", "text", [each.new for each in checks]),
            Column("outcome", "result", "text", [each.outcome.value for each in checks]),
            Column("words", "how", "text", [each.words for each in checks]),
        ),
        brief=("name", "base", "new", "outcome"),
        most={"text": len(checks), "markdown": len(checks)},
        folded=frozenset({"markdown"}),
    )


def _times(timing: Timing) -> Table:
    turns = [("BASE", each) for each in timing.base_ns] + [("NEW", each) for each in timing.new_ns]
    return Table(
        "time",
        f"Time of a {timing.of} in each run",
        (
            Column("side", "program", "text", [side for side, _ in turns]),
            Column("mean_ns", f"mean time of a {timing.of}", "ns", [each for _, each in turns]),
        ),
        most={"text": len(turns), "markdown": len(turns)},
        folded=frozenset({"markdown"}),
        is_titled=True,
    )


def tree(found: Verification) -> Tree:
    """Return the result as nested dictionaries and lists of plain Python values."""
    return {
        "schema": SCHEMA,
        "outcome": found.outcome,
        "passes": found.passes,
        "verdict": found.verdict,
        "base": found.base,
        "new": found.new,
        "work": found.work.value,
        "checks": _CHECKS.write(found.checks),
        "timing": _TIMING.write(found.timing),
        "notes": list(found.notes),
        "find_share": found.options.find,
    }
