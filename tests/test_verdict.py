"""The verdict: the first finding as a sentence with step times, or kernels limit the run, or the reason is unknown."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest
from analysis_fixtures import window
from export_builder import ExportBuilder, trace_of
from real_captures import RealReport, every_capture
from verdict_checks import INCOMPLETE, check_verdict

from nsyswrap.base import units
from nsyswrap.base.interval import Interval, between
from nsyswrap.base.intervals import Window
from nsyswrap.model import NO_STEP, AloneSource, Fact, Finding, Plan, PlannedChange, Section, Severity, StepTimes
from nsyswrap.report import build_report
from nsyswrap.rules import RULES
from nsyswrap.verdict import find_verdict

Fill = Callable[[ExportBuilder], ExportBuilder]
UNEXPLAINED = "Cannot tell: the GPU is idle for 10.0 % of the time and the capture does not show why."
MS, S = 10**6, 10**9
WHOLE = Window(0, S, "10 measured steps", "steps")
# Rules about the capture itself, and reasons why a rank is late: the finding is that of the late rank.
PREDICT_NOTHING = {
    *("capture/impossible_rows", "capture/incomplete", "capture/no_ranges", "graphs/hidden", "graphs/whole"),
    *("idle/not_traced", "idle/profiler", "idle/unknown", "tensor_cores/counter_disagrees"),
    *("ranks/pace", "ranks/slower_gpu", "ranks/uneven_input", "ranks/unknown"),
}
TEN = StepTimes(10, 100 * MS)


@every_capture
def test_the_verdict_of_a_real_capture_is_its_first_finding(name: str, real_report: RealReport) -> None:
    """The finding on missing events does not count. Without a rule, kernels limit the run, or the reason is unknown."""
    check_verdict(real_report(name))


SAVING = between(100 * MS, 400 * MS)


def finding(
    rule: str = "launches/launch_bound",
    lost_ns: int = S // 2,
    saving: Interval[int] | None = SAVING,
    severity: Severity = Severity.PROBLEM,
) -> Finding:
    return Finding(rule, severity, f"{rule} is first.", lost_ns, saving, "Change it.", (), 0, WHOLE)


def sections(affected_ns: int = 0, gpus: int = 1, compute_ns: int = S // 2, copies_ns: int = 0) -> list[Section]:
    """Return a ledger, and a check of the capture that says how much time can be wrong."""
    idle_ns = S - compute_ns - copies_ns
    times = {"window_ns": S, "compute_ns": compute_ns, "copy_exposed_ns": copies_ns, "idle_ns": idle_ns}
    devices = pd.DataFrame({"device_id": range(gpus), **times})
    check = (Fact("affected_ns", affected_ns, "ns"), Fact("affected_share", affected_ns / S / gpus, "share"))
    return [Section("capture_check", "", WHOLE, check), Section("ledger", "", WHOLE, tables={"devices": devices})]


def verdict(*findings: Finding, affected_ns: int = 0, gpus: int = 1, step: StepTimes = TEN) -> tuple[str, str | None]:
    """Return the verdict on a window of 1 s."""
    return find_verdict(sections(affected_ns, gpus), findings, WHOLE, step)


def test_the_first_finding_is_stated_with_step_times() -> None:
    """Ten steps take 100 ms each, and each can be 25 ms shorter."""
    assert verdict(finding(), finding("idle/cpu")) == (
        "launches/launch_bound is first. A step takes 100 ms as recorded; about 75 with CUDA graphs.",
        "launches/launch_bound",
    )


@pytest.mark.parametrize("saving", [None, between(0, 0), between(9 * MS, 10 * MS)])
def test_without_a_predicted_saving_only_the_step_is_stated(saving: Interval[int] | None) -> None:
    assert verdict(finding(saving=saving))[0] == "launches/launch_bound is first. A step takes 100 ms as recorded."


def test_the_step_alone_is_stated_where_it_is_known() -> None:
    """Ten steps take 100 ms each as recorded, and 85 ms alone."""
    step = StepTimes(10, 100 * MS, Interval(80 * MS, 85 * MS, 90 * MS), "simulated")
    assert verdict(finding(), step=step)[0].endswith(" A step takes 85.0 ms; about 64 with CUDA graphs.")


@pytest.mark.parametrize(
    ("rule", "lost_ms", "too"),
    [
        ("idle/lock", 99, ", as other waits shrink, too"),
        ("gpu/between_operations", 99, ", as other waits shrink, too"),
        ("idle/lock", 100, ""),
        ("tensor_cores/not_used", 99, ""),
    ],
)
def test_a_fix_that_surely_saves_more_than_the_named_waits_says_why(rule: str, lost_ms: int, too: str) -> None:
    """It saves 100 ms at least."""
    assert verdict(finding(rule, lost_ms * MS))[0].endswith(f"{too}.")
    assert ("other waits" in verdict(finding(rule, lost_ms * MS))[0]) == bool(too)


@pytest.mark.parametrize(("count", "caution"), [(4, ", in 4 steps only"), (5, "")])
def test_a_time_of_few_steps_has_a_caution(count: int, caution: str) -> None:
    text, _ = verdict(finding(saving=None), step=StepTimes(count, 100 * MS))
    assert text.endswith(f" A step takes {units.duration(S / count)} as recorded{caution}.")


@pytest.mark.parametrize(
    ("compute_ms", "copies_ms", "start"),
    [
        (900, 0, "launches/launch_bound is first."),
        (901, 0, "Compute-bound: kernels run 90.1 % of the time."),
        (600, 300, "launches/launch_bound is first."),
        (600, 301, "The GPU is busy 90.1 % of the time, with kernels for 60.0 %."),
    ],
)
def test_a_gpu_that_is_busy_for_nine_tenths_does_not_wait(compute_ms: int, copies_ms: int, start: str) -> None:
    """What to change still follows. A finding on what the GPU does is stated."""
    of_gpu = sections(compute_ns=compute_ms * MS, copies_ns=copies_ms * MS)
    said, rule = find_verdict(of_gpu, [finding()], WHOLE, TEN)
    assert said == f"{start} A step takes 100 ms as recorded; about 75 with CUDA graphs."
    assert (rule is None) == (compute_ms + copies_ms > 900)
    assert find_verdict(of_gpu, [finding("optimizer/many_kernels")], WHOLE, TEN)[1] == "optimizer/many_kernels"


@pytest.mark.parametrize(("low_ms", "source"), [(66, "simulated"), (67, "simulated"), (66, "this_process")])
def test_a_step_that_was_not_timed_alone_may_be_short_enough_to_keep_the_gpu_busy(
    low_ms: int, source: AloneSource
) -> None:
    """The GPU works for 60 of 100 ms."""
    step = StepTimes(10, 120 * MS, Interval(low_ms * MS, 100 * MS, 120 * MS), source)
    rule = find_verdict(sections(compute_ns=600 * MS), [finding()], WHOLE, step)[1]
    assert (rule is None) == (low_ms == 66 and source == "simulated")


def test_two_changes_that_help_only_together_are_counted() -> None:
    """Alone each saves nothing, so its finding is only a note."""
    steps = (Interval(90 * MS, 100 * MS, 100 * MS), Interval(50 * MS, 60 * MS, 70 * MS))
    rules = ("launches/launch_bound", "synchronization/in_step")
    plan = Plan(100 * MS, tuple(PlannedChange(rule, step) for rule, step in zip(rules, steps, strict=True)))
    text, rule = find_verdict(sections(), (finding(severity=Severity.NOTE),), WHOLE, TEN, plan=plan)
    assert rule is None
    assert text.startswith("Kernels do not run for 50.0 % of the time; two changes help only together. ")
    assert text.endswith(" A step takes 100 ms as recorded; about 60 with both.")


def test_a_rule_without_words_of_its_own_has_general_ones() -> None:
    """Each rule that can predict a saving has its own."""
    assert verdict(finding("new/rule"))[0].endswith("about 75 if fixed.")
    assert {each.key for each in RULES.values() if each.fixed == "if fixed"} == PREDICT_NOTHING
    assert all(each.fixed.startswith(("if ", "with ", "without ", "on ")) for each in RULES.values())


@pytest.mark.parametrize(("affected_ms", "tells"), [(499, True), (500, True), (501, False)])
def test_missing_events_silence_a_finding_only_if_they_outweigh_it(affected_ms: int, tells: bool) -> None:  # noqa: FBT001
    """The finding loses 500 ms; the finding on missing events is never the one stated."""
    incomplete = finding(INCOMPLETE, affected_ms * MS, None)
    text, rule = verdict(incomplete, finding(), affected_ns=affected_ms * MS)
    if tells:
        assert rule == "launches/launch_bound"
        assert text.startswith("launches/launch_bound is first.")
    else:
        assert rule is None
        assert text == "Cannot tell: the capture is incomplete, and up to 50.1 % of the time may be wrong."


@pytest.mark.parametrize(("affected_ms", "rule"), [(900, "launches/launch_bound"), (1001, None)])
def test_missing_events_of_all_gpus_are_compared_with_the_time_lost_on_all(affected_ms: int, rule: str | None) -> None:
    """Two GPUs lose 500 ms each; the share is that of both windows."""
    text, found = verdict(finding(), finding(), affected_ns=affected_ms * MS, gpus=2)
    assert found == rule
    assert ("up to 50.0 %" in text) == (rule is None)


def test_a_finding_on_all_gpus_has_lost_its_time_on_each() -> None:
    """Two GPUs lose 300 ms each to one finding, which has their mean; missing events can change 500 ms in all."""
    of_all = replace(finding(lost_ns=300 * MS), device_id=None)
    assert verdict(of_all, affected_ns=500 * MS, gpus=2)[1] == "launches/launch_bound"
    assert verdict(of_all, affected_ns=601 * MS, gpus=2)[1] is None


@pytest.mark.parametrize(("unknown_ms", "rule"), [(500, "launches/launch_bound"), (501, None)])
def test_time_without_a_shown_cause_silences_a_finding_only_if_it_outweighs_it(
    unknown_ms: int, rule: str | None
) -> None:
    """The finding loses 500 ms. What is known comes after what is not."""
    text, found = verdict(finding(), finding("idle/unknown", unknown_ms * MS, None, Severity.NOTE))
    assert found == rule
    assert text.startswith("launches/launch_bound is first." if rule else "Cannot tell: the GPU is idle for 50.1 % ")
    assert " A step takes 100 ms as recorded; about 75 " in text
    assert ("Apart from that: launches/launch_bound is first." in text) == (rule is None)


@pytest.mark.parametrize(("affected_ms", "start"), [(100, "Kernels do not run for 50.0 %"), (101, "Cannot tell: ")])
def test_without_a_finding_missing_events_matter_from_a_tenth_of_the_time_on(affected_ms: int, start: str) -> None:
    """A note is not stated, so it does not count."""
    for findings in ((), (finding(severity=Severity.NOTE),)):
        text, rule = verdict(*findings, affected_ns=affected_ms * MS)
        assert rule is None
        assert text.startswith(start)


def test_copies_that_take_most_of_the_other_time_are_named() -> None:
    """Kernels run for 500 ms, and the GPU copies for more than half of the other 500."""
    for copies_ms, mostly in ((250, ""), (251, ", mostly because of copies")):
        text, _ = find_verdict(sections(copies_ns=copies_ms * MS), (), WHOLE, TEN)
        assert text.startswith(f"Kernels do not run for 50.0 % of the time{mostly}, and no change ")


@pytest.mark.parametrize("rule", ["idle/unknown", "idle/not_traced"])
@pytest.mark.parametrize(("lost_ms", "start"), [(99, "Kernels do not run for "), (100, UNEXPLAINED)])
def test_unexplained_idle_time_from_a_tenth_of_the_time_on_is_stated(rule: str, lost_ms: int, start: str) -> None:
    note = finding(rule, lost_ms * MS, None, Severity.NOTE)
    text, found = verdict(note)
    assert found is None
    assert text.startswith(start)


def test_without_a_ledger_there_was_no_gpu_work() -> None:
    text, rule = find_verdict([], [], window(0, S), NO_STEP)
    assert rule is None
    assert text.startswith("No GPU work was recorded: ")


def gap(fill: Fill, launched: tuple[int, int] = (3 * S, 3 * S + 1)) -> ExportBuilder:
    """Return two kernels of 1 s with a gap of 2 s that holds something."""
    builder = ExportBuilder().kernel(0, S, launched=(0, 1)).kernel(3 * S, 4 * S, launched=launched)
    return fill(builder)


CAUSES: dict[str, Fill] = {
    "synchronization/in_step": lambda b: b.call("cudaStreamSynchronize", S, 3 * S),
    "idle/allocation": lambda b: b.call("cudaMalloc", S, 3 * S),
    "modules/in_window": lambda b: b.call("cuModuleLoadData", S, 3 * S),
    "idle/lock": lambda b: b.os_call("pthread_mutex_lock", S, 3 * S),
    "idle/off_cpu": lambda b: b.os_call("read", 0, 1).scheduled(S, running=False).scheduled(3 * S, running=True),
    "idle/cpu": lambda b: b,
    "idle/data_work": lambda b: b.range("data", S, 3 * S).os_call("read", 0, 1),
}


@pytest.mark.parametrize("rule", CAUSES)
def test_the_only_cause_of_idle_time_is_the_verdict(rule: str) -> None:
    """Each cause is the only one in a gap that takes half of the time."""
    report = build_report(trace_of(gap(CAUSES[rule])))
    assert report.verdict_rule == rule
    assert "50.0 % of the time" in report.verdict
    assert report.findings[0].lost_ns == 2 * S


def test_a_busy_gpu_is_compute_bound() -> None:
    builder = ExportBuilder().gpu().kernel(S, 2 * S, launched=(S - 10, S - 5), gridX=132 * 50, blockX=1024)
    report = build_report(trace_of(builder))
    assert report.verdict.startswith("Compute-bound: kernels run 100.0 % of the time.")
    assert report.verdict_rule is None


@pytest.mark.parametrize("launched", [None, (3 * S, 3 * S + 1)])
def test_idle_time_that_missing_events_may_fill_is_not_explained(launched: tuple[int, int] | None) -> None:
    """A kernel without a launch call, or a CUDA graph that left no trace: half of the time may be wrong."""
    builder = ExportBuilder().kernel(0, S, launched=(0, 1)).kernel(3 * S, 4 * S, launched=launched)
    if launched:
        builder.call("cudaGraphLaunch", S // 2, S // 2 + 1, correlation=99)
    report = build_report(trace_of(builder))
    assert report.verdict == "Cannot tell: the capture is incomplete, and up to 50.0 % of the time may be wrong."
    assert report.verdict_rule is None
    assert report.findings[0].rule == INCOMPLETE


def test_the_mean_step_of_the_program_alone_is_stated() -> None:
    """A few of the steps hold half of the time: the median step, 40 ms, says nothing about the window."""
    step = StepTimes(10, 50 * MS, Interval(30 * MS, 40 * MS, 45 * MS), "simulated", alone_total_ns=900 * MS)
    text, _ = find_verdict(sections(compute_ns=500 * MS), (finding(),), WHOLE, step)
    assert " A step takes 90.0 ms; " in text
