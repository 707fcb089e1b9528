# ruff: noqa: INP001, T201 - a program for the terminal
"""Analyze 500 captures with processes of this machine and with a Dask cluster of two, and kill a process in the middle.

Prints a table: time, CPU time, peak memory of the largest process and of all together. It fails if the
results of both differ in one byte, if a broken file is not named, or if what was planted is not found.

python bench/bench_many.py
"""

import argparse
import json
import lzma
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from changed_captures import Planted, write_many  # noqa: E402 - beside the tests

from nsyswrap.base.privacy import neutral_host  # noqa: E402

# Small real captures: each takes about 0.3 s of CPU time.
SOURCES = ("cuda_graph_graph_trace", "faults/few_workers", "faults/pageable_copies", "faults/channels_first")
BROKEN, SLOW = 10, 5
KILLED_AT = 0.4
LIMIT_S = 1800
PAGE, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
OWN = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}


class Measured(NamedTuple):
    """One run: wall and CPU time in s, the largest process and all together in MB, and what was killed."""

    engine: str
    wall_s: float
    cpu_s: float
    largest: float
    together: float
    killed: int


class Watch(threading.Thread):
    """Samples the memory of all processes below this one, and kills one reader when enough captures are done.

    Args:
        readers: What the command line of a process that reads captures holds.
        cache: The folder of results, whose files are counted.
        kill_at: The number of results at which one is killed.
    """

    def __init__(self, readers: str, cache: Path, kill_at: int) -> None:
        super().__init__(daemon=True)
        self._readers, self._cache, self._kill_at = readers, cache, kill_at
        self.ended = threading.Event()
        self.largest = self.together = 0.0
        self._cpu: dict[int, float] = {}
        self.killed = 0

    def run(self) -> None:
        """Sample until ``ended`` is set."""
        while not self.ended.wait(0.1):
            sizes = {pid: size for pid in below(os.getpid()) if (size := resident(pid))}
            self.largest = max(self.largest, *sizes.values(), 0.0)
            self.together = max(self.together, sum(sizes.values()))
            self._cpu |= {pid: used for pid in sizes if (used := cpu_time(pid))}
            if not self.killed and sum(1 for _ in self._cache.glob("*/*.json")) >= self._kill_at:
                self._kill(sizes)

    @property
    def cpu_s(self) -> float:
        """Return the CPU time of all processes, as last seen."""
        return sum(self._cpu.values())

    def _kill(self, sizes: dict[int, float]) -> None:
        """Kill the largest process that reads captures."""
        found = [(size, pid) for pid, size in sizes.items() if self._readers in command_of(pid)]
        if found:
            self.killed = max(found)[1]
            os.kill(self.killed, signal.SIGKILL)


def below(pid: int) -> Iterator[int]:
    """Yield the processes below one."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from below(int(child))


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB; 0 if it has ended."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6
    return 0.0


def cpu_time(pid: int) -> float:
    """Return the CPU time of a process in s; 0 if it has ended."""
    with suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    return 0.0


def command_of(pid: int) -> str:
    """Return the command line of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def command(folder: Path, cache: Path, result: Path, *options: str) -> list[str]:
    """Return the command that analyzes the captures."""
    outputs = [word for suffix in ("html", "json") for word in ("-o", f"{result}.{suffix}")]
    return [
        *(sys.executable, "-m", "nsyswrap", "analyze-many", str(folder), "--cache", str(cache), *outputs, "-f"),
        *options,
    ]


def timed(engine: str, words: list[str], watch: Watch) -> Measured:
    """Run the command beside its watch and return what it took."""
    watch.start()
    began = time.monotonic()
    subprocess.run(words, check=True, env=OWN, timeout=LIMIT_S)  # noqa: S603 - our own program
    wall = time.monotonic() - began
    watch.ended.set()
    watch.join()
    return Measured(engine, wall, watch.cpu_s, watch.largest, watch.together, watch.killed)


