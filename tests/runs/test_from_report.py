"""From a report to a run: its accounts are those of the report, to the nanosecond, and nothing private gets in."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import hand_made
import pytest
from hand_made import HOSTILE

from nsyswrap.base.privacy import identity_from
from nsyswrap.model import Fact, Report
from nsyswrap.render.json_reader import read_report
from nsyswrap.runs.from_report import RunOrigin, run_from_report
from nsyswrap.runs.run import Run

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "reports" / "samples" / "mnist-1-worker"
SECRET = "v4lue-of-a-secret"  # noqa: S105 - planted to be looked for


def sample() -> tuple[Report, dict[str, object]]:
    """Return a report of a real run with its run.json."""
    return read_report(SAMPLE / "report.json"), json.loads((SAMPLE / "run.json").read_text())


def everything(run: Run) -> str:
    return repr(dataclasses.asdict(run))


def test_accounts_add_up_as_in_the_report() -> None:
    """The ledger to the window of each GPU, and causes to its idle time."""
    report, record = sample()
    run = run_from_report(report, record)
    sums = {kind: sum(one.total_ns for one in run.accounts if one.kind == kind) for kind in ("ledger", "idle")}
    idle = next(one.total_ns for one in run.accounts if one.name == "idle_ns")
    assert sums == {"ledger": run.row.window_ns * run.row.gpu_count, "idle": idle}


def test_a_joint_report_has_the_waits_for_late_ranks(real_report: Callable[[str], Report]) -> None:
    """They add up to the ledger's waits over all ranks."""
    run = run_from_report(real_report("ranks/loader"))
    waits = [one for one in run.accounts if one.kind == "wait"]
    ledger = next(one.total_ns for one in run.accounts if one.name == "communication_wait_ns")
    assert sum(one.total_ns for one in waits) == ledger > 0
    assert run.row.ranks == run.row.gpu_count > 1


def test_identity_and_noise_are_those_of_report_and_record() -> None:
    report, record = sample()
    record |= {"git": {"commit": "c0ffee", "dirty": True}, "machine": "0123456789ab"}
    row = run_from_report(report, record, RunOrigin(1_700_000_000, "reports/x")).row
    assert (row.program, row.arguments) == ("workloads/mnist.py", "--workers 1 --steps 60")
    assert (row.gpu, row.gpu_count, row.ranks, row.rank, row.host) == ("NVIDIA H200", 1, 1, "", "0123456789ab")
    assert (row.commit, row.is_dirty, row.committed_s, row.folder) == ("c0ffee", True, 1_700_000_000, "reports/x")
    assert (row.torch, row.driver, row.nsyswrap) == ("2.11.0", "580.159.04", "0.1.0")
    assert (row.step_count, row.median_ns) == (report.step.count, report.step.recorded_ns)
    assert row.p05_ns and row.median_ns and row.p95_ns  # noqa: PT018 - one fact: all are known
    assert row.p05_ns < row.median_ns < row.p95_ns


def test_steps_that_the_report_does_not_list_are_known_from_its_facts() -> None:
    """Long reports list some of their steps only; a summary of those alone would be wrong."""
    report, _ = sample()
    steps = report.section("steps")
    assert steps is not None
    table = steps.tables["steps"]
    cut = dataclasses.replace(steps, tables={"steps": table.nlargest(9, "end_ns")})
    sections = tuple(cut if one.key == "steps" else one for one in report.sections)
    whole, row = run_from_report(report).row, run_from_report(dataclasses.replace(report, sections=sections)).row
    assert (row.step_count, row.median_ns) == (whole.step_count, whole.median_ns)
    assert row.p05_ns == pytest.approx(whole.p05_ns)
    assert row.mean_ns == pytest.approx(whole.mean_ns)
    assert row.cpu_share == pytest.approx(whole.cpu_share)
    assert (row.p25_ns, row.stddev_ns) == (None, None)


def test_reports_of_one_capture_are_one_run_with_other_contents() -> None:
    report, record = sample()
    run = run_from_report(report, record)
    other = run_from_report(dataclasses.replace(report, verdict="Another verdict."), record)
    assert (run.row.run_id, run.content != other.content) == (other.row.run_id, True)
    moved = run_from_report(report, record, RunOrigin(5, "elsewhere"))
    assert (run.row.run_id, run.content) == (moved.row.run_id, moved.content)


def test_other_captures_are_other_runs() -> None:
    """Captures differ in their length in ns; reports without one differ in any of their contents."""
    report, _ = sample()
    session = dataclasses.replace(report.session, duration_ns=report.session.duration_ns + 1)
    longer = dataclasses.replace(report, session=session)
    unknown = [
        dataclasses.replace(report, session=dataclasses.replace(session, duration_ns=0), verdict=verdict)
        for verdict in ("a", "b")
    ]
    assert len({run_from_report(one).row.run_id for one in (report, longer, *unknown)}) == 4


def test_nothing_private_gets_in() -> None:
    """Secrets, users, hosts and home folders go from every text, though the report was not made here."""
    report, record = sample()
    words = f"/home/annabella/x {SECRET} on buildhost by annabella"
    finding = dataclasses.replace(report.findings[0], headline=words)
    section = dataclasses.replace(report.sections[0], facts=(Fact(words, words, "text"),))
    planted = dataclasses.replace(report, verdict=words, findings=(finding,), sections=(section,))
    record |= {"command": ["python", "train.py", f"--api-key={SECRET}", words], "machine": "buildhost"}
    variables = {"MY_TOKEN": SECRET, "USER": "annabella", "HOSTNAME": "buildhost"}
    text = everything(run_from_report(planted, record, RunOrigin(), identity_from(variables.items()).cleaner()))
    assert [word for word in (SECRET, "annabella", "buildhost") if word in text] == []


def test_hostile_texts_and_values_can_be_stored() -> None:
    """NUL bytes and lone surrogates have no place in a database; a number that is none is missing."""
    report = hand_made.empty_report()
    facts = (Fact("nan", float("nan"), "ns"), Fact("inf", float("inf"), "ns"), Fact("int", 3, "count"))
    section = dataclasses.replace(
        sample()[0].sections[0], facts=(*facts, Fact("a\0b\ud800", HOSTILE, "text")), tables={}
    )
    run = run_from_report(dataclasses.replace(report, sections=(section,)), {"command": "no list", "git": 3})
    assert [one.value for one in run.facts] == [None, None, 3.0, None]
    text = everything(run)
    text.encode()
    assert "\0" not in run.facts[-1].label
    assert not run.row.has_steps
