"""``python -m nsyswrap`` and the console script."""

import os
import sys

from nsyswrap.cli import cli
from nsyswrap.cli.collector_settings import tune_collector


def open_standard_streams() -> None:
    """Open ``/dev/null`` for each standard stream that was closed at the start, also for child processes.

    ``sys.stdout`` stays closed, so that a command reports an error instead of losing its result.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, descriptor)
            if null != descriptor:
                os.close(null)
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - the system's signature
            if name != "stdout":
                setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r", encoding="utf-8"))


def main() -> None:
    """Run the command line and exit with its code."""
    open_standard_streams()
    tune_collector()
    cli(prog_name="nsyswrap")


if __name__ == "__main__":
    main()
