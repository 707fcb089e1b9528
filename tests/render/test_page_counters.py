"""Counters over time: one curve each, with a readable upper end of the scale."""

import hand_made
import pandas as pd
import pytest

from nsyswrap.model import Report
from nsyswrap.render import page_counters

NAN = float("nan")


def report(**columns: list[float]) -> Report:
    """Return a report with these counters of GPU 0, an interval of 10 ns each."""
    count = len(next(iter(columns.values())))
    starts = [10 * at for at in range(count)]
    table = pd.DataFrame({"device_id": 0, "start_ns": starts, "end_ns": [start + 10 for start in starts], **columns})
    window = pd.DataFrame({"name": ["SMs Active"], "device_id": [0], "mean_share": [0.07], "max_share": [1.0]})
    return hand_made.report_with(hand_made.section_with("counters", over_time=table, window=window))


def test_a_counter_has_a_curve_its_mean_and_its_highest_value() -> None:
    (device,) = page_counters.counters(report(sm_active_share=[0.05, 0.1]))
    (counter,) = device.counters
    assert (device.title, device.interval) == ("GPU 0", "10.0 ns")
    assert (counter.label, counter.mean, counter.most) == ("SM active", "7.0 %", "10.0 %")
    assert counter.area == "M0.0 100V50.0H500.0V0.0H1000.0V100Z"


@pytest.mark.parametrize(("most", "top"), [(0.004, "2.0 %"), (0.03, "5.0 %"), (0.5, "50.0 %"), (0.51, "100.0 %")])
def test_the_upper_edge_fits_the_counter(most: float, top: str) -> None:
    (device,) = page_counters.counters(report(sm_active_share=[0.0, most]))
    assert device.counters[0].top == top


def test_a_counter_that_was_never_sampled_is_left_out() -> None:
    (device,) = page_counters.counters(report(sm_active_share=[0.1, NAN], tensor_active_share=[NAN, NAN]))
    assert [one.label for one in device.counters] == ["SM active"]


def test_a_mean_that_the_section_does_not_give_is_not_made_up() -> None:
    (device,) = page_counters.counters(report(tensor_active_share=[0.1]))
    assert device.counters[0].mean == "not measured"


@pytest.mark.parametrize("made", [hand_made.empty_report(), hand_made.report_with(hand_made.section_with("counters"))])
def test_without_samples_there_are_no_curves(made: Report) -> None:
    assert page_counters.counters(made) == ()
