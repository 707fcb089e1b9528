"""The pictures of a comparison: typical steps on one scale, intervals, distributions and both ledgers."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from made_comparisons import faster_steps, full
from paired_reports import MS
from timeline_fixtures import US

from nsyswrap.base.interval import Interval
from nsyswrap.compare.comparison import AmountChange, ChangeTable, Estimate
from nsyswrap.render import comparison_pictures, documents


def test_both_steps_are_on_the_page_or_a_sentence_says_which_side_has_none() -> None:
    """A report.json holds no timeline."""
    (before, after), difference = comparison_pictures.step_pair(faster_steps())
    assert (before.side, before.name, after.side, after.name) == ("base", "before", "new", "after")
    assert [end - start for start, end in (before.span, after.span)] == [1_000 * US, 500 * US]
    assert difference == "500 µs shorter"
    page = documents.render("comparison", "html", faster_steps())
    assert page.index('class="st-kept">base') < page.index('class="st-kept">new')
    without = documents.render("comparison", "html", faster_steps(with_new=False))
    assert "drawn-step" not in without.partition("<body>")[2]
    assert "The typical steps are not drawn: new has no timeline. Give captures" in without


def test_both_ledgers_have_one_scale() -> None:
    """A step of half the length has a bar of half the length."""
    table = ChangeTable(
        "ledger", "Ledger", "a step", "ns", (AmountChange("compute_ns", 1e6, 1e6), AmountChange("idle_ns", 3e6, 1e6))
    )
    drawn = comparison_pictures.ledger(table)
    widths = [sum(float(one.width) for one in bar.parts) for bar in drawn.bars]
    assert widths == pytest.approx([100, 50], abs=0.01)
    assert tuple(bar.amount for bar in drawn.bars) == ("4.00 ms", "2.00 ms")
    assert [one.key for one in drawn.legend] == ["compute", "idle"]
    assert comparison_pictures.ledger(None).bars == ()


def test_idle_time_is_split_into_its_accounts_with_the_hues_of_the_report() -> None:
    """Accounts replace the part of all idle time; more than six are merged, and a family has a lighter second fill."""
    table = ChangeTable(
        "ledger", "", "a step", "ns", (AmountChange("compute_ns", 1e6, 1e6), AmountChange("idle_ns", 3e6, 1e6))
    )
    rules = [
        AmountChange("idle/data_wait", 2e6, 0.5e6),
        AmountChange("idle/cpu", 0.6e6, 0.3e6),
        AmountChange("idle/lock", 0.4e6, 0.2e6),
    ]
    drawn = comparison_pictures.ledger(table, ChangeTable("idle", "", "a step", "ns", tuple(rules)))
    assert [one.key for one in drawn.legend] == ["compute", "idle-data", "idle-cpu", "idle-cpu-2"]
    assert [one.fill for one in drawn.legend[1:]] == ["url(#idle-data)", "url(#idle-cpu)", "url(#idle-cpu-2)"]
    assert tuple(bar.amount for bar in drawn.bars) == ("4.00 ms", "2.00 ms")
    many = [*rules, *(AmountChange(f"launches/{at}", 1e3, 0.0) for at in range(6))]
    merged = comparison_pictures.ledger(table, ChangeTable("idle", "", "a step", "ns", tuple(many)))
    assert merged.legend[-1].label == "idle: other"
    assert merged.bars[0].amount == "4.01 ms"


def interval(estimates: Sequence[Estimate], at: int = 0) -> dict[str, float]:
    """Return the places of the interval of an estimate, in per cent, by class and attribute."""
    shapes = comparison_pictures.intervals(estimates, 0.03)[at].shapes
    return {
        f"{one.attributes['class']} {name}": float(one.attributes[name].rstrip("%"))
        for one in shapes
        for name in ("x", "width", "x1", "cx")
        if name in one.attributes
    }


def test_intervals_have_one_scale_that_holds_no_change_and_the_margin() -> None:
    every = full().estimates
    for at in range(len(every)):
        found = interval(every, at)
        low, end, zero = found["reach x"], found["reach x"] + found["reach width"], found["middle x1"]
        assert 0 < low < found["less cx"] < end < zero < 100
        assert found["margin x"] < zero < found["margin x"] + found["margin width"]
    assert len({interval(every, at)["middle x1"] for at in range(len(every))}) == 1


def test_an_interval_beyond_all_measure_ends_at_the_edge() -> None:
    """One giant step can extend the interval to a factor of 20. It is drawn up to the edge."""
    one = full().estimates[0]
    found = interval([replace(one, change=Interval(-0.9, one.change.point, 19.0))])
    assert found["reach x"] + found["reach width"] <= 100
    assert 0 < found["middle x1"] < 100


def paths(base: npt.NDArray[np.float64], new: npt.NDArray[np.float64]) -> list[str]:
    """Return the lines of both distributions."""
    (picture,) = comparison_pictures.curves(base, new)
    return [one.attributes["d"] for one in picture.shapes if one.tag == "path"]


def test_curves_climb_from_no_step_to_all() -> None:
    base, new = (np.array([1.0, 2.0, 3.0, 4.0]) * MS * factor for factor in (1, 2))
    heights = [float(one) for one in re.findall(r"V([\d.]+)", paths(base, new)[0])]
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] == 0
    assert comparison_pictures.curves(base[:1], new) == ()


def test_curves_of_many_steps_are_short() -> None:
    many = np.random.default_rng(1).normal(5e6, 1e5, 50_000)
    assert len(paths(many, many)[0]) < 5_000
    (picture,) = comparison_pictures.curves(many, many)
    assert "steps beyond the right edge: 604" in picture.caption
