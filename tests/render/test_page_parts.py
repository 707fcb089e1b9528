"""The parts of the page before they become markup: bars, gaps, steps, facts and tables."""

from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hand_made import MS

from nsyswrap.model import Fact, Report, Section
from nsyswrap.render import page_parts, summary_model

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
    return page_parts.devices(report, summary_model.ledgers(report))


def test_a_gpu_has_its_name_and_window_over_its_bar() -> None:
    (device,) = devices(FULL)
    assert (device.title, device.window) == ("GPU 0, NVIDIA H200", "2.00 s")


def test_a_gpu_without_a_name_has_its_number() -> None:
    (device,) = devices(replace(FULL, gpus=()))
    assert device.title == "GPU 0"


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
    (device,) = devices(with_table(FULL, "idle", "attribution", attribution("brand_new/big_rule", "odd_cause")))
    shown = [(row.label, row.meaning, row.share) for row in device.idle]
    assert shown == [("brand new: big rule", "odd cause 772 ms", "38.6 %")]


def test_a_ledger_without_idle_time_by_rule_has_one_bar() -> None:
    report = replace(FULL, sections=tuple(one for one in FULL.sections if one.key != "idle"))
    (device,) = devices(report)
    assert device.idle == ()


def test_a_part_that_is_zero_on_all_gpus_is_not_shown() -> None:
    """Waiting for other ranks is zero in the hand-made report; with time on one GPU of two, both show it."""
    assert "waiting for other ranks" not in [row.label for row in devices(FULL)[0].parts]
    two = hand_made.two_gpu_report()
    ledger = two.section("ledger")
    assert ledger is not None
    table = ledger.tables["devices"].assign(communication_wait_ns=[0, 7])
    for device in devices(with_table(two, "ledger", "devices", table)):
        assert "waiting for other ranks" in [row.label for row in device.parts]


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


def test_a_gap_of_many_rules_folds_the_small_ones() -> None:
    rows = [(0, 10 * at, 10 * at + 10, "cpu", f"rule/{at}", "data", "") for at in range(5)]
    table = pd.DataFrame(rows, columns=["device_id", "start_ns", "end_ns", "cause", "rule", "phase", "evidence"])
    (gap,) = page_parts.worst_gaps(with_table(FULL, "idle", "gaps", table), 3).gaps
    assert (len(gap.pieces), gap.more) == (5, 3)


def test_all_gaps_shown_is_no_cut() -> None:
    assert page_parts.worst_gaps(FULL, 100).cut == ""


def test_the_only_table_of_a_section_needs_no_caption_of_its_own() -> None:
    kernels, tensor = FULL.section("kernels"), FULL.section("tensor_cores")
    assert kernels is not None
    assert tensor is not None
    assert [table.caption for table in page_parts.section(kernels).tables] == [""]
    assert [table.caption for table in page_parts.section(tensor).tables] == ["Tensor-core use by kernel name"]


def test_a_table_without_words_of_its_own_is_named_by_its_key() -> None:
    section = hand_made.section_with("odd", one_thing=hand_made.names_table("a"), other=hand_made.names_table("b"))
    assert [table.caption for table in page_parts.section(section).tables] == ["One thing", "Other"]


def test_a_gap_has_an_anchor_that_stays_and_its_place_in_time() -> None:
    first = page_parts.worst_gaps(FULL, 1).gaps[0]
    assert (first.anchor, first.span) == (f"gap-0-{1_432 * MS}", (1_432 * MS, 1_468 * MS))
    assert first.ratio == pytest.approx(0.018)


def test_idle_time_by_rule_cause_and_phase_is_a_table_largest_first() -> None:
    (device,) = devices(FULL)
    table = device.attribution
    assert [head.name for head in table.heads] == ["rule", "cause", "phase", "idle_ns", "gap_count"]
    assert [(row[0].text, row[1].text, row[3].raw) for row in table.rows][:2] == [
        ("data loader wait", "data loader wait", str(601 * MS)),
        ("launch-bound kernels", "CUDA launch calls", str(60 * MS)),
    ]
    assert table.rows[0][3].fill == "idle"


def test_each_gpu_has_its_own_idle_time() -> None:
    both = devices(hand_made.two_gpu_report())
    assert [len(one.attribution.rows) for one in both] == [6, 1]


def test_without_a_section_on_idle_time_its_table_is_empty() -> None:
    report = replace(FULL, sections=tuple(one for one in FULL.sections if one.key != "idle"))
    (device,) = devices(report)
    assert device.attribution.rows == ()
    assert page_parts.patterns(report) is None


def test_recurring_gaps_are_a_table_largest_first() -> None:
    view = page_parts.patterns(FULL)
    assert view is not None
    assert [row[1].text for row in view.rows] == ["data loader wait", "launch-bound kernels"]
    assert [head.label for head in view.heads] == [
        "GPU",
        "why",
        "phase",
        "count",
        "median",
        "idle",
        "of the window",
        "gaps a step",
    ]


@pytest.mark.parametrize(("value", "measured"), [(0, False), (None, False), (float("nan"), False), (3, True)])
def test_a_section_measured_something_where_a_fact_is_more_than_nothing(value: float | None, measured: bool) -> None:  # noqa: FBT001
    section = Section("odd", "Odd", hand_made.WINDOW, (Fact("things", value, "count"),))
    assert page_parts.section(section).measured is measured


def test_a_table_without_rows_is_left_out() -> None:
    section = hand_made.section_with("odd", one=hand_made.names_table(), other=hand_made.names_table("a"))
    view = page_parts.section(section)
    assert [table.name for table in view.tables] == ["other"]
    assert view.measured


def test_a_counter_that_was_not_sampled_is_said_to_be_so_once() -> None:
    facts = (Fact("counter_share", None, "share"), Fact("counter_share_low", None, "share"))
    section = Section("tensor_cores", "Tensor cores", hand_made.WINDOW, facts)
    assert page_parts.facts(section) == (("tensor pipes active by counter, at most", "not measured"),)
    measured = replace(section, facts=(Fact("counter_share", 0.2, "share"), Fact("counter_share_low", 0.1, "share")))
    assert len(page_parts.facts(measured)) == 2
