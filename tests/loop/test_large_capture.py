"""A part of a capture that does not fit into memory: its numbers are those of the whole capture for the same steps."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from export_builder import ExportBuilder
from real_captures import more, of_captures
from shifted_ranks import ShiftedRanks
from xray_program import LAUNCHES, program, record

from nsyswrap.base.errors import ExportError
from nsyswrap.base.excerpt import Excerpt
from nsyswrap.base.intervals import Window
from nsyswrap.events.operations import SOURCES
from nsyswrap.events.xray_record import read_xray
from nsyswrap.loop import large_capture
from nsyswrap.loop.context import Settings, TraceContext, find_context
from nsyswrap.loop.extent import between
from nsyswrap.loop.large_capture import BASE_BYTES, PER_FILE_BYTE, ReadRequest, bytes_of_rows, load_within
from nsyswrap.model import Report, Section
from nsyswrap.report import report_of
from nsyswrap.sections.operators import NOT_READ
from nsyswrap.trace import row_choice
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import Trace

Captures = Callable[[str], Path]
Contexts = Callable[[str], TraceContext]

WITH_STEPS = (
    "cnn_amp",
    "cuda_graph_node_trace",
    "mnist_counters_python",
    "ddp_2gpu_slow_links",
    "alexnet_data_parallel_2gpu",
    "gallery/decoding",
    "host/shared_core",
)
# Collectives are numbered from the first one that was read.
NUMBERED = {("ranks", "collectives"): "collective"}


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read some hundred rows at a time, so that small captures have many parts."""
    monkeypatch.setattr(row_choice, "PART_ROWS", 300)


def memory_for(trace: Trace, share: float) -> int:
    every = bytes_of_rows({name: float(len(frame)) for name, frame in trace.frames.items()})
    return BASE_BYTES + round((every - BASE_BYTES) * share)


def part_of(path: Path, whole: Trace, share: float = 0.4, **fields: Any) -> TraceContext:  # noqa: ANN401 - fields of any type
    """Return the context of the part of a capture that fits into a share of its memory."""
    request = ReadRequest(memory_for(whole, share))._replace(**fields)
    return find_context(load_within(path, request))


def excerpt_of(context: TraceContext) -> Excerpt:
    """Return which part of a capture was read."""
    assert context.trace.excerpt is not None
    return context.trace.excerpt


def assert_same(part: Section | None, whole: Section) -> None:
    """Check that the facts and tables of two sections are equal."""
    assert part is not None, whole.key
    assert part.facts == whole.facts, whole.key
    assert part.tables.keys() == whole.tables.keys()
    for name, expected in whole.tables.items():
        without = [each for key, each in NUMBERED.items() if key == (whole.key, name)]
        one, other = (table.drop(columns=without) for table in (part.tables[name], expected))
        pd.testing.assert_frame_equal(one, other, check_dtype=False, check_categorical=False)


def assert_same_ledgers(excerpt: Excerpt, whole: Report) -> None:
    """Check that the ledgers of all steps in an excerpt are those of the report of all."""
    ledger = whole.section("ledger")
    assert ledger is not None
    found = [
        (each.window_ns, each.compute_ns, each.copy_exposed_ns, each.idle_ns)
        for each in excerpt.ledgers
        if each.of_steps
    ]
    columns = ["window_ns", "compute_ns", "copy_exposed_ns", "idle_ns"]
    assert found == list(ledger.tables["devices"][columns].itertuples(index=False, name=None))


def assert_all_same(part: Report, whole: Report) -> None:
    """Check that two reports have equal windows, sections and findings, except the section of a part."""
    assert part.window == whole.window
    assert part.step == whole.step
    assert [each.key for each in part.sections if each.key != "whole_capture"] == [each.key for each in whole.sections]
    for each in whole.sections:
        assert_same(part.section(each.key), each)
    assert part.findings == whole.findings
    assert part.verdict == whole.verdict
    assert part.plan == whole.plan


