"""How results and progress look on a terminal and elsewhere."""

import io
import os
from collections.abc import Callable
from types import SimpleNamespace

import hand_made
import pytest

from nsyswrap.capture.progress import Phase
from nsyswrap.capture.step_watch import StepState
from nsyswrap.cli.progress import LABELS, shown
from nsyswrap.cli.terminal import NARROWEST, PIPED, WIDEST, printable, rendered
from nsyswrap.render import FORMS, render

REPORT = hand_made.full_report()


class Terminal(io.StringIO):
    """A stream that reports to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that sets the width of the terminal."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    return lambda count: monkeypatch.setenv("COLUMNS", str(count))


def widest_line(text: str) -> int:
    """Return the length of the longest line without escape sequences."""
    return max(len(line) for line in text.splitlines())


@pytest.mark.parametrize(("wide", "shown_as"), [(100, 100), (300, WIDEST), (20, NARROWEST), (80, 80)])
def test_text_fits_the_terminal_within_bounds(
    wide: int, shown_as: int, columns: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns(wide)
    monkeypatch.setenv("NO_COLOR", "1")
    text = rendered("text", REPORT, to_terminal=True, stream=Terminal())
    assert shown_as - 15 < widest_line(text) <= shown_as


@pytest.mark.parametrize(("value", "colour"), [("1", False), ("0", False), ("", True)])
def test_no_color_turns_colours_off_whatever_its_value(
    *, value: str, colour: bool, columns: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty value has no effect. Source: no-color.org."""
    columns(100)
    monkeypatch.setenv("NO_COLOR", value)
    assert ("\x1b[" in rendered("text", REPORT, to_terminal=True, stream=Terminal())) == colour


def test_a_dumb_terminal_gets_no_colour(columns: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    columns(80)
    monkeypatch.setenv("TERM", "dumb")
    text = rendered("text", REPORT, to_terminal=True, stream=Terminal())
    assert "\x1b[" not in text
    assert widest_line(text) <= 80


@pytest.mark.parametrize("to_terminal", [True, False])
def test_outside_a_terminal_text_is_plain_with_80_columns(*, to_terminal: bool, columns: Callable[[int], None]) -> None:
    """This holds in a pipe, and for a file even if stdout is a terminal."""
    columns(100)
    stream = io.StringIO() if to_terminal else Terminal()
    text = rendered("text", REPORT, to_terminal=to_terminal, stream=stream)
    assert "\x1b[" not in text
    assert widest_line(text) <= PIPED


@pytest.mark.parametrize("form", [form for form in FORMS if form != "text"])
def test_other_formats_do_not_depend_on_the_terminal(form: str, columns: Callable[[int], None]) -> None:
    columns(100)
    assert rendered(form, REPORT, to_terminal=True, stream=Terminal()) == render(form, REPORT)


def test_steps_in_a_log_are_one_line_a_phase(capsys: pytest.CaptureFixture[str]) -> None:
    with shown() as progress:
        for state in (StepState("warm-up", 1), StepState("warm-up", 2), StepState("alone", 3), StepState("ended")):
            progress.show_steps(state)
    assert capsys.readouterr().err.splitlines() == [
        "nsyswrap: warm-up, step 1",
        "nsyswrap: timing steps, not recorded yet, step 3",
        "nsyswrap: steps are recorded, the program runs on",
    ]


def test_a_log_has_step_rate_and_time_left_once_they_are_known_and_then_every_ten_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, 1.0, 10.9, 11.0])
    monkeypatch.setattr("nsyswrap.cli.progress.time", SimpleNamespace(monotonic=lambda: next(now)))
    with shown() as progress:
        for step, rate in ((10, None), (11, 0.5), (14, 0.5), (15, 0.5)):
            progress.show_steps(StepState("recording", step, rate, rate and 20.0 - step))
    assert capsys.readouterr().err.splitlines() == [
        "nsyswrap: recording steps, step 10",
        "nsyswrap: recording steps, step 11, 0.5 steps/s, 9 s left",
        "nsyswrap: recording steps, step 15, 0.5 steps/s, 5 s left",
    ]


def test_a_terminal_shows_step_rate_and_time_left_in_its_title(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with shown() as progress:
        progress.show_steps(StepState("recording", 50, 9.8, 5.1))
        progress(Phase.RUNNING, None)
    assert "\x1b]0;nsyswrap: recording steps, step 50, 9.8 steps/s, 5 s left, 0 s\x07" in stream.getvalue()


def test_a_terminal_gets_a_line_when_something_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with shown() as progress:
        for phase, step in (("warm-up", 1), ("warm-up", 2), ("alone", 3), ("recording", 13), ("x-ray", 113)):
            progress.show_steps(StepState(phase, step))
        progress.show_steps(StepState("ended"))
    assert stream.getvalue().splitlines() == [
        "nsyswrap: warm-up, step 1",
        "nsyswrap: timing steps, not recorded yet, step 3",
        "nsyswrap: recording steps, step 13",
        "nsyswrap: X-ray of a step: what each operator does, step 113",
        "nsyswrap: steps are recorded, the program runs on",
    ]


def test_progress_in_a_log_is_one_line_a_phase(capsys: pytest.CaptureFixture[str]) -> None:
    """The number of updates does not matter."""
    with shown() as progress:
        for share in (None, 0.1, 0.5, 1.0):
            for phase in (Phase.RUNNING,) if share is None else (Phase.EXPORTING,):
                progress(phase, share)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"nsyswrap: {LABELS[Phase.RUNNING]} ...",
        f"nsyswrap: {LABELS[Phase.EXPORTING]} ...",
    ]


def test_every_phase_has_a_label() -> None:
    assert set(LABELS) == set(Phase)


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_shows_nothing(
    *, terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Terminal()
    if terminal:
        monkeypatch.setattr("sys.stderr", stream)
    with shown(quiet=True) as progress:
        for phase in Phase:
            progress(phase, 0.5)
    assert stream.getvalue() == ""
    assert capsys.readouterr() == ("", "")


def test_while_the_program_runs_only_the_title_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The title is cleared afterwards."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with shown() as progress:
        progress(Phase.RUNNING, None)
        progress(Phase.RUNNING, None)
    title = "\x1b]0;nsyswrap: running under nsys, 0 s\x07"
    assert stream.getvalue() == f"{title}\x1b]0;\x07"


def test_an_error_ends_the_progress_display(monkeypatch: pytest.MonkeyPatch) -> None:
    """The title is cleared, and the error is raised."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)

    def fails() -> None:
        with shown() as progress:
            progress(Phase.RUNNING, None)
            raise OSError(os.strerror(5))

    with pytest.raises(OSError, match="error"):
        fails()
    assert stream.getvalue().endswith("\x1b]0;\x07")


def test_control_characters_become_escapes() -> None:
    """So do bytes that are not UTF-8. Every other letter is unchanged."""
    assert printable("ä\x1b[2J\nb\udce9") == r"ä\x1b[2J\nb\xe9"
