"""Progress while a capture is read: a spinner on a terminal, nothing elsewhere or with --quiet."""

import io
import sys

import pytest

from nsyswrap.cli.progress import READING, reading, working


class Stream(io.StringIO):
    """A replacement for stderr."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def shown(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, quiet: bool) -> str:
    """Return the text that a block of work writes to stderr."""
    stream = Stream(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with working("analysing", quiet=quiet):
        pass
    return stream.getvalue()


def test_a_terminal_shows_the_current_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nsyswrap: analysing" in shown(monkeypatch, is_terminal=True, quiet=False)


@pytest.mark.parametrize(("is_terminal", "quiet"), [(True, True), (False, False), (False, True)])
def test_logs_and_quiet_runs_show_nothing(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, quiet: bool) -> None:
    assert not shown(monkeypatch, is_terminal=is_terminal, quiet=quiet)


def test_an_error_inside_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Stream(is_terminal=True))
    with pytest.raises(KeyError), working("analysing"):
        raise KeyError


def rows_shown(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, quiet: bool = False) -> str:
    """Return what reading a hundred rows twice writes to stderr."""
    stream = Stream(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with reading(quiet=quiet) as update:
        for what in READING:
            for done in range(1, 101):
                update(what, done, 100)
    return stream.getvalue()


def test_each_tenth_of_the_rows_has_a_line_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = rows_shown(monkeypatch, is_terminal=False).splitlines()
    assert len(lines) == 11 * len(READING)
    assert lines[1] == "nsyswrap: finding where the rows of the capture are: 10 %"
    assert lines[-1] == "nsyswrap: reading a part in detail: 100 %"


def test_a_terminal_shows_a_bar_for_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    text = rows_shown(monkeypatch, is_terminal=True)
    assert all(words in text for words in READING.values())
    assert "100 rows" in text


def test_quiet_reading_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not rows_shown(monkeypatch, is_terminal=True, quiet=True)
    assert not rows_shown(monkeypatch, is_terminal=False, quiet=True)
