"""The table of phases: bars on one scale, values of the report, and why the GPUs were idle."""

from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hand_made import MS

from nsyswrap.model import Report
from nsyswrap.render import page_phases

FULL = hand_made.full_report()


def with_table(key: str, name: str, table: pd.DataFrame) -> Report:
    """Return the report with one table replaced."""
    section = FULL.section(key)
    assert section is not None
    changed = replace(section, tables={**section.tables, name: table})
    return replace(FULL, sections=tuple(changed if one.key == key else one for one in FULL.sections))


def test_all_phases_together_fill_a_row_and_each_is_to_scale() -> None:
    """Backward is busy for 660 ms and idle for 80 ms; data is idle for 601 ms."""
    rows = {row.name: row for row in page_phases.phases(FULL)}
    section = FULL.section("phases")
    assert section is not None
    whole = int(section.tables["phases"][["gpu_ns", "idle_ns"]].to_numpy().sum()) / MS
    assert sum(float(row.busy.width) + float(row.idle.width) for row in rows.values()) == pytest.approx(100, abs=0.01)
    backward, data = rows["backward"], rows["data"]
    assert float(backward.idle.x) == float(backward.busy.width) == pytest.approx(100 * 660 / whole, abs=1e-3)
    assert [float(data.busy.width), float(data.idle.width)] == pytest.approx([0, 100 * 601 / whole], abs=1e-3)


def test_numbers_are_those_of_the_report_in_its_order() -> None:
    first = page_phases.phases(FULL)[0]
    assert first.name == "data"
    assert first.numbers == (("18", 18), ("640 ms", 640 * MS), ("0 ns", 0), ("601 ms", 601 * MS), ("0", 0))


def test_a_phase_says_why_the_gpus_were_idle_largest_first() -> None:
    """The times of a rule are added over all GPUs and causes. The two largest rules are named, the others counted."""
    rows = [
        *((0, "cpu", "launches/launch_bound", "forward", 5 * MS, 1), (1, "cpu", "idle/cpu", "forward", 10 * MS, 1)),
        (0, "launch", "launches/launch_bound", "forward", 6 * MS, 1),
        *((0, "lock", "idle/lock", "forward", 1, 1), (0, "queued", "idle/queued", "forward", 2, 1)),
    ]
    table = pd.DataFrame(rows, columns=["device_id", "cause", "rule", "phase", "idle_ns", "gap_count"])
    found = {row.name: row.reasons for row in page_phases.phases(with_table("idle", "attribution", table))}
    assert found["forward"] == "launch-bound kernels 11.0 ms, CPU outside CUDA calls 10.0 ms, 2 more"
    assert found["optimizer"] == ""


def test_a_long_name_is_cut_and_hides_nothing() -> None:
    section = FULL.section("phases")
    assert section is not None
    table = section.tables["phases"].assign(phase="\u202e" + "x" * 99)
    names = {row.name for row in page_phases.phases(with_table("phases", "phases", table))}
    assert {len(name) for name in names} == {40}
    assert all(name.startswith("[U+202E]") for name in names)


def test_phases_in_which_nothing_happened_have_no_bar() -> None:
    section = FULL.section("phases")
    assert section is not None
    table = section.tables["phases"].assign(gpu_ns=0, idle_ns=0)
    assert {row.busy.width for row in page_phases.phases(with_table("phases", "phases", table))} == {"0"}


@pytest.mark.parametrize("table", [pd.DataFrame(), pd.DataFrame({"phase": ["a"]})])
def test_a_table_of_other_columns_is_no_table_of_phases(table: pd.DataFrame) -> None:
    assert page_phases.phases(with_table("phases", "phases", table)) == ()


def test_without_phases_there_are_none() -> None:
    assert page_phases.phases(hand_made.empty_report()) == ()
