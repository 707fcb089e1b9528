"""The Python lines of idle time: the samples that count for each cause, and the line that a finding names."""

from collections.abc import Iterable

import pytest
from analysis_fixtures import idle_section, run_section, window
from export_builder import ExportBuilder, thread, trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Section
from nsyswrap.sections import python_lines
from nsyswrap.trace.tables import Trace

SCRIPT = ("<module>", "/srv/app/train.py", 10)
LOSS = ("loss", "/srv/app/train.py", 42)
CONV = ("conv", "/opt/lib/python3.12/site-packages/torch/conv.py", 500)
LINEAR = ("linear", "/opt/lib/python3.12/site-packages/torch/linear.py", 100)


def section(trace: Trace, start: int = 0, end: int = 100) -> Section:
    return run_section(python_lines, find_context(trace), window(start, end))


def gap() -> ExportBuilder:
    """Return a gap from 20 to 80 in two phases, during which the launching thread runs code.

    ::

        GPU    ####............EEEE
        main   |-forward-|-backward|
        host       ............
    """
    builder = ExportBuilder().range("forward", 0, 50).range("backward", 50, 100)
    return builder.kernel(0, 20, launched=(0, 1)).kernel(80, 100, launched=(80, 82))


def sampled(builder: ExportBuilder, times: Iterable[int], *frames: tuple[str, str, int]) -> ExportBuilder:
    """Add samples of one stack on the main thread."""
    for at in times:
        builder.python_sample(at, frames)
    return builder


def lines(found: Section) -> list[tuple[str, str, str, int, int]]:
    """Return cause, phase, file, line and samples of each row."""
    table = found.tables["lines"]
    return [tuple(row) for row in table[["cause", "phase", "file", "line", "sample_count"]].to_numpy().tolist()]


def test_samples_inside_idle_time_name_its_lines() -> None:
    """Samples count by cause and phase. Samples while the GPU runs do not count."""
    builder = sampled(gap(), [5, 30, 40, 90], LOSS, SCRIPT)
    found = section(trace_of(sampled(builder, [60], SCRIPT)))
    assert lines(found) == [("cpu", "forward", "train.py", 42, 2), ("cpu", "backward", "train.py", 10, 1)]


def test_a_sample_at_the_edge_is_in_the_piece_that_begins_there() -> None:
    builder = sampled(sampled(gap(), [20], LOSS, SCRIPT), [80], SCRIPT)
    assert lines(section(trace_of(builder))) == [("cpu", "forward", "train.py", 42, 1)]


def test_estimates_add_up_to_the_idle_time_of_a_cause_and_phase() -> None:
    """The GPU is idle for 30 ns in forward. Three of four samples stand for 22.5 of them."""
    builder = sampled(sampled(gap(), [21, 30, 40], LOSS, SCRIPT), [45], SCRIPT)
    table = section(trace_of(builder)).tables["lines"]
    assert table["share"].tolist() == [0.75, 0.25]
    assert table["idle_estimate_ns"].tolist() == [22, 8]


def test_the_commonest_innermost_frame_stands_beside_the_line() -> None:
    builder = sampled(sampled(gap(), [21, 22], CONV, LOSS, SCRIPT), [30], LINEAR, LOSS, SCRIPT)
    (row,) = section(trace_of(builder)).tables["lines"].to_dict("records")
    assert (row["function"], row["file"], row["line"]) == ("loss", "train.py", 42)
    assert row["innermost"] == "torch/conv.py:500 in conv"
    assert row["sample_count"] == 3


def test_each_gpu_has_its_own_lines() -> None:
    """A sample counts for both GPUs if both are idle."""
    builder = sampled(gap(), [30], LOSS).kernel(0, 20, device=1, launched=(1, 2))
    table = section(trace_of(builder.kernel(40, 90, device=1, launched=(40, 42)))).tables["lines"]
    assert table["device_id"].tolist() == [0, 1]


def test_idle_time_of_threads_without_samples_is_not_shared_out() -> None:
    """Thread 9 launches the operation that ends the second gap, and runs no Python.

    ::

        GPU    ####......EEEE......EEEE
                   main      thread 9
    """
    builder = ExportBuilder().kernel(0, 20, launched=(0, 1)).kernel(50, 60, launched=(50, 51))
    builder.kernel(90, 100, launched=(90, 91), thread=thread(9))
    table = section(trace_of(sampled(builder, [30], LOSS))).tables["lines"]
    assert table["idle_estimate_ns"].tolist() == [30]


def test_a_busy_gpu_leaves_no_lines() -> None:
    builder = ExportBuilder().kernel(0, 100, launched=(0, 1))
    found = section(trace_of(sampled(builder, [30], LOSS)))
    assert lines(found) == []


def test_without_samples_the_section_says_how_to_get_them() -> None:
    found = section(trace_of(gap()))
    assert (found.tables, found.facts) == ({}, ())
    assert "--python-sampling" in found.notes[0]


def test_waiting_for_workers_says_that_workers_are_not_sampled() -> None:
    builder = ExportBuilder().range("data", 0, 100).os_call("sem_wait", 20, 80)
    builder.kernel(0, 20, launched=(0, 1)).kernel(80, 100, launched=(80, 82))
    found = section(trace_of(sampled(builder, [30], LOSS)))
    assert lines(found) == [("data_wait", "data", "train.py", 42, 1)]
    assert "worker" in found.notes[0]
    assert section(trace_of(sampled(gap(), [30], LOSS))).notes == ()


def test_a_finding_names_the_line_with_most_samples() -> None:
    """The samples of all phases of the cause are added up."""
    builder = sampled(sampled(gap(), [30, 60, 70], LOSS, SCRIPT), [40], SCRIPT)
    found = idle_section(trace_of(builder), 0, 100)
    (finding,) = [each for each in found.findings if each.rule == "idle/cpu"]
    assert "most samples: train.py:42 in loss, 3 of 4" in finding.evidence


def test_a_finding_without_samples_names_no_line() -> None:
    found = idle_section(trace_of(gap()), 0, 100)
    assert not any("samples" in text for finding in found.findings for text in finding.evidence)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    builder = sampled(sampled(gap(), [30, 60, 70], LOSS, SCRIPT), [40, 41, 55], CONV, SCRIPT)
    ordered = section(trace_of(builder)).tables["lines"]
    assert ordered.equals(section(trace_of(builder.shuffled(seed))).tables["lines"])
