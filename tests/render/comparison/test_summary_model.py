"""The lines, cuts, scales and words that every form of a comparison shows."""

from dataclasses import replace

import numpy as np
import paired_reports as pairs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.compare import AmountChange, ChangeTable, Comparison
from nsyswrap.model import Severity
from nsyswrap.render.comparison import drawings, render, summary_model

BASE = pairs.report(pairs.lengths(4.0))
NEW = pairs.with_session(pairs.report(pairs.lengths(2.0, seed=2)), started_utc="later")


def table(*changes: AmountChange, key: str = "kernels", unit: str = "ns") -> ChangeTable:
    """Return a table of changes."""
    return ChangeTable(key, key.capitalize(), "a step", unit, changes)  # type: ignore[arg-type]


def shares() -> Comparison:
    """Return a comparison of two windows that are not steps."""
    base, new = (replace(one, window=replace(one.window, source="operations")) for one in (BASE, NEW))
    return pairs.compared(base, new)


def with_share(low: float | None, high: float | None) -> Comparison:
    """Return a comparison in which only new has a tensor share."""
    return pairs.compared(BASE, pairs.with_section(NEW, "tensor_cores", {"share_low": low, "share_high": high}))


def test_rows_that_did_not_move_are_counted_and_not_shown() -> None:
    shown = summary_model.lines_of(table(AmountChange("a", 1.0, 2.0), AmountChange("b", 5.0, 5.0)), 10)
    assert [line.name for line in shown.lines] == ["a"]
    assert shown.cut == "1 did not change"


def test_a_table_that_is_shown_whole_has_no_cut() -> None:
    assert summary_model.lines_of(table(AmountChange("a", 1.0, 2.0)), 10).cut == ""


def test_what_moved_too_little_is_counted_as_moved() -> None:
    shown = summary_model.lines_of(table(AmountChange("a", 0.0, 90.0), AmountChange("b", 0.0, 9.0)), 10, 10.0)
    assert ([line.name for line in shown.lines], shown.cut) == (["a"], "1 more changed")


def test_the_ledger_is_whole_but_for_what_neither_side_has() -> None:
    """Rows without a change are shown, because they are parts of a sum."""
    changes = (
        AmountChange("compute_ns", 1e6, 1e6),
        AmountChange("memset_exposed_ns", 0.0, 0.0),
        AmountChange("idle_ns", 0.0, 5.0),
    )
    shown = summary_model.lines_of(table(*changes, key="ledger"), 1, 1e9)
    assert [line.name for line in shown.lines] == ["compute", "idle"]
    assert shown.cut == ""


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=12), st.integers(0, 6), st.integers(0, 20))
def test_shown_and_counted_rows_are_all_rows(amounts: list[tuple[int, int]], most: int, least: int) -> None:
    """Each row is shown, counted as moved, or counted as not moved."""
    changes = [AmountChange(str(at), float(base), float(new)) for at, (base, new) in enumerate(amounts)]
    changes.sort(key=lambda one: -abs(one.delta))
    shown = summary_model.lines_of(table(*changes), most, float(least))
    counted = sum(int(word) for word in shown.cut.split() if word.isdigit())
    assert len(shown.lines) + counted == len(changes)
    assert all(abs(one.delta) >= least and one.delta for one in shown.changes)


def test_an_interval_is_shown_with_signs() -> None:
    change = AmountChange("idle_ns", 3e6, 1e6, low=-2.1e6, high=-1.9e6)
    line = summary_model.line_of(change, table(change, key="ledger"))
    assert (line.name, line.delta, line.interval) == ("idle", "-2.00 ms", "-2.10 ms to -1.90 ms")


@pytest.mark.parametrize(
    ("counts", "shown"),
    [((None, None), ""), ((14.0, 14.0), "14"), ((14.0, 7.5), "14 → 7.5"), ((0.017, 2_000.0), "0 → 2,000")],
)
def test_counts_are_whole_where_they_nearly_are(counts: tuple[float | None, float | None], shown: str) -> None:
    change = AmountChange("x", 1.0, 2.0, *counts)
    assert summary_model.line_of(change, table(change)).counts == shown


def test_half_a_per_cent_of_a_step_is_the_least_that_is_shown() -> None:
    """The limit applies to times only; bytes have no share of a step."""
    comparison = pairs.compared(BASE, NEW)
    whole = comparison.estimates[1].base_ns
    assert summary_model.least_of(comparison, table()) == pytest.approx(0.005 * whole)
    assert summary_model.least_of(comparison, table(unit="share")) == 0.005
    assert summary_model.least_of(comparison, table(unit="bytes")) == 0


def test_one_scale_serves_all_tables() -> None:
    """The scale is the largest change, or the margin if all changes are smaller, so that noise has short bars."""
    comparison = pairs.compared(BASE, NEW)
    parts = summary_model.moved(comparison)
    assert parts is not None
    assert summary_model.scale_of(comparison) == max(abs(one.delta) for one in parts.changes)
    same = pairs.compared(BASE, pairs.with_session(pairs.report(pairs.lengths(4.0, seed=2)), started_utc="later"))
    assert summary_model.scale_of(same) == pytest.approx(0.03 * same.estimates[1].base_ns)


def test_shares_have_a_scale_of_their_own() -> None:
    comparison = shares()
    found = comparison.table("ledger")
    assert found is not None
    assert summary_model.scale_of(comparison) == max(abs(one.delta) for one in found.changes)


