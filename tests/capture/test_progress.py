"""Percentages from nsys's progress bars."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.capture.progress import MonotonicProgress, Phase, share_in

# Output of nsys 2023.4.4 into a pipe.
WRITING = b"Generating '/tmp/nsys-report-3817.qdstrm'\n\r[1/1] [0%                          ] a2.nsys-rep"
EXPORTING = b"\rProcessing 2764 events: [5%               ]\rProcessing 2764 events: [=6%              ]"


@pytest.mark.parametrize(
    ("output", "share"),
    [
        (WRITING, 0.0),
        (b"\r[1/1] [7%            ] a.nsys-rep\r[1/1] [========================99% ] a.nsys-rep", 0.99),
        (EXPORTING, 0.06),
        (b"\rProcessing 2764 events: [====100%]\n", 1.0),
        (b"[=250%]", 1.0),
        *(
            (text, None)
            for text in (b"", b"Generated:\n    /x/100%.nsys-rep\n", b"50% done", b"[===", b"[==5", b"[=50 %]")
        ),
    ],
)
def test_the_last_whole_bar_is_the_share(output: bytes, share: float | None) -> None:
    """A report that is exported has another kind of bar. Percentages outside of a bar do not count."""
    assert share_in(output) == share


def test_the_reported_share_never_falls() -> None:
    """The real bar was observed to go 50, 19, 20."""
    seen: list[float | None] = []
    rising = MonotonicProgress(lambda _phase, share: seen.append(share), Phase.WRITING)
    for percent in (50, 19, 20, 50, 70, 100, 3):
        rising(b"[=%d%%]" % percent)
    assert seen == [None, 0.5, 0.7, 1.0]


def test_the_phase_is_reported_before_any_share() -> None:
    """A phase without a bar is still shown."""
    seen: list[tuple[Phase, float | None]] = []
    MonotonicProgress(lambda phase, share: seen.append((phase, share)), Phase.EXPORTING)
    assert seen == [(Phase.EXPORTING, None)]


@given(st.binary())
def test_any_bytes_give_a_share_or_nothing(data: bytes) -> None:
    """For any bytes the parser does not fail, and a share is in 0 to 1."""
    share = share_in(data)
    assert share is None or 0.0 <= share <= 1.0


@given(st.lists(st.integers(0, 100)), st.integers(1, 7))
def test_pieces_of_any_size_never_make_the_share_fall(percents: list[int], size: int) -> None:
    """A pipe may split the output anywhere, and no bar is lost."""
    text = b"".join(b"\r[==%d%% ]" % percent for percent in percents)
    seen: list[float] = []
    rising = MonotonicProgress(lambda _phase, share: seen.append(-1.0 if share is None else share), Phase.WRITING)
    for start in range(0, len(text), size):
        rising(text[start : start + size])
    assert seen == sorted(seen)
    assert seen[-1] == (max(percents) / 100 if percents else -1.0)
