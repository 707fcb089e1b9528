"""The chart of steps on the page: columns, outliers, and the slowest."""

from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hand_made import MS

from nsyswrap.model import Report, Section
from nsyswrap.render import page_steps

FULL = hand_made.full_report()


def with_steps(**tables: pd.DataFrame) -> Report:
    """Return the report with these tables of steps."""
    section = _section()
    changed = replace(section, tables={**section.tables, **tables})
    return replace(FULL, sections=tuple(changed if one.key == "steps" else one for one in FULL.sections))


def _section() -> Section:
    section = FULL.section("steps")
    assert section is not None
    return section


TABLE = _section().tables["steps"]


def view_of(report: Report) -> page_steps.StepsView:
    """Return the chart of a report that has one."""
    view = page_steps.steps(report)
    assert view is not None
    return view


def test_steps_have_a_chart_a_median_and_the_slowest() -> None:
    view = view_of(FULL)
    assert (view.step_count, view.warm_up, view.median, view.slowest.cut) == (20, 2, "111 ms", "10 of 18 steps")
    assert view.slowest.rows[0][0].text == "step 5"


def test_the_axis_names_the_first_step_and_the_last() -> None:
    view = view_of(FULL)
    assert (view.first, view.last) == ("step 1", "step 20")


def test_slowest_steps_name_their_process_where_there_are_several() -> None:
    """A process has a number, not a count: 4711 has no separator of thousands."""
    other = TABLE.assign(process=4712, start_ns=TABLE["start_ns"] + 1, end_ns=TABLE["end_ns"] + 1)
    both = pd.concat([TABLE.assign(process=4711), other], ignore_index=True)
    one, two = (view_of(with_steps(steps=table)).slowest for table in (TABLE.assign(process=4711), both))
    assert "process" not in [head.label for head in one.heads]
    place = [head.label for head in two.heads].index("process")
    assert {row[place].text for row in two.rows} == {"4711", "4712"}


def test_the_slowest_steps_are_measured_ones() -> None:
    assert {"step 1", "step 2"}.isdisjoint(row[0].text for row in view_of(FULL).slowest.rows)


def test_the_slowest_steps_lead_to_their_place_in_time() -> None:
    row = view_of(FULL).slowest.rows[0]
    start, end = (int(TABLE.loc[TABLE["name"] == "step 5", name].iloc[0]) for name in ("start_ns", "end_ns"))
    assert row[1].span == (start, end)
    assert row[1].span is not None
    assert row[1].span.anchor == f"t={start}-{end}"


def test_each_column_leads_to_its_place_in_time() -> None:
    columns = view_of(FULL).chart.columns
    assert columns[0].anchor == f"t=0-{1_900 * MS}"
    assert len({column.anchor for column in columns}) == 20


def test_outliers_are_marked_in_their_column() -> None:
    """There is one mark, above the third of twenty columns, at the height of its step."""
    outliers = TABLE.iloc[[2]].assign(excess_ns=9 * MS)
    view = view_of(with_steps(outliers=outliers))
    assert view.outliers == 1
    (mark,) = view.chart.marks
    assert (mark.name, mark.x, mark.ns) == ("step 3", "12.5", int(TABLE["end_ns"][2] - TABLE["start_ns"][2]))
    assert float(mark.y) == pytest.approx(min(float(part.y) for part in view.chart.columns[2].parts), abs=0.1)


def test_without_outliers_nothing_is_marked() -> None:
    assert (view_of(FULL).outliers, view_of(FULL).chart.marks) == (0, ())


def test_steps_of_several_gpus_are_their_mean() -> None:
    both = pd.concat([TABLE.assign(device_id=0), TABLE.assign(device_id=1, compute_ns=0, copy_exposed_ns=0)])
    both.loc[both["device_id"] == 1, "idle_ns"] = (TABLE["end_ns"] - TABLE["start_ns"]).to_numpy()
    view = view_of(with_steps(steps=both))
    assert (view.step_count, len(view.chart.columns)) == (20, 20)
    assert "device_id" not in [head.name for head in view.slowest.heads]


def test_steps_without_a_ledger_are_dots() -> None:
    view = view_of(with_steps(steps=TABLE.drop(columns="idle_ns")))
    assert (view.chart.columns, len(view.chart.dots)) == ((), 20)


def test_a_table_of_outliers_without_rows_and_columns_marks_none() -> None:
    """A report.json keeps no columns of a table without rows."""
    view = view_of(with_steps(outliers=pd.DataFrame()))
    assert view.outliers == 0


@pytest.mark.parametrize("report", [hand_made.empty_report(), with_steps(steps=pd.DataFrame())])
def test_without_steps_there_is_no_chart(report: Report) -> None:
    assert page_steps.steps(report) is None


def test_steps_that_are_all_warm_up_have_no_slowest() -> None:
    view = view_of(with_steps(steps=TABLE.head(2)))
    assert (view.slowest.rows, view.slowest.cut) == ((), "")
