"""`nsyswrap doctor` as a user runs it."""

import json

import commands
import pytest
from capture_fixtures import fake_nsys
from click.testing import Result

from nsyswrap.capture import doctor
from nsyswrap.capture.doctor import RANGE, Check, Status
from nsyswrap.capture.locate import Nsys
from nsyswrap.cli.doctor import json_of, text_of

__all__ = ["fake_nsys"]

CHECKS = (
    Check("nsys", Status.OK, "2023.4.4.54"),
    Check("GPU", Status.WARNING, "no NVIDIA GPU", "Use one"),
    Check("self-test", Status.FAILED, 'no "range"', "Install\nit"),
)


def run(*arguments: str, **environment: str) -> Result:
    return commands.run("doctor", *arguments, env=environment)


@pytest.fixture
def known_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the measurement of what nsys adds to calls, which takes longest and has tests of its own."""
    call = {"low_ns": 3000, "usual_ns": 5000, "high_ns": 8000, "alone_ns": 2000}
    monkeypatch.setattr(doctor, "profiler_cost", lambda *_, **__: {"calls": {"launch": call}})


def test_each_check_is_a_line_and_each_remedy_a_line_below() -> None:
    """The text is aligned in columns."""
    assert text_of(CHECKS[:2]).splitlines() == [
        "ok       nsys              2023.4.4.54",
        "warning  GPU               no NVIDIA GPU",
        "                           remedy: Use one",
    ]


def test_on_a_terminal_long_lines_are_wrapped_between_words() -> None:
    """A continuation line starts in the column of the details."""
    path = "/a/path/that/is/much/longer/than/the/terminal/is/wide/and/cannot/be/broken"
    checks = (Check("disk", Status.OK, "free space " * 8), Check("nsys", Status.FAILED, "none", f"Run {path}"))
    shown = text_of(checks, 60).splitlines()
    assert all(len(line) <= 60 for line in shown if path not in line)
    assert shown[1].startswith(" " * 27 + "free")
    assert sum(path in line for line in shown) == 1
    assert " ".join(" ".join(shown).split()) == " ".join(text_of(checks).split())


def test_json_holds_every_field_of_each_check() -> None:
    """The schema has a name and a version."""
    answer = json.loads(json_of(CHECKS))
    assert answer["schema"] == "nsyswrap.doctor/1"
    assert answer["checks"][2] == {
        "name": "self-test",
        "status": "failed",
        "detail": 'no "range"',
        "remedy": "Install\nit",
    }


@pytest.mark.slow
@pytest.mark.usefixtures("fake_nsys", "known_cost")
def test_a_working_machine_exits_with_0() -> None:
    """Stdout has one line a check, and stderr is empty."""
    done = run(FAKE_NSYS_RANGE=RANGE)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "ok       self-test" in done.stdout
    assert "failed" not in done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("fake_nsys", "known_cost")
def test_a_failed_check_exits_with_1_and_stdout_holds_only_json() -> None:
    """Programs can parse it. The remedy of the failed check is in it."""
    done = run("--format", "json", FAKE_NSYS_RANGE="lost")
    assert done.exit_code == 1
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert (next(iter(checks)), next(reversed(checks))) == ("nsys", "profiler cost")
    assert checks["self-test"]["status"] == "failed"
    assert "Install the version that works with it" in checks["self-test"]["remedy"]


@pytest.mark.usefixtures("known_cost")
def test_the_self_test_of_the_real_nsys_passes(nsys: Nsys) -> None:
    """Other checks may fail on this machine."""
    done = run("--format", "json", NSYSWRAP_NSYS=str(nsys.path))
    status = {check["name"]: check["status"] for check in json.loads(done.stdout)["checks"]}
    assert (status["nsys"], status["importer"], status["self-test"]) == ("ok", "ok", "ok")
