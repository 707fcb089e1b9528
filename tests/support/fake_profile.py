"""A stand-in for `nsyswrap profile`: no nsys, and a real report in the folder of the result.

The command after ``--`` says what happens. ``FAKE_PROFILE_LOG`` gets a line with the folder at the start of each run,
and ``FAKE_PROFILE_WORDS``, where it is set, the words of the command line.

============  ==========================================================================
``ok``        a report is written
``memory``    the program runs out of GPU memory
``crash``     the program raises an error
``silent``    exit code 0 without a report
``full``      a report is written, and exit code 125
``sleep``     it does not end by itself
``orphan``    the sweep is killed; the run goes on and writes its report
``outage``    the sweep is killed, and so is the run
============  ==========================================================================

``orphan`` and ``outage`` do so the first time only.
"""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[2] / "reports" / "samples" / "mnist-8-workers"


def main() -> None:
    """Do what the command says."""
    words = sys.argv[1:]
    folder = Path(words[words.index("-o") + 1])
    what = words[words.index("--") + 1]
    if "FAKE_PROFILE_WORDS" in os.environ:
        Path(os.environ["FAKE_PROFILE_WORDS"]).write_text(" ".join(words))
    log = Path(os.environ["FAKE_PROFILE_LOG"])
    is_first = str(folder) not in (log.read_text() if log.exists() else "")
    with log.open("a") as file:
        file.write(f"{folder} {os.environ.get('FAKE_PROFILE_VALUE', '')}\n")
    if what in {"orphan", "outage"} and is_first:
        os.kill(os.getppid(), signal.SIGKILL)
    if what == "outage" and is_first:
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "memory":
        sys.stdout.write(
            "Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB"
        )
        sys.exit(1)
    if what == "crash":
        sys.stdout.write("Traceback (most recent call last):\n  File train.py\nValueError: no such model")
        sys.exit(1)
    if what == "sleep":
        time.sleep(60)
    if what != "silent":
        folder.mkdir(parents=True)
        for name in ("run.json", "report.json"):
            shutil.copy(SAMPLES / name, folder / name)
    if what == "full":
        sys.exit(125)


if __name__ == "__main__":
    main()
