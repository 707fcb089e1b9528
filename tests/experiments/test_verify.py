"""Which program is faster, by timed runs, and what the result says."""

import json
import math
from pathlib import Path

import pytest

from nsyswrap.compare.comparison import Outcome
from nsyswrap.experiments.verify import Verification, VerifyOptions, decided, verify
from nsyswrap.experiments.verify_checks import WorkCheck, WorkOutcome
from nsyswrap.experiments.verify_runs import (
    KEPT_SCHEMA,
    KeptWork,
    ProgramTime,
    WorkRun,
    changed_files,
    kept_run,
    kept_tree,
    roundoff_of,
)


def times(*milliseconds: float) -> list[ProgramTime]:
    """Return runs whose steps take so long."""
    return [ProgramTime(each * 1e6, 1e9) for each in milliseconds]


def verification(work: WorkOutcome, *checks: WorkCheck, new: list[ProgramTime] | None = None) -> Verification:
    timing = decided(times(10, 10.1, 9.9), new, 0.05, 0.95) if new else None
    return Verification("a.py", "b.py", work, checks, timing, (), VerifyOptions())


@pytest.mark.parametrize(
    ("new", "outcome"),
    [
        ((8, 8.1, 7.9), Outcome.FASTER),
        ((12, 12.1, 11.9), Outcome.SLOWER),
        ((10, 10.1, 9.9), Outcome.NO_DIFFERENCE),
        ((8, 10, 13), Outcome.CANNOT_TELL),
    ],
)
def test_the_interval_decides(new: tuple[float, ...], outcome: Outcome) -> None:
    assert decided(times(10, 10.1, 9.9), times(*new), 0.05, 0.95).outcome is outcome


def test_a_difference_within_find_may_be_certain_and_is_said() -> None:
    """1 % slower with hardly any noise is slower, although it is less than --find."""
    found = decided(times(10, 10.001, 9.999), times(10.1, 10.101, 10.099), 0.05, 0.95)
    assert found.outcome is Outcome.SLOWER
    assert found.ratio.point == pytest.approx(1.01)


def test_runs_are_compared_where_there_are_no_steps() -> None:
    base, new = ([ProgramTime(None, each) for each in side] for side in ((10e9, 10.1e9), (5e9, 5.1e9)))
    found = decided(base, new, 0.05, 0.95)
    assert (found.of, found.outcome) == ("run", Outcome.FASTER)


@pytest.mark.parametrize(
    ("work", "new", "passes"),
    [
        (WorkOutcome.SAME, (8, 8.1, 7.9), True),
        (WorkOutcome.SAME, (10, 10.1, 9.9), True),
        (WorkOutcome.SAME, (12, 12.1, 11.9), False),
        (WorkOutcome.SAME, (8, 10, 13), None),
        (WorkOutcome.OTHER, (), False),
        (WorkOutcome.CANNOT_TELL, (), None),
    ],
)
def test_only_the_same_work_that_is_not_slower_passes(
    work: WorkOutcome,
    new: tuple[float, ...],
    passes: bool | None,  # noqa: FBT001 - a parameter
) -> None:
    check = WorkCheck("losses", "1", "2", work, "In step 0, NEW has 2, BASE 1.")
    assert verification(work, check, new=times(*new)).passes is passes


def test_the_verdict_names_the_first_difference_and_counts_the_others() -> None:
    first = WorkCheck("losses", "1", "2", WorkOutcome.OTHER, "In step 0, NEW has 2, BASE 1.")
    found = verification(WorkOutcome.OTHER, first, first._replace(name="outputs"))
    assert found.verdict == "NEW does other work: in step 0, NEW has 2, BASE 1. 1 more check failed."


def test_the_verdict_names_what_is_certain_before_values() -> None:
    """Other losses follow from other types."""
    losses = WorkCheck("losses", "1", "2", WorkOutcome.OTHER, "In step 0, NEW has 2, BASE 1.", is_value=True)
    types = WorkCheck("types of products", "", "", WorkOutcome.OTHER, "NEW multiplies in bfloat16.")
    assert "other work: NEW multiplies in bfloat16." in verification(WorkOutcome.OTHER, losses, types).verdict


def test_kept_runs_are_read_back(tmp_path: Path) -> None:
    record = {"pid": 1, "precision": {"float32 products": "high"}}
    kept = KeptWork("a.py", WorkRun(0, (), (record,), {"model.pt": 10}), None, 0.0, (ProgramTime(1e6, 2e9),))
    (tmp_path / "base.json").write_text(json.dumps(kept_tree(kept)))
    found = kept_run(tmp_path / "base.json")
    assert found == kept
    assert KEPT_SCHEMA in (tmp_path / "base.json").read_text()
    assert math.isclose(roundoff_of(found.work), 2**-11)


def test_kept_runs_without_the_errors_of_new_say_nothing() -> None:
    """BASE was kept with errors of float32; NEW computes in TF32, with 2**13 times as large ones."""

    def kept(loss: float, precision: str, grown: WorkRun | None = None) -> KeptWork:
        events = [{"kind": "backward", "value": loss, "work": {}}]
        record = {"pid": 1, "problem": "", "events": events, "parameters": {}}
        work = WorkRun(0, (), ({**record, "precision": {"float32 products": precision}},), {})
        return KeptWork("a.py", work, grown, 2.0**-24, ())

    base = kept(1.0, "highest", kept(1.0 + 2.0**-22, "highest").work)
    found, _, _ = verify(base, kept(1.001, "high"), VerifyOptions(most_turns=0))
    assert found.work is WorkOutcome.CANNOT_TELL
    assert "Give its program." in found.verdict


def test_files_that_change_are_found(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    before = changed_files(tmp_path)
    (tmp_path / "new").write_text("12345")
    assert {path: state[1] for path, state in changed_files(tmp_path, before).items()} == {"new": 5}


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ((12, 12.1, 11.9), "is slower; a step takes 1.20 times as long (1.1"),
        ((30, 50, 80), "is slower; by how much is uncertain"),
        ((1, 2, 4), "is faster; by how much is uncertain"),
        ((10, 10.1, 9.9), "takes the same time, within 5 %"),
        ((9, 10, 12), "may be faster or slower: a step takes 0.8"),
        ((3, 10, 30), "may be faster or slower: the times of its runs differ too much"),
    ],
)
def test_the_verdict_shows_no_range_that_says_nothing(new: tuple[float, ...], words: str) -> None:
    assert words in verification(WorkOutcome.SAME, new=times(*new)).verdict
