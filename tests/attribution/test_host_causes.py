"""Idle time is attributed to work of the host: garbage collections, checkpoints, files, tokenizers, waits for a core.

The loops are synthetic and have steps of 1 ms. The GPU is busy until 600 us and idle until the next step. Times are in
microseconds.
"""

from collections.abc import Callable
from typing import Any

import pytest
from export_builder import PID, ExportBuilder, trace_of
from host_records import record_of, recorded, thread_samples
from made_steps import MEASURED, STEP, STEPS, US, made_loop

from nsyswrap.attribution.root_causes.cpu_quota import is_stop
from nsyswrap.base.intervals import times
from nsyswrap.events import off_cpu
from nsyswrap.events.host_record import NO_RECORD, HostRecord
from nsyswrap.loop.context import Settings
from nsyswrap.model import Finding, Report
from nsyswrap.report import build_report
from nsyswrap.trace.tables import Trace

OURS = 7


def marked(builder: ExportBuilder, text: str, start: int, end: int) -> ExportBuilder:
    """Add a mark of nsyswrap to each step, at these microseconds of it."""
    builder.domain("nsyswrap", OURS)
    for number in range(STEPS):
        at = number * STEP
        builder.range(text, at + start * US, at + end * US, domain=OURS)
    return builder


def calling(builder: ExportBuilder, name: str, start: int, end: int) -> ExportBuilder:
    """Add a call of the operating system to each step."""
    for number in range(STEPS):
        builder.os_call(name, number * STEP + start * US, number * STEP + end * US)
    return builder


def report_of(trace: Trace, host: HostRecord = NO_RECORD) -> Report:
    return build_report(trace, "", Settings(host=host))


def lost(report: Report) -> dict[str, float]:
    """Return the time that each finding loses in a measured step, in microseconds."""
    return {each.rule: each.lost_ns / US / MEASURED for each in report.findings}


def finding(report: Report, rule: str) -> Finding:
    return next(each for each in report.findings if each.rule == rule)


def test_a_collection_of_garbage_is_a_cause_of_its_own() -> None:
    """A collection from 500 to 900 explains the idle time from 600 on. Its finding comes first and names the line."""
    report = report_of(trace_of(marked(made_loop(), "garbage collection at train.py:8", 500, 900)))
    assert lost(report)["idle/garbage_collection"] == 300
    first = report.findings[0]
    assert first.rule == "idle/garbage_collection"
    assert any("garbage collection at train.py:8" in line for line in first.evidence)
    assert "gc.freeze()" in first.advice


def test_a_checkpoint_is_all_that_happens_inside_it() -> None:
    """One finding covers it: packing from 600 to 700 and from 800 to 950, a copy to the host, and writing."""
    built = marked(made_loop(), "torch.save at train.py:8", 550, 950)
    built = calling(built, "write", 700, 760)
    for number in range(STEPS):
        built.call("cudaMemcpy_v3020", number * STEP + 760 * US, number * STEP + 800 * US)
    report = report_of(trace_of(built))
    assert lost(report)["host/checkpoint"] == 350
    assert "idle/file_io" not in lost(report)
    assert "synchronization/in_step" not in lost(report)
    assert any("torch.save at train.py:8" in line for line in finding(report, "host/checkpoint").evidence)


def test_a_kernel_that_is_queued_inside_a_checkpoint_waits_for_no_checkpoint() -> None:
    """A kernel is launched at 700 and runs from 800 to 820: the GPU was not free for it."""
    built = marked(made_loop(), "torch.save at train.py:8", 650, 950)
    for at in range(0, STEPS * STEP, STEP):
        built.kernel(at + 800 * US, at + 820 * US, launched=(at + 700 * US, at + 705 * US))
    assert lost(report_of(trace_of(built)))["host/checkpoint"] == 55 + 130


@pytest.mark.parametrize("call", ["write", "fsync", "read", "open64", "fwrite", "pread64"])
def test_files_outside_the_data_phase_are_a_cause_of_their_own(call: str) -> None:
    report = report_of(trace_of(calling(made_loop(), call, 650, 900)))
    assert lost(report)["idle/file_io"] == 250
    assert any(call in line for line in finding(report, "idle/file_io").evidence)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("write", ("terminal", "pipe", "its reader", "file")),
        ("fwrite", ("terminal", "pipe", "its reader", "file")),
        ("read", ("pipe", "the other side", "file")),
        ("fsync", ("disk has written",)),
        ("pwrite64", ("faster disk",)),
    ],
)
def test_advice_on_files_fits_the_call(call: str, words: tuple[str, ...]) -> None:
    """A write may be on a terminal that is slow; an fsync never is. A short call beside it does not count."""
    built = calling(calling(made_loop(), call, 650, 900), "open64", 905, 910)
    found = finding(report_of(trace_of(built)), "idle/file_io")
    assert all(word in found.advice for word in words)
    may_be_stream = call in {"write", "fwrite", "read"}
    assert ("terminal" in found.headline) == may_be_stream
    assert ("The capture does not show" in found.advice) == may_be_stream


