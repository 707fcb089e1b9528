"""The lines, cuts, scales and words that every form of a comparison shows."""

from dataclasses import replace

import made_comparisons
import paired_reports as pairs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base.interval import Interval
from nsyswrap.compare.comparison import AmountChange, ChangeTable, Comparison
from nsyswrap.model import Severity
from nsyswrap.render import comparison_tables, documents
from nsyswrap.render.comparison_tables import changes
from nsyswrap.render.document import Form, Table
from nsyswrap.render.summary_model import place

BASE = pairs.report(pairs.lengths(4.0))
NEW = pairs.with_session(pairs.report(pairs.lengths(2.0, seed=2)), started_utc="later")


def table(*changes: AmountChange, key: str = "kernels", unit: str = "ns") -> ChangeTable:
    return ChangeTable(key, key.capitalize(), "a step", unit, changes)  # type: ignore[arg-type]


def shares() -> Comparison:
    """Return a comparison of two windows that are not steps."""
    base, new = (replace(one, window=replace(one.window, source="operations")) for one in (BASE, NEW))
    return pairs.compared(base, new)


def with_share(low: float | None, high: float | None) -> Comparison:
    """Return a comparison in which only new has a tensor share."""
    return pairs.compared(BASE, pairs.with_section(NEW, "tensor_cores", {"share_low": low, "share_high": high}))


def shown(table: Table, form: Form = "text") -> list[str]:
    """Return the names that a form shows."""
    return [str(table.columns[0].raw[at]) for at in table.shown(form)]


def cells(found: Table) -> dict[str, list[str]]:
    """Return the texts of each column by its heading."""
    return {one.label: one.cells for one in found.columns_of("text")}


def test_rows_that_did_not_move_are_counted_and_not_shown() -> None:
    found = changes(table(AmountChange("a", 1.0, 2.0), AmountChange("b", 5.0, 5.0)), 0, 1)
    assert (shown(found), found.cut_in("text")) == (["a"], "1 did not change")


def test_what_moved_too_little_is_only_on_the_page() -> None:
    found = changes(table(AmountChange("a", 0.0, 90.0), AmountChange("b", 0.0, 9.0)), 10.0, 1)
    assert (shown(found), found.cut_in("text")) == (["a"], "1 of 2 rows")
    assert (shown(found, "html"), found.cut_in("html")) == (["a", "b"], "")


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=12), st.integers(0, 20))
def test_shown_and_counted_rows_are_all_rows(amounts: list[tuple[int, int]], least: int) -> None:
    """Each row changed or is counted as one that did not; a text has the largest changes."""
    every = [AmountChange(str(at), float(base), float(new)) for at, (base, new) in enumerate(amounts)]
    every.sort(key=lambda one: -abs(one.delta))
    found = changes(table(*every), float(least), 1)
    still = sum(not one.delta for one in every)
    assert len(shown(found, "html")) + still == len(every)
    assert found.cut == (f"{still} did not change" if still else "")
    assert shown(found) == [one.name for one in every if one.delta and abs(one.delta) >= least][:5]


def test_an_interval_is_shown_with_signs() -> None:
    change = AmountChange("idle_ns", 3e6, 1e6, difference=Interval(-2.1e6, -2e6, -1.9e6))
    found = cells(changes(table(change, key="ledger"), 0, 1))
    assert (found["what"], found["difference"], found["95 % interval"]) == (
        ["idle"],
        ["-2.00 ms"],
        ["-2.10 ms to -1.90 ms"],
    )


@pytest.mark.parametrize(
    ("counts", "said"), [((14.0, 14.0), "14"), ((14.0, 7.5), "14 → 7.5"), ((0.017, 2_000.0), "0 → 2,000")]
)
def test_counts_are_whole_where_they_nearly_are(counts: tuple[float, float], said: str) -> None:
    assert cells(changes(table(AmountChange("x", 1.0, 2.0, *counts)), 0, 1))["times"] == [said]
    assert "times" not in cells(changes(table(AmountChange("x", 1.0, 2.0)), 0, 1))


def test_half_a_per_cent_of_a_step_is_the_least_that_is_shown() -> None:
    """The limit applies to times only; bytes have no share of a step."""
    comparison = pairs.compared(BASE, NEW)
    whole = comparison.estimates[1].base_ns
    assert comparison_tables.least_of(comparison, table()) == pytest.approx(0.005 * whole)
    assert comparison_tables.least_of(comparison, table(unit="share")) == 0.005
    assert comparison_tables.least_of(comparison, table(unit="bytes")) == 0


