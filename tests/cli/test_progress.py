"""Progress while a capture is read: a spinner on a terminal, nothing elsewhere or with --quiet."""

import io
import sys

import pytest

from nsyswrap.cli.progress import working


class Stream(io.StringIO):
    """A replacement for stderr."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
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
