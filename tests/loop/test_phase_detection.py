"""The phases of all threads are built once and never change afterwards."""

from dataclasses import FrozenInstanceError

import pytest
from export_builder import ExportBuilder, thread, trace_of
from real_captures import RealContext

from nsyswrap.loop.context import find_context
from nsyswrap.loop.phase_detection import Phases

WORKER, SILENT = thread(4712), thread(4713)
OTHER_PROCESS = thread(5001, pid=5000)


def phases_of() -> Phases:
    """Return the phases of a main thread with two phases and a worker thread with one."""
    builder = ExportBuilder().range("forward", 0, 50).range("backward", 50, 100)
    return find_context(trace_of(builder.range("copy", 20, 30, thread=WORKER))).phases


def spelled(phases: Phases, which: str, of_thread: int) -> list[tuple[int, int, str]]:
    """Return the phases of a thread as start, end and name; ``which`` is "own" or "shown"."""
    labels = phases.own(of_thread) if which == "own" else phases.shown(of_thread)
    columns = (labels.spans.start.tolist(), labels.spans.end.tolist(), map(phases.name, labels.code.tolist()))
    return list(zip(*columns, strict=True))


def test_a_worker_shows_the_phases_of_the_main_thread_around_its_own() -> None:
    phases = phases_of()
    assert spelled(phases, "own", WORKER) == [(20, 30, "copy")]
    assert spelled(phases, "shown", WORKER) == [
        (0, 20, "forward"),
        (20, 30, "copy"),
        (30, 50, "forward"),
        (50, 100, "backward"),
    ]


def test_a_thread_without_ranges_shows_the_phases_of_the_main_thread() -> None:
    phases = phases_of()
    assert spelled(phases, "own", SILENT) == []
    assert spelled(phases, "shown", SILENT) == [(0, 50, "forward"), (50, 100, "backward")]


def test_a_thread_of_a_process_without_ranges_shows_no_phase() -> None:
    assert spelled(phases_of(), "shown", OTHER_PROCESS) == []


def test_a_lookup_changes_nothing() -> None:
    """Two worker threads of a report may read the same phases at the same time."""
    phases = phases_of()
    before = dict(phases.own_by_thread), dict(phases.shown_by_thread)
    for each in (WORKER, SILENT, OTHER_PROCESS):
        phases.shown(each)
        phases.own(each)
    assert (dict(phases.own_by_thread), dict(phases.shown_by_thread)) == before
    with pytest.raises(TypeError):
        phases.own_by_thread[SILENT] = phases.own(WORKER)  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        phases.names = ()  # type: ignore[misc]


def test_a_phase_is_a_place_in_a_sentence(real_context: RealContext) -> None:
    phases = real_context("cnn_amp").phases
    assert phases.where(phases.code("forward")) == "in phase forward"
    assert phases.where(-1) == "outside phases"
