"""The exit codes of commands that pass or fail a job: 1 is their verdict, so 4 is for all that goes wrong."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import click

from nsyswrap.base.errors import CannotTellError, NsyswrapError, UnfinishedError, UsageError
from nsyswrap.cli.streams import discard_stdout


class RegressedError(NsyswrapError):
    """The new runs are slower."""


@contextmanager
def verdict_errors(*, decides: bool = True) -> Iterator[None]:
    """End with 4 where a block fails; 1, 2 and 3 stay for regressed, wrong usage and cannot tell.

    Args:
        decides: Whether the command passes or fails a job; if not, errors keep their codes.

    Raises:
        UnfinishedError: The block raised an error of another kind.
    """
    try:
        yield
    except (RegressedError, UsageError, CannotTellError, click.ClickException, click.exceptions.Exit):
        raise
    except NsyswrapError as error:
        if not decides:
            raise
        raise UnfinishedError(error.message, hint=error.hint) from error
    except Exception as error:
        if not decides:
            raise
        if isinstance(error, BrokenPipeError):
            discard_stdout()
            raise UnfinishedError("the result was not read to its end", hint="write it to a file with -o") from error
        # A mistake of ours must not look like a slower program.
        traceback.print_exc()
        sys.exit(UnfinishedError.exit_code)
