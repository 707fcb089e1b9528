"""The trace event format: lanes that the viewer can draw, tracks by GPU and thread, pieces that make one document."""

import json
from typing import Any

import hand_made
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base.intervals import times
from nsyswrap.render import perfetto_trace
from nsyswrap.render.perfetto_trace import FIRST_TRACK, lanes, pieces
from nsyswrap.timeline.event_frames import COLUMNS

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=30)


@given(SPANS)
def test_spans_of_one_lane_never_cross(spans: list[tuple[int, int]]) -> None:
    """Two spans are disjoint, or one contains the other."""
    ordered = sorted(((start, start + length) for start, length in spans), key=lambda one: (one[0], -one[1]))
    start, end = times([one[0] for one in ordered]), times([one[1] for one in ordered])
    found = lanes(start, end)
    for first in range(len(ordered)):
        for second in range(first + 1, len(ordered)):
            if found[first] == found[second]:
                assert end[first] <= start[second] or end[second] <= end[first]


@given(SPANS)
def test_nested_spans_need_one_lane(spans: list[tuple[int, int]]) -> None:
    """Each span is cut to the span around it."""
    ends, kept = [10**9], []
    for start, length in sorted(spans):
        while ends[-1] <= start:
            ends.pop()
        kept.append((start, min(start + length, ends[-1])))
        ends.append(kept[-1][1])
    kept.sort(key=lambda one: (one[0], -one[1]))
    assert not lanes(times([one[0] for one in kept]), times([one[1] for one in kept])).any()


def frames(**given: dict[str, list[Any]]) -> dict[str, pd.DataFrame]:
    """Return frames with all columns; frames that are not given are empty."""
    found = {}
    for key, columns in COLUMNS.items():
        texts = ("name", "text", "domain", "cause", "phase", "evidence", "counter", "verdict", "precision", "library")
        empty: dict[str, Any] = {
            name: pd.Series([], dtype="category" if name in texts else "int64") for name in columns
        }
        found[key] = pd.DataFrame({name: given[key][name] for name in columns} if key in given else empty)
    return found


def events(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return found


def gaps(count: int) -> dict[str, list[Any]]:
    """Return ``count`` pieces of idle time of 1,001 ns each, alternating between two GPUs."""
    start = np.arange(count) * 2000
    return {
        "device_id": [at % 2 for at in range(count)],
        "start_ns": start.tolist(),
        "end_ns": (start + 1001).tolist(),
        "cause": ["cpu"] * count,
        "rule": ["idle/cpu"] * count,
        "phase": ["none"] * count,
        "evidence": [hand_made.HOSTILE] * count,
    }


def test_a_report_without_events_is_a_document() -> None:
    text = "".join(pieces(hand_made.empty_report(), frames()))
    assert {each["ph"] for each in events(text)} == {"M"}


def test_each_gpu_is_a_process_and_its_idle_time_a_track() -> None:
    """It has the name of the GPU in nsys, even a hostile one. No track has the number of a process."""
    found = events("".join(pieces(hand_made.hostile_report(), frames(gaps=gaps(4)))))
    names = [each["args"]["name"] for each in found if each["name"] == "process_name"]
    assert names[1] == "GPU 1"
    assert names[0].startswith("GPU 0 <img src=x")
    assert "[U+202E]" in names[0]
    spans = [each for each in found if each["ph"] == "X"]
    assert [(each["pid"], each["ts"], each["dur"]) for each in spans] == [
        (1, 0.0, 1.001),
        (2, 2.0, 1.001),
        (1, 4.0, 1.001),
        (2, 6.0, 1.001),
    ]
    assert min(each["tid"] for each in spans) >= FIRST_TRACK
    assert {each["name"] for each in spans} == {"CPU outside CUDA calls"}
    assert "[U+202E]" in spans[0]["args"]["evidence"]


@pytest.mark.slow
def test_the_text_comes_in_pieces_and_is_the_same_twice() -> None:
    """A piece has a limited number of rows, so a large capture needs no large text."""
    count = 2 * perfetto_trace.ROWS_AT_ONCE + 10
    first = list(pieces(hand_made.full_report(), frames(gaps=gaps(count))))
    assert max(piece.count('"ph":"X"') for piece in first) == perfetto_trace.ROWS_AT_ONCE
    assert sum(piece.count('"ph":"X"') for piece in first) == count
    assert "".join(first) == "".join(pieces(hand_made.full_report(), frames(gaps=gaps(count))))


def test_counters_belong_to_their_gpu() -> None:
    """A GPU that ran nothing has counters as well."""
    samples: dict[str, list[Any]] = {
        "start_ns": [1500, 2500],
        "device_id": [0, 1],
        "counter": ["SMs Active", "SMs Active"],
        "percent": [50, 7],
    }
    found = events("".join(pieces(hand_made.full_report(), frames(gaps=gaps(1), counters=samples))))
    shown = [(each["pid"], each["ts"], each["args"]) for each in found if each["ph"] == "C"]
    assert {each["pid"] for each in found if each["name"] == "process_name"} == {1, 2}
    assert shown == [(1, 1.5, {"per cent": 50}), (2, 2.5, {"per cent": 7})]
