# ruff: noqa: INP001, T201 - a program for the terminal
"""Time from the end of a program to the page: what `nsyswrap profile` takes besides nsys itself.

    python bench/bench_after_program.py [--ranges 20000] [--runs 3] [--copies 4]

A shell script with the name nsys logs when each command of nsys begins and ends. So the time of nsys is subtracted in
the same run. The programs mark NVTX ranges; the cases are

- the real nsys, which records such a program without a GPU,
- a stand-in for nsys that hands over an export of 3,600 GPU operations,
- the same with an export of some 100,000: the committed BERT capture, a few times.

It prints the wall seconds after the program's end until the path of the page is on stderr, those of nsys in them, and
the difference; the CPU seconds of nsyswrap and all that it starts, without the program; and the load of the machine.
Without other load, the difference is to be at most 2 s.
"""

import argparse
import compileall
import lzma
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from bench_analysis import ROOT, large_export

from nsyswrap.base.errors import NsysNotFoundError
from nsyswrap.capture.locate import find_nsys

SMALL = ROOT / "tests" / "captures" / "cnn_amp.sqlite.xz"
STAND_IN = ROOT / "tests" / "support" / "fake_nsys.py"
# Seconds that are allowed in addition to those of nsys, and the limit of a run.
ALLOWED_S, LIMIT_S = 2.0, 600
PAGE = "report   "

PROGRAM = """
import os, sys, time, nvtx
for number in range(int(sys.argv[1]) // 2):
    with nvtx.annotate(f"step {number}"), nvtx.annotate("forward"):
        pass
with open(sys.argv[2], "w") as file:
    file.write(f"{time.time()} {time.process_time()}")
"""

SHIM = """#!/bin/sh
echo "$(date +%s.%N)" >> "$BENCH_LOG"
if [ "$1" = export ] && [ "$2" != --help ] && [ -n "$BENCH_EXPORT" ]; then
    for word in "$@"; do case $word in --output=*) cp "$BENCH_EXPORT" "${word#--output=}";; esac; done
    code=$?
else
    @NSYS@ "$@"
    code=$?
fi
echo "$(date +%s.%N)" >> "$BENCH_LOG"
exit $code
"""


class Case(NamedTuple):
    """What stands for nsys.

    Attributes:
        name: What is printed.
        nsys: Command line of nsys or its stand-in.
        export: The export that the stand-in hands over; None where nsys exports.
    """

    name: str
    nsys: str
    export: Path | None


class Measured(NamedTuple):
    """What one run took after the program's end.

    Attributes:
        wall_s: Seconds until the path of the page was printed.
        nsys_s: Seconds of these in which a command of nsys ran.
        cpu_s: CPU seconds of nsyswrap and all that it started, without the program.
    """

    wall_s: float
    nsys_s: float
    cpu_s: float


def measured(case: Case, ranges: int, folder: Path) -> Measured:
    """Run `nsyswrap profile` once, in a folder that is empty, and return what it took."""
    shim, log, ended, program = (folder / name for name in ("nsys", "log", "ended", "program.py"))
    shim.write_text(SHIM.replace("@NSYS@", case.nsys))
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    program.write_text(PROGRAM)
    env = {**os.environ, "NSYSWRAP_NSYS": str(shim), "BENCH_LOG": str(log), "BENCH_EXPORT": str(case.export or "")}
    command = [sys.executable, "-m", "nsyswrap", "profile", "-o", str(folder / "run"), "--"]
    command += [sys.executable, str(program), str(ranges), str(ended)]
    with subprocess.Popen(  # noqa: S603 - the command above
        command, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        page, said = 0.0, []
        for line in process.stderr or ():
            said.append(line.decode(errors="replace"))
            if said[-1].startswith(PAGE):
                page = time.time()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        limit.cancel()
    if process.returncode or not page:
        sys.exit(f"nsyswrap ended with {process.returncode}:\n{''.join(said)}")
    end, program_cpu_s = map(float, ended.read_text().split())
    times = list(map(float, log.read_text().split()))
    nsys_s = sum(max(stop - max(start, end), 0.0) for start, stop in zip(times[::2], times[1::2], strict=True))
    return Measured(page - end, nsys_s, usage.ru_utime + usage.ru_stime - program_cpu_s)


def cases(folder: Path, copies: int) -> list[Case]:
    """Return the cases that this machine allows."""
    small = folder / "small.sqlite"
    with lzma.open(SMALL) as packed, small.open("wb") as target:
        shutil.copyfileobj(packed, target)
    stand_in = f"{sys.executable} {STAND_IN}"
    found = [
        Case("stand-in, 3,600 operations", stand_in, small),
        Case(f"stand-in, BERT x {copies}", stand_in, large_export(folder, copies)),
    ]
    try:
        found.insert(0, Case("real nsys, no GPU work", str(find_nsys().path), None))
    except NsysNotFoundError as error:
        print(error.message)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranges", type=int, default=20_000, help="NVTX ranges of the program")
    parser.add_argument("--runs", type=int, default=3, help="runs of each case")
    parser.add_argument("--copies", type=int, default=4, help="how often the BERT capture is repeated")
    options = parser.parse_args()
    # As pip does when it installs; a checkout may have no compiled modules.
    compileall.compile_dir(ROOT / "nsyswrap", quiet=2)
    with tempfile.TemporaryDirectory() as temporary:
        for case in cases(Path(temporary), options.copies):
            for _ in range(options.runs):
                with tempfile.TemporaryDirectory(dir=temporary) as folder:
                    found = measured(case, options.ranges, Path(folder))
                print(
                    f"{case.name:<28} {found.wall_s:6.2f} s, nsys {found.nsys_s:6.2f} s, "
                    f"difference {found.wall_s - found.nsys_s:6.2f} s (allowed: {ALLOWED_S:.0f}), "
                    f"{found.cpu_s:6.2f} CPU s   load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
