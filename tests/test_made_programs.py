"""Programs of many kinds whose times are chosen: the ledger to the nanosecond, the steps, causes and the verdict."""

from functools import cache

import pytest
from made_programs import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    MEMSET,
    MS,
    PROGRAMS,
    Made,
    Span,
    counters_alone,
    cut_in_a_step,
    equal_device_ids,
    expected_ledger,
    nothing_at_the_end,
)

from nsyswrap.model import Report
from nsyswrap.report import build_report

every_program = pytest.mark.parametrize("name", PROGRAMS)


@cache
def made(name: str) -> tuple[Made, Report]:
    program = PROGRAMS[name]()
    return program, build_report(program.trace())


@every_program
def test_the_ledger_of_each_gpu_is_what_ran_in_its_steps(name: str) -> None:
    program, report = made(name)
    section = report.section("ledger")
    assert (section is None) == (not program.machine.ran)
    for row in section.tables["devices"].to_dict("records") if section is not None else ():
        gpu = int(row["device_id"])
        pids = sorted(program.steps)
        window = Span(report.window.start_ns, report.window.end_ns)
        own = program.own(pids[min(gpu, len(pids) - 1)]) if pids else window
        wanted = expected_ledger(program.machine.ran, gpu, own)
        communication = row["communication_wait_ns"] + row["communication_transfer_ns"]
        rows = {each: row[each] for each in (COMPUTE, COPY, MEMSET, "idle_ns")}
        assert {**rows, COMMUNICATION: communication} == wanted
        assert row["window_ns"] == own.end - own.start


@every_program
def test_the_steps_are_those_of_the_program(name: str) -> None:
    """Also where a pattern shows them. A GPU of several processes has the steps of the one that ran most on it."""
    program, report = made(name)
    if not program.steps:
        return
    table = report.section("steps").tables["steps"]  # type: ignore[union-attr]
    kept = table[table["number"] >= 0]
    for pid, mine in kept.groupby("process"):
        found = list(zip(mine["start_ns"].tolist(), mine["end_ns"].tolist(), strict=True))
        assert found == [tuple(each) for each in program.steps[int(str(pid))]]
    assert report.step.count == len(next(iter(program.steps.values())))


@every_program
def test_idle_time_has_the_causes_that_were_made(name: str) -> None:
    program, report = made(name)
    for gpu, causes in (program.idle or {}).items():
        table = report.section("idle").tables["attribution"]  # type: ignore[union-attr]
        found = table[table["device_id"] == gpu].groupby("cause", observed=True)["idle_ns"].sum()
        assert found.to_dict() == causes


@every_program
def test_the_verdict_follows_from_the_times(name: str) -> None:
    program, report = made(name)
    assert report.verdict_rule == program.verdict
    assert program.says in report.verdict


def test_processes_that_each_see_device_0_have_gpus_of_their_own() -> None:
    """CUDA_VISIBLE_DEVICES gives them different ones; their kernels have the same device id."""
    report = build_report(equal_device_ids().trace())
    assert [gpu.device_id for gpu in report.gpus] == [0, 1]


def test_the_gpu_of_the_oldest_export_is_known() -> None:
    """A table that newer exports do not have describes it."""
    _, report = made("oldest_export")
    assert [(gpu.name, gpu.compute_capability, gpu.sm_count) for gpu in report.gpus] == [
        ("Tesla V100-SXM2-16GB", (7, 0), 80)
    ]


def test_a_step_that_the_capture_cuts_is_left_out_with_a_note() -> None:
    steps = build_report(cut_in_a_step().trace()).section("steps")
    assert steps is not None
    assert steps.notes == ("Left out: step 12, still open when the capture or the program stopped.",)


def test_a_window_in_which_nothing_runs_is_idle_for_what_the_host_does() -> None:
    """The host sleeps in it, after the last kernel of the capture."""
    report = build_report(nothing_at_the_end().trace(), "0.4:0.9")
    (row,) = report.section("ledger").tables["devices"].to_dict("records")  # type: ignore[union-attr]
    assert row["idle_ns"] == row["window_ns"] == 500 * MS
    assert report.verdict_rule == "host/outside_wait"
    assert report.step.count is None


def test_all_operations_end_with_the_last_one() -> None:
    """The second after it in which nothing runs is no part of the window of all operations."""
    program = nothing_at_the_end()
    report = build_report(program.trace(), "all")
    assert report.window.end_ns == max(each.end for each in program.machine.ran)


def test_counters_alone_are_a_report_about_the_session() -> None:
    report = build_report(counters_alone().trace())
    assert (report.window.source, report.gpus) == ("session", ())
