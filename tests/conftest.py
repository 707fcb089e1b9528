"""Fixtures and markers: exports built by hand, the real captures in tests/captures, and the nsys of this machine."""

import gc
import importlib
import lzma
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from real_captures import Planted, RealContext, RealReport, RealTrace, packed

from nsyswrap.base.errors import NsysNotFoundError
from nsyswrap.capture.convert import export_report
from nsyswrap.capture.locate import Nsys, find_nsys
from nsyswrap.capture.process import output_of
from nsyswrap.loop.context import NO_SETTINGS, TraceContext, find_context
from nsyswrap.model import Report
from nsyswrap.report import Keys, report_of
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import Trace

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TESTS = Path(__file__).parent
# The fixtures that unpack or read whole captures.
WHOLE_CAPTURES = {"captures", "real_trace", "real_context", "real_report"}
# Folders with tests of programs that are no part of nsyswrap: no change of nsyswrap can break them.
THOROUGH = {"tools", "workloads"}
# Files that take more than one or two seconds, by `pytest --durations=40` on two cores: laws over random traces,
# programs that train or compile, jobs of many ranks, and commands in processes of their own that run to a time limit.
# Each package keeps quick files. Single tests have the mark themselves.
SLOW = frozenset({
    *("attribution/test_laws.py", "what_if/test_laws.py", "test_report_laws.py", "timeline/test_build.py"),
    *("sections/test_step_breakdown.py", "sections/test_on_captures.py", "trace/test_fuzz.py", "trace/test_broken.py"),
    *("capture/annotate/test_batch_cache.py", "capture/test_endings.py"),
    *("capture/annotate/test_processes.py", "capture/test_stopping.py", "capture/test_foreground.py"),
    *("cli/test_profile.py", "cli/test_verify_tensor_cores.py", "capture/test_profile.py", "cli/test_setup.py"),
    *("cli/test_output.py", "capture/test_install.py"),
    *("workloads/test_mnist.py", "workloads/test_cases.py", "workloads/test_digits.py", "workloads/test_faults.py"),
    *("tools/test_samples.py", "tools/test_gallery.py", "tools/test_gallery_capture.py", "tools/test_faults.py"),
    *("tools/test_build_site.py", "tools/test_gallery_slim.py"),
    *("test_package.py", "test_words.py", "workloads/test_ranks.py"),
    *("tools/test_plans.py", "workloads/test_combined.py"),
    *("tools/test_fault_tools.py", "loop/test_without_ranges.py", "ranks/test_laws.py"),
    *("attribution/test_root_causes.py", "attribution/test_host_causes.py"),
    *("cli/test_many_ranks.py", "cli/test_rank_reader.py", "cli/test_interrupts.py", "cli/test_streams.py"),
    *("cli/test_resume.py", "cli/test_ranks.py", "capture/test_resume.py", "capture/test_kernel_counters.py"),
    *("capture/test_doctor.py", "capture/test_inherited.py", "capture/test_watchdog.py", "capture/test_isolate.py"),
    *("trace/test_private_texts.py", "what_if/test_on_captures.py", "compare/test_estimates.py"),
    *("render/test_contract.py", "rules/test_code_changes.py", "render/test_html.py", "render/test_json_reader.py"),
    *("cli/test_compare.py", "cli/test_analyze.py", "cli/test_recording.py", "cli/test_analyze_many.py"),
    *("tools/test_release.py", "capture/test_host_monitor.py"),
    *("cli/test_sweep.py", "cli/test_history.py", "cli/test_gate.py"),
    *("cli/test_gate_series.py", "cli/test_capture_reader.py", "capture/test_cost_probe_torch.py"),
    *("attribution/test_causes_threads.py", "gate/test_decision.py"),
    *("capture/test_process.py", "capture/test_cell_process.py", "capture/test_blocked_calls.py"),
    "capture/test_probe_turns.py",
    "experiments/test_search.py",
    *("many/test_dask_cluster.py", "tools/test_overhead.py", "law/test_law.py", "test_missing_tables.py"),
})  # fmt: skip
# No test may fail by chance: any example may take long on a busy machine, and new examples are drawn only on demand.
KEPT = not os.environ.get("NSYSWRAP_NEW_EXAMPLES")
settings.register_profile("nsyswrap", deadline=None, derandomize=KEPT, max_examples=50 if KEPT else 200)
# `make quick` and `make test` try fewer examples of each law; `make check` tries all of them.
settings.register_profile("fewer", deadline=None, derandomize=KEPT, max_examples=10 if KEPT else 200)
settings.load_profile("nsyswrap")
if KEPT:
    # Hypothesis draws some texts and numbers from the source of all modules that are imported by then, so the examples
    # would depend on which tests a process ran before. No setting prevents it.
    providers._get_local_constants = Constants  # noqa: SLF001


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's cache out of the tests, and measure costs and alternatives only in tests that need it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("NSYSWRAP_PROFILER_COST", "0")
        patch.setenv("NSYSWRAP_ALTERNATIVES", "0")
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Take signals as a program in the foreground does, and let PyTorch and BLAS use one thread in each process.

    A shell starts a program behind ``&`` with SIGINT ignored. Tests run in as many processes as there are cores, and
    threads that wait for a core take half of the time of small programs.
    """
    gc.disable()  # until all tests are collected: what is made until then stays
    if "not thorough" in config.getoption("markexpr"):
        settings.load_profile("fewer")
    os.environ["OMP_NUM_THREADS"] = "1"
    _start_elsewhere(config)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _start_elsewhere(config: pytest.Config) -> None:
    """Let each process of xdist collect other files first.

    In a fresh clone nothing is compiled. Processes that collect the files in one order each compile all of them; so
    each compiles its part and finds the parts of the others done. Files that are named so cannot be left out later, as
    `make quick` does.
    """
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    wanted = config.getoption("markexpr")
    if worker and config.args_source == config.ArgsSource.TESTPATHS and wanted in {"", "not thorough"}:
        files = sorted(str(path) for path in TESTS.rglob("test_*.py") if not wanted or path.parent.name not in THOROUGH)
        first = int(worker["workerid"].removeprefix("gw")) * len(files) // worker["workercount"]
        config.args = files[first:] + files[:first]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without a wanted test: `make quick` then imports neither torch nor a browser."""
    wanted = config.getoption("markexpr")
    if " or " in wanted or not collection_path.is_relative_to(TESTS):
        return None
    name = collection_path.relative_to(TESTS).as_posix()
    kinds = {
        "browser": name == "browser",
        "nsys": name == "real_nsys",
        "thorough": name in THOROUGH,
        "slow": name in SLOW,
    }
    return any(is_kind and f"not {kind}" in wanted.split(" and ") for kind, is_kind in kinds.items()) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its folder, file and fixtures: `browser`, `nsys`, `thorough`, `slow`; put long files first.

    If a process gets a long file last, it still runs after the others have finished.
    """
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        name = _name(item.path)
        if name.startswith("browser/"):
            item.add_marker(pytest.mark.browser)
        if name.startswith(tuple(f"{each}/" for each in THOROUGH)):
            item.add_marker(pytest.mark.thorough)
        if name.startswith("real_nsys/") or "nsys" in fixtures:
            item.add_marker(pytest.mark.nsys)
        if name in SLOW or fixtures & WHOLE_CAPTURES:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: (_turn(item.path), _name(item.path)))


def pytest_collection_finish() -> None:
    """Let the garbage collector search old objects rarely, and modules and tests never: that takes a tenth.

    Nearly all old objects stay to the end: reports of captures that tests share, and what libraries keep.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    gc.enable()


