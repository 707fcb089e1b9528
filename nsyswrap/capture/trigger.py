"""Asks a program that was started with ``--steps later`` to record steps, from another terminal."""

import time
from pathlib import Path

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.annotate.injection import Injection
from nsyswrap.capture.nsys import injection_folder
from nsyswrap.capture.result_folder import RUN_FOLDER, TEMPORARY_LINK

_POLL_S = 0.2


def trigger(folder: Path, steps: str) -> list[dict[str, int]]:
    """Ask for a recording, wait until it has ended, and return the first and the last step of each rank's.

    The folder is that of the run, or of a job whose ranks are recorded by themselves. Empty steps are as many as fit in
    ten seconds.

    Raises:
        UsageError: No program with this folder waits for this, the last recording has not ended, or the program ends.
    """
    runs = [found for run in (folder, *sorted(folder.glob("rank-*"))) if (found := _injection(run)).is_waiting]
    if not runs:
        hint = "Start it with 'nsyswrap profile --steps later'"
        raise UsageError(f"no program that runs in {folder} waits for a trigger", hint=hint)
    numbers = [run.want(steps) for run in runs]
    if None in numbers:
        raise UsageError(f"{folder} is being recorded already", hint="Try again when that recording has ended")
    recorded = []
    for run, number in zip(runs, numbers, strict=True):
        while len(ended := run.recorded()) < (number or 0):
            if not run.is_waiting:
                raise UsageError(f"the program in {folder} has ended", hint="What it has recorded is in that folder")
            time.sleep(_POLL_S)
        recorded.append(ended[-1])
    return recorded


def _injection(run: Path) -> Injection:
    """Return the marks of the program that runs with a folder."""
    return Injection(injection_folder(run / RUN_FOLDER / TEMPORARY_LINK))
