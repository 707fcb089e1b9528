"""The section on the machine: the activity of the host, with and without GPU work."""

from typing import Any

import pytest
from export_builder import MAIN, PID, ExportBuilder, thread, trace_of
from host_records import record_of, recorded, thread_samples

from nsyswrap.events.host_record import NO_RECORD, HostRecord
from nsyswrap.loop.context import Settings
from nsyswrap.model import Report, Section
from nsyswrap.render.summary_model import finding_groups
from nsyswrap.report import build_report
from nsyswrap.trace.tables import THREAD_MASK, Trace

MS = 1_000_000
STEPS = 6
# Two steps of warm-up.
MEASURED = STEPS - 2
OURS = 7


def host_loop() -> ExportBuilder:
    """Return steps of 10 ms without GPU work, in which the capture shows no wait of the main thread."""
    builder = ExportBuilder().session().domain("nsyswrap", OURS)
    for number in range(STEPS):
        at = number * 10 * MS
        builder.range(f"batch {number}", at, at + 10 * MS).range("forward", at + MS, at + 9 * MS)
    return builder.os_call("ioctl", 0, 1)


def marked(builder: ExportBuilder, text: str, start: int, end: int) -> ExportBuilder:
    """Add a mark to each step, from and to these milliseconds after the step's start."""
    for number in range(STEPS):
        at = number * 10 * MS
        builder.range(text, at + start * MS, at + end * MS, domain=OURS)
    return builder


def report_of(trace: Trace, host: HostRecord = NO_RECORD) -> Report:
    return build_report(trace, "", Settings(host=host))


def machine(report: Report) -> Section:
    found = report.section("machine")
    assert found is not None
    return found


