"""A regular expression that tries for ever is stopped and named."""

import re
import signal
import threading

import pytest

from nsyswrap.base import patterns
from nsyswrap.base.errors import UsageError

ENDLESS = re.compile("(a+)+$")
TEXT = "a" * 60 + "!"


def test_a_search_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """It once ran until it was killed. The limit is processor time, so a busy machine changes nothing."""
    monkeypatch.setattr(patterns, "LIMIT_S", 0.1)
    words = r"--step-range '\(a\+\)\+\$' took more than"
    with pytest.raises(UsageError, match=words) as caught, patterns.time_limit("--step-range", ENDLESS.pattern):
        ENDLESS.search(TEXT)
    assert "repetition inside a repetition" in caught.value.hint


def test_nothing_is_left_of_the_limit() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with patterns.time_limit("--step-range", "a"):
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert signal.getsignal(signal.SIGVTALRM) is before


def test_another_thread_searches_without_a_limit() -> None:
    """Python handles signals in the main thread only."""
    found: list[bool] = []

    def search() -> None:
        with patterns.time_limit("--step-range", "a"):
            found.append(signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0))

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert found == [True]
