"""Errors on the command line: a message, a hint, and the exit code of the contract."""

import re

import commands
import pytest
from click.testing import CliRunner

from nsyswrap.base.errors import (
    CannotTellError,
    CaptureError,
    CommandNotExecutableError,
    CommandNotFoundError,
    ExportError,
    NsysNotFoundError,
    NsyswrapError,
    UsageError,
)
from nsyswrap.cli import cli, exit_code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NsysNotFoundError, 125),
        (CaptureError, 125),
        (CommandNotExecutableError, 126),
        (CommandNotFoundError, 127),
        (UsageError, 2),
    ],
)
def test_profile_uses_exit_codes_that_programs_do_not_use(error: type[NsyswrapError], code: int) -> None:
    """A program may return 1, so 125 means that nsys or nsyswrap failed. Usage errors are 2."""
    assert exit_code(error("message"), "profile") == code


@pytest.mark.parametrize("command", ["analyze", "report", "compare", "redact", "doctor", "setup"])
@pytest.mark.parametrize(
    ("error", "code"),
    [(NsysNotFoundError, 1), (CaptureError, 1), (ExportError, 1), (UsageError, 2), (CannotTellError, 3)],
)
def test_other_commands_have_three_exit_codes(command: str, error: type[NsyswrapError], code: int) -> None:
    """The code is 1 for an error, 2 for wrong usage, 3 for an uncertain answer."""
    assert exit_code(error("message"), command) == code


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("analyse", "analyze"),
        ("analyse-many", "analyze-many"),
        ("proflie", "profile"),
        ("history lst", "list"),
        ("report --windw", "--window"),
        ("profile --baselin", "--baseline"),
    ],
)
def test_a_mistyped_name_has_the_closest_ones_in_its_error(typed: str, meant: str) -> None:
    """This holds for commands, British spelling and options."""
    result = CliRunner().invoke(cli, typed.split())
    assert result.exit_code == 2
    assert re.search(rf"Did you mean .*'{meant}'", result.output)


def test_a_name_that_is_like_no_command_has_no_suggestion() -> None:
    result = commands.run("xyzzy")
    assert (result.exit_code, "Did you mean" in result.output) == (2, False)
    assert "No such command 'xyzzy'." in result.output
