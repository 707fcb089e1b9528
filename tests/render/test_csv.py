"""CSV: every table is complete, any parser can read it, and no cell is a formula for a spreadsheet."""

import csv
import io
import json
from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rank_sections import with_ranks

from nsyswrap.render import csv_report, json_report


def cells(text: str) -> list[list[str]]:
    """Return the rows of a CSV text."""
    return list(csv.reader(io.StringIO(text, newline="")))


def one_table(table: pd.DataFrame) -> list[list[str]]:
    """Write a table as CSV and return its rows, read back."""
    return cells(csv_report.tables(hand_made.report_with(hand_made.section_with("odd", t=table)))["odd.t"])


def test_every_table_is_there_by_section_and_name() -> None:
    report = hand_made.full_report()
    expected = {f"{section.key}.{name}" for section in report.sections for name in section.tables}
    found = csv_report.tables(report)
    assert expected <= set(found)
    facts = {f"{section.key}.facts" for section in report.sections if section.facts}
    assert set(found) - expected == {"report.findings", *facts}


def test_a_table_comes_back_as_it_was() -> None:
    report = hand_made.full_report()
    section = report.section("copies")
    assert section is not None
    back = pd.read_csv(io.StringIO(csv_report.tables(report)["copies.summary"]))
    pd.testing.assert_frame_equal(back, section.tables["summary"], check_dtype=False)


def test_lines_end_as_the_standard_says() -> None:
    text = csv_report.tables(hand_made.full_report())["ledger.devices"]
    assert text.endswith("\r\n")
    assert text.count("\r\n") == text.count("\n") == 2


def test_blocks_are_divided_by_an_empty_line_and_name_their_table() -> None:
    blocks = csv_report.render(hand_made.full_report()).split("\r\n\r\n")
    names = set()
    for block in blocks:
        head, *body = cells(block)
        assert head[:2] == ["section", "table"]
        assert len({tuple(row[:2]) for row in body}) == 1
        assert {len(row) for row in body} == {len(head)}
        names.add(".".join(body[0][:2]))
    assert names == set(csv_report.tables(hand_made.full_report()))


@pytest.mark.parametrize("start", list("=+-@"))
def test_a_name_that_a_spreadsheet_would_run_is_led_by_an_apostrophe(start: str) -> None:
    assert one_table(hand_made.names_table(f"{start}cmd()"))[1][0] == f"'{start}cmd()"


@pytest.mark.parametrize("start", ["\t", "\r", "\n"])
def test_white_space_does_not_hide_a_formula(start: str) -> None:
    assert one_table(hand_made.names_table(f"{start}=cmd()"))[1][0].startswith("[U+00")


def test_a_negative_number_is_no_formula() -> None:
    assert one_table(pd.DataFrame({"start_ns": [-5]}))[1] == ["-5"]


def test_what_is_missing_is_an_empty_cell() -> None:
    table = pd.DataFrame({"mean_ns": [None, 1.5], "name": pd.Series([None, "a"]), "n": [1, 2]})
    assert one_table(table) == [["mean_ns", "name", "n"], ["", "", "1"], ["1.5", "a", "2"]]


def test_categories_and_repeated_index_values_are_written() -> None:
    table = pd.DataFrame({"cause": pd.Categorical(["cpu", "launch"])}, index=[0, 0])
    assert one_table(table) == [["cause"], ["cpu"], ["launch"]]


def test_a_column_named_as_ours_is_kept() -> None:
    report = hand_made.report_with(hand_made.section_with("odd", t=pd.DataFrame({"section": ["mine"]})))
    assert cells(csv_report.render(report)) == [["section", "table", "section"], ["odd", "t", "mine"]]


def test_a_finding_is_one_row() -> None:
    head, first, *_ = cells(csv_report.tables(hand_made.full_report())["report.findings"])
    found = dict(zip(head, first, strict=True))
    assert [found[name] for name in ("rule", "severity", "lost_ns", "device_id", "rank", "section")] == [
        *("idle/data_wait", "problem", "601000000", "0", "", "idle")
    ]


def test_a_finding_names_the_rank_of_its_gpu_as_in_report_json() -> None:
    report = with_ranks(hand_made.full_report(), 4, 0)
    report = replace(report, gpus=tuple(replace(gpu, rank=gpu.device_id + 4) for gpu in report.gpus))
    rows = pd.read_csv(io.StringIO(csv_report.tables(report)["report.findings"]))
    written = json.loads(json_report.render(report))["findings"]
    assert any(one["rank"] == 4 for one in written)
    for name in ("rule", "device_id", "rank", "section"):
        assert rows[name].astype(object).where(rows[name].notna(), None).tolist() == [one[name] for one in written]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_makes_one_cell_of_one_line(name: str) -> None:
    """A name with commas, quotes or line breaks is still one cell."""
    head, row = one_table(hand_made.names_table(name))
    assert (len(head), len(row), row[1]) == (2, 2, "1500")
    assert not row[0].startswith(("=", "+", "-", "@"))
