"""report.json: the keys of the contract, plain numbers, and cut tables whose sums can be checked."""

import json
from dataclasses import replace
from typing import Any

import hand_made
import numpy as np
import pandas as pd
import pytest

from nsyswrap.model import NO_PLAN
from nsyswrap.render import json_report, json_writer

ROWS = 20_000


def parsed(report: Any) -> dict[str, Any]:  # noqa: ANN401 (any of the hand-made reports)
    """Return the report's JSON as Python objects; values that JSON does not have are an error."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    tree: dict[str, Any] = json.loads(json_report.render(report), parse_constant=refuse)
    return tree


FULL = parsed(hand_made.full_report())


def test_the_keys_are_the_contract() -> None:
    assert FULL["schema"] == "nsyswrap.report/3"
    assert set(FULL) == {
        *("schema", "capture", "session", "gpus", "window", "step", "verdict", "verdict_rule", "plan", "sections"),
        *("findings", "notes", "plan_base", "plan_notes", "program_kind"),
    }
    assert set(FULL["gpus"][0]) == {*("device_id", "name", "compute_capability", "sm_count", "memory_bytes", "rank")}
    assert set(FULL["step"]) == {"count", "recorded_ns", "alone", "alone_source", "alone_total_ns", "total_ns"}
    assert set(FULL["session"]) == {
        *("nsys_version", "schema_version", "started_utc", "duration_ns", "hostname", "command", "traces"),
        *("graph_trace", "driver_version", "cuda_version"),
    }
    assert set(FULL["window"]) == {"label", "source", "start_ns", "end_ns"}
    assert set(FULL["findings"][0]) == {
        *("rule", "severity", "headline", "lost_ns", "saving", "saving_method", "line", "module", "advice"),
        *("evidence", "device_id", "rank", "section", "window"),
    }


def test_the_plan_says_what_it_begins_with() -> None:
    assert FULL["plan"] == [
        {
            "rule": "idle/data_wait",
            "step": {"low_ns": 78_000_000, "point_ns": 94_500_000, "high_ns": 111_000_000},
            "saving": {"low_ns": 0, "point_ns": 16_500_000, "high_ns": 33_000_000},
            "source": "simulated",
        }
    ]
    assert FULL["plan_base"] == {"step_ns": 111_000_000}
    assert FULL["plan_notes"] == ["After that, compute sets the pace."]
    without = parsed(replace(hand_made.full_report(), plan=NO_PLAN))
    assert (without["plan"], without["plan_base"]) == ([], {"step_ns": None})


def test_a_finding_names_the_section_that_holds_it() -> None:
    for finding in FULL["findings"]:
        assert {**finding, "section": finding["section"]} in FULL["sections"][finding["section"]]["findings"]
    alone = replace(hand_made.full_report(), sections=())
    assert {finding["section"] for finding in parsed(alone)["findings"]} == {None}


def test_a_section_has_its_window_facts_tables_findings_and_notes() -> None:
    for section in FULL["sections"].values():
        assert set(section) == {"title", "window", "facts", "tables", "findings", "notes"}


def test_the_host_is_withheld() -> None:
    assert FULL["session"]["hostname"] == ""


def test_secrets_are_not_named() -> None:
    assert "HF_TOKEN" not in json_report.render(hand_made.full_report())


def test_a_gpu_has_its_compute_capability_as_text() -> None:
    assert FULL["gpus"][0]["compute_capability"] == "9.0"
    assert parsed(hand_made.hostile_report())["gpus"][0]["compute_capability"] is None


def test_facts_are_by_label_with_value_and_unit() -> None:
    facts = FULL["sections"]["tensor_cores"]["facts"]
    assert facts["kernel_ns"] == {"value": 1_160_000_000, "unit": "ns"}
    assert facts["counter_share"] == {"value": None, "unit": "share"}


def test_times_are_whole_numbers() -> None:
    """Columns of int64 stay whole numbers."""
    for section in FULL["sections"].values():
        for rows in section["tables"].values():
            times = [row[name] for row in rows for name in row if name.endswith("_ns") and name != "mean_ns"]
            assert all(isinstance(value, int) or value is None or not value.is_integer() for value in times)


def test_one_row_is_one_line() -> None:
    lines = json_report.render(hand_made.full_report()).splitlines()
    assert sum('"rule": "idle/data_wait", "phase": "data", "idle_ns"' in line for line in lines) == 1


@pytest.mark.parametrize(
    "make",
    [hand_made.full_report, hand_made.hostile_report, hand_made.empty_report, hand_made.no_gpu_report],
)
def test_the_text_means_the_tree(make: Any) -> None:  # noqa: ANN401 (a function of hand_made)
    """The text has its own layout, but is JSON of the same tree."""
    assert parsed(make()) == json_report.tree(make())


@pytest.mark.parametrize(
    "column",
    [
        ["a\nb", "", '", "', "\u2028", "\x00", "\ud800"],
        [1, -(2**63), 2**64, True, None, 0],
        [0.1, None, 1e300, -0.0, 3, "3"],
        [["a\n", "b"], [], None, {"c": ["\n"]}, "d", 5],
    ],
)
def test_a_column_of_any_values_comes_back(column: list[object]) -> None:
    """Columns are encoded as a whole and cut at line breaks, so no value may hold one."""
    document = {"rows": [{"value": value, "other": 0} for value in column]}
    assert json.loads(json_writer.write(document)) == document


def test_a_column_with_a_per_cent_sign_in_its_name_is_no_format() -> None:
    section = hand_made.section_with("odd", t=pd.DataFrame({"100 % \u202e": [1]}))
    assert parsed(hand_made.report_with(section))["sections"]["odd"]["tables"]["t"] == [{"100 % \u202e": 1}]


def test_only_the_longest_gaps_are_listed_with_a_sum_of_the_rest() -> None:
    """The listed lengths and the ns in the note add up to all idle time."""
    section = parsed(hand_made.gap_report(ROWS + 10))["sections"]["idle"]
    listed = section["tables"]["gaps"]
    (note,) = (note for note in section["notes"] if "left out" in note)
    assert note == (
        "Table gaps: 20,000 of 20,010 rows are listed, those of the longest gaps; "
        "10 rows with 15,000 ns in all are left out."
    )
    assert sum(row["end_ns"] - row["start_ns"] for row in listed) + 15_000 == (ROWS + 10) // 2 * 3_000


def test_of_any_other_table_the_largest_rows_are_listed_in_their_order() -> None:
    table = pd.DataFrame({"name": "k", "total_ns": np.arange(ROWS + 2)[::-1].copy()})
    section = parsed(hand_made.report_with(hand_made.section_with("odd", t=table)))["sections"]["odd"]
    assert [row["total_ns"] for row in section["tables"]["t"]][-1] == 2
    assert "most total_ns; 2 rows with 1 ns in all are left out." in section["notes"][0]


def test_a_long_table_without_times_is_cut_at_its_end() -> None:
    table = pd.DataFrame({"n": np.arange(ROWS + 1)})
    section = parsed(hand_made.report_with(hand_made.section_with("odd", t=table)))["sections"]["odd"]
    assert section["tables"]["t"][-1]["n"] == ROWS - 1
    assert section["notes"] == ["Table t: 20,000 of 20,001 rows are listed, the first; 1 row is left out."]
