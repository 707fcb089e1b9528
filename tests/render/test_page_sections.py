"""The sections of a page below the answer: their facts, tables and charts, and where the numbers come from."""

from collections.abc import Sequence
from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hand_made import MS, section_of, with_tables

import nsyswrap
from nsyswrap.model import Fact, Report, Section
from nsyswrap.render import page_sections
from nsyswrap.render.document import Bars, Block, Pictures, Table, blocks_of
from nsyswrap.render.drawings import Picture
from nsyswrap.render.table_cells import TableCell, table_view

FULL = hand_made.full_report()
NAN = float("nan")


def blocks(report: Report, key: str) -> Sequence[Block]:
    return blocks_of(page_sections.section(report, section_of(report, key)).blocks, "html")


def table_of(report: Report, key: str, name: str) -> Table:
    return next(one for one in blocks(report, key) if isinstance(one, Table) and one.name == name)


def rows_of(report: Report, key: str, name: str) -> list[dict[str, TableCell]]:
    """Return the cells of each row of a table by the names of their columns; that without a name is the bar."""
    view = table_view(table_of(report, key, name))
    return [dict(zip([head.name for head in view.heads], row, strict=True)) for row in view.rows]


def widths(row: dict[str, TableCell]) -> dict[str, tuple[float, float]]:
    """Return place and width of each colour of a bar, in per cent."""
    assert row[""].picture is not None
    return {
        one.attributes["class"]: (float(one.attributes["x"][:-1]), float(one.attributes["width"][:-1]))
        for one in row[""].picture.shapes
    }


def length(row: dict[str, TableCell]) -> float:
    """Return the length of a bar, in per cent."""
    return sum(width for _, width in widths(row).values())


# Any section.


def test_facts_that_a_bar_says_are_not_said_again() -> None:
    labels = [label for label, _ in page_sections.facts(FULL.section("tensor_cores"))]
    assert labels == [
        *("tensor-core share, at least", "tensor-core share, at most", "tensor pipes active by counter, at most")
    ]


def test_a_fact_nobody_knows_is_named_by_its_label() -> None:
    section = Section("odd", "Odd", hand_made.WINDOW, (Fact("some_new_ns", 1_500, "ns"), Fact("As it is", 2, "count")))
    assert page_sections.facts(section) == (("some new", "1.50 µs"), ("As it is", "2"))


def test_a_counter_that_was_not_sampled_is_said_to_be_so_once() -> None:
    facts = (Fact("counter_share", None, "share"), Fact("counter_share_low", None, "share"))
    section = Section("tensor_cores", "Tensor cores", hand_made.WINDOW, facts)
    assert page_sections.facts(section) == (("tensor pipes active by counter, at most", "not measured"),)
    measured = replace(section, facts=(Fact("counter_share", 0.2, "share"), Fact("counter_share_low", 0.1, "share")))
    assert len(page_sections.facts(measured)) == 2


def test_a_table_without_words_of_its_own_is_named_by_its_key() -> None:
    section = hand_made.section_with("odd", one_thing=hand_made.names_table("a"), other=hand_made.names_table("b"))
    assert [table.caption for table in page_sections.tables(section)] == ["One thing", "Other"]


@pytest.mark.parametrize(("value", "measured"), [(0, False), (None, False), (NAN, False), (3, True)])
def test_a_section_measured_something_where_a_fact_is_more_than_nothing(value: float | None, measured: bool) -> None:  # noqa: FBT001
    section = Section("odd", "Odd", hand_made.WINDOW, (Fact("things", value, "count"),))
    assert page_sections.has_numbers(section) is measured


# Kernel time by use of tensor cores.


def test_kernel_time_by_use_of_tensor_cores_fills_its_bar() -> None:
    (bars,) = (one for one in blocks(FULL, "tensor_cores") if isinstance(one, Bars))
    assert sum(float(row.width) for row in bars.legend) == pytest.approx(100)
    assert [row.share for row in bars.legend] == ["41.0 %", "17.2 %", "18.9 %", "22.9 %"]


def test_phases_come_costliest_first_with_their_bounds() -> None:
    rows = rows_of(FULL, "tensor_cores", "tensor_cores-phase")
    assert [(row["phase"].text, row["share_low"].text) for row in rows] == [
        ("backward", "44.8 to 60.0 %"),
        ("forward", "45.0 to 69.8 %"),
        ("optimizer", "0.0 %"),
    ]


def test_bars_have_one_scale_on_which_all_rows_together_are_full() -> None:
    assert [length(row) for row in rows_of(FULL, "tensor_cores", "tensor_cores-phase")] == [
        pytest.approx(660 / 1160 * 100, abs=0.01),
        pytest.approx(400 / 1160 * 100, abs=0.01),
        pytest.approx(100 / 1160 * 100, abs=0.01),
    ]


def test_families_add_up_the_kernels_of_one_operation() -> None:
    """Two gemms, one of them without tensor cores, share a row; all rows together are all kernel time."""
    rows = rows_of(FULL, "tensor_cores", "tensor_cores-family")
    assert [rows[0][name].raw for name in ("kernel_ns", "tensor_ns")] == [str((476 + 219) * MS), str(476 * MS)]
    assert (rows[0]["family"].text, list(widths(rows[0]))) == ("matrix products", ["p-tensor", "p-eligible"])
    assert sum(int(row["kernel_ns"].raw) for row in rows) == 1_160 * MS


def test_a_kernel_without_a_known_family_has_a_row() -> None:
    rows = rows_of(FULL, "tensor_cores", "tensor_cores-family")
    assert next(row for row in rows if row["family"].text == "unknown")["share_low"].text == "0.0 to 100.0 %"


