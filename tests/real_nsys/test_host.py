"""Problems of the host in loops under the real nsys: each is the first finding, with its line or call.

Training loops run one after another in one process, which imports torch once, and each has a report of its own window.

There is no GPU here, so the findings count the time of a loop. Other work on this machine delays the loops, too. So
waits for a core and uneven steps count only if the program plants them, and one run of six must show each problem.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from capture_fixtures import options, python
from host_program import STEPS

from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile
from nsyswrap.capture_file import with_recorded
from nsyswrap.loop.context import NO_SETTINGS, TraceContext, find_context
from nsyswrap.model import Finding, Report
from nsyswrap.report import report_of
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import RANGES

# All loops are recorded in the first test, again and again on a busy machine.
pytestmark = pytest.mark.timeout(1200)

PROGRAM = Path(__file__).parents[1] / "support" / "host_program.py"
RUNS = 6
# Another program, which is busy only during the loop.
BUSY = """
import os, sys, time
from pathlib import Path
wanted, busy = map(Path, sys.argv[1:])
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
while True:
    time.sleep(0.02)
    while wanted.exists():
        busy.touch()
        for _ in range(100_000): pass
"""
# Findings that a busy machine causes in any program.
OF_THE_MACHINE = {"idle/off_cpu", "host/cpu_quota", "steps/uneven"}
GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
# Each step takes more CPU time than the quota gives in a period, so it is stopped for longer than other work delays it.
QUOTA_US, PERIOD_US = 10_000, 100_000
# A loop in a control group with a quota, which is one number for the record of a run. The loop begins when the quota
# was looked for again, and then the program leaves the group, to end soon.
STOPPED = """
import os, sys, time, nvtx
own, outer = sys.argv[1:]
open(own, "w").write(str(os.getpid()))
time.sleep(1.5)
for number in range(14):
    with nvtx.annotate(f"batch {number}"):
        for phase in ("forward", "backward", "optimizer"):
            with nvtx.annotate(phase):
                sum(range(400_000))
open(outer, "w").write(str(os.getpid()))
"""
PLANTED = {
    "reads": ("host/file_reads", "read"),
    "maps": ("host/page_faults", "page faults"),
    "writes": ("idle/file_io", "fsync"),
    # Python 3.11 and older cannot monitor the call: what it does in the operating system is seen.
    "saves": ("host/checkpoint", "torch.save at host_program.py:")
    if sys.version_info >= (3, 12)
    else ("idle/file_io", "write"),
    "collects": ("idle/garbage_collection", "garbage collection at host_program.py:"),
    "asks": ("host/outside_wait", "recv"),
    "plays": ("host/outside_wait", "read (socket)"),
}


def own(report: Report) -> list[Finding]:
    """Return the findings on the program, without those that a busy machine causes."""
    return [each for each in report.findings if each.rule not in OF_THE_MACHINE]


def is_named_first(trouble: str) -> Callable[[Report], bool]:
    """Return a function that says whether a report names a planted problem first."""
    return lambda report: [each.rule for each in own(report)][:1] == [PLANTED[trouble][0]]


def names_a_shared_core(report: Report) -> bool:
    """Return whether the verdict is about a core that another program uses, and for more than a quarter of the time.

    Two processes on one core are always ready to run, so each waits about half of the time.
    """
    if report.verdict_rule != "idle/off_cpu" or "Other programs use the cores" not in report.findings[0].advice:
        return False
    return report.findings[0].lost_ns > 0.25 * report.window.length_ns


SHOWN: dict[str, Callable[[Report], bool]] = {
    "none": lambda report: not own(report),
    **{trouble: is_named_first(trouble) for trouble in PLANTED},
    "shares": names_a_shared_core,
}


def context_of(nsys: Nsys, folder: Path, *command: str) -> TraceContext:
    """Record a program with the samples of the host."""
    wanted = options(folder, *command, traces=("nvtx", "osrt"), annotate=True)
    export = profile(wanted, nsys).export
    return find_context(*with_recorded(load_export(export), export, NO_SETTINGS))


def recorded(nsys: Nsys, folder: Path, loops: Mapping[str, str]) -> dict[str, Report]:
    """Record training loops in one run; return the report of the steps of each."""
    context = context_of(nsys, folder, sys.executable, str(PROGRAM), *loops.values())
    ranges = context.trace[RANGES]
    steps = ranges[ranges["text"].astype(str).str.startswith("batch ")].sort_values("start")
    assert len(steps) == STEPS * len(loops)
    starts, ends = steps["start"].to_list()[::STEPS], steps["end"].to_list()[STEPS - 1 :: STEPS]
    windows = [f"{start / 1e9:.9f}:{end / 1e9:.9f}" for start, end in zip(starts, ends, strict=True)]
    return {name: report_of(context, window) for name, window in zip(loops, windows, strict=True)}


@contextmanager
def a_busy_core(wanted: Path, busy: Path) -> Iterator[None]:
    """Run another program, which keeps the first core busy while the first file exists and then makes the second."""
    with subprocess.Popen([sys.executable, "-c", BUSY, str(wanted), str(busy)]) as other:
        try:
            yield
        finally:
            other.kill()


@pytest.fixture(scope="module")
def reports(nsys: Nsys, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """Return the report of each loop: of the first run that shows its problem, else of the last run."""
    folder = tmp_path_factory.mktemp("loops")
    wanted, busy = folder / "wanted", folder / "busy"
    left = {name: name for name in SHOWN} | {"shares": f"shares:{wanted}:{busy}"}
    found: dict[str, Report] = {}
    with a_busy_core(wanted, busy):
        for run in range(RUNS):
            found |= recorded(nsys, folder / f"run {run}", left)
            left = {name: argument for name, argument in left.items() if not SHOWN[name](found[name])}
            if not left:
                break
    return found


@pytest.mark.parametrize("trouble", PLANTED)
def test_a_trouble_of_the_host_is_named_first(trouble: str, reports: dict[str, Report]) -> None:
    rule, named = PLANTED[trouble]
    found = own(reports[trouble])
    assert [each.rule for each in found][:1] == [rule]
    assert any(f" in {named}" in line for line in found[0].evidence)


def test_a_loop_without_trouble_has_no_finding(reports: dict[str, Report]) -> None:
    assert own(reports["none"]) == []


def test_a_shared_core_is_named_first(reports: dict[str, Report]) -> None:
    assert names_a_shared_core(reports["shares"])


@pytest.fixture
def group() -> Iterator[Path]:
    """Make a control group with a tenth of a core; the test needs permission for that."""
    name = f"nsyswrap-test-{os.getpid()}"
    made = next((each / name for each in GROUPS if (each / "cpu.cfs_quota_us").exists()), None)
    if made is None:
        pytest.skip("no control group of version 1 for CPU time")
    try:
        made.mkdir()
        (made / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (made / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
    except OSError:
        pytest.skip("control groups cannot be made here")
    yield made
    made.rmdir()


def test_a_cpu_quota_is_named_first(nsys: Nsys, group: Path, tmp_path: Path) -> None:
    """The program joins a control group with a quota. Only some of its steps are stopped, so they are uneven, too."""
    command = python(STOPPED, *(str(each / "cgroup.procs") for each in (group, group.parent)))
    for run in range(RUNS):
        report = report_of(context_of(nsys, tmp_path / f"run {run}", *command))
        found = [each for each in report.findings if each.rule != "steps/uneven"]
        if [each.rule for each in found][:1] == ["host/cpu_quota"]:
            break
    assert [each.rule for each in found][:1] == ["host/cpu_quota"]
    assert "CPU limit of the container" in found[0].advice
