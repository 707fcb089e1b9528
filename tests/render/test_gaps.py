"""Gaps are put together from their rows, longest first; a cut table and its remainder add up."""

from collections.abc import Iterator

import hand_made
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.render import gaps

NAMES = ["device_id", "start_ns", "end_ns", "cause", "rule", "phase", "evidence"]


def table(*rows: tuple[int, int, int, str]) -> pd.DataFrame:
    """Return a table of gaps from GPU, start, end and cause."""
    return pd.DataFrame([(*row, f"idle/{row[3]}", "data", f"because of {row[3]}") for row in rows], columns=NAMES)


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """Draw gaps on two GPUs, which may touch each other, as rows in any order."""
    rows: list[tuple[int, int, int, str]] = []
    for device in (0, 1):
        at = 0
        for apart, length in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=12)):
            rows.append((device, at + apart, at + apart + length, draw(st.sampled_from(["cpu", "launch"]))))
            at += apart + length
    return table(*draw(st.permutations(rows)))


def together(rows: pd.DataFrame) -> Iterator[tuple[int, int, int]]:
    """Yield GPU, start and end of each gap, by a slow and simple method."""
    open_gap: tuple[int, int, int] | None = None
    for device, start, end in sorted(zip(rows["device_id"], rows["start_ns"], rows["end_ns"], strict=True)):
        if open_gap is not None and open_gap[0] == device and open_gap[2] == start:
            open_gap = (device, open_gap[1], end)
            continue
        if open_gap is not None:
            yield open_gap
        open_gap = (device, start, end)
    if open_gap is not None:
        yield open_gap


def test_a_table_without_evidence_has_gaps_all_the_same() -> None:
    found = gaps.longest(table((0, 0, 5, "cpu")).drop(columns="evidence"), 1)
    assert found.gaps[0].pieces[0].evidence == ""


def test_pieces_of_one_rule_are_added_and_the_longest_one_gives_cause_and_evidence() -> None:
    rows = table((0, 0, 5, "cpu"), (0, 5, 6, "launch"), (0, 6, 16, "cpu"))
    rows["evidence"] = ["short", "call", "long"]
    (gap,) = gaps.longest(rows, 1).gaps
    assert [(one.rule, one.ns, one.evidence) for one in gap.pieces] == [
        *(("idle/cpu", 15, "long"), ("idle/launch", 1, "call"))
    ]
    (gap,) = gaps.longest(rows.assign(rule="launches/launch_bound"), 1).gaps
    assert [(one.rule, one.cause, one.ns, one.evidence) for one in gap.pieces] == [
        ("launches/launch_bound", "cpu", 16, "long")
    ]


@given(tables())
def test_gaps_are_what_the_plain_way_finds(rows: pd.DataFrame) -> None:
    found = gaps.longest(rows, len(rows) + 1)
    assert sorted((gap.device_id, gap.start_ns, gap.end_ns) for gap in found.gaps) == sorted(together(rows))
    assert found.total_ns == int((rows["end_ns"] - rows["start_ns"]).sum())


@given(tables(), st.integers(1, 30))
def test_a_cut_table_and_what_is_left_out_add_up(rows: pd.DataFrame, most: int) -> None:
    """The rows and nanoseconds of both parts add up to those of the whole table."""
    stay, left_out_ns = gaps.cut(rows, most)
    assert len(stay) <= most
    kept = int((stay["end_ns"] - stay["start_ns"]).sum())
    assert kept + left_out_ns == int((rows["end_ns"] - rows["start_ns"]).sum())


@given(tables(), st.integers(1, 30))
def test_a_cut_keeps_gaps_whole_and_the_longest(rows: pd.DataFrame, most: int) -> None:
    kept = list(together(gaps.cut(rows, most)[0]))
    every = list(together(rows))
    gone = set(every) - set(kept)
    assert set(kept) <= set(every)
    assert min((end - start for _, start, end in kept), default=10**9) >= max((e - s for _, s, e in gone), default=0)


def test_a_gap_of_more_rows_than_may_stay_goes_whole() -> None:
    """A part of a gap would look like a shorter gap, which did not exist."""
    stay, left_out_ns = gaps.cut(table((0, 0, 5, "cpu"), (0, 5, 9, "launch"), (0, 9, 10, "cpu")), 2)
    assert (len(stay), left_out_ns) == (0, 10)


def test_two_hundred_thousand_rows_are_ranked_at_once() -> None:
    idle = hand_made.gap_report(200_000).section("idle")
    assert idle is not None
    assert gaps.longest(idle.tables["gaps"], 10).gap_count == 100_000