@pytest.mark.parametrize("call", ["recv", "poll", "connect", "nanosleep", "waitpid"])
def test_a_wait_for_others_is_not_cpu_time(call: str) -> None:
    """A server, another process or a timer keeps the step waiting from 650 to 900. More work a launch does not help."""
    report = report_of(trace_of(calling(made_loop(), call, 650, 900)))
    assert lost(report)["host/outside_wait"] == 250
    assert lost(report)["idle/cpu"] <= 150
    first = finding(report, "host/outside_wait")
    assert any(call in line for line in first.evidence)
    assert "another thread or process" in first.advice


def in_data(builder: ExportBuilder) -> ExportBuilder:
    """Add a data phase from 620 to 950 to each step."""
    for number in range(STEPS):
        builder.range("data", number * STEP + 620 * US, number * STEP + 950 * US)
    return builder


@pytest.mark.parametrize(
    ("call", "rule", "other"),
    [("recv", "idle/data_wait", "host/outside_wait"), ("read", "host/file_reads", "idle/data_wait")],
)
def test_a_call_of_the_data_phase_waits_for_a_batch_or_reads_one(call: str, rule: str, other: str) -> None:
    """The process has no loader workers, so it reads the files itself."""
    rules = lost(report_of(trace_of(calling(in_data(made_loop()), call, 650, 900))))
    assert rules[rule] == 250
    assert other not in rules


def test_a_process_with_workers_reads_from_them() -> None:
    """The same call reads from the pipe of a worker, so it waits for the data loader."""
    built = calling(in_data(made_loop()), "read", 650, 900).thread_name(1 << 48 | 99 << 24 | 99, "pt_data_worker")
    rules = lost(report_of(trace_of(built)))
    assert rules["idle/data_wait"] == 250
    assert "host/file_reads" not in rules


def test_a_process_that_polls_for_batches_has_workers() -> None:
    """The capture lacks the forked workers, but their parent polls a pipe before it reads."""
    built = calling(calling(in_data(made_loop()), "poll", 640, 650), "read", 650, 900)
    rules = lost(report_of(trace_of(built)))
    assert rules["idle/data_wait"] == 260
    assert "host/file_reads" not in rules


def test_a_tokenizer_in_the_step_is_named() -> None:
    """The tokenizer is named with or without a data phase, while it works and while it waits for its threads."""
    for built in (made_loop(), in_data(made_loop())):
        marked(built, "tokenizer at train.py:8", 640, 940)
        report = report_of(trace_of(calling(built, "pthread_cond_wait", 700, 800)))
        assert lost(report)["host/tokenizer"] == pytest.approx(300, abs=101)
        assert report.findings[0].rule == "host/tokenizer"


def waiting(delay_us: int, **parts: Any) -> HostRecord:  # noqa: ANN401 - any part of the JSON
    """Return a record in which the main thread waits this long for a core in each step, sampled once a step."""
    moments = [number * STEP for number in range(STEPS + 1)]
    delays = [number * delay_us * US for number in range(STEPS + 1)]
    made = recorded(moments, threads=[thread_samples(delays, [number * 500 * US for number in range(STEPS + 1)])])
    return record_of(made | parts)


def test_time_without_a_core_is_a_cause_of_its_own() -> None:
    """The time without a core is placed in the longest interval without a call: 311 us of it are idle."""
    built = made_loop().session()
    assert "idle/off_cpu" not in lost(report_of(trace_of(built)))
    report = report_of(trace_of(built), waiting(900))
    # The 900 us start with the interval and last from 11 to 911; the GPU is idle from 600 on.
    assert lost(report)["idle/off_cpu"] == pytest.approx(311, abs=1)
    assert lost(report)["idle/cpu"] == pytest.approx(89, abs=1)


def test_the_advice_says_who_uses_the_cores() -> None:
    """The program runs half of the time. Of two cores, other programs use the rest. Of half a core, it uses all."""
    built = trace_of(made_loop().session())
    assert "Other programs" in finding(report_of(built, waiting(900)), "idle/off_cpu").advice
    own = waiting(900, cores={"machine": 8, "allowed": 2}, quota_cores=0.5)
    assert "OMP_NUM_THREADS" in finding(report_of(built, own), "idle/off_cpu").advice
    assert any("0.50 cores" in line for line in finding(report_of(built, own), "idle/off_cpu").evidence)


