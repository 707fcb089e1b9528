"""Page faults of managed memory have a finding of their own, with the waits of the host and of kernels."""

import pytest
from export_builder import DEVICE, PROCESS, ExportBuilder, global_id, trace_of

from nsyswrap.model import Finding, Report
from nsyswrap.report import build_report
from nsyswrap.rules.memory import TOO_LARGE

US = 1000
TO_GPU, TO_HOST = 11, 12
PREFETCHED, FAULT, EVICTED = 1, 2, 4
RULE = "memory/migrations"
MANAGED = {"srcKind": 7, "dstKind": 7, "stream": None, "correlation": 0, "bytes": 1 << 16}


def one_kernel(*, cause: int = FAULT, every: int = 30, to_gpu: int = 140) -> ExportBuilder:
    """Return a kernel of 1,420 us over managed memory, and 60 reads of its result by the host.

    ::

        GPU     |######### kernel #########|..20..|6|..24..|6|..24..|6|
        pages     |6|4|6|4|6|4| to the GPU          to the host
        host    |launch|--- synchronizes ---| reads page after page

    Args:
        cause: Why the pages move.
        every: How far apart the host's reads are, in us.
        to_gpu: How many pages move to the GPU.
    """
    made = ExportBuilder().gpu().row("PROCESSES", globalPid=global_id(4711), pid=4711, name="/home/u/add")
    made.call("cudaMallocManaged", 1000 * US, 1050 * US)
    made.kernel(1080 * US, 2500 * US, "add(int*, int*)", launched=(1060 * US, 1070 * US), gridX=4096, blockX=256)
    made.call("cudaDeviceSynchronize", 1072 * US, 2505 * US)
    for page in range(to_gpu):
        at = (1085 + 10 * page) * US
        made.copy(at, at + 6 * US, TO_GPU, migrationCause=cause, **MANAGED)  # type: ignore[arg-type]
    for page in range(60):
        at = (2520 + every * page) * US
        made.copy(at, at + 6 * US, TO_HOST, migrationCause=cause, **MANAGED)  # type: ignore[arg-type]
    return made


def found(report: Report) -> Finding | None:
    """Return the finding on page faults."""
    return next((each for each in report.findings if each.rule == RULE), None)


def test_page_faults_of_managed_memory_are_named_with_what_moves_the_pages_before() -> None:
    """Nothing is launched again, and no value is read with `.item()`: there is one kernel, and no PyTorch."""
    report = build_report(trace_of(one_kernel()))
    finding = found(report)
    assert finding is not None
    assert report.verdict_rule == report.findings[0].rule == RULE
    idle, moving = 20 + 59 * 24, 140 * 6 + 60 * 6
    assert finding.lost_ns == (idle + moving) * US
    assert "cudaMemPrefetchAsync" in finding.advice
    assert "cudaMemAdvise" in finding.advice
    for each in report.findings:
        assert not any(word in each.advice for word in (".item()", "pin_memory", "non_blocking", "DataLoader"))
    assert {each.rule for each in report.findings}.isdisjoint({"synchronization/in_step", "copies/exposed"})


def test_the_evidence_names_both_directions_and_the_kernels_that_wait() -> None:
    finding = found(build_report(trace_of(one_kernel())))
    assert finding is not None
    assert finding.evidence[:4] == (
        "840 µs in 140 Unified Host-to-Device migrations, 8.75 MiB",
        "360 µs in 60 Unified Device-to-Host migrations, 3.75 MiB",
        "the GPU is idle for 1.44 ms until the host touches the next page",
        "1 kernel, 1.42 ms, runs while pages move: this time holds waits for pages",
    )


def test_page_faults_that_were_recorded_are_counted() -> None:
    """Nsys records them with --cuda-um-gpu-page-faults and --cuda-um-cpu-page-faults."""
    made = one_kernel(to_gpu=0)
    for group in range(10):
        at = (1100 + 100 * group) * US
        made.row(
            "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
            start=at,
            end=at + 50 * US,
            process=PROCESS,
            device=0,
            address=0,
            numberOfPageFaults=3,
        )
        made.row("CUDA_UM_CPU_PAGE_FAULT_EVENTS", start=(2600 + group) * US, process=PROCESS, address=0)
    finding = found(build_report(trace_of(made)))
    assert finding is not None
    assert "30 page faults of the GPU, 10 of the CPU" in finding.evidence
    assert finding.lost_ns == (20 + 59 * 24 + 60 * 6 + 10 * 50) * US


def test_pages_that_the_program_prefetches_are_no_faults() -> None:
    """They are copies like others, and beside the kernel they cost nothing."""
    report = build_report(trace_of(one_kernel(cause=PREFETCHED)))
    assert found(report) is None
    notes = [note for section in report.sections for note in section.notes]
    assert "200 migrations of unified memory in the window: the program prefetches them." in notes


def test_idle_time_before_a_fault_is_no_longer_than_a_fault() -> None:
    """The host computes for 994 us between two pages, so its work, not the fault, is what the GPU waits for."""
    report = build_report(trace_of(one_kernel(every=1000, to_gpu=0)))
    finding = found(report)
    assert report.verdict_rule != RULE
    assert finding is None or finding.lost_ns == (20 + 60 * 6) * US


def test_pages_that_are_evicted_tell_that_memory_is_too_small() -> None:
    finding = found(build_report(trace_of(one_kernel(cause=EVICTED))))
    assert finding is not None
    assert finding.advice == TOO_LARGE.advice
    assert "200 of them evict pages" in finding.evidence


@pytest.mark.parametrize("release", [2022, 2025])
def test_a_copy_by_a_call_is_no_migration(release: int) -> None:
    """A program without managed memory has neither the finding nor its note."""
    made = ExportBuilder(release).gpu().kernel(0, 50 * US, "k", launched=(-9 * US, -5 * US))
    made.copy(60 * US, 300 * US, launched=(20 * US, 25 * US), srcKind=DEVICE)
    assert found(build_report(trace_of(made))) is None
