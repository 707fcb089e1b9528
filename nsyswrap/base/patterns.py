"""Regular expressions of the user, and a time limit for them: some try for ever, such as ``(a+)+$`` on a long text."""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from nsyswrap.base.errors import UsageError

# Processor time, so that the limit does not depend on how busy the machine is. A million texts take 0.5 s.
LIMIT_S = 10.0


def compiled(option: str, pattern: str, example: str) -> re.Pattern[str]:
    """Return a pattern of the user.

    Raises:
        UsageError: The pattern is not a regular expression.
    """
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"{option} {pattern!r} is not a regular expression: {error}", hint=f"write it as {option} {example!r}"
        ) from error


@contextmanager
def time_limit(option: str, pattern: str) -> Iterator[None]:
    """Stop a search in the block that takes too long. Other threads than the main one cannot be stopped.

    Args:
        option: The option that the pattern was given with.
        pattern: The pattern; empty for patterns of nsyswrap, which need no limit.

    Raises:
        UsageError: It takes more than ``LIMIT_S`` of processor time.
    """

    def stop(*_: object) -> NoReturn:
        raise UsageError(
            f"{option} {pattern!r} took more than {LIMIT_S:g} s and was stopped",
            hint="write it without a repetition inside a repetition, such as a+ for (a+)+",
        )

    if not pattern or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