def sampled(**parts: Any) -> HostRecord:  # noqa: ANN401 - any part of the JSON
    """Return a record of the main thread: in each 10 ms it ran for 4 ms and waited 5 ms for a core."""
    moments = [number * 10 * MS for number in range(STEPS + 1)]
    numbers = list(range(STEPS + 1))
    threads = [thread_samples([5 * MS * each for each in numbers], [4 * MS * each for each in numbers])]
    use = {"process": PID, "at": numbers, "major_faults": numbers, "read_bytes": [9 * each for each in numbers]}
    made = recorded(moments, threads=threads, processes=[use | {"written_bytes": [0] * len(numbers)}], spent_ns=MS // 2)
    return record_of(made | parts)


CASES = {
    "garbage collection at train.py:8": "idle/garbage_collection",
    "torch.save at train.py:8": "host/checkpoint",
    "tokenizer at train.py:8": "host/tokenizer",
}


@pytest.mark.parametrize(("text", "rule"), CASES.items())
def test_without_gpu_work_the_host_has_the_findings(text: str, rule: str) -> None:
    """The finding takes 4 of 10 ms of each step. The verdict names it, and the evidence names the line."""
    report = report_of(trace_of(marked(host_loop(), text, 3, 7)))
    (found,) = report.findings
    assert (found.rule, found.lost_ns) == (rule, MEASURED * 4 * MS)
    assert report.verdict_rule == rule
    assert "40.0 % of the time" in report.verdict
    assert any(text in line for line in found.evidence)
    assert found.saving_method == "estimated"


def test_findings_about_the_loops_of_several_processes_name_them() -> None:
    """By the number that the launcher gave them, or else by the process. They are apart in the summary."""
    other = thread(5000, 5000)
    built = host_loop().domain("nsyswrap", OURS, thread=other)
    for number in range(STEPS):
        at = number * 10 * MS
        built.range(f"batch {number}", at, at + 10 * MS, thread=other)
        for who, length in ((MAIN, 4), (other, 2)):
            built.range("garbage collection", at + 3 * MS, at + (3 + length) * MS, domain=OURS, thread=who)
    report = build_report(trace_of(built), "", Settings(launched_as={other & ~THREAD_MASK: 1}))
    assert [each.headline for each in report.findings] == [
        f"The training loop of process {PID} collects garbage 40.0 % of the time.",
        "The training loop of rank 1 collects garbage 20.0 % of the time.",
    ]
    assert len(finding_groups(report)) == 2


def test_a_wait_for_a_tokenizers_threads_is_the_tokenizers() -> None:
    """Its threads compute, and the main thread waits for them: 3 of the 4 ms of each mark. Other waits have no rule."""
    built = marked(host_loop(), "tokenizer at train.py:8", 3, 7)
    for number in range(STEPS):
        at = number * 10 * MS
        built.os_call("pthread_cond_wait", at + 4 * MS, at + 7 * MS).os_call(
            "pthread_cond_wait", at + 8 * MS, at + 9 * MS
        )
    report = report_of(trace_of(built))
    (found,) = report.findings
    assert (found.rule, found.lost_ns) == ("host/tokenizer", MEASURED * 4 * MS)
    assert machine(report).tables["host"]["total_ns"].sum() == MEASURED * 4 * MS


def test_a_file_written_in_a_checkpoint_is_the_checkpoints() -> None:
    built = marked(host_loop(), "Trainer.save_checkpoint at train.py:8", 3, 7)
    for number in range(STEPS):
        built.os_call("write", number * 10 * MS + 4 * MS, number * 10 * MS + 7 * MS)
    (found,) = report_of(trace_of(built)).findings
    assert (found.rule, found.lost_ns) == ("host/checkpoint", MEASURED * 4 * MS)


def test_a_loop_without_such_work_has_no_finding() -> None:
    report = report_of(trace_of(host_loop()))
    assert report.findings == ()
    assert report.verdict_rule is None
    assert not len(machine(report).tables["host"])


def test_with_gpu_work_the_section_on_idle_time_has_the_findings() -> None:
    """The host collects garbage while the GPU is busy. No time is lost, but the table shows the host's activity."""
    built = marked(host_loop().gpu(), "garbage collection", 3, 7)
    for number in range(STEPS):
        at = number * 10 * MS
        built.kernel(at + 1000, at + 9_999_000, "k", launched=(at, at + 500))
    report = report_of(trace_of(built))
    assert not [each for each in report.findings if each.rule == "idle/garbage_collection"]
    (row,) = machine(report).tables["host"].to_dict("records")
    assert (row["rule"], row["total_ns"], row["count"]) == ("idle/garbage_collection", MEASURED * 4 * MS, MEASURED)


def test_waits_for_a_core_are_found_without_gpu_work() -> None:
    report = report_of(trace_of(host_loop()), sampled())
    (found,) = report.findings
    assert (found.rule, found.lost_ns) == ("idle/off_cpu", MEASURED * 5 * MS)
    assert "Other programs" in found.advice
    assert any("0.40 cores on average, of 2" in line for line in found.evidence)


def test_the_facts_are_about_the_window() -> None:
    """The window is 40 ms long and holds four of the six steps."""
    facts = {fact.label: fact.value for fact in machine(report_of(trace_of(host_loop()), sampled())).facts}
    assert facts["cpu_time_ns"] == MEASURED * 4 * MS
    assert facts["without_core_ns"] == MEASURED * 5 * MS
    assert (facts["major_page_faults"], facts["disk_read_bytes"]) == (MEASURED, MEASURED * 9)
    assert (facts["allowed_cores"], facts["machine_cores"]) == (2, 8)
    assert facts["sampling_share"] == pytest.approx(0.5 / 60)
    assert "quota_cores" not in facts


def test_a_quota_is_a_fact_and_names_the_finding() -> None:
    at = list(range(STEPS + 1))
    stops = {"at": at, "count": at, "ns": [5 * MS * each for each in at]}
    report = report_of(trace_of(host_loop()), sampled(quota_cores=0.5, throttled=stops))
    facts = {fact.label: fact.value for fact in machine(report).facts}
    assert (facts["quota_cores"], facts["throttled_ns"]) == ("0.5", MEASURED * 5 * MS)
    assert [each.rule for each in report.findings] == ["host/cpu_quota"]


def test_numa_nodes_and_a_clock_limit_are_facts_where_they_are_known() -> None:
    cores = {"machine": 8, "allowed": 8, "numa_nodes": 2, "allowed_numa_nodes": 1}
    clocks = {"clock_limit_khz": 2_000_000, "clock_maximum_khz": 3_500_000}
    facts = {each.label: each.value for each in machine(report_of(trace_of(host_loop()), sampled(cores=cores))).facts}
    assert facts["numa_nodes"] == "1 of 2"
    assert "cpu_clock_limit" not in facts
    report = report_of(trace_of(host_loop()), sampled(cores=cores | clocks))
    assert {each.label: each.value for each in machine(report).facts}["cpu_clock_limit"] == "2000 of 3500 MHz"


def test_files_are_named_by_their_calls() -> None:
    """Outside the data phase they are file reads and writes, inside it reads for the next batch."""
    built = host_loop()
    for number in range(STEPS):
        at = number * 10 * MS
        built.os_call("fsync", at + 2 * MS, at + 5 * MS).os_call("read", at + int(9.2 * MS), at + int(9.7 * MS))
        built.range("data", at + 9 * MS, at + 10 * MS)
    report = report_of(trace_of(built))
    rows = {row["rule"]: row for row in machine(report).tables["host"].to_dict("records")}
    assert (rows["idle/file_io"]["what"], rows["idle/file_io"]["total_ns"]) == ("fsync", MEASURED * 3 * MS)
    assert (rows["host/file_reads"]["what"], rows["host/file_reads"]["total_ns"]) == ("read", MEASURED * MS // 2)
    assert [each.rule for each in report.findings] == ["idle/file_io", "host/file_reads"]


def test_a_capture_without_samples_says_so() -> None:
    (note,) = machine(report_of(trace_of(host_loop()))).notes
    assert "host.json" in note
    assert machine(report_of(trace_of(host_loop()), sampled())).notes == ()
