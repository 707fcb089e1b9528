"""The parts of the page before they are markup: bars, gaps, steps, facts and tables."""

from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hand_made import MS

from nsyswrap.model import Fact, Report, Section
from nsyswrap.render import outline, page_parts

FULL = hand_made.full_report()


def with_section(report: Report, section: Section) -> Report:
    """Return the report with one section replaced by another of its key."""
    return replace(report, sections=tuple(section if one.key == section.key else one for one in report.sections))


def with_table(report: Report, key: str, name: str, table: pd.DataFrame) -> Report:
    """Return the report with one table replaced."""
    section = report.section(key)
    assert section is not None
    return with_section(report, replace(section, tables={**section.tables, name: table}))


def devices(report: Report) -> tuple[page_parts.Device, ...]:
    """Return the bars of a report."""
    return page_parts.devices(report, outline.ledgers(report))


def steps_table(report: Report) -> pd.DataFrame:
    """Return the table of steps."""
    section = report.section("steps")
    assert section is not None
    return section.tables["steps"]


def test_a_gpu_has_its_name_and_window_over_its_bar() -> None:
    (device,) = devices(FULL)
    assert (device.title, device.window) == ("GPU 0, NVIDIA H200", "2.00 s")


def test_a_gpu_without_a_name_has_its_number() -> None:
    (device,) = devices(replace(FULL, gpus=()))
    assert device.title == "GPU 0"


def test_both_bars_are_full() -> None:
    (device,) = devices(FULL)
    for bar in (device.parts, device.causes):
        assert sum(float(row.width) for row in bar) == pytest.approx(100)


def test_idle_is_hatched_and_nothing_else() -> None:
    (device,) = devices(FULL)
    assert [row.key for row in device.parts if row.fill.startswith("url(")] == ["idle"]


def test_the_bar_of_causes_hangs_on_the_idle_part() -> None:
    """The shape between the bars starts as wide as idle is and ends as wide as the page."""
    (device,) = devices(FULL)
    assert device.zoom == "614.00,0 1000.00,0 1000,24 0,24"


def test_each_cause_is_explained() -> None:
    (device,) = devices(FULL)
    assert device.causes[0][1:3] == ("input_wait", "the host waited for input data")


def test_a_cause_nobody_knows_has_no_meaning_but_its_place() -> None:
    causes = pd.DataFrame(
        {"device_id": [0], "cause": ["brand_new"], "phase": ["none"], "idle_ns": [772 * MS], "gap_count": [1]}
    )
    (device,) = devices(with_table(FULL, "idle", "causes", causes))
    assert [(row.label, row.meaning, row.share) for row in device.causes] == [("brand_new", "", "38.6 %")]


def test_a_ledger_without_causes_has_one_bar() -> None:
    report = replace(FULL, sections=tuple(one for one in FULL.sections if one.key != "idle"))
    (device,) = devices(report)
    assert device.causes == ()


def test_busy_over_time_is_drawn_where_it_is_given() -> None:
    section = FULL.section("ledger")
    assert section is not None
    without = with_section(FULL, replace(section, tables={"devices": section.tables["devices"]}))
    assert [bool(one.area) for one in devices(FULL)] == [True]
    assert [one.area for one in devices(without)] == [""]


def test_kernel_time_by_use_of_tensor_cores_fills_its_bar() -> None:
    bar = page_parts.tensor_bar(FULL)
    assert sum(float(row.width) for row in bar) == pytest.approx(100)
    assert [row.share for row in bar] == ["41.0 %", "17.2 %", "18.9 %", "22.9 %"]


def test_without_kernels_there_is_no_bar_of_tensor_cores() -> None:
    section = FULL.section("tensor_cores")
    assert section is not None
    assert page_parts.tensor_bar(with_section(FULL, replace(section, facts=()))) == ()
    assert page_parts.tensor_bar(hand_made.no_gpu_report()) == ()


def test_facts_that_a_bar_says_are_not_said_again() -> None:
    labels = [label for label, _ in page_parts.facts(FULL.section("tensor_cores"))]
    assert labels == [
        *("tensor-core share, at least", "tensor-core share, at most", "tensor pipes active by counter, at most")
    ]


def test_a_fact_nobody_knows_is_named_by_its_label() -> None:
    section = Section("odd", "Odd", hand_made.WINDOW, (Fact("some_new_ns", 1_500, "ns"), Fact("As it is", 2, "count")))
    assert page_parts.facts(section) == (("some new", "1.50 µs"), ("As it is", "2"))


