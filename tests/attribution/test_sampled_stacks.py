"""The sampled stacks of idle time: by rule, outermost frame first, with the estimates of the lines."""

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of
from real_captures import RealReport

from nsyswrap.loop.context import find_context
from nsyswrap.model import Section
from nsyswrap.sections import python_lines
from nsyswrap.trace.tables import Trace

SCRIPT, LOSS = ("<module>", "/srv/app/train.py", 10), ("loss", "/srv/app/train.py", 42)
ODD = ("f", "/srv/app/a;b.py", 7)


def sampled() -> ExportBuilder:
    """Return a gap of 60 ns in two phases, with four samples in it and one beside it."""
    builder = ExportBuilder().range("forward", 0, 50).range("backward", 50, 100)
    builder = builder.kernel(0, 20, launched=(0, 1)).kernel(80, 100, launched=(80, 82))
    for at, *frames in ((30, LOSS, SCRIPT), (40, LOSS, SCRIPT), (45, SCRIPT), (60, ODD, SCRIPT), (90, SCRIPT)):
        builder.python_sample(at, frames)
    return builder


def section(trace: Trace) -> Section:
    """Return the section on Python lines."""
    return run_section(python_lines, find_context(trace), window(0, 100))


def test_stacks_have_the_outermost_frame_first_and_the_estimates_of_the_lines() -> None:
    """Forward is idle for 30 ns with three samples, backward with one; a file keeps no separator."""
    found = section(trace_of(sampled())).tables
    rows = found["stacks"][["stack", "sample_count", "idle_estimate_ns"]].to_numpy().tolist()
    top = "train.py:10 in <module>"
    assert rows == [[f"{top};a,b.py:7 in f", 1, 30], [f"{top};train.py:42 in loss", 2, 20], [top, 1, 10]]
    assert found["stacks"]["idle_estimate_ns"].sum() == found["lines"]["idle_estimate_ns"].sum()


def test_beyond_300_stacks_the_rest_of_a_rule_is_one_row() -> None:
    built = ExportBuilder().kernel(0, 20, launched=(0, 1)).kernel(980, 1_000, launched=(980, 982))
    for number in range(302):
        built.python_sample(30 + number, ((f"f{number}", "/srv/app/train.py", number),))
    stacks = run_section(python_lines, find_context(trace_of(built)), window(0, 1_000)).tables["stacks"]
    assert (len(stacks), stacks.loc[stacks["stack"] == "", "sample_count"].tolist()) == (301, [2])


def test_a_real_capture_has_the_same_samples_in_stacks_and_lines(real_report: RealReport) -> None:
    found = real_report("mnist_counters_python").section("python_lines")
    assert found is not None
    stacks, lines = found.tables["stacks"], found.tables["lines"]
    assert stacks["sample_count"].sum() == lines["sample_count"].sum() > 0
    assert stacks["idle_estimate_ns"].sum() == pytest.approx(lines["idle_estimate_ns"].sum(), rel=0.001)
    assert (
        stacks.groupby("rule")["sample_count"].sum().to_dict() == lines.groupby("rule")["sample_count"].sum().to_dict()
    )