@contextmanager
def cluster(folder: Path) -> Iterator[Path]:
    """Yield the scheduler file of a real Dask cluster: a scheduler and two workers, each with its nanny."""
    file = folder / "scheduler.json"
    scheduler = ["-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    workers = ["-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--nworkers", "2", "--nthreads", "1"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": OWN, "cwd": folder}
    started = [subprocess.Popen([sys.executable, *scheduler], **quiet)]  # type: ignore[call-overload] # noqa: S603
    while not file.is_file():
        time.sleep(0.2)
    more = ["--no-dashboard", "--memory-limit", "2GB", "--local-directory", str(folder)]
    started.append(subprocess.Popen([sys.executable, *workers, *more], **quiet))  # type: ignore[call-overload] # noqa: S603
    try:
        yield file
    finally:
        for each in reversed(started):
            each.terminate()
            each.wait(30)


def check(planted: Planted, results: list[Path]) -> None:
    """Check that both results are the same, and that they hold what was planted."""
    for suffix in ("html", "json"):
        texts = {each.with_suffix(f".{suffix}").read_bytes() for each in results}
        if len(texts) != 1:
            raise SystemExit(f"the results differ: {suffix}")
        print(f"{suffix}: {len(texts.pop()):,} bytes, the same in {len(results)} results")
    many = json.loads(results[0].with_suffix(".json").read_text())
    failed, outliers = ({each["name"] for each in many[key]} for key in ("failed", "outliers"))
    ratios = {each["name"]: each["usual_share"] for each in many["groups"]["host"]}
    if failed != {each.name for each in planted.broken}:
        raise SystemExit(f"not named, or named wrongly: {failed ^ {each.name for each in planted.broken}}")
    if not {each.name for each in planted.slow} - failed <= outliers:
        raise SystemExit(f"slow, but not found: {sorted({each.name for each in planted.slow} - outliers)}")
    if max(ratios, key=lambda host: ratios[host] or 0) != neutral_host(planted.slow_host):
        raise SystemExit(f"the slow host is not found: {ratios}")
    print(f"{len(failed)} broken files named; outliers: {len(outliers)}, among them all {len(planted.slow)} slow ones")
    print(f"the slow host takes {ratios[neutral_host(planted.slow_host)]:.3f} of the usual step")


def made(folder: Path, count: int) -> Planted:
    """Write the captures."""
    folder.mkdir()
    sources = []
    for name in SOURCES:
        sources.append(folder.parent / f"{name.replace('/', '_')}.source")
        sources[-1].write_bytes(lzma.decompress((ROOT / f"tests/captures/{name}.sqlite.xz").read_bytes()))
    return write_many(sources, folder, count, BROKEN, SLOW)


def main() -> None:
    """Make the captures, analyze them with both engines and once again, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        planted = made(place / "captures", options.count)
        kill_at = int(KILLED_AT * options.count)
        caches, results = [place / "one", place / "two"], [place / "here", place / "cluster", place / "again"]
        rows = []
        watch = Watch("multiprocessing.spawn", caches[0], kill_at)
        words = command(place / "captures", caches[0], results[0], "--processes", "2")
        rows.append(timed("two processes of this machine", words, watch))
        with cluster(place) as file:
            watch = Watch("multiprocessing.spawn", caches[1], kill_at)
            words = command(place / "captures", caches[1], results[1], "--scheduler", str(file))
            rows.append(timed("Dask, two workers", words, watch))
        watch = Watch("multiprocessing.spawn", caches[0], 2 * options.count)
        words = command(place / "captures", caches[0], results[2], "--processes", "2")
        rows.append(timed("once again, with what is kept", words, watch))
        size = sum(each.stat().st_size for each in caches[0].glob("*/*.json"))
        check(planted, results)
    report(rows, size, options.count)


def report(rows: list[Measured], size: int, count: int) -> None:
    """Print the table."""
    print(f"kept results: {size:,} bytes, {size // count:,} a capture")
    print("\n| engine | wall time, s | CPU time, s | largest process, MB | all processes, MB | a process killed |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        numbers = f"{row.wall_s:.1f} | {row.cpu_s:.1f} | {row.largest:.0f} | {row.together:.0f}"
        print(f"| {row.engine} | {numbers} | {'yes' if row.killed else 'no'} |")


if __name__ == "__main__":
    main()