def test_one_scale_serves_all_tables() -> None:
    """The scale is the largest change, or the one to find if all changes are smaller, so that noise has short bars."""
    comparison = pairs.compared(BASE, NEW)
    parts = comparison_tables.moved(comparison)
    assert parts is not None
    assert comparison_tables.scale_of(comparison) == max(abs(one.delta) for one in parts.changes)
    same = pairs.compared(BASE, pairs.with_session(pairs.report(pairs.lengths(4.0, seed=2)), started_utc="later"))
    assert comparison_tables.scale_of(same) == pytest.approx(0.02 * same.estimates[1].base_ns)


def test_shares_have_a_scale_of_their_own() -> None:
    comparison = shares()
    found = comparison.table("ledger")
    assert found is not None
    assert comparison_tables.scale_of(comparison) == max(abs(one.delta) for one in found.changes)


def test_the_tensor_share_is_words_on_both_sides() -> None:
    """The words include the bounds. Without a share on either side there are no words."""
    assert (
        comparison_tables.tensor_words(with_share(0.2, 0.3))
        == "not measured of kernel time in base, 20.0 to 30.0 % in new"
    )
    assert comparison_tables.tensor_words(with_share(None, None)) == ""
    assert comparison_tables.tensor_words(pairs.compared(BASE, NEW)) == ""


def test_a_share_without_its_other_bound_is_no_share() -> None:
    """Every share of tensor cores has a lower and an upper bound."""
    new = pairs.with_section(NEW, "tensor_cores", {"counter_share": 0.4})
    assert comparison_tables.tensor_words(pairs.compared(BASE, new)) == ""


def test_markdown_counts_the_findings_it_leaves_out() -> None:
    many = [(f"rule/{at}", Severity.NOTE, at) for at in range(8)]
    comment = documents.render("comparison", "markdown", pairs.compared(BASE, pairs.with_findings(NEW, *many)))
    assert comment.count("- **new**") == 5
    assert "- 3 more new" in comment


def test_time_lost_to_findings_is_that_of_both_sides() -> None:
    base = pairs.with_findings(BASE, ("a/x", Severity.NOTE, 60_000_000), ("b/x", Severity.NOTE, 0))
    new = pairs.with_findings(NEW, ("a/x", Severity.NOTE, 30_000_000), ("c/x", Severity.NOTE, 6_000_000))
    comparison = pairs.compared(base, new)
    found = {pair.rule: comparison_tables.lost_of(pair, comparison) for pair in comparison.findings}
    assert found == {"a/x": "1.00 ms → 500 µs a step", "b/x": "", "c/x": "0 → 100 µs a step"}


def test_time_lost_is_a_share_where_there_are_no_steps() -> None:
    base, new = (
        replace(pairs.with_findings(one, ("a/x", Severity.NOTE, one.window.length_ns // 4)), window=one.window)
        for one in (BASE, NEW)
    )
    sides = [replace(one, window=replace(one.window, source="operations")) for one in (base, new)]
    comparison = pairs.compared(sides[0], sides[1])
    assert comparison_tables.lost_of(comparison.findings[0], comparison) == "25.0 % → 25.0 % of the window"


def test_time_that_changed_its_rule_is_named_on_both_findings() -> None:
    """The same idle time of the forward phase belongs to another rule in new."""
    findings = ("launches/launch_bound", Severity.NOTE, 60_000_000), ("idle/cpu", Severity.NOTE, 60_000_000)
    base, new = (
        pairs.with_findings(pairs.with_attribution(BASE, ("cpu", one[0], "forward", 60_000_000)), one)
        for one in findings
    )
    comparison = pairs.compared(base, new)
    assert {pair.rule: comparison_tables.moved_of(pair, comparison) for pair in comparison.findings} == {
        "launches/launch_bound": "Idle time that now belongs to CPU outside CUDA calls (1.00 ms a step).",
        "idle/cpu": "Idle time that belonged to launch-bound kernels (1.00 ms a step).",
    }


def test_without_step_times_nothing_is_said_of_intervals() -> None:
    comparison = pairs.compared(BASE, pairs.report([]))
    assert not comparison.estimates
    assert comparison_tables.intervals_of(comparison) == comparison_tables.one_run_each(comparison) == ""
    assert "interval" not in documents.render("comparison", "markdown", comparison)


def test_a_finding_is_of_a_gpu_or_of_the_whole_capture() -> None:
    base = pairs.with_findings(BASE, ("a/x", Severity.NOTE, 1))
    pair = pairs.compared(base, base).findings[0]
    assert place(pair) == "GPU 0"
    assert place(replace(pair, device_id=None)) == "whole capture"
    assert comparison_tables.headline_of(pair) == "a/x takes time."
    assert comparison_tables.headline_of(replace(pair, base=None, new=None)) == ""


def test_changed_parts_are_the_ledger_with_idle_time_by_rule() -> None:
    parts = comparison_tables.moved(made_comparisons.full())
    assert parts is not None
    assert [one.name for one in parts.changes] == ["idle: data loader wait", "idle: launch-bound kernels"]
