"""A fake ncu: it runs the program and prints what the real ncu prints, or fails as the real one was observed to fail.

``FAKE_NCU_FAILURE`` selects the failure:

==================  ===========================================================================
``no-permission``   the driver denies this user access to the counters (ERR_NVGPUCTRPERM)
``no-gpu``          there is no GPU
``locked``          another profiler uses the counters, or a sandbox has none
``silent``          prints nothing, and exits with 0
``query-silent``    lists no counter
``no-kernels``      none of the requested kernels was launched
``old``             supports neither opcodes nor single values of a metric
``import-fails``    cannot print its own report
``by-function``     counts launches by function name, even if it matches other names
``hangs``           does not end
==================  ===========================================================================

``FAKE_NCU_KERNELS`` is a JSON list of kernels: name, opcodes (name to count), tensor pipe in per cent, and counts of
HMMA and HFMA2. ``FAKE_NCU_LOG`` is a file for the arguments of each call. ``FAKE_NCU_VERSION`` is its version.
"""

import csv
import itertools
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

VERSION = os.environ.get("FAKE_NCU_VERSION", "2025.3.1.0")
FAILURE = os.environ.get("FAKE_NCU_FAILURE", "")
PERMISSION = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)
OPCODES = ("sass__inst_executed_per_opcode", "sass__inst_executed_per_opcode_with_modifier_all")
PROFILING = """
Device NVIDIA H100 80GB HBM3 (GH100)
----------------------------------------------------------- ----------- --------- ------------------------------------
Metric Name                                                 Metric Type Metric Unit Metric Description
----------------------------------------------------------- ----------- --------- ------------------------------------
gpu__time_duration                                          Counter     ns        incremental duration in nanoseconds
sm__inst_executed                                           Counter     inst      # of warp instructions executed
sm__inst_executed_pipe_tensor                               Counter     inst      # of warp instructions, tensor pipe
sm__inst_executed_pipe_tensor_op_gmma                       Counter     inst      # of warp instructions, tensor pipe
sm__inst_executed_pipe_tensor_op_hmma                       Counter     inst      # of warp instructions, tensor pipe
sm__inst_executed_pipe_tensor_op_hmma_type_hfma2            Counter     inst      # of warp instructions (HFMA2.MMA)
sm__pipe_tensor_cycles_active                               Counter     cycle     # of cycles, tensor pipe active
"""
SOURCE = """
sass__inst_executed_per_opcode                              Instanced   inst      executed instructions by opcode
sass__inst_executed_per_opcode_with_modifier_all            Instanced   inst      the same, with modifiers
"""
HEAD = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size")


def main() -> int:
    """Run the command that the arguments select."""
    arguments = sys.argv[1:]
    if "FAKE_NCU_LOG" in os.environ:
        with Path(os.environ["FAKE_NCU_LOG"]).open("a", encoding="utf-8") as log:
            log.write(json.dumps(arguments) + "\n")
    if arguments == ["--version"]:
        say("NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright (c) 2018-2025 NVIDIA Corporation")
        say(f"Version {VERSION} (build 36398880) (public-release)")
        return 0
    if arguments[0] in {"--query-metrics-collection", "--list-metrics"}:
        return query(arguments[-1])
    if "--import" in arguments:
        return show(arguments)
    return measure(arguments)


def query(collection: str) -> int:
    """List the counters of one collection."""
    if FAILURE == "no-gpu":
        say("==ERROR== No supported GPUs were found on this system.")
        return 1
    if FAILURE == "locked":
        say("==ERROR== Failed to initialize the profiler: LibraryNotLoaded")
        return 1
    if FAILURE == "query-silent":
        return 0
    if collection == "profiling":
        say(PROFILING)
    elif FAILURE != "old":
        say(SOURCE)
    return 0