def test_stops_for_a_quota_are_named() -> None:
    """The kernel counts stops for a CPU quota separately, so they are not reported as waits for a core."""
    at = list(range(STEPS + 1))
    stops = {"at": at, "count": at, "ns": [number * 900 * US for number in at]}
    report = report_of(trace_of(made_loop().session()), waiting(900, quota_cores=0.5, throttled=stops))
    assert report.verdict_rule == "host/cpu_quota"
    assert "idle/off_cpu" not in lost(report)


def test_a_stop_counted_late_began_in_the_interval_before() -> None:
    made = record_of(recorded([0, 100, 200], throttled={"at": [0, 1, 2], "count": [0, 0, 1], "ns": [0, 0, 90]}))
    assert is_stop(made, times([50, 100]), times([50, 40])).tolist() == [True, True]
    assert not is_stop(NO_RECORD, times([50]), times([50])).any()


def test_a_thread_can_lose_its_core_inside_a_launch_call() -> None:
    """The launch call that ends the gap lasts from 650 to 990. Its thread has no core for 300 us of that."""
    built = ExportBuilder().gpu().session()
    for number in range(STEPS):
        at = number * STEP
        built.range(f"batch {number}", at, at + STEP)
        built.kernel(at + 5 * US, at + 640 * US, "k", launched=(at + US, at + 3 * US))
        built.kernel(at + 991 * US, at + 999 * US, "k", launched=(at + 650 * US, at + 990 * US))
        for busy in range(3, 650, 40):
            built.call("cudaEventQuery", at + busy * US, at + (busy + 1) * US)
    rules = lost(report_of(trace_of(built), waiting(300)))
    assert rules["idle/off_cpu"] == pytest.approx(300, abs=1)


def faulting(counts: list[int]) -> HostRecord:
    """Return a record in which the main thread runs for 100 us of each step, and its process has page faults so far."""
    at = list(range(STEPS + 1))
    disk = {"process": PID, "at": at, "major_faults": counts, "read_bytes": [4096 * each for each in counts]}
    ran = thread_samples([0] * len(at), [number * 100 * US for number in at])
    moments = [number * STEP for number in at]
    return record_of(recorded(moments, threads=[ran], processes=[disk | {"written_bytes": [0] * len(at)}]))


@pytest.mark.parametrize("prepared", [made_loop, lambda: in_data(made_loop())], ids=["outside data", "in data"])
def test_a_wait_for_pages_of_memory_is_a_cause_of_its_own(
    prepared: Callable[[], ExportBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For 900 us of each step the thread neither runs nor is ready, from 11 to 911; the GPU is idle from 600 on."""
    monkeypatch.setattr(off_cpu, "TICK_NS", 0)
    trace = trace_of(prepared().session())
    report = report_of(trace, faulting([3 * number for number in range(STEPS + 1)]))
    assert lost(report)["host/page_faults"] == pytest.approx(311, abs=1)
    assert not {"idle/data_wait", "host/file_reads", "idle/file_io"} & set(lost(report))
    first = finding(report, "host/page_faults")
    assert any("30 page faults read from disk" in line for line in first.evidence)
    assert any(" in page faults" in line for line in first.evidence)
    assert "host/page_faults" not in lost(report_of(trace, faulting([7] * (STEPS + 1))))


def test_pages_and_files_have_findings_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call reads a file from 700 to 800, next to waits for pages from 600 to 700 and from 800 on."""
    monkeypatch.setattr(off_cpu, "TICK_NS", 0)
    trace = trace_of(calling(made_loop(), "read", 700, 800).session())
    rules = lost(report_of(trace, faulting(list(range(STEPS + 1)))))
    assert rules["idle/file_io"] == 100
    # 800 us without the call: all of the 689 us from 11 to 700, and 111 us from 800 on.
    assert rules["host/page_faults"] == pytest.approx(100 + 111, abs=1)


def test_idle_time_is_counted_once() -> None:
    """With marks, files and waits for a core in one step, the causes add up to the idle time of the ledger."""
    built = marked(calling(made_loop(), "write", 700, 760), "garbage collection", 800, 950).session()
    report = report_of(trace_of(built), waiting(650))
    idle, ledger = report.section("idle"), report.section("ledger")
    assert idle is not None
    assert ledger is not None
    assert idle.tables["attribution"]["idle_ns"].sum() == ledger.tables["devices"]["idle_ns"].sum()
    assert {"garbage_collection", "file_io", "off_cpu"} <= set(idle.tables["attribution"]["cause"])


def test_the_process_of_a_record_is_that_of_the_capture() -> None:
    """Samples of another process with the same thread number do not count."""
    moments = [0, STEPS * STEP]
    other = record_of(recorded(moments, threads=[thread_samples([0, 9 * STEP], process=PID + 1)]))
    assert "idle/off_cpu" not in lost(report_of(trace_of(made_loop().session()), other))