def test_a_missing_section_has_no_facts() -> None:
    assert page_parts.facts(None) == ()


def test_a_gap_says_its_share_of_the_window_and_how_much_more_there_is() -> None:
    first = page_parts.worst_gaps(FULL, 1).gaps[0]
    assert (first.start, first.length, first.share, first.more) == ("1.432000 s", "36.0 ms", "1.8 %", 0)


def test_a_gap_of_many_causes_folds_the_small_ones() -> None:
    rows = [(0, 10 * at, 10 * at + 10, f"cause {at}", "data", "") for at in range(5)]
    table = pd.DataFrame(rows, columns=["device_id", "start_ns", "end_ns", "cause", "phase", "evidence"])
    (gap,) = page_parts.worst_gaps(with_table(FULL, "idle", "gaps", table), 3).gaps
    assert (len(gap.pieces), gap.more) == (5, 3)


def test_all_gaps_shown_is_no_cut() -> None:
    assert page_parts.worst_gaps(FULL, 100).cut == ""


def test_steps_have_a_chart_a_median_and_the_slowest() -> None:
    view = page_parts.steps(FULL)
    assert view is not None
    assert (view.step_count, view.warm_up, view.median, view.slowest.cut) == (20, 2, "111 ms", "10 of 18 steps")
    assert view.slowest.rows[0][0].text == "step 5"


def test_the_slowest_steps_are_steady_ones() -> None:
    view = page_parts.steps(FULL)
    assert view is not None
    assert {"step 1", "step 2"}.isdisjoint(row[0].text for row in view.slowest.rows)


def test_steps_of_several_gpus_are_their_mean() -> None:
    one = steps_table(FULL)
    both = pd.concat([one.assign(device_id=0), one.assign(device_id=1, compute_ns=0, idle_ns=one["end_ns"])])
    both.loc[both["device_id"] == 1, ["copy_exposed_ns"]] = 0
    both.loc[both["device_id"] == 1, "idle_ns"] = (one["end_ns"] - one["start_ns"]).to_numpy()
    view = page_parts.steps(with_table(FULL, "steps", "steps", both))
    assert view is not None
    assert (view.step_count, len(view.chart.columns)) == (20, 20)
    assert "device_id" not in [label for label, *_ in view.slowest.columns]


def test_steps_without_a_ledger_are_dots() -> None:
    view = page_parts.steps(with_table(FULL, "steps", "steps", steps_table(FULL).drop(columns="idle_ns")))
    assert view is not None
    assert (view.chart.columns, len(view.chart.dots)) == ((), 20)


@pytest.mark.parametrize("report", [hand_made.empty_report(), with_table(FULL, "steps", "steps", pd.DataFrame())])
def test_without_steps_there_is_no_chart(report: Report) -> None:
    assert page_parts.steps(report) is None


def test_steps_that_are_all_warm_up_have_no_slowest() -> None:
    view = page_parts.steps(with_table(FULL, "steps", "steps", steps_table(FULL).head(2)))
    assert view is not None
    assert (view.slowest.rows, view.slowest.cut) == ((), "")


def test_the_only_table_of_a_section_needs_no_caption_of_its_own() -> None:
    kernels, tensor = FULL.section("kernels"), FULL.section("tensor_cores")
    assert kernels is not None
    assert tensor is not None
    assert [table.caption for table in page_parts.section(kernels).tables] == [""]
    assert [table.caption for table in page_parts.section(tensor).tables] == [
        "What each kernel's name says",
        "By phase",
    ]


def test_a_table_without_words_of_its_own_is_named_by_its_key() -> None:
    section = hand_made.section_with("odd", one_thing=hand_made.names_table("a"), other=hand_made.names_table("b"))
    assert [table.caption for table in page_parts.section(section).tables] == ["One thing", "Other"]


def test_the_largest_share_of_a_column_has_a_full_bar() -> None:
    view = page_parts.table_view(pd.DataFrame({"share": [0.5, 0.25, 0.0, None]}), "", "t")
    assert [row[0].bar for row in view.rows] == ["100.0", "50.0", "0.0", "0.0"]


def test_a_column_of_no_shares_has_empty_bars() -> None:
    view = page_parts.table_view(pd.DataFrame({"share": [0.0]}), "", "t")
    assert [row[0].bar for row in view.rows] == ["0.0"]


def test_an_empty_table_has_headings_and_no_rows() -> None:
    view = page_parts.table_view(hand_made.names_table(), "", "t")
    assert ([label for label, *_ in view.columns], view.rows, view.folded) == (["name", "total"], (), ())
