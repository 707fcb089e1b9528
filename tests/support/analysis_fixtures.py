"""Helpers for tests of attribution and sections: a window, one section, the attributions, the pieces of idle time."""

from functools import partial
from typing import Any, NamedTuple, Protocol

from nsyswrap.attribution.attribution import Attribution, find_attributions
from nsyswrap.attribution.causes import find_causes
from nsyswrap.attribution.copy_table import find_copies
from nsyswrap.attribution.gaps import find_gaps
from nsyswrap.attribution.idle_pieces import IdlePieces
from nsyswrap.attribution.launch_pace import find_launches
from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import Settings, TraceContext, find_calls, find_context, find_states
from nsyswrap.model import Section
from nsyswrap.report import values_and_sections
from nsyswrap.sections import idle
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.trace.tables import Trace, array


class Piece(NamedTuple):
    """One row of the table of gaps, without its device."""

    start: int
    end: int
    cause: str
    phase: str


def window(start: int, end: int) -> Window:
    """Return a window as a user would give it."""
    return Window(start, end, "the test", "user")


class HasSection(Protocol):
    """A module that makes a section."""

    SECTION: SectionSpec


# What sections of the last contexts and windows were made of. Sections of a real capture are made in many tests.
_KEPT: list[tuple[TraceContext, Window, dict[str, Any]]] = []
_MOST_KEPT = 16


def run_section(module: HasSection, context: TraceContext, window: Window) -> Section:
    """Return the section of a module, made in the same way as in a report; what it names is made once for a context."""
    kept = next((found for of, chosen, found in _KEPT if of is context and chosen == window), None)
    if kept is None:
        kept = {}
        _KEPT.insert(0, (context, window, kept))
        del _KEPT[_MOST_KEPT:]
    given = {name: partial(_as_it_is, value) for name, value in kept.items()}
    kept |= values_and_sections([module.SECTION], {"context": context, "window": window}, given)
    section: Section = kept[f"section {module.SECTION.key}"]
    return section


def _as_it_is(value: object) -> object:
    return value


def attributions_of(context: TraceContext, window: Window) -> tuple[Attribution, ...]:
    """Return the attribution of each device, made in the same way as in a report."""
    states = find_states(context, window)
    calls = find_calls(context, window, states)
    copies, launches = find_copies(context, window), find_launches(context, window)
    return find_attributions(context, states, window, calls, copies, launches)


def idle_pieces(trace: Trace, start: int, end: int, device: int = 0) -> IdlePieces:
    """Return the idle time of one device as the rules for root causes use it."""
    context, chosen = find_context(trace), window(start, end)
    states = find_states(context, chosen)
    gaps = find_gaps(context, states, device, chosen)
    pieces = find_causes(context, states, gaps)
    copies, launches = find_copies(context, chosen), find_launches(context, chosen)
    return IdlePieces(context, states, device, chosen, gaps, pieces, copies, launches)


# The last section on idle time with what it was made of: tests ask for the pieces of a trace, then for their evidence.
_LAST: list[tuple[Trace, int, int, Settings, Section]] = []


def idle_section(trace: Trace, start: int, end: int, settings: Settings | None = None) -> Section:
    """Return the section on idle time of an interval."""
    chosen = settings or Settings()
    for kept, *other, made in _LAST:
        if kept is trace and other == [start, end, chosen]:
            return made
    made = run_section(idle, find_context(trace, chosen), window(start, end))
    _LAST[:] = [(trace, start, end, chosen, made)]
    return made


def explained(trace: Trace, start: int, end: int, device: int = 0, settings: Settings | None = None) -> list[Piece]:
    """Return the pieces of one device's gaps."""
    gaps = idle_section(trace, start, end, settings).tables["gaps"]
    mine = gaps[gaps["device_id"] == device]
    columns = [mine[name].tolist() for name in ("start_ns", "end_ns", "cause", "phase")]
    return [Piece(*row) for row in zip(*columns, strict=True)]


def evidence(trace: Trace, start: int, end: int, device: int = 0) -> list[str]:
    """Return the evidence of each piece of one device's gaps."""
    gaps = idle_section(trace, start, end).tables["gaps"]
    return [str(text) for text in gaps.loc[gaps["device_id"] == device, "evidence"]]


def whole_session(trace: Trace) -> Window:
    """Return a window that holds every event of a trace."""
    spans = [frame for frame in trace.frames.values() if "end" in frame and len(frame)]
    start = min(int(array(frame, "start").min()) for frame in spans)
    end = max(int(array(frame, "end").max()) for frame in spans)
    return window(min(start, 0) - 1, max(end, trace.session.duration_ns) + 1)
