"""The exceptions nsyswrap raises on purpose, each with a message, a hint and an exit code.

::

    NsyswrapError            1    something is wrong that the user can act on
    |-- UsageError           2    the command line asks for something impossible
    |-- CannotTellError      3    the input is sound, but holds too little to answer the question
    |-- UnfinishedError      4    a part of the work failed, or 1 is a verdict of the command
    |-- CaptureError       125    nsys or nsyswrap failed while profiling
    |   |-- NsysNotFoundError     nsys is not installed on this machine
    |   |-- CommandNotExecutableError   126
    |   `-- CommandNotFoundError        127
    `-- ExportError          1    an export cannot be read: truncated, foreign, incomplete, locked

``nsyswrap.cli`` prints them as ``nsyswrap: message`` and ``hint: hint``. Any other exception is a bug and keeps
its traceback.
"""


class NsyswrapError(Exception):
    """An error the user can act on.

    Args:
        message: What went wrong and where, in one sentence without a full stop.
        hint: What to do about it, in one sentence; empty where there is no advice.
    """

    exit_code: int = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(NsyswrapError):
    """The command line asks for something impossible."""

    exit_code = 2


class CannotTellError(NsyswrapError):
    """The input is sound but holds too little to answer the question."""

    exit_code = 3


class UnfinishedError(NsyswrapError):
    """A command could not do its work or a part of it, and 1 would say something else."""

    exit_code = 4


class CaptureError(NsyswrapError):
    """nsys, or nsyswrap around it, failed while profiling."""

    exit_code = 125


class NsysNotFoundError(CaptureError):
    """nsys is not installed on this machine."""


class CommandNotExecutableError(CaptureError):
    """The command to profile exists but may not be executed."""

    exit_code = 126


class CommandNotFoundError(CaptureError):
    """The command to profile does not exist."""

    exit_code = 127


class ExportError(NsyswrapError):
    """An export cannot be read: truncated, locked, foreign, empty, or without what is needed."""
