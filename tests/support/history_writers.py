"""Writers of a history, each in a process of its own: `history_writers.py URL WRITERS RUNS [LIMIT_BYTES]`.

Each writer adds its runs and prints the id of a run when that is on the disk. Run number 0 is added by all of them.
With a limit no file may grow beyond it, as on a full disk; a writer that cannot write prints why and ends.
"""

import importlib
import os
import resource
import signal
import sys

from made_runs import made_run

from nsyswrap.runs.database import HistoryError
from nsyswrap.runs.history import open_history

# A writer that hangs ends, so that the test fails and does not wait.
LONGEST_S = 120


def write(url: str, writer: int, count: int) -> None:
    """Add the runs of one writer."""
    history = open_history(url)
    for number in (0, *range(1 + writer * count, 1 + (writer + 1) * count)):
        run = made_run(number)
        try:
            history.add(run)
        except HistoryError as error:
            say(f"failed {error.message}")
            return
        say(f"added {run.row.run_id}")


def say(line: str) -> None:
    """Print a line in one piece: that of another writer cannot come between it and its end."""
    os.write(1, f"{line}\n".encode())


def main(url: str, writers: int, count: int, limit: int | None) -> None:
    """Start the writers and wait for them."""
    signal.alarm(LONGEST_S)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    if url.startswith("postgresql"):
        importlib.import_module("psycopg")  # once: it takes a second
    started = []
    for writer in range(writers):
        child = os.fork()
        if not child:
            signal.alarm(LONGEST_S)
            write(url, writer, count)
            os._exit(0)
        started.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in started]
    sys.exit(max(map(abs, codes)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else None)