# Counters.


def curves(**columns: list[float]) -> list[Picture]:
    """Return the curves of these counters of GPU 0, an interval of 10 ns each."""
    count = len(next(iter(columns.values())))
    starts = [10 * at for at in range(count)]
    table = pd.DataFrame({"device_id": 0, "start_ns": starts, "end_ns": [start + 10 for start in starts], **columns})
    window = pd.DataFrame({"name": ["SMs Active"], "device_id": [0], "mean_share": [0.07], "max_share": [1.0]})
    report = hand_made.report_with(hand_made.section_with("counters", over_time=table, window=window))
    return [each for one in blocks(report, "counters") if isinstance(one, Pictures) for each in one.pictures]


def test_a_counter_has_a_curve_its_mean_and_its_highest_value() -> None:
    (curve,) = curves(sm_active_share=[0.05, 0.1])
    assert (curve.title, curve.caption) == ("SM active", "mean 7.0 %, highest 10.0 %")
    assert curve.shapes[1].attributes["d"] == "M0.0 100V50.0H500.0V0.0H1000.0V100Z"


@pytest.mark.parametrize(("most", "top"), [(0.004, "2.0 %"), (0.03, "5.0 %"), (0.5, "50.0 %"), (0.51, "100.0 %")])
def test_the_upper_edge_fits_the_counter(most: float, top: str) -> None:
    (curve,) = curves(sm_active_share=[0.0, most])
    assert curve.edges[0] == top


def test_a_counter_that_was_never_sampled_is_left_out() -> None:
    shown = curves(sm_active_share=[0.1, NAN], tensor_active_share=[NAN, NAN])
    assert [one.title for one in shown] == ["SM active"]


def test_a_mean_that_the_section_does_not_give_is_not_made_up() -> None:
    (curve,) = curves(tensor_active_share=[0.1])
    assert curve.caption.startswith("mean not measured")


# Phases.


def phases_of(report: Report) -> dict[str, dict[str, TableCell]]:
    return {row["phase"].text: row for row in rows_of(report, "phases", "phases-phases")}


def test_all_phases_together_fill_a_row_and_each_is_to_scale() -> None:
    """Backward is busy for 660 ms and idle for 80 ms; data is idle for 601 ms."""
    whole = int(section_of(FULL, "phases").tables["phases"][["gpu_ns", "idle_ns"]].to_numpy().sum()) / MS
    bars = {name: widths(row) for name, row in phases_of(FULL).items()}
    assert sum(map(length, phases_of(FULL).values())) == pytest.approx(100, abs=0.01)
    assert bars["backward"]["p-compute"][1] == bars["backward"]["p-idle"][0] == pytest.approx(66_000 / whole, abs=1e-3)
    assert bars["data"].keys() == {"p-idle"}
    assert bars["data"]["p-idle"] == pytest.approx((0, 60_100 / whole), abs=1e-3)


def test_numbers_are_those_of_the_report_in_its_order() -> None:
    name, row = next(iter(phases_of(FULL).items()))
    assert name == "data"
    assert [(row[each].text, row[each].raw) for each in ("count", "host_ns", "gpu_ns", "idle_ns", "kernel_count")] == [
        *(("18", "18"), ("640 ms", str(640 * MS)), ("0", "0"), ("601 ms", str(601 * MS)), ("0", "0"))
    ]


def test_a_phase_says_why_the_gpus_were_idle_largest_first() -> None:
    """The times of a rule are added over all GPUs and causes. The two largest rules are named, the others counted."""
    rows = [
        *((0, "cpu", "launches/launch_bound", "forward", 5 * MS, 1), (1, "cpu", "idle/cpu", "forward", 10 * MS, 1)),
        (0, "launch", "launches/launch_bound", "forward", 6 * MS, 1),
        *((0, "lock", "idle/lock", "forward", 1, 1), (0, "queued", "idle/queued", "forward", 2, 1)),
    ]
    table = pd.DataFrame(rows, columns=["device_id", "cause", "rule", "phase", "idle_ns", "gap_count"])
    found = {name: row["reasons"].text for name, row in phases_of(with_tables(FULL, "idle", attribution=table)).items()}
    assert found["forward"] == "launch-bound kernels 11.0 ms, CPU outside CUDA calls 10.0 ms, 2 more"
    assert found["optimizer"] == ""


@pytest.mark.parametrize("table", [pd.DataFrame(), pd.DataFrame({"phase": ["a"]})])
def test_a_table_of_other_columns_is_no_table_of_phases(table: pd.DataFrame) -> None:
    assert not any(isinstance(one, Table) for one in blocks(with_tables(FULL, "phases", phases=table), "phases"))


# Where the numbers come from.


def origin(**session: object) -> dict[str, str]:
    """Return the lines of the full report with another session."""
    changed = replace(FULL, session=replace(FULL.session, **session))  # type: ignore[arg-type]
    return {row.label: row.words for row in page_sections.provenance(changed)}


def test_the_command_is_one_to_type_again() -> None:
    assert origin()["command"] == "python train.py --batch-size 64 --run-name 'a b'"
    assert next(page_sections.provenance(FULL)).is_code


def test_versions_of_everything_are_said() -> None:
    said = origin()
    assert (said["nsyswrap"], said["nsys"], said["driver"]) == (nsyswrap.__version__, "2025.3.2.0", "580.159.04")


def test_what_the_export_does_not_say_is_unknown_or_left_out() -> None:
    said = origin(command=(), started_utc="", duration_ns=0, driver_version="", secrets=())
    assert said["driver"] == "unknown"
    assert {"command", "started", "length of the capture", "secrets"}.isdisjoint(said)
