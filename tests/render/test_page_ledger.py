"""Where the time of each GPU went, before it becomes markup: bars, causes and gaps."""

import json
from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hand_made import MS, section_of, with_tables

from nsyswrap.model import Report
from nsyswrap.render import page_ledger, summary_model
from nsyswrap.render.document import Fold, Pictures, Table
from nsyswrap.render.table_cells import table_view

FULL = hand_made.full_report()


def devices(report: Report) -> tuple[page_ledger.Device, ...]:
    return tuple(page_ledger.device(report, each) for each in summary_model.ledgers(report))


def tables(report: Report, name: str) -> list[Table]:
    """Return the tables of all GPUs that are folded, by name."""
    waiting, found = list(page_ledger.gpus(report)), list[Table]()
    while waiting:
        block = waiting.pop(0)
        waiting = [*(block.blocks if isinstance(block, Fold) else ()), *waiting]
        found += [block] if isinstance(block, Table) and block.name == name and block.row_count else []
    return found


def cells(table: Table, column: str) -> list[str]:
    view = table_view(table)
    at = [head.name for head in view.heads].index(column)
    return [row[at].text for row in view.rows]


def test_the_bar_of_idle_time_has_the_scale_of_the_ledger_and_lies_below_its_idle_part() -> None:
    """A tenth of idle time is a tenth of the page."""
    (device,) = devices(FULL)
    idle = device.parts[-1]
    assert sum(float(row.width) for row in device.parts) == pytest.approx(100)
    assert float(device.idle[0].x) == pytest.approx(float(idle.x), abs=1e-3)
    assert sum(float(row.width) for row in device.idle) == pytest.approx(float(idle.width), abs=1e-3)
    for row in (*device.parts, *device.idle):
        assert float(row.width) == pytest.approx(float(row.share.removeprefix("<").removesuffix(" %")), abs=0.1)


def test_idle_is_hatched_and_nothing_else() -> None:
    (device,) = devices(FULL)
    assert [row.key for row in device.parts if row.fill.startswith("url(")] == ["idle"]


def test_idle_time_is_named_by_its_rule_and_explained_by_its_causes() -> None:
    """A rule with one cause has the meaning of that cause; several causes are listed with their times."""
    (device,) = devices(FULL)
    meanings = {row.label: row.meaning for row in device.idle}
    assert meanings["data loader wait"] == "The CPU waited for the data loader."
    assert meanings["launch-bound kernels"] == "CUDA launch calls 60.0 ms, CPU outside CUDA calls 20.0 ms"


def attribution(rule: str, *causes: str) -> pd.DataFrame:
    """Return idle time of GPU 0 that belongs to one rule, 772 ms in all."""
    return pd.DataFrame(
        {"device_id": 0, "cause": causes, "rule": rule, "phase": "none", "idle_ns": 772 * MS // len(causes),
         "gap_count": 1}
    )  # fmt: skip


def test_an_unknown_rule_has_the_words_of_its_key() -> None:
    (device,) = devices(with_tables(FULL, "idle", attribution=attribution("brand_new/big_rule", "odd_cause")))
    shown = [(row.label, row.meaning, row.share) for row in device.idle]
    assert shown == [("brand new: big rule", "odd cause 772 ms", "38.6 %")]


def test_a_part_that_is_zero_on_all_gpus_is_not_shown() -> None:
    """Waiting for other ranks is zero in the hand-made report; with time on one GPU of two, both show it."""
    assert "waiting for other ranks" not in [row.label for row in devices(FULL)[0].parts]
    two = hand_made.two_gpu_report()
    ledger = two.section("ledger")
    assert ledger is not None
    table = ledger.tables["devices"].assign(communication_wait_ns=[0, 7])
    for device in devices(with_tables(two, "ledger", devices=table)):
        assert "waiting for other ranks" in [row.label for row in device.parts]


def test_busy_over_time_is_drawn_where_it_is_given() -> None:
    section = section_of(FULL, "ledger")
    bare = replace(section, tables={"devices": section.tables["devices"]})
    without = replace(FULL, sections=tuple(bare if one is section else one for one in FULL.sections))
    drawn = [[block for block in page_ledger.gpus(one) if isinstance(block, Pictures)] for one in (FULL, without)]
    assert [[len(block.pictures) for block in blocks] for blocks in drawn] == [[1], [0]]


def test_a_gap_says_its_share_of_the_window_and_how_much_more_there_is() -> None:
    (row,) = table_view(page_ledger.longest_gaps(FULL, 1)).rows
    assert [cell.text for cell in row] == [
        *(
            "0",
            "1.432000 s",
            "36.0 ms",
            "1.8 %",
            "data loader wait in data 33.0 ms, CPU outside CUDA calls in data 3.00 ms",
        )
    ]
    assert row[-1].more[0].startswith("data loader wait in data 33.0 ms: pthread_cond_wait 32.6 ms")


def test_a_gap_of_many_rules_folds_the_small_ones() -> None:
    rows = [(0, 10 * at, 10 * at + 10, "cpu", f"rule/{at}", "data", "") for at in range(5)]
    table = pd.DataFrame(rows, columns=["device_id", "start_ns", "end_ns", "cause", "rule", "phase", "evidence"])
    shown = page_ledger.longest_gaps(with_tables(FULL, "idle", gaps=table), 3)
    assert [len(lines) for lines in shown.columns[-1].more] == [5]
    assert cells(shown, "reasons")[0].endswith(", 3 more")


def test_a_gap_has_an_anchor_that_stays_and_its_place_in_time() -> None:
    table = page_ledger.longest_gaps(FULL, 1)
    (attributes,) = table.row_attributes
    assert attributes["id"] == f"gap-0-{1_432 * MS}"
    assert json.loads(attributes["data-parts"])[0] == ["data loader wait", "data"]
    assert table.columns[1].spans == [(1_432 * MS, 1_468 * MS)]
    assert table.columns[3].raw == [pytest.approx(0.018)]


def test_idle_time_by_rule_cause_and_phase_is_a_table_largest_first() -> None:
    (table,) = tables(FULL, "idle-attribution")
    assert [column.name for column in table.columns] == ["rule", "cause", "phase", "idle_ns", "gap_count"]
    assert list(zip(cells(table, "rule"), cells(table, "cause"), table.columns[3].raw, strict=True))[:2] == [
        ("data loader wait", "data loader wait", 601 * MS),
        ("launch-bound kernels", "CUDA launch calls", 60 * MS),
    ]
    assert table_view(table).rows[0][3].fill == "idle"


def test_the_causes_of_idle_time_are_a_table_with_their_colours() -> None:
    (table,) = tables(FULL, "causes")
    assert cells(table, "rule")[0] == "data loader wait"
    assert (cells(table, "share")[0], cells(table, "idle_ns")[0]) == ("30.0 %", "601 ms")
    assert table.columns[0].raw[0].shapes[0].attributes["fill"] == "url(#idle-data)"


def test_each_gpu_has_its_own_idle_time() -> None:
    assert [table.row_count for table in tables(hand_made.two_gpu_report(), "idle-attribution")] == [6, 1]


def test_recurring_gaps_are_a_table_largest_first() -> None:
    table = page_ledger.patterns(FULL)
    assert cells(table, "rule") == ["data loader wait", "launch-bound kernels"]
    assert [column.label for column in table.columns] == [
        *("GPU", "why", "phase", "count", "median", "idle", "of the window", "gaps a step")
    ]