def test_the_tensor_share_is_words_on_both_sides() -> None:
    """The words include the bounds. Without a share on either side there are no words."""
    assert (
        summary_model.tensor_words(with_share(0.2, 0.3)) == "not measured of kernel time in base, 20.0 to 30.0 % in new"
    )
    assert summary_model.tensor_words(with_share(None, None)) == ""
    assert summary_model.tensor_words(pairs.compared(BASE, NEW)) == ""


def test_a_share_without_its_other_bound_is_no_share() -> None:
    """Every share of tensor cores has a lower and an upper bound."""
    new = pairs.with_section(NEW, "tensor_cores", {"counter_share": 0.4})
    assert summary_model.tensor_words(pairs.compared(BASE, new)) == ""


def test_markdown_counts_the_findings_it_leaves_out() -> None:
    many = [(f"rule/{at}", Severity.NOTE, at) for at in range(8)]
    comment = render("markdown", pairs.compared(BASE, pairs.with_findings(NEW, *many)))
    assert comment.count("- **new**") == 5
    assert "- 3 more new" in comment


def test_time_lost_to_findings_is_that_of_both_sides() -> None:
    base = pairs.with_findings(BASE, ("a/x", Severity.NOTE, 60_000_000), ("b/x", Severity.NOTE, 0))
    new = pairs.with_findings(NEW, ("a/x", Severity.NOTE, 30_000_000), ("c/x", Severity.NOTE, 6_000_000))
    comparison = pairs.compared(base, new)
    found = {
        pair.rule: summary_model.lost_of(pair, comparison)
        for _, some in summary_model.findings_of(comparison)
        for pair in some
    }
    assert found == {"a/x": "1.00 ms → 500 µs a step", "b/x": "", "c/x": "0 ns → 100 µs a step"}


def test_time_lost_is_a_share_where_there_are_no_steps() -> None:
    base, new = (
        replace(pairs.with_findings(one, ("a/x", Severity.NOTE, one.window.length_ns // 4)), window=one.window)
        for one in (BASE, NEW)
    )
    sides = [replace(one, window=replace(one.window, source="operations")) for one in (base, new)]
    comparison = pairs.compared(sides[0], sides[1])
    assert summary_model.lost_of(comparison.findings[0], comparison) == "25.0 % → 25.0 % of the window"


def test_time_that_changed_its_rule_is_named_on_both_findings() -> None:
    """The same idle time of the forward phase belongs to another rule in new."""
    findings = ("launches/launch_bound", Severity.NOTE, 60_000_000), ("idle/cpu", Severity.NOTE, 60_000_000)
    base, new = (
        pairs.with_findings(pairs.with_attribution(BASE, ("cpu", one[0], "forward", 60_000_000)), one)
        for one in findings
    )
    comparison = pairs.compared(base, new)
    assert {pair.rule: summary_model.moved_of(pair, comparison) for pair in comparison.findings} == {
        "launches/launch_bound": "Idle time that now belongs to CPU outside CUDA calls (1.00 ms a step).",
        "idle/cpu": "Idle time that belonged to launch-bound kernels (1.00 ms a step).",
    }


def test_without_step_times_nothing_is_said_of_intervals() -> None:
    comparison = pairs.compared(BASE, pairs.report([]))
    assert not comparison.estimates
    assert summary_model.intervals_of(comparison) == summary_model.one_run_each(comparison) == ""
    assert "interval" not in render("markdown", comparison)


def test_a_finding_is_of_a_gpu_or_of_the_whole_capture() -> None:
    base = pairs.with_findings(BASE, ("a/x", Severity.NOTE, 1))
    pair = pairs.compared(base, base).findings[0]
    assert summary_model.place_of(pair) == "GPU 0"
    assert summary_model.place_of(replace(pair, device_id=None)) == "whole capture"
    assert summary_model.headline_of(pair) == "a/x takes time."
    assert summary_model.headline_of(replace(pair, base=None, new=None)) == ""


def test_without_causes_idle_time_is_one_part() -> None:
    """A report may have a ledger without a section on idle time."""
    base, new = (replace(one, sections=tuple(s for s in one.sections if s.key != "idle")) for one in (BASE, NEW))
    parts = summary_model.moved(pairs.compared(base, new))
    assert parts is not None
    assert [one.name for one in parts.changes] == ["idle"]


def test_nothing_moved_between_a_report_and_itself() -> None:
    assert summary_model.moved(pairs.compared(BASE, BASE)) is None


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=10), st.floats(1, 1e9))
def test_bars_stay_in_their_cell(deltas: list[float], most: float) -> None:
    for bar, delta in zip(drawings.bars(deltas, most), deltas, strict=True):
        left, right = float(bar.x), float(bar.x) + float(bar.width)
        assert -0.01 <= left <= right <= 100.01
        assert bar.less == (delta < 0)


def test_steps_that_all_take_as_long_have_a_curve() -> None:
    """If all times are equal, their range is 0, and nothing is divided by it."""
    found = drawings.curves(np.full(5, 3e6), np.full(5, 3e6))
    assert found is not None
    assert "nan" not in found.base
    assert found.beyond == 0


def test_an_interval_beyond_all_measure_ends_at_the_edge() -> None:
    """One giant step can extend the interval to a factor of 20. It is drawn up to the edge."""
    one = pairs.compared(BASE, NEW).estimates[0]
    wide = replace(one, low=-0.9, high=19.0)
    (found,) = drawings.intervals([wide], 0.03)
    assert float(found.low) + float(found.width) <= 100
    assert 0 < float(found.zero) < 100
