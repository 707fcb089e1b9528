"""The finding on the bubbles of a pipeline, checked with a plain loop over a 1F1B schedule of two stages."""

import pytest
from export_builder import trace_of
from pipeline_jobs import BLOCK, built, schedule
from real_captures import RealReport
from savings import ends_of, saving_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Finding, Report
from nsyswrap.report import report_of
from nsyswrap.rules.ranks import PIPELINE
from nsyswrap.trace.tables import Trace

US = 1000


def communication_of(trace: Trace) -> Report:
    """Return the report of a trace with one section, which has the findings on bubbles and on late ranks."""
    return report_of(find_context(trace), keys=("communication",))


def bubbles(report: Report) -> list[Finding]:
    return [each for each in report.findings if each.rule == PIPELINE.key]


def waits_of_a_step(microbatches: int, blocks: tuple[int, int]) -> list[int]:
    """Return how long each stage waits for messages in one step, by a plain loop, in ns."""
    messages = [[each for each in stage if each[0] == "message"] for stage in schedule(microbatches, blocks)]
    found = [0, 0]
    for pair in zip(*messages, strict=True):
        last = max(start for _, start, _ in pair)
        for stage, (_, start, _) in enumerate(pair):
            found[stage] += last - start
    return found


def test_bubbles_are_named_with_the_most_that_more_microbatches_save() -> None:
    """Stage 0 waits for 3 parts of 100 us, and stage 1 for one: at the end of the step its host waits."""
    report = communication_of(trace_of(built(2, (4, 4))))
    (found,) = bubbles(report)
    assert waits_of_a_step(2, (4, 4)) == [300 * US, 100 * US]
    assert found.headline.startswith("Pipeline bubbles take 200 µs a step, 21.")
    assert found.headline.endswith("of the time of 2 stages: one waits while another computes.")
    assert found.advice == PIPELINE.advice
    assert found.severity == "problem"
    steps = report.step.count or 0
    assert found.lost_ns == steps * 200 * US
    assert ends_of(found) == (0, steps * 200 * US)
    assert found.evidence[0] == "rank 0: 1.20 ms in bubbles, 2.48 ms of kernels and of launching them"
    assert "3.0 exchanges of messages a step" in found.evidence
    assert all(each.rule != "ranks/late" for each in report.findings)


def test_the_bubbles_of_a_real_pipeline_are_its_first_finding(real_report: RealReport) -> None:
    """With two microbatches in two stages, a third of the time is bubbles by the formula. So it was measured.

    The capture begins while the GPUs still do work that was launched before, which counts as idle.
    """
    report = real_report("ranks/pipeline_bubbles")
    first = report.findings[0]
    assert (first.rule, first.severity, first.advice) == (PIPELINE.key, "problem", PIPELINE.advice)
    ledger = report.section("ledger")
    assert ledger is not None
    idle = ledger.tables["devices"]["idle_ns"].mean()
    assert first.lost_ns / (report.window.length_ns - idle) == pytest.approx(1 / 3, abs=0.05)
    assert saving_of(first).low == 0


def test_the_longest_stage_of_a_real_pipeline_is_the_first_finding(real_report: RealReport) -> None:
    """The last of two stages has 12 of 16 blocks, on a host too slow for it: most of what it is late is its work."""
    report = real_report("ranks/pipeline_uneven")
    first = report.findings[0]
    assert (first.rule, first.severity) == (PIPELINE.key, "problem")
    assert first.advice.startswith("Move layers from rank 1 to rank 0")


def test_few_bubbles_are_not_named() -> None:
    assert not bubbles(communication_of(trace_of(built(24, (4, 4)))))


def test_stages_of_unequal_length_should_be_evened_out() -> None:
    """With 4 and 12 blocks the job takes 3 times the time of 4 blocks for each microbatch; 8 and 8 would take twice."""
    report = communication_of(trace_of(built(8, (4, 12))))
    (found,) = bubbles(report)
    assert found.advice.startswith("Move layers from rank 1 to rank 0")
    steps, waits = report.step.count or 0, waits_of_a_step(8, (4, 12))
    assert found.lost_ns == steps * sum(waits) // 2
    even = sum(3 * BLOCK * blocks * 8 for blocks in (8,))
    longest = 3 * BLOCK * 12 * 8
    assert saving_of(found).point == pytest.approx(steps * (longest - even), rel=0.02)


def test_the_pace_of_the_host_moves_with_the_layers() -> None:
    """The host of each stage takes 15 us between two kernels of 25 us: the stage with 12 blocks works 3 times as long.

    No rank is late: the other stage launches at the same pace, but less.
    """
    report = communication_of(trace_of(built(8, (4, 12), pace=15_000)))
    (found,) = bubbles(report)
    assert found.advice.startswith("Move layers from rank 1 to rank 0")
    assert saving_of(found).point == pytest.approx(
        (report.step.count or 0) * 3 * (BLOCK + 15_000) * (12 - 8) * 8, rel=0.05
    )
    assert report.findings[0].rule == PIPELINE.key
    assert all(each.rule != "ranks/late" for each in report.findings)


@pytest.mark.parametrize(("microbatches", "blocks"), [(2, (3, 2)), (3, (2, 4)), (5, (4, 3))])
def test_bubbles_are_those_of_a_plain_loop(microbatches: int, blocks: tuple[int, int]) -> None:
    report = communication_of(trace_of(built(microbatches, blocks, steps=4)))
    section = report.section("communication")
    assert section is not None
    waits = section.tables["waits"]
    steps = report.step.count or 0
    found = waits[waits["rule"] == PIPELINE.key].groupby("waiting_rank")["wait_ns"].sum()
    expected = waits_of_a_step(microbatches, blocks)
    assert {stage: int(found.get(stage, 0)) for stage in range(2)} == {
        stage: steps * each for stage, each in enumerate(expected)
    }


def test_a_stage_on_a_slower_gpu_is_no_bubble() -> None:
    """The kernels of stage 1 take three times as long: most of what stage 0 waits is due to that."""
    report = communication_of(trace_of(built(8, (4, 4), slower=3)))
    first = next(each for each in report.findings if each.rule == "ranks/late")
    assert "its GPU takes longer for the same kernels" in first.headline
