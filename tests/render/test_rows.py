"""Tables of any section as text: headings and units from the columns' names, and a cut that is stated."""

import hand_made
import pandas as pd

from nsyswrap.render import rows


def written(table: pd.DataFrame, *, aligned: bool = True) -> tuple[rows.ShownColumn, ...]:
    return rows.written(rows.plain_columns(table), aligned=aligned)


def test_the_suffix_of_a_column_is_its_unit() -> None:
    table = pd.DataFrame({"name": ["a"], "idle_ns": [1_500], "size_bytes": [2_048], "busy_share": [0.5]})
    shown = written(table, aligned=False)
    assert [(one.label, one.cells) for one in shown] == [
        ("name", ["a"]),
        ("idle", ["1.50 µs"]),
        ("size", ["2.00 KiB"]),
        ("busy", ["50.0 %"]),
    ]


def test_shares_and_sizes_whose_names_do_not_say_so_have_their_unit() -> None:
    """A size that was not recorded is a dash."""
    table = pd.DataFrame({"theoretical_occupancy": [0.188], "peak_share_low": [0.132], "bytes": [-1]})
    assert [one.cells for one in written(table)] == [["18.8 %"], ["13.2 %"], [rows.MISSING]]
    (rate,) = written(pd.DataFrame({"bus_bandwidth": [2.0**30, 2.0**31]}))
    assert (rate.label, rate.unit, rate.cells) == ("on each link, a second", "GiB", ["1.00", "2.00"])


def test_an_aligned_column_has_its_unit_in_the_heading() -> None:
    shown = written(pd.DataFrame({"idle_ns": [31_000_000, 18_000_000, 1_500_000]}))
    assert [(one.unit, one.cells) for one in shown] == [("ms", ["31.0", "18.0", "1.5"])]


def test_times_that_add_up_have_one_unit() -> None:
    """A row of the ledger can be added by eye."""
    shown = written(pd.DataFrame({"window_ns": [2_000_000], "idle_ns": [900]}))
    assert [one.unit for one in shown] == ["ms", "ms"]


def test_statistics_of_one_call_have_the_unit_of_their_mean() -> None:
    """The longest call does not set the unit, so other values keep their digits."""
    table = pd.DataFrame({"total_ns": [9_000_000], "mean_ns": [4_500.0], "min_ns": [700], "max_ns": [3_000_000]})
    shown = {one.name: (one.unit, one.cells) for one in written(table)}
    assert shown["total_ns"][0] == "ms"
    assert [shown[name] for name in ("mean_ns", "min_ns", "max_ns")] == [
        ("µs", ["4.50"]),
        ("µs", ["0.70"]),
        ("µs", ["3,000.00"]),
    ]


def test_a_column_of_zeros_has_no_unit() -> None:
    (column,) = written(pd.DataFrame({"idle_ns": [0, 0]}))
    assert (column.unit, column.cells) == ("", ["0", "0"])


def test_an_empty_cell_is_a_dash_and_not_zero() -> None:
    (column,) = written(pd.DataFrame({"idle_ns": [1_500, None]}))
    assert column.cells == ["1.50", rows.MISSING]


def test_an_id_is_no_amount() -> None:
    (column,) = written(pd.DataFrame({"stream_id": [1_234]}))
    assert column.cells == ["1234"]


def test_truth_is_yes_or_no() -> None:
    (column,) = written(pd.DataFrame({"warm_up": [True, False]}))
    assert column.cells == ["yes", "no"]


def test_a_hostile_name_is_shown_by_numbers() -> None:
    (column, _) = written(hand_made.names_table("a\u202eb"))
    assert column.cells == ["a[U+202E]b"]


def test_statistics_have_a_unit_in_each_cell_where_one_for_all_would_hide_some() -> None:
    """One gap of 26 ms and others of 2 us; totals keep one unit, so that they can be compared."""
    table = pd.DataFrame({"median_ns": [26_310_000, 2_100], "total_ns": [26_310_000, 15_000_000]})
    median, total = written(table)
    assert (median.unit, median.cells) == ("", ["26.3 ms", "2.10 µs"])
    assert (total.unit, total.cells) == ("ms", ["26.3", "15.0"])


def test_a_cut_states_rows_and_time() -> None:
    assert rows.part_of(2, 3, (990, 1_000)) == "2 of 3 rows, 99.0 % of the time"
    assert rows.part_of(2, 3, None) == "2 of 3 rows"
    assert not rows.part_of(1, 1, None)


def test_the_weight_of_a_row_is_its_total() -> None:
    table = pd.DataFrame({"mean_ns": [1], "idle_ns": [2], "total_ns": [3]})
    assert rows.weight_column(table) == "total_ns"
    assert rows.weight_column(pd.DataFrame({"total_ns": ["text"]})) is None
