"""What is shown while a capture is read: a spinner on a terminal, nothing elsewhere or where quiet is asked for."""

import io
import sys

import pytest

from nsyswrap.cli.progress import working


class Stream(io.StringIO):
    """What stderr is in a test."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._is_terminal


def shown(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, quiet: bool) -> str:
    """What a block of work leaves on stderr."""
    stream = Stream(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with working("analysing", quiet=quiet):
        pass
    return stream.getvalue()


def test_a_terminal_shows_what_is_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nsyswrap: analysing" in shown(monkeypatch, is_terminal=True, quiet=False)


@pytest.mark.parametrize(("is_terminal", "quiet"), [(True, True), (False, False), (False, True)])
def test_logs_and_the_quiet_are_left_alone(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, quiet: bool) -> None:
    assert not shown(monkeypatch, is_terminal=is_terminal, quiet=quiet)


def test_an_error_inside_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Stream(is_terminal=True))
    with pytest.raises(KeyError), working("analysing"):
        raise KeyError