@pytest.mark.slow
@of_captures(WITH_STEPS, few={"mnist_counters_python", "host/shared_core"})
def test_a_part_has_the_numbers_that_the_whole_capture_has_for_its_steps(
    name: str, captures: Captures, real_context: Contexts
) -> None:
    whole = real_context(name)
    part = part_of(captures(name), whole.trace)
    excerpt = excerpt_of(part)
    assert sum(len(part.trace[spec]) for spec in SOURCES) < len(whole.operations.start)
    of_same_steps = replace(whole, steps=whole.steps.inside(excerpt, are_all_known=True))
    assert part.steps.read == of_same_steps.steps.read
    assert_all_same(report_of(part), report_of(of_same_steps))


@pytest.mark.slow
@of_captures(("cnn_amp", "gallery/decoding"), few={"cnn_amp"})
def test_a_window_that_fits_has_the_numbers_of_that_window(
    name: str, captures: Captures, real_context: Contexts
) -> None:
    """Nothing but the window, and what it refers to, is read. The table of all steps has those of the window only."""
    whole = real_context(name)
    steps = whole.steps.measured
    first, last = steps.iloc[len(steps) // 3], steps.iloc[len(steps) // 2]
    # In the middle of two steps, so that ranges and operations cross both edges.
    edges = [(int(each["start"]) + int(each["end"])) // 2 for each in (first, last)]
    given = ":".join(f"{each / 1e9:.9f}" for each in edges)
    part = part_of(captures(name), whole.trace, 0.6, window=between(given))
    assert excerpt_of(part).is_wanted
    found, expected = report_of(part, given), report_of(whole, given)
    assert found.window == expected.window
    for each in expected.sections:
        if each.key != "steps":
            assert_same(found.section(each.key), each)
    assert found.findings == expected.findings


@of_captures(
    ("cnn_amp", "ddp_2gpu_slow_links", "cuda_graph_graph_trace", "cnn_fp32_nsys2023"),
    few={"cnn_amp", "cuda_graph_graph_trace"},
)
def test_the_ledger_of_all_operations_is_that_of_the_whole_capture(
    name: str, captures: Captures, real_report: Callable[..., Report], real_context: Contexts
) -> None:
    part = part_of(captures(name), real_context(name).trace)
    whole = real_report(name, "all").section("ledger")
    assert whole is not None
    found = [each for each in excerpt_of(part).ledgers if not each.of_steps]
    expected = whole.tables["devices"].to_dict("records")
    assert [each.device_id for each in found] == [row["device_id"] for row in expected]
    for each, row in zip(found, expected, strict=True):
        assert each.window_ns == row["window_ns"]
        assert each.compute_ns == row["compute_ns"]
        assert each.communication_ns == row["communication_wait_ns"] + row["communication_transfer_ns"]
        assert each.copy_exposed_ns == row["copy_exposed_ns"]
        assert each.memset_exposed_ns == row["memset_exposed_ns"]
        assert each.idle_ns == row["idle_ns"]


def test_the_collectives_of_any_library_are_communication(
    captures: Captures, real_context: Contexts, tmp_path: Path
) -> None:
    """The ledger of all operations is the same where another library made the kernels of NCCL."""
    source = captures("ddp_2gpu_slow_links")
    whole = real_context("ddp_2gpu_slow_links").trace
    renamed = tmp_path / "renamed.sqlite"
    renamed.write_bytes(source.read_bytes())
    with sqlite3.connect(renamed) as database:
        (count,) = database.execute("SELECT count(*) FROM StringIds WHERE value LIKE 'ncclDevKernel%'").fetchone()
        database.execute(
            "UPDATE StringIds SET value = 'void vllm::cross_device_reduce_1stage<float, 2>(vllm::RankData*)' || id "
            "WHERE value LIKE 'ncclDevKernel%'"
        )
    assert count > 0
    found, expected = (excerpt_of(part_of(path, whole)).ledgers for path in (renamed, source))
    assert found == expected
    assert any(each.communication_ns for each in found)


@of_captures(("cnn_amp", "ddp_2gpu_slow_links"), few={"cnn_amp"})
def test_the_ledger_of_all_steps_is_that_of_the_whole_capture(
    name: str, captures: Captures, real_report: Callable[..., Report], real_context: Contexts
) -> None:
    part = part_of(captures(name), real_context(name).trace)
    assert_same_ledgers(excerpt_of(part), real_report(name, "steps"))


@pytest.mark.parametrize("shift_us", [300, *more(0, 900)])
def test_the_ledger_of_all_steps_is_that_of_the_own_steps_of_each_rank(tmp_path: Path, shift_us: int) -> None:
    """Rank 1 begins its steps later than rank 0, so a window of both would cut a step of each; so in the part."""
    job = ShiftedRanks(((500,) * 40, (520,) * 40), (0, shift_us))
    path = job.built().write(tmp_path / "made.sqlite")
    whole = find_context(load_export(path))
    part = part_of(path, whole.trace)
    assert_same_ledgers(excerpt_of(part), report_of(whole))
    of_same_steps = replace(whole, steps=whole.steps.inside(excerpt_of(part), are_all_known=True))
    found, expected = report_of(part), report_of(of_same_steps)
    for each in expected.sections:
        if each.key in {"ledger", "steps", "kernels", "copies", "launches", "host_calls"}:
            assert_same(found.section(each.key), each)


def test_what_was_read_is_said(captures: Captures, real_context: Contexts) -> None:
    """In a note, in the section on the whole capture, and in the label of the window."""
    whole = real_context("cnn_amp")
    part = part_of(captures("cnn_amp"), whole.trace)
    report, excerpt, read = report_of(part), excerpt_of(part), part.steps.read
    assert read is not None
    assert read.total == len(whole.steps.measured) == 58
    measured = whole.steps.measured.iloc[read.first - 1 : read.last]
    assert (measured["start"].min(), measured["end"].max()) == (excerpt.start_ns, excerpt.end_ns)
    inside = (whole.operations.start < excerpt.end_ns) & (whole.operations.end > excerpt.start_ns)
    words = f"{inside.sum():,} of 4,709 GPU operations, measured steps {read.first} to {read.last} of 58"
    assert any(words in note and "--memory" in note for note in report.notes)
    section = report.section("whole_capture")
    assert section is not None
    assert str(next(fact.value for fact in section.facts if fact.label == "read")) == words
    assert report.window.label.startswith(f"{read.last - read.first + 1} measured steps (")


def test_as_many_steps_are_read_as_fit(captures: Captures, real_context: Contexts) -> None:
    """With less memory there are fewer steps about the same middle, at least one; with enough, all is read."""
    whole, path = real_context("cnn_amp").trace, captures("cnn_amp")
    found = [part_of(path, whole, share).steps.read for share in (0.0, 0.2, 0.4, 0.6)]
    counts = [read.last - read.first + 1 for read in found if read]
    assert counts[0] == 1
    assert counts == sorted(set(counts))
    assert all(abs(read.first + read.last - read.total - 1) <= 1 for read in found if read)
    everything = load_within(path, ReadRequest(memory_for(whole, 1.01)))
    assert everything.excerpt is None
    assert everything.frames["kernels"].equals(whole.frames["kernels"])


def test_a_small_file_is_read_without_a_look_at_its_tables(captures: Captures, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a missing one: the error is that of reading it."""
    monkeypatch.setattr(large_capture, "opened", None)
    path = captures("cnn_amp")
    trace = load_within(path, ReadRequest(BASE_BYTES + PER_FILE_BYTE * path.stat().st_size))
    assert trace.excerpt is None
    with pytest.raises(ExportError, match="does not exist"):
        load_within(path.with_name("gone.sqlite"), ReadRequest(0))


def test_events_are_counted_over_all_of_the_capture(captures: Captures, real_context: Contexts) -> None:
    """So a part is not taken for a capture that lost events."""
    whole = real_context("cnn_amp").trace
    part = part_of(captures("cnn_amp"), whole, 0.1).trace
    assert part.event_counts == whole.event_counts


def test_without_ranges_an_interval_in_the_middle_is_read(captures: Captures, real_context: Contexts) -> None:
    whole = real_context("cnn_fp32_nsys2023")
    part = part_of(captures("cnn_fp32_nsys2023"), whole.trace)
    excerpt, window = excerpt_of(part), report_of(part).window
    assert (window.start_ns, window.end_ns, window.source) == (excerpt.start_ns, excerpt.end_ns, "operations")
    first, last = int(whole.operations.start.min()), int(whole.operations.end.max())
    assert excerpt.start_ns - first == pytest.approx(last - excerpt.end_ns, abs=2)
    assert part.steps.read is None


def test_with_all_an_interval_in_the_middle_is_read_though_there_are_steps(
    captures: Captures, real_context: Contexts
) -> None:
    part = part_of(captures("cnn_amp"), real_context("cnn_amp").trace, wants_all=True)
    window = report_of(part, "all").window
    assert (window.source, window.label.endswith("the part that was read")) == ("operations", True)
    assert (window.start_ns, window.end_ns) == (excerpt_of(part).start_ns, excerpt_of(part).end_ns)


def test_a_window_that_does_not_fit_is_cut(captures: Captures, real_context: Contexts) -> None:
    whole = real_context("cnn_amp")
    measured = whole.steps.measured_window()
    assert measured is not None
    given = f"{measured.start_ns / 1e9:.9f}:{measured.end_ns / 1e9:.9f}"
    part = part_of(captures("cnn_amp"), whole.trace, 0.2, window=between(given))
    window = report_of(part, given).window
    assert not excerpt_of(part).is_wanted
    assert measured.start_ns < window.start_ns < window.end_ns < measured.end_ns


def test_a_window_outside_of_the_capture_is_an_error_that_names_its_ends(
    captures: Captures, real_context: Contexts
) -> None:
    """They are those of the whole capture, and not those of what was read."""
    whole = real_context("cnn_amp")
    part = part_of(captures("cnn_amp"), whole.trace, 0.2, window=Window(10**15, 2 * 10**15, "far", "user"))
    with pytest.raises(Exception, match=f"events lie from {excerpt_of(part).extent[0] / 1e9:.9g} s"):
        report_of(part, "1000000:2000000")


def test_a_capture_with_wrong_times_is_not_read_in_part(tmp_path: Path) -> None:
    """Some of its events are months from the others, so it is not known which interval is the capture."""
    builder = ExportBuilder()
    for at in range(0, 10_000, 10):
        builder.kernel(at, at + 5, launched=(at, at + 1))
    path = builder.kernel(10**17, 10**17 + 5, launched=(10**17 - 9, 10**17 - 8)).write(tmp_path / "x.sqlite")
    assert len(load_export(path).frames["kernels"]) == 1_000
    with pytest.raises(ExportError, match="52 days"):
        load_within(path, ReadRequest(BASE_BYTES + 1_000))


@pytest.mark.parametrize("share", [0.014, 0.8])
def test_a_part_has_the_operators_of_the_xray_step(tmp_path: Path, share: float) -> None:
    """The step is after those that are read, and is read apart from them. It takes 0.53 % of the whole."""
    path = tmp_path / "export.sqlite"
    whole = find_context(load_export(program([LAUNCHES] * 100).write(path)), Settings(xray=read_xray(record())))
    trace = load_within(path, ReadRequest(memory_for(whole.trace, share)))
    part = find_context(trace, whole.settings)
    assert 0 < len(part.operations.start) < len(whole.operations.start)
    one, other = (report_of(each, keys=("operators",)).section("operators") for each in (part, whole))
    assert one is not None
    assert other is not None
    assert one.facts[:4] == other.facts[:4]
    assert one.facts[0].value == 1
    assert one.tables["modules"]["module"].tolist() == other.tables["modules"]["module"].tolist()


def test_an_xray_step_that_takes_half_of_the_memory_is_left_out_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "export.sqlite"
    whole = load_export(program([LAUNCHES] * 100).write(path))
    trace = load_within(path, ReadRequest(memory_for(whole, 0.009)))
    made = report_of(find_context(trace, Settings(xray=read_xray(record()))))
    assert made.section("operators") is None
    assert NOT_READ in made.notes
