"""The table of phases: bars on one scale, values of the report, and why the GPUs were idle."""

from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hand_made import MS

from nsyswrap.model import Report
from nsyswrap.render import page_phases
from nsyswrap.render.page_tables import TableCell

FULL = hand_made.full_report()


def with_table(key: str, name: str, table: pd.DataFrame) -> Report:
    """Return the report with one table replaced."""
    section = FULL.section(key)
    assert section is not None
    changed = replace(section, tables={**section.tables, name: table})
    return replace(FULL, sections=tuple(changed if one.key == key else one for one in FULL.sections))


def rows_of(report: Report) -> dict[str, dict[str, TableCell]]:
    """Return the cells of each phase by the names of their columns; that without a name is the bar."""
    view = page_phases.phases(report)
    if view is None:
        return {}
    names = [head.name for head in view.heads]
    return {row[0].text: dict(zip(names, row, strict=True)) for row in view.rows}


def widths(row: dict[str, TableCell]) -> dict[str, tuple[float, float]]:
    """Return place and width of each colour of a bar, in per cent."""
    assert row[""].picture is not None
    return {
        one.attributes["class"]: (float(one.attributes["x"][:-1]), float(one.attributes["width"][:-1]))
        for one in row[""].picture.shapes
    }


def test_all_phases_together_fill_a_row_and_each_is_to_scale() -> None:
    """Backward is busy for 660 ms and idle for 80 ms; data is idle for 601 ms."""
    section = FULL.section("phases")
    assert section is not None
    whole = int(section.tables["phases"][["gpu_ns", "idle_ns"]].to_numpy().sum()) / MS
    bars = {name: widths(row) for name, row in rows_of(FULL).items()}
    assert sum(width for bar in bars.values() for _, width in bar.values()) == pytest.approx(100, abs=0.01)
    assert bars["backward"]["p-compute"][1] == bars["backward"]["p-idle"][0] == pytest.approx(66_000 / whole, abs=1e-3)
    assert bars["data"].keys() == {"p-idle"}
    assert bars["data"]["p-idle"] == pytest.approx((0, 60_100 / whole), abs=1e-3)


def test_numbers_are_those_of_the_report_in_its_order() -> None:
    name, row = next(iter(rows_of(FULL).items()))
    assert name == "data"
    assert [(row[each].text, row[each].raw) for each in ("count", "host_ns", "gpu_ns", "idle_ns", "kernel_count")] == [
        *(("18", "18"), ("640 ms", str(640 * MS)), ("0 ns", "0"), ("601 ms", str(601 * MS)), ("0", "0"))
    ]


def test_a_phase_says_why_the_gpus_were_idle_largest_first() -> None:
    """The times of a rule are added over all GPUs and causes. The two largest rules are named, the others counted."""
    rows = [
        *((0, "cpu", "launches/launch_bound", "forward", 5 * MS, 1), (1, "cpu", "idle/cpu", "forward", 10 * MS, 1)),
        (0, "launch", "launches/launch_bound", "forward", 6 * MS, 1),
        *((0, "lock", "idle/lock", "forward", 1, 1), (0, "queued", "idle/queued", "forward", 2, 1)),
    ]
    table = pd.DataFrame(rows, columns=["device_id", "cause", "rule", "phase", "idle_ns", "gap_count"])
    shown = rows_of(with_table("idle", "attribution", table))
    found = {name: row["reasons"].text for name, row in shown.items()}
    assert found["forward"] == "launch-bound kernels 11.0 ms, CPU outside CUDA calls 10.0 ms, 2 more"
    assert found["optimizer"] == ""


def test_a_long_name_is_cut_and_hides_nothing() -> None:
    section = FULL.section("phases")
    assert section is not None
    table = section.tables["phases"].assign(phase="\u202e" + "x" * 99)
    names = set(rows_of(with_table("phases", "phases", table)))
    assert {len(name) for name in names} == {40}
    assert all(name.startswith("[U+202E]") for name in names)


def test_phases_in_which_nothing_happened_have_no_bar() -> None:
    section = FULL.section("phases")
    assert section is not None
    table = section.tables["phases"].assign(gpu_ns=0, idle_ns=0)
    assert [widths(row) for row in rows_of(with_table("phases", "phases", table)).values()] == [{}] * len(table)


@pytest.mark.parametrize("table", [pd.DataFrame(), pd.DataFrame({"phase": ["a"]})])
def test_a_table_of_other_columns_is_no_table_of_phases(table: pd.DataFrame) -> None:
    assert page_phases.phases(with_table("phases", "phases", table)) is None


def test_without_phases_there_are_none() -> None:
    assert page_phases.phases(hand_made.empty_report()) is None
