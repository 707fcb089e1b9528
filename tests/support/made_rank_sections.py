"""The section on ranks of made jobs with any number of ranks, in which one rank waits for its data loader."""

from dataclasses import replace

import numpy as np
import pandas as pd

from nsyswrap.base.interval import between
from nsyswrap.base.intervals import Window
from nsyswrap.model import Fact, Finding, Report, Section, Severity
from nsyswrap.ranks.step_picture import COLLECTIVES, SEGMENTS
from nsyswrap.sections.ranks import LONGEST_WAIT, MATRIX, MEDIAN, MOST_DRAWN, SELECTED, STEPS

MS = 1_000_000
LOAD, FORWARD, BACKWARD, LATE, TRANSFER = 2 * MS, 10 * MS, 20 * MS, 15 * MS, 1 * MS
LENGTH = LOAD + FORWARD + BACKWARD + LATE + TRANSFER
HEADLINE = "Rank {} is late by 15.0 ms a step: its data loader; others wait."


def rank_section(count: int, late: int, window: Window, *, pictures: int = 1) -> Section:
    """Return the section on ranks of a job in which one rank loads 15 ms longer than the others.

    Args:
        count: Number of ranks.
        late: The rank that is late; -1 for none.
        window: Window of the section; it is taken as ten steps.
        pictures: How many steps are drawn.
    """
    drawn = _drawn(count, late)
    steps = [(MEDIAN, "step 7"), (LONGEST_WAIT, "step 9")][:pictures]
    start = window.start_ns
    about = [
        (name, which, start, start + LENGTH, LENGTH, (count - 1) * LATE, 10, len(drawn), 1, 3) for which, name in steps
    ]
    finding = Finding(
        "ranks/late", Severity.PROBLEM, HEADLINE.format(late), 10 * LATE, between(8 * LATE, 10 * LATE), "Load faster.",
        ("others wait for it in 100.0 % of the 10 steps",), late, window, "estimated",
    )  # fmt: skip
    return Section(
        key="ranks",
        title="Ranks",
        window=window,
        facts=(Fact("ranks", count, "count"), Fact("late_ranks", int(late >= 0), "count")),
        tables={
            "ranks": pd.DataFrame([_rank(rank, late) for rank in range(count)]),
            "matrix": _matrix(count, late),
            "steps": pd.DataFrame(about, columns=list(STEPS)),
            "segments": pd.concat([_segments(name, drawn, late, start) for _, name in steps], ignore_index=True),
            "collectives": pd.concat([_collectives(name, drawn, late, start) for _, name in steps], ignore_index=True),
        },
        findings=(finding,) if late >= 0 else (),
        notes=(SELECTED.format(shown=len(drawn), all=count),) if len(drawn) < count else (),
    )


def with_ranks(report: Report, count: int, late: int, *, pictures: int = 1) -> Report:
    """Return a report with the section on the ranks of a made job, and its finding first."""
    section = rank_section(count, late, report.window, pictures=pictures)
    others = tuple(one for one in report.sections if one.key != "ranks")
    return replace(report, sections=(*others, section), findings=(*section.findings, *report.findings))


def _drawn(count: int, late: int) -> list[int]:
    if count <= MOST_DRAWN:
        return list(range(count))
    return sorted({late, *np.linspace(0, count - 1, MOST_DRAWN - 1).round().astype(int).tolist()})


def _rank(rank: int, late: int) -> dict[str, object]:
    is_late, waits = rank == late, late not in (-1, rank)
    return {
        "rank": rank,
        "device_id": rank,
        "late": is_late,
        "length_ns": LENGTH,
        "compute_ns": FORWARD + BACKWARD,
        "copies_ns": 0,
        "wait_ns": LATE if waits else 0,
        "transfer_ns": TRANSFER,
        "idle_ns": LOAD + (0 if waits else LATE),
        "waited_for_ns": LATE if is_late else 0,
        "rule": "idle/data_wait" if is_late else "",
        "phase": "data" if is_late else "",
        "waits_for_rank": late if waits else -1,
    }


def _matrix(count: int, late: int) -> pd.DataFrame:
    size = -(-count // MOST_DRAWN)
    groups = [(at, min(at + size, count) - 1) for at in range(0, count, size)]
    whom = next((group for group in groups if group[0] <= late <= group[1]), None)
    rows: list[tuple[int, ...]] = []
    if whom is None:
        return pd.DataFrame(rows, columns=list(MATRIX))
    for group in groups:
        members = group[1] - group[0] + 1 - (group == whom)
        if members:
            rows.append((*group, *whom, 10 * members * LATE, members * LATE))
    return pd.DataFrame(rows, columns=list(MATRIX))


def _segments(step: str, ranks: list[int], late: int, start: int) -> pd.DataFrame:
    rows: list[tuple[object, ...]] = []
    for rank in ranks:
        load = LOAD + (LATE if rank == late or late < 0 else 0)
        parts = [("phase", "data", load, 4), ("phase", "forward", FORWARD, 0), ("phase", "backward", BACKWARD, 0)]
        parts += [("wait", "", LATE, 3)] if late not in (-1, rank) else []
        parts += [("transfer", "", TRANSFER, 2)]
        at = start
        for what, phase, length, kind in parts:
            times = [length if place == kind else 0 for place in range(5)]
            rule = "idle/data_wait" if kind == 4 else ""
            rows.append((step, rank, at, at + length, what, phase, *times, rule, late if what == "wait" else -1))
            at += length
    return pd.DataFrame(rows, columns=list(SEGMENTS))


def _collectives(step: str, ranks: list[int], late: int, start: int) -> pd.DataFrame:
    end = start + LENGTH
    rows = [
        (
            step,
            7,
            rank,
            end - TRANSFER - (0 if rank == late or late < 0 else LATE),
            end - TRANSFER,
            end,
            "AllReduce",
            rank == late,
        )
        for rank in ranks
    ]
    return pd.DataFrame(rows, columns=list(COLLECTIVES))
