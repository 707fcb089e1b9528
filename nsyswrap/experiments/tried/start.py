"""The start of a process of a program that is tried: guards its files, and makes the sink that takes turns."""

import json
import os
import sys
from typing import Any

from .. import work_record
from ..changes import experiments
from .experiment import parts_of
from .program import TriedProgram
from .turns import Turns
from .writes import WriteGuard

# File with what to try.
REQUEST_VARIABLE = "NSYSWRAP_TRY_REQUEST"
EVENTS_SUFFIX = ".events.jsonl"
# Exit code of a process that would have overwritten a file.
REFUSED = 97


class Events:
    """Keeps what happens in this process, one line of JSON an event, so that a crash loses nothing.

    The file is made in the folder with the first event.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def note(self, event: str, **fields: Any) -> None:
        """Keep an event."""
        line = json.dumps({"event": event, **fields}) + "\n"
        path = os.path.join(self._folder, f"{os.getpid()}{EVENTS_SUFFIX}")  # noqa: PTH118
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(line)


def start(after_import: work_record.AfterImport) -> Turns:
    """Prepare this process, and return the sink for its marks."""
    request_path = os.environ[REQUEST_VARIABLE]
    with open(request_path, encoding="utf-8") as file:  # noqa: PTH123
        request = json.load(file)
    events = Events(os.path.dirname(request_path))  # noqa: PTH120
    record = work_record.recorded(after_import) if request["proved_steps"] else None

    def end() -> None:
        if record is not None:
            record.write()
        _end()

    turns = Turns(request, events.note, end)
    before = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        events.note("exception", words=f"{kind.__name__}: {error}"[:2000])
        before(kind, error, trace)

    sys.excepthook = note
    guard = WriteGuard(
        lambda path: _refuse(events, path), lambda path: events.note("makes", path=path), request["own_files"]
    )
    if not request["allow_writes"]:
        guard.begin()

    def prepare(torch: Any) -> None:
        if not request["allow_writes"]:
            guard.watch_torch(torch)
        program = TriedProgram(torch)
        program.watch_for_good()
        for spec in request["base"]:
            key, value = parts_of(spec)
            change = experiments()[key].prepare
            if change is not None:
                change(program, value)
                events.note("made", spec=spec)
        turns.program = program

    work_record.make_alike(after_import)
    after_import("torch", prepare)
    return turns


def _refuse(events: Events, path: str) -> None:
    """End the process before it changes a file."""
    events.note("refused", path=path)
    _end(REFUSED)


def _end(code: int = 0) -> None:
    """End the process at once: nothing of the program runs any more, such as the writing of a last checkpoint."""
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105
            stream.flush()
        except Exception:  # noqa: BLE001, S110 - the program may have closed it
            pass
    os._exit(code)
