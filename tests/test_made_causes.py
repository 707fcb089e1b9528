"""Causes of idle time that made programs have, and causes that their reports must not name."""

import pytest
from made_programs import MEASURED, MS, PROGRAMS, counters_alone, inference_server, mpi_late_rank

from nsyswrap.report import build_report


@pytest.mark.parametrize("name", ["graph_level", "driver_graphs"])
def test_one_launch_a_step_is_not_bound_by_launches(name: str) -> None:
    """The host works for 8 ms, and the one launch of a step takes 5 us: fewer launches than one do not exist."""
    report = build_report(PROGRAMS[name]().trace())
    assert report.verdict_rule == "idle/cpu"


def test_migrations_to_the_host_are_not_a_wait_after_which_it_launches_again() -> None:
    """The host reads 40 pages of managed memory for 2.4 ms of each step, and waits for nothing else."""
    report = build_report(PROGRAMS["managed_without_prefetch"]().trace())
    assert report.verdict_rule != "synchronization/in_step"
    assert "launch again" not in report.verdict


def test_a_rank_that_waits_in_mpi_does_not_work_on_the_cpu() -> None:
    """Rank 0 works for 1 ms of a step and waits for 4 ms in MPI_Allreduce, until rank 1 has worked for 5 ms."""
    report = build_report(mpi_late_rank().trace())
    table = report.section("idle").tables["attribution"]  # type: ignore[union-attr]
    of_cpu = table[table["rule"] == "idle/cpu"].groupby("device_id")["idle_ns"].sum()
    assert of_cpu.get(0, 0) <= MEASURED * 1 * MS
    assert of_cpu[1] == pytest.approx(MEASURED * 5 * MS, rel=0.02)
    assert report.findings[0].device_id == 1


def test_a_server_that_waits_for_requests_has_no_data_loader() -> None:
    """Both threads wait in epoll_wait: for others outside the program, whichever thread is called the main one."""
    report = build_report(inference_server().trace())
    table = report.section("idle").tables["attribution"]  # type: ignore[union-attr]
    assert not {"idle/data_wait", "idle/data_work"} & set(table["rule"].astype(str))


def test_a_gpu_whose_counters_show_work_did_not_idle() -> None:
    """The counters show 40 % of the multiprocessors at work, so it is not true that no CUDA work was seen."""
    report = build_report(counters_alone().trace())
    assert not any("saw no CUDA work in this program or on this machine" in note for note in report.notes)


def test_graphs_that_are_traced_as_a_whole_have_the_causes_of_their_kernels() -> None:
    """The same program, its graphs traced as a whole and node by node, has one verdict."""
    whole, nodes = (build_report(PROGRAMS[name]().trace()) for name in ("graph_level", "node_level"))
    assert whole.verdict_rule == nodes.verdict_rule
