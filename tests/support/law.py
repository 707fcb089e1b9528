"""Runs the programs of tests/law alone and with the marks of ``nsyswrap profile``, and compares what they do.

Some of them also run armed: they time their own steps, then begin and end a recording.

    python tests/support/law.py                   all programs
    python tests/support/law.py compiling jit     those whose file or name has one of these texts
    python tests/support/law.py --alone-twice     the programs themselves: what differs between two runs alone?

A program may be run by itself: ``python tests/law/programs/compiling.py own_class_first``. Ranges go to a small library
in place of a profiler, which counts them. ``nsys profile --trace nvtx python tests/support/law.py`` sends them to nsys;
then the programs run alone under nsys, too.

Programs do not look at what a program can see of nsyswrap by the limits in docs/annotate.md: its variables, its folder
in PYTHONPATH, its modules ``_nsyswrap_annotate``, its entry in ``gc.callbacks``, and its tool of ``sys.monitoring``.
"""

import argparse
import difflib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from listener_library import LOG_VARIABLE, build_listener

from nsyswrap.capture.annotate.nvtx_calls import VARIABLE
from nsyswrap.capture.annotate.xray import TEXT
from nsyswrap.capture.nsys import _program_environment
from nsyswrap.capture.options import ARMED_RANGE, CaptureOptions

PROGRAMS = Path(__file__).parents[1] / "law" / "programs"
SERVER = "fork_server.py"
# Files whose programs each need an interpreter of their own.
FRESH = "fresh_"
SKIPPED = 77
LIMIT_S = 120.0
ALONE, MARKED, AGAIN, ARMED = MODES = "alone", "marked", "again", "armed"
# The programs that run armed, and the steps that they record, before an X-ray step. One that takes fewer steps waits
# for them to its end. Those of this file take more.
OBSERVED = "observed_steps.py"
ARMED_PROGRAMS = frozenset({
    *("training:optimizers", "training:states_of_generators", "training:fused_and_foreach", "training:grad_scaler"),
    *("training:two_optimizers", "training:accumulation_and_clipping", "hooks:optimizer_hooks"),
    *("patching:optimizer_steps", "compiling:training_first_then_compile", "compiling:aot_eager_trains"),
    *("loading:forked_workers", "processes:threads_train_at_once", "fresh_torch:order_at_exit"),
    *("watching:own_ranges", "watching:own_ranges_in_compiled_code"),
    "fresh_torch:children_that_train",
})  # fmt: skip
ARMED_STEPS = "4:6"
_DEFINITION = re.compile(r"^def program_(\w+)\(", re.MULTILINE)
_MOST_LINES, _WIDTH = 60, 200
# Times and process numbers in the lines that PyTorch logs.
_CHANGING = (
    (re.compile(r"^(\[?[VIWEC])\d{4} \d\d:\d\d:\d\d\.\d+ (\d+ )?", re.MULTILINE), r"\1 "),
    (re.compile(r"\(-?\d+ != -?\d+\)"), "(threads)"),
    (re.compile(r"\b(process|pid)([ =])\d+"), r"\1\2NUMBER"),
    (re.compile(r"^(\w+):\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d+:\d+ ", re.MULTILINE), r"\1 "),
    (re.compile(r"\b0x[0-9a-f]{8,}"), "0xADDRESS"),
)