def pytest_unconfigure() -> None:
    """Search all objects for garbage once. After this, pytest would do it five times, and Python once more."""
    gc.collect()
    gc.freeze()


@cache
def _name(path: Path) -> str:
    """Return the path of a file in this folder; empty for another file."""
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""


@cache
def _turn(path: Path) -> int:
    """Return when a file is run: first those that wait for the real nsys, then pages, slow tests and the rest.

    The files of the rest take some seconds at most, so the processes end at about the same time. Of the slow tests
    those of no package come first: they take up to a minute.
    """
    name = _name(path)
    if name.startswith(("real_nsys/", "browser/")):
        return 0 if name.startswith("real_nsys/") else 1
    if not _has_slow_tests(path, name):
        return 4
    return 2 if "/" not in name or name.startswith(("law/", "tools/", "workloads/")) else 3


@cache
def _has_slow_tests(path: Path, name: str) -> bool:
    """Return whether a file, or a test in it, has the mark `slow`."""
    return name in SLOW or (path.is_file() and "mark.slow" in path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that unpacks a real capture by name, once; the file is shared and read-only."""
    folder = tmp_path_factory.mktemp("captures")

    @cache
    def unpacked(name: str) -> Path:
        target = folder / f"{name}.sqlite"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(lzma.decompress(packed(name).read_bytes()))
        target.chmod(0o444)
        return target

    return unpacked


@pytest.fixture(scope="session")
def real_trace(captures: Callable[[str], Path]) -> RealTrace:
    """Return a function that reads a real capture by name, once; tests share its frames and do not change them."""

    @cache
    def trace(name: str) -> Trace:
        return load_export(captures(name))

    return trace


@pytest.fixture(scope="session")
def real_context(real_trace: RealTrace) -> RealContext:
    """Return a function that gives the context of a real capture by name, made once without settings."""
    return cache(lambda name: find_context(real_trace(name)))


@pytest.fixture(scope="session")
def real_report(real_context: RealContext, tmp_path_factory: pytest.TempPathFactory) -> RealReport:
    """Return a function that gives the report of a real capture, made once for all tests and processes of a run.

    Its arguments are the name of the capture, the window, and whether the report has a timeline.
    """
    folder = tmp_path_factory.getbasetemp()
    # The folders of the processes of xdist are in one folder of the run.
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder

    @cache
    def made(name: str, wanted: str, timeline: bool) -> Report:  # noqa: FBT001 - a part of the key
        file = folder / f"{name.replace('/', '-')} {wanted} {timeline}.report"
        if not file.exists():
            report = report_of(real_context(name), wanted, with_timeline=timeline)
            half = file.with_suffix(f".{os.getpid()}")
            half.write_bytes(pickle.dumps(report))
            half.replace(file)
        found: Report = pickle.loads(file.read_bytes())  # noqa: S301 - of this run
        return found

    return lambda name, wanted="", *, with_timeline=False: made(name, wanted, with_timeline)


@pytest.fixture
def analyzed_once(captures: Callable[[str], Path], real_report: RealReport, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands in this process use the reports of real captures that other tests made.

    The commands read the captures themselves. A report with settings, or of another file, is made as usual.
    """
    folder = captures("cuda_graph_graph_trace").parent

    def shared(context: TraceContext, window: str = "", *, keys: Keys = (), with_timeline: bool = False) -> Report:
        name = context.trace.capture.name
        if keys or context.settings != NO_SETTINGS or not (folder / name).exists():
            return report_of(context, window, keys=keys, with_timeline=with_timeline)
        return real_report(name.removesuffix(".sqlite"), window, with_timeline=with_timeline)

    monkeypatch.setattr("nsyswrap.report.report_of", shared)


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Return a headless Chromium; Playwright is imported here, so that other tests do not need it."""
    pages = importlib.import_module("browser_pages")
    with pages.chromium() as started:
        yield started


@pytest.fixture(scope="session")
def nsys() -> Nsys:
    """Return the nsys of this machine; without one, tests that use this fixture are skipped."""
    try:
        return find_nsys()
    except NsysNotFoundError as error:
        pytest.skip(error.message)


PROGRAM = """
import os, threading, nvtx
with nvtx.annotate("outer"), nvtx.annotate(f"read {os.environ['HOME']}/data"):
    thread = threading.Thread(target=print, args=("printed by the program",))
    thread.start()
    thread.join()
"""


@pytest.fixture(scope="session")
def planted(nsys: Nsys, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Run the real nsys on a small program with a secret in its environment."""
    folder = tmp_path_factory.mktemp("ann")
    secret = "v4lue-of-the-planted-secret"  # noqa: S105 - planted, to be searched for
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "USER": "annabella", "PLANTED_TOKEN": secret}
    flags = ["--trace=nvtx,osrt", "--sample=none", "--cpuctxsw=none", f"--output={folder}/capture"]
    command: list[str | Path] = [nsys.path, "profile", *flags, sys.executable, "-c", PROGRAM]
    for _ in range(3):  # one start of several hundred fails, because nsys's agent crashes
        output = output_of(command, timeout_s=120, cwd=folder, env=environment)
        if (folder / "capture.nsys-rep").exists():
            break
    assert output.code == 0, output.text
    export_report(nsys, folder / "capture.nsys-rep", folder / "capture.sqlite")
    return Planted(folder / "capture.sqlite", "PLANTED_TOKEN", secret, folder, "printed by the program")
