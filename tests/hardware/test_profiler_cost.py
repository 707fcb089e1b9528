"""The cost of recording is read from a `run.json`. Invalid content gives no cost."""

import pytest

from nsyswrap.base.interval import Interval
from nsyswrap.hardware.profiler_cost import FREE, KINDS, LAUNCH, RANGE, CallCost, Slowdown, read_cost

MEASURED = {"low_ns": 3000, "usual_ns": 5000, "high_ns": 8000.5, "alone_ns": 2000, "quartiles_ns": {"launch": {}}}


def test_costs_are_read_by_kind() -> None:
    """A kind that was not measured costs nothing."""
    found = read_cost({"conditions": {}, "calls": {"launch": MEASURED, "unheard of": MEASURED}})
    assert found is not None
    assert dict(found.calls) == {LAUNCH: CallCost(Interval(3000, 5000, 8000.5), 2000)}
    assert found[RANGE] == FREE


def test_a_slowdown_is_read_and_written() -> None:
    found = read_cost({"calls": {"launch": {**MEASURED, "slowdown": [1.25, 1.5]}}})
    assert found is not None
    assert found[LAUNCH] == CallCost(Interval(3000, 5000, 8000.5), 2000, Slowdown(1.25, 1.5))
    assert read_cost(found.measured()) == found


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {},
        {"calls": {}},
        {"calls": []},
        {"calls": {"launch": None}},
        {"calls": {"launch": {**MEASURED, "low_ns": 6000}}},
        {"calls": {"launch": {**MEASURED, "low_ns": -1}}},
        {"calls": {"launch": {**MEASURED, "high_ns": "inf"}}},
        {"calls": {"launch": {**MEASURED, "alone_ns": None}}},
        *(
            {"calls": {"launch": {**MEASURED, "slowdown": each}}}
            for each in (None, [1.25], [0.9, 1.5], [1.5, 1.25], ["a", 2])
        ),
        {"calls": {"launch": {name: value for name, value in MEASURED.items() if name != "usual_ns"}}},
    ],
)
def test_what_is_no_cost_is_left_out(wrong: object) -> None:
    assert read_cost(wrong) is None


def test_each_kind_has_a_name_of_its_own() -> None:
    assert len(set(KINDS)) == len(KINDS)