@dataclass(frozen=True, slots=True)
class Program:
    """A program of the law."""

    file: str
    name: str

    @property
    def is_fresh(self) -> bool:
        """Whether it is started as a process of its own, and not forked after the import of torch."""
        return self.file.startswith(FRESH)

    def __str__(self) -> str:
        """Return file and name."""
        return f"{self.file.removesuffix('.py')}:{self.name}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program did in one mode.

    Attributes:
        stdout: Its output, without the path of its folder.
        ranges: How many ranges of nsyswrap its processes opened.
        seconds: How long it took.
        has_xray: Whether one of its processes took an X-ray step.
    """

    code: int
    stdout: str
    stderr: str
    ranges: int
    seconds: float
    has_xray: bool = False


def programs(wanted: Iterable[str] = ()) -> list[Program]:
    """Return the programs whose file or name has one of some texts; all without texts."""
    texts = tuple(wanted)
    found = [
        Program(path.name, name)
        for path in sorted(PROGRAMS.glob("*.py"))
        for name in _DEFINITION.findall(path.read_text(encoding="utf-8"))
    ]
    return [each for each in found if not texts or any(text in str(each) for text in texts)]


def run(
    wanted: Iterable[Program], modes: Iterable[str], python: Path, folder: Path
) -> dict[str, dict[Program, Outcome]]:
    """Run programs in each mode.

    Args:
        wanted: The programs.
        modes: Some of ``MODES``.
        python: The Python that runs them; it has torch.
        folder: An empty folder for what they write.
    """
    chosen, listener = list(wanted), build_listener(folder)
    environments = {mode: _environment(mode, folder, listener) for mode in modes if mode != ARMED}
    armed = [each for each in chosen if runs_armed(each)] if ARMED in modes else []
    fresh = [each for each in chosen if each.is_fresh]
    forked = [each for each in chosen if not each.is_fresh]
    # The servers run beside each other; programs that need a process of their own wait for the cores.
    jobs: list[Callable[[], object]] = [
        partial(_serve, forked, python, folder / mode, environment)
        for mode, environment in environments.items()
        if forked
    ]
    jobs += [
        partial(_start, each, python, folder / mode, environment)
        for each in fresh
        for mode, environment in environments.items()
    ]
    # Each has its own files: the processes of one program agree by them who records.
    jobs += [
        partial(_start, each, python, folder / ARMED, _environment(ARMED, folder, listener, each.name))
        for each in armed
    ]
    with ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()
    ran = dict.fromkeys(environments, chosen) | ({ARMED: armed} if armed else {})
    return {mode: {each: _outcome(_place(folder / mode, each)) for each in those} for mode, those in ran.items()}


def runs_armed(program: Program) -> bool:
    return program.file == OBSERVED or str(program) in ARMED_PROGRAMS


def differences(before: Outcome, after: Outcome) -> list[str]:
    """Return lines that say in what two outcomes differ; without any, they are the same."""
    lines = [] if before.code == after.code else [f"exit code {after.code}, alone {before.code}"]
    for name in ("stdout", "stderr"):
        old, new = (getattr(each, name).split("\n") for each in (before, after))
        if getattr(before, name) != getattr(after, name):
            lines += list(difflib.unified_diff(old, new, f"{name} alone", name, n=0, lineterm=""))
    return lines


def without_chance(text: str) -> str:
    """Return a text without times, process numbers and addresses, which differ between any two runs."""
    for pattern, instead in _CHANGING:
        text = pattern.sub(instead, text)
    return text


def first_difference(lines: list[str]) -> str:
    """Return the line that says most about a difference: the last one added that names an error, or the first one."""
    added = [line.strip() for line in lines if line.startswith(("+", "exit")) and not line.startswith("+++")]
    errors = [number for number, line in enumerate(added) if re.match(r"\+\S*(Error|Exception|Warning)\b", line)]
    if not errors:
        return (added or [line for line in lines if line.startswith("-") and not line.startswith("---")])[0]
    # The text of an error may begin some lines after its type.
    error, *rest = added[errors[-1] :]
    return error if not error.endswith(":") else " ".join([error, *(line[1:] for line in rest if line[1:])][:2])


def _environment(mode: str, folder: Path, listener: Path, name: str = "") -> dict[str, str]:
    """Return the variables of programs in a mode: those of ``nsyswrap profile``, and a profiler that counts ranges."""
    temporary = folder / "nsyswrap" / mode / name
    temporary.mkdir(parents=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NSYSWRAP"))}
    environ |= {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
    environ.setdefault(VARIABLE, str(listener))
    # The modes share what the C++ compiler makes, which takes most of the time, but no graphs.
    environ |= {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}
    environ |= {"TORCHINDUCTOR_AUTOGRAD_CACHE": "0", LOG_VARIABLE: str(temporary / "ranges")}
    options = CaptureOptions(command=(), folder=folder, annotate=mode in {MARKED, ARMED})
    if mode == ARMED:
        options = replace(options, capture_range=ARMED_RANGE, steps=ARMED_STEPS)
    return _program_environment(options, environ, temporary)


def _place(folder: Path, program: Program) -> Path:
    return folder / program.file.removesuffix(".py") / program.name


def _serve(chosen: list[Program], python: Path, folder: Path, environ: Mapping[str, str]) -> None:
    """Run programs in processes that are forked after the import of torch."""
    by_file: dict[str, list[str]] = {}
    for each in chosen:
        by_file.setdefault(each.file, []).append(each.name)
    for file in by_file:
        (folder / file.removesuffix(".py")).mkdir(parents=True)
    arguments = [f"{file}:{','.join(names)}" for file, names in by_file.items()]
    command = [str(each) for each in (python, PROGRAMS / SERVER, folder, *arguments)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode or done.stdout or done.stderr:
        raise RuntimeError(f"{SERVER} ended with {done.returncode}: {done.stdout}{done.stderr}")


def _start(program: Program, python: Path, folder: Path, environ: Mapping[str, str]) -> None:
    """Run a program in a process of its own."""
    place = _place(folder, program)
    (place / "work").mkdir(parents=True)
    began = time.monotonic()
    with (place / "stdout").open("w") as stdout, (place / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [python, PROGRAMS / program.file, program.name],
            env={**environ, LOG_VARIABLE: str(place / "ranges")},
            cwd=place / "work",
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
    (place / "code").write_text(f"{code} {time.monotonic() - began}")


def _outcome(place: Path) -> Outcome:
    """Read what a program left in its folder."""

    def read(name: str) -> str:
        path = place / name
        text = path.read_text(encoding="utf-8", errors="backslashreplace") if path.exists() else ""
        return without_chance(text.replace(str(place / "work"), "WORK"))

    code, seconds = (place / "code").read_text().split()
    lines = read("ranges").splitlines()
    ranges = sum(line.startswith("start ") for line in lines)
    has_xray = any(line.startswith(f"start {TEXT} ") for line in lines)
    return Outcome(int(code), read("stdout"), read("stderr"), ranges, float(seconds), has_xray)


def _print_table(outcomes: Mapping[str, Mapping[Program, Outcome]], chosen: list[Program], *, verbose: bool) -> int:
    """Print one line for each program, and what differs; return how many programs differ."""
    first, *others = outcomes
    wrong = skipped = 0
    for each in chosen:
        before = outcomes[first][each]
        found = {mode: differences(before, outcomes[mode][each]) for mode in others if each in outcomes[mode]}
        is_skipped = before.code == SKIPPED
        skipped += is_skipped
        wrong += any(found.values())
        states = [
            f"{mode} differs: {first_difference(lines)}"
            if lines
            else f"{mode} same, {outcomes[mode][each].ranges} ranges{', X-ray' * outcomes[mode][each].has_xray}"
            for mode, lines in found.items()
        ]
        alone = before.stdout.strip() if is_skipped else f"exit code {before.code}, {before.seconds:.1f} s"
        print(f"{each!s:<48} alone {alone} | {' | '.join(states)}", flush=True)  # noqa: T201
        if verbose:
            for line in [*before.stdout.splitlines(), *before.stderr.splitlines()]:
                print(f"        {line[:_WIDTH]}")  # noqa: T201
            for mode, lines in found.items():
                for line in lines[:_MOST_LINES]:
                    print(f"    {mode}: {line}")  # noqa: T201
    print(f"{len(chosen)} programs, {skipped} skipped, {wrong} differ")  # noqa: T201
    return wrong


def main() -> int:
    """Run the programs of the command line; return 1 if one of them differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wanted", nargs="*", help="texts of files or names of programs")
    parser.add_argument("--alone-twice", action="store_true", help="run programs alone, twice")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="the Python that runs the programs")
    parser.add_argument(
        "--verbose", "-v", action="store_true", help="print what programs print, and the lines that differ"
    )
    arguments = parser.parse_args()
    chosen, began = programs(arguments.wanted), time.monotonic()
    modes = (ALONE, AGAIN) if arguments.alone_twice else (ALONE, MARKED, ARMED)
    with tempfile.TemporaryDirectory(prefix="law") as folder:
        outcomes = run(chosen, modes, arguments.python, Path(folder))
        wrong = _print_table(outcomes, chosen, verbose=arguments.verbose)
    print(f"{time.monotonic() - began:.0f} s")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
