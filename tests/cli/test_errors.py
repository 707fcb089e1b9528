"""Errors of ours on the command line: two lines, and the exit code of the contract."""

import pytest

from nsyswrap.cli import exit_code
from nsyswrap.errors import (
    CannotTellError,
    CaptureError,
    CommandNotExecutableError,
    CommandNotFoundError,
    ExportError,
    NsysNotFoundError,
    NsyswrapError,
    UsageError,
)


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
def test_profile_has_codes_that_no_program_has(error: type[NsyswrapError], code: int) -> None:
    """But for those of usage: a program may return 1, so 125 says that nsys or nsyswrap failed."""
    assert exit_code(error("message"), "profile") == code


@pytest.mark.parametrize("command", ["analyze", "report", "compare", "redact", "doctor", "setup"])
@pytest.mark.parametrize(
    ("error", "code"),
    [(NsysNotFoundError, 1), (CaptureError, 1), (ExportError, 1), (UsageError, 2), (CannotTellError, 3)],
)
def test_other_commands_have_three(command: str, error: type[NsyswrapError], code: int) -> None:
    """1 for an error, 2 for usage, 3 for cannot tell."""
    assert exit_code(error("message"), command) == code
