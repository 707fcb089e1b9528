"""Step times of a report: measured steps in the window, time between them, and the mean over ranks."""

from dataclasses import replace

import numpy as np
import paired_reports as pairs
import pandas as pd
import pytest
from paired_reports import MS

from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Window
from nsyswrap.compare.step_times import LEDGER_ROWS, step_times, waiting_of
from nsyswrap.model import AloneSource, StepTimes

THREE = [4 * MS, 6 * MS, 5 * MS]


def test_warm_up_is_left_out() -> None:
    assert step_times(pairs.report(THREE)).length.tolist() == THREE


def test_time_between_steps_counts_in_the_period_only() -> None:
    """The last step has no next one, so its period is its length."""
    found = step_times(pairs.report(THREE, between=MS))
    assert found.length.tolist() == THREE
    assert found.period.tolist() == [5 * MS, 7 * MS, 5 * MS]
    assert found.between_share == pytest.approx(2 / 17)


def test_a_report_of_the_same_version_may_number_no_steps() -> None:
    """Then the measured steps inside its window count, as many as each process has."""
    whole = pairs.report(THREE, ranks=2)
    table = whole.section("steps").tables["steps"].drop(columns="number")  # type: ignore[union-attr]
    bare = pairs.with_section(whole, "steps", steps=table)
    assert step_times(bare).length.tolist() == THREE
    first = Window(whole.window.start_ns, whole.window.start_ns + 11 * MS, "some", "steps")
    assert step_times(replace(bare, window=first)).length.tolist() == THREE[:2]


def test_ranks_are_one_step_and_not_many() -> None:
    """Two processes that take 60 steps at the same time count as 60 steps, not 120."""
    one, two = (step_times(pairs.report(THREE, ranks=ranks)) for ranks in (1, 2))
    assert two.length.tolist() == one.length.tolist()
    assert two.count == 3


def test_a_step_of_several_ranks_is_their_mean() -> None:
    """It has the steps that each rank has: a rank whose rows are cut limits the others."""
    slow, quick = pairs.report(THREE), pairs.report([2 * MS, 2 * MS])
    tables = [one.section("steps").tables["steps"] for one in (slow, quick)]  # type: ignore[union-attr]
    ranks = [table.assign(process=rank) for rank, table in enumerate(tables)]
    both = pairs.with_section(slow, "steps", steps=pd.concat(ranks, ignore_index=True))
    assert step_times(both).length.tolist() == [3 * MS, 4 * MS]


def test_parts_are_the_mean_over_gpus() -> None:
    found = step_times(pairs.report(THREE, gpus=2))
    assert set(found.parts) == set(LEDGER_ROWS)
    assert found.parts["compute_ns"].tolist() == [pairs.COMPUTE_NS] * 3
    assert sum(found.parts.values()) == pytest.approx(found.length)


@pytest.mark.parametrize("steps", [pd.DataFrame(), None])
def test_a_report_may_have_no_steps(steps: pd.DataFrame | None) -> None:
    """The table is empty, as in a report.json, or the section is missing."""
    whole = pairs.report(THREE)
    bare = replace(whole, sections=tuple(one for one in whole.sections if one.key != "steps"))
    found = step_times(bare if steps is None else pairs.with_section(bare, "steps", steps=steps))
    assert (found.count, found.family, found.between_share) == (0, "", 0.0)


def test_warm_up_alone_is_no_measured_step() -> None:
    whole = pairs.report([])
    assert step_times(whole).count == 0


def test_a_family_is_the_name_without_its_number() -> None:
    """The number may have one digit or several."""
    assert step_times(pairs.report(THREE, name="epoch 12 batch")).family == "epoch # batch #"


def test_a_step_of_no_length_counts_as_one_nanosecond() -> None:
    """The comparison takes its logarithm."""
    assert step_times(pairs.report([0, 0, 5 * MS])).length.tolist() == [1, 1, 5 * MS]
    assert np.isfinite(np.log(step_times(pairs.report([0, 0, 5 * MS])).period)).all()


def test_waits_for_a_core_are_those_of_idle_time_or_of_the_thread_that_waits_longest() -> None:
    """With GPU work 6 ms of idle time in 60 steps; without it the host table, added up for each thread."""
    whole = pairs.with_attribution(pairs.report(pairs.lengths(4.0)), ("off_cpu", "idle/off_cpu", "forward", 6 * MS))
    host = pd.DataFrame(
        {
            "thread_id": [1, 1, 2, 2],
            "rule": ["idle/off_cpu", "idle/off_cpu", "idle/off_cpu", "idle/file_io"],
            "total_ns": [60 * MS, 60 * MS, 90 * MS, 900 * MS],
        }
    )
    sampled = pairs.with_section(whole, "machine", {"cpu_time_ns": 100}, host=host)
    assert waiting_of(sampled, 60) == pytest.approx(MS / 10)
    alone = replace(sampled, sections=tuple(one for one in sampled.sections if one.key == "machine"))
    assert waiting_of(alone, 60) == pytest.approx(2 * MS)


def test_waits_for_a_core_are_unknown_where_the_machine_was_not_sampled() -> None:
    whole = pairs.report(pairs.lengths(4.0))
    assert waiting_of(whole, 60) is None
    assert waiting_of(pairs.with_section(whole, "machine", {"cpu_time_ns": 0}), 60) is None
    assert waiting_of(pairs.with_section(whole, "machine", {"cpu_time_ns": 100}), 60) == 0.0


@pytest.mark.parametrize("source", ["this_process", "second_run", "simulated", None])
def test_the_step_alone_is_known_where_it_was_measured(source: AloneSource | None) -> None:
    alone = None if source is None else Interval(3 * MS, 4 * MS, 5 * MS)
    whole = replace(pairs.report(THREE), step=StepTimes(3, 5 * MS, alone, source))
    assert step_times(whole).alone_ns == (alone if source in ("this_process", "second_run") else None)