def measure(arguments: list[str]) -> int:
    """Run the program, and write a report of the kernels whose function matches the pattern."""
    flags = dict(itertools.pairwise(arguments))
    metrics = flags["--metrics"].split(",")
    program = arguments[arguments.index("--metrics") + 2 :]
    if FAILURE == "hangs":
        time.sleep(600)
    say(f"==PROF== Connected to process 4242 ({program[0]})")
    if FAILURE == "no-permission":
        say(PERMISSION)
        return 1
    if FAILURE == "silent":
        sys.exit(0)
    code = subprocess.run(program, check=False).returncode
    kernels = json.loads(os.environ.get("FAKE_NCU_KERNELS", "[]"))
    kept = chosen(flags, kernels)[: int(flags["--launch-count"])]
    if FAILURE == "no-kernels" or not kept:
        say("==WARNING== No kernels were profiled.\n==WARNING== Profiling kernels launched by child processes ...")
        return code
    Path(flags["--export"]).write_text(json.dumps({"kernels": kept, "metrics": metrics}), encoding="utf-8")
    say(f"==PROF== Disconnected from process 4242\n==PROF== Report: {flags['--export']}")
    return code


def chosen(flags: dict[str, str], kernels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the launches that the filter selects; with a number, only that launch of each name."""
    spell = mangled if flags["--kernel-name-base"] == "mangled" and FAILURE != "by-function" else function
    if "--kernel-name" in flags:
        pattern = re.compile(flags["--kernel-name"].removeprefix("regex:"))
        return [each for each in kernels if pattern.search(function(each["name"]))]
    pattern_text, _, number = flags["--kernel-id"].removeprefix("::regex:").rpartition(":")
    launched = [(each, spell(each["name"])) for each in kernels if re.search(pattern_text, mangled(each["name"]))]
    names = [name for _, name in launched]
    return [each for at, (each, name) in enumerate(launched) if names[: at + 1].count(name) == int(number)]


def function(name: str) -> str:
    head = re.split(r"[<(]", re.sub(r"^void ", "", name))[0]
    return head.rpartition("::")[2]


def mangled(name: str) -> str:
    """Return a mangled name with a correct start; the rest only distinguishes instances."""
    if not re.search(r"[<(]", name):
        return name
    head, rest = re.split(r"(?=[<(](?!unnamed>))", re.sub(r"^void ", "", name), maxsplit=1)
    parts = ["_GLOBAL__N__ab12_3_Copy_cu" if part == "<unnamed>" else part for part in head.split("::")]
    body = "".join(f"{len(part)}{part}" for part in parts)
    return f"_Z{'N' if len(parts) > 1 else ''}{body}I{rest.encode().hex()}"


def show(arguments: list[str]) -> int:
    """Print the raw page of a report as CSV."""
    details = "--print-metric-instances" in arguments
    if FAILURE == "import-fails":
        say("==ERROR== Failed to load report file")
        return 1
    if FAILURE == "old" and details:
        say("==ERROR== unrecognised option '--print-metric-instances'. Use --help for further details.")
        return 1
    report = json.loads(Path(arguments[arguments.index("--import") + 1]).read_text(encoding="utf-8"))
    metrics = report["metrics"]
    writer = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*HEAD, *metrics])
    writer.writerow([*("" for _ in HEAD), *("inst" if "inst" in name else "%" for name in metrics)])
    for number, kernel in enumerate(report["kernels"]):
        head = [number, 4242, "python3.12", "127.0.0.1", kernel["name"], 1, 7, "(128, 1, 1)", "(264, 1, 1)"]
        writer.writerow([*head, *(cell(kernel, name, details=details) for name in metrics)])
    return 0


def cell(kernel: dict[str, Any], metric: str, *, details: bool) -> str:
    """Return a number as ncu prints it, with thousands separators, and single opcodes in brackets if requested."""
    if metric in OPCODES:
        counts = kernel.get("opcodes", {})
        whole = f"{sum(counts.values()):,}"
        return f"{whole} ({'; '.join(f'{key}: {value:,}' for key, value in counts.items())})" if details else whole
    values = {
        "sm__inst_executed_pipe_tensor_op_hmma.sum": kernel.get("hmma", 0),
        "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum": kernel.get("hfma2", 0),
        "sm__inst_executed_pipe_tensor_op_gmma.sum": kernel.get("gmma", 0),
    }
    if "cycles_active" in metric:
        return f"{kernel.get('pipe', 0):.2f}"
    return f"{values.get(metric, 1000):,}"


def say(text: str) -> None:
    """Print to stdout, as ncu does, and flush."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
