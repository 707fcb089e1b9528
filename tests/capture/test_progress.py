"""Percentages from nsys's progress bars."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.capture.progress import MonotonicProgress, Phase, share_in, silent

# Output of nsys 2023.4.4 into a pipe.
WRITING = b"Generating '/tmp/nsys-report-3817.qdstrm'\n\r[1/1] [0%                          ] a2.nsys-rep"
WRITING_MORE = b"\r[1/1] [7%                          ] a2.nsys-rep\r[1/1] [========================99% ] a2.nsys-rep"
EXPORTING = b"\rProcessing 2764 events: [5%               ]\rProcessing 2764 events: [=6%              ]"


def test_the_bar_of_a_report_that_is_written() -> None:
    """The last bar is used."""
    assert share_in(WRITING) == 0.0
    assert share_in(WRITING + WRITING_MORE) == 0.99


def test_the_bar_of_a_report_that_is_exported() -> None:
    """Nsys prints another kind of bar."""
    assert share_in(EXPORTING) == 0.06


def test_a_full_bar() -> None:
    """A full bar is a share of 1."""
    assert share_in(b"\rProcessing 2764 events: [====100%]\n") == 1.0


def test_other_output_is_ignored() -> None:
    """This includes other text, percentages outside of a bar, and incomplete bars."""
    for text in (b"", b"Generated:\n  /x/100%.nsys-rep\n", b"50% done", b"[===", b"[==5", b"[=50 %]"):
        assert share_in(text) is None, text


def test_a_share_is_at_most_1() -> None:
    """A bar above 100 % counts as full."""
    assert share_in(b"[=250%]") == 1.0


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


def test_silent_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """The default callback prints nothing."""
    silent(Phase.RUNNING, 0.5)
    assert capsys.readouterr() == ("", "")


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
