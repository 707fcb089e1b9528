"""What limits each cell, and where that changes along an axis."""

import pytest
from made_sweeps import gpus_sweep, workers_sweep

from nsyswrap.rules import RULES
from nsyswrap.rules.rule import Group
from nsyswrap.sweep.limits import group_of, groups_of, limit_changes, limit_of
from nsyswrap.sweep.results import StepPart


@pytest.mark.parametrize(
    ("rule", "group"),
    [
        ("idle/data_wait", Group.LOADER),
        ("data/worker_start", Group.LOADER),
        ("launches/launch_bound", Group.HOST),
        ("idle/synchronization", Group.HOST),
        ("copies/pageable", Group.COPIES),
        ("idle/unknown", Group.UNKNOWN),
        ("idle/profiler", Group.PROFILER),
        ("ranks/late", Group.COMMUNICATION),
    ],
)
def test_idle_time_has_the_group_of_its_rule(rule: str, group: Group) -> None:
    assert rule in RULES
    assert group_of(StepPart("idle_ns", rule, 1.0)) is group


def test_the_limit_is_the_largest_group_with_its_largest_rule() -> None:
    cells = workers_sweep().cells
    limits = [limit_of(each) for each in cells]
    assert [each.group if each else None for each in limits] == [Group.LOADER] * 2 + [Group.HOST] * 2 + [None]
    assert limits[0] is not None
    assert limits[0].share == pytest.approx(0.75, abs=1e-3)
    assert limits[2] is not None
    assert (limits[0].words, limits[2].words) == ("data loader wait", "launch-bound kernels (host)")
    assert sum(groups_of(cells[0]).values()) == pytest.approx(cells[0].step_ns)


def test_a_change_is_between_neighbours_of_an_axis() -> None:
    (change,) = limit_changes(workers_sweep())
    assert (change.axis, change.before, change.after, change.others) == ("workers", "1", "2", ())
    assert (change.limit_before.group, change.limit_after.group) == (Group.LOADER, Group.HOST)
    assert limit_changes(gpus_sweep()) == ()
