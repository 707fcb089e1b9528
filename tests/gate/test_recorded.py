"""Runs of the history as runs of the gate."""

from typing import Any

import pytest
from made_runs import made_run

from nsyswrap.compare.comparison import IssueKind
from nsyswrap.gate.recorded import KnownOfRuns, gate_runs, run_name
from nsyswrap.gate.timed_runs import GateOptions, GateOutcome, parts_of_accounts
from nsyswrap.runs.run import Account, SeriesRun, in_series


def series(count: int, first: int = 0, factor: float = 1.0) -> list[SeriesRun]:
    """Return runs with a little noise."""
    return [
        in_series(made_run(number, 10 * factor * (1 + 0.001 * (number * 7 % 5))))
        for number in range(first, first + count)
    ]


def test_the_parts_of_a_run_add_up_to_its_step() -> None:
    """Idle time counts once: by its causes."""
    parts = parts_of_accounts(in_series(made_run(1, 10.0)).accounts)
    assert sum(parts.values()) == pytest.approx(10e6)
    assert parts["idle GPU (data loader wait)"] == pytest.approx(3e6)


def test_a_new_run_counts_once() -> None:
    found = gate_runs(series(12), series(1, 100, 1.2) * 3)
    assert found.outcome is GateOutcome.CANNOT_TELL
    assert found.verdict.startswith("Cannot tell: One capture is given twice as a new run.")


def test_an_incomplete_new_run_blocks_until_it_is_accepted() -> None:
    new = series(3, 100)
    known = KnownOfRuns(frozenset({new[0].row.run_id}))
    blocked = gate_runs(series(12), new, None, known)
    assert blocked.outcome is GateOutcome.CANNOT_TELL
    accepted = gate_runs(series(12), new, GateOptions(accept=frozenset({IssueKind.INCOMPLETE})), known)
    assert accepted.outcome is GateOutcome.PASSES


def test_a_new_run_without_steps_cannot_be_compared() -> None:
    run = series(1, 100)[0]
    row = run.row._replace(step_count=0, mean_ns=None, median_ns=None)
    found = gate_runs(series(12), [SeriesRun(row, ())])
    assert found.outcome is GateOutcome.CANNOT_TELL
    assert "no measured steps" in found.verdict


def test_waits_for_a_core_are_known_where_they_were_sampled() -> None:
    """Then a slowdown that they explain is not the program's own."""
    waits = Account("idle", "off_cpu", "idle/off_cpu", "forward", 100, 2.1e6)
    new = [one._replace(accounts=(*one.accounts, waits)) for one in series(3, 100, 1.2)]
    earlier = series(12)
    sampled = {one.row.run_id: 1.0 for one in (*earlier, *new)}
    assert gate_runs(earlier, new).outcome is GateOutcome.REGRESSED
    found = gate_runs(earlier, new, None, KnownOfRuns(frozenset(), sampled))
    assert found.outcome is GateOutcome.CANNOT_TELL
    assert "wait" in found.verdict


def test_what_differs_from_the_last_earlier_run_is_said_first() -> None:
    """Machine, GPU, torch, driver and arguments; a machine that is unknown is no other one."""
    new = series(3, 100)
    others: dict[str, Any] = {"host": "b", "torch": "2.11", "driver": "590", "arguments": "--large"}
    changed = [one._replace(row=one.row._replace(**others)) for one in new]
    before = [one._replace(row=one.row._replace(host="a", torch="2.10", driver="580")) for one in series(12)]
    found = gate_runs(before, changed)
    assert found.verdict.startswith(
        "Other machine: b against a. Other torch: 2.11 against 2.10. Other driver: 590 against 580. "
    )
    assert IssueKind.COMMAND in {one.kind for one in found.issues}
    unknown = [one._replace(row=one.row._replace(host="")) for one in new]
    assert "machine" not in gate_runs(before, unknown).verdict


def test_a_run_is_named_by_its_id_and_its_commit() -> None:
    assert run_name(made_run(1, commit="a" * 40).row) == "00000001ee at aaaaaaaa"
    assert run_name(made_run(1).row) == "00000001ee"
