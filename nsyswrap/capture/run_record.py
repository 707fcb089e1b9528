"""The content of `run.json`: enough to repeat a run, without anything private.

It holds the names of all environment variables, but only the values of those that determine how a program computes.
Paths are relative to the working folder, and the home folder becomes ``~``.
"""

import fnmatch
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from nsyswrap.base.named_secrets import looks_secret
from nsyswrap.base.privacy import ANYBODY, HOMES, Cleaner, identity_from, neutral_command, neutral_host
from nsyswrap.capture.copy_rates import copy_rates
from nsyswrap.capture.git_history import git_state
from nsyswrap.capture.inherited import kept_environment
from nsyswrap.capture.nsys import CaptureResult
from nsyswrap.capture.options import CaptureOptions, extra_environment
from nsyswrap.capture.process import output_of
from nsyswrap.capture.profiler_cost import FAILURE
from nsyswrap.capture.recorded_run import COPY_RATES, LINK_RATES, PRODUCT_RATES, PROFILER_COST, SCHEMA

MACHINE_ID = Path("/etc/machine-id")
PROC = Path("/proc")


# Variables that change what the GPU does or how work is distributed, and hold no address and no secret.
RECORDED_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MKL_NUM_THREADS",
    "NCCL_*",
    "NVIDIA_TF32_OVERRIDE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMP_*",
    "PYTHONHASHSEED",
    "PYTORCH_*",
    "RANK",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "TORCH_*",
    "WORLD_SIZE",
)
_TOOL_TIMEOUT_S = 20
_PACKAGES = ("torch", "nvtx")
_VERSIONS_PROGRAM = (
    "import importlib.metadata as m, json, platform\n"
    "def v(n):\n"
    "    try: return m.version(n)\n"
    "    except m.PackageNotFoundError: return None\n"
    f"print(json.dumps({{'python': platform.python_version(), **{{n: v(n) for n in {_PACKAGES!r}}}}}))"
)


def machine_number(path: Path = MACHINE_ID) -> str:
    """Return the number of this machine, the same for each run; empty where it has no id, as in containers."""
    try:
        identity = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    if len(identity) != 32 or not identity.isalnum():  # noqa: PLR2004 - as machine-id(5) has it
        return ""
    return neutral_host(identity)


def machine_kind(proc: Path = PROC) -> str:
    """Return processor, cores and memory: equal for machines that are built alike, and in each container on them.

    Runs of a program on machines of one kind can be compared; the id of a machine changes with each container.
    """
    try:
        cpu = re.search(r"^model name\s*:\s*(.+)$", (proc / "cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        memory = re.search(r"^MemTotal:\s*(\d+) kB$", (proc / "meminfo").read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return ""
    model = " ".join(cpu[1].split()) if cpu else "unknown processor"
    size = f", {round(int(memory[1]) / 2**20)} GiB" if memory else ""
    return f"{model}, {os.cpu_count()} cores{size}"


def run_record(
    result: CaptureResult,
    options: CaptureOptions,
    nsyswrap_version: str,
    environ: Mapping[str, str] | None = None,
    measured: Mapping[str, Mapping[str, object]] | None = None,
) -> dict[str, object]:
    """Return the description of a run.

    Args:
        result: The finished capture.
        options: The options of the capture.
        nsyswrap_version: The version of nsyswrap.
        environ: The environment that the program inherited; None for ours.
        measured: What was measured beside the run, by name: what ``profiler_cost``, ``product_rates`` and
            ``link_rates`` return.

    Returns:
        The JSON object: ``schema``, ``command``, ``environment`` (``names``, ``values``), ``versions``, ``git`` (as in
        `git_state`), ``host`` (as in `machine_number`), ``machine`` (as in `machine_kind`), ``exit_code``, ``wall_ns``,
        ``notes``, ``steps`` (which the program recorded itself, and why or why not), ``pinned_copy_rates`` (by
        direction; empty without a GPU), ``profiler_cost``, ``product_rates`` and ``link_rates`` (empty without a
        measurement).
    """
    environ = dict(os.environ if environ is None else environ)
    inherited = kept_environment(environ) if options.hide_environment else environ
    cwd, cleaner = (options.cwd or Path.cwd()).absolute(), identity_from(environ.items(), kept=HOMES).cleaner()
    return {
        "schema": SCHEMA,
        "command": [cleaner.text(word) for word in shareable_command(result.command, cwd, environ.get("HOME", ""))],
        "environment": shareable_environment({**inherited, **extra_environment(options)}, cleaner),
        "versions": {
            "nsyswrap": nsyswrap_version,
            "nsys": result.nsys.version_text,
            **program_versions(result.command),
        },
        "git": git_state(_source_folder(result.command, cwd)),
        "host": machine_number(),
        "machine": machine_kind(),
        "exit_code": result.exit_code,
        "steps": dict(result.steps),
        "wall_ns": result.wall_ns,
        "notes": [cleaner.text(note) for note in result.notes],
        COPY_RATES: copy_rates(),
        **{
            name: _shareable((measured or {}).get(name, {}), cleaner)
            for name in (PROFILER_COST, PRODUCT_RATES, LINK_RATES)
        },
    }


def _shareable(measured: Mapping[str, object], cleaner: Cleaner) -> dict[str, object]:
    """Return a measurement; why there is none may quote other programs, so that is cleaned."""
    failure = {FAILURE: cleaner.message(str(measured[FAILURE]))} if FAILURE in measured else {}
    return {**measured, **failure}


def shareable_command(command: tuple[str, ...], cwd: Path, home: str) -> list[str]:
    """Return a command with paths relative to the working folder, ``~`` for the home folder, and no secrets."""
    own_home = re.escape(home.rstrip("/")) if len(home.rstrip("/")) > 1 else ""

    def shareable(word: str) -> str:
        word = re.sub(rf"(?<![^=:,]){re.escape(str(cwd))}/", "", word)
        return re.sub(rf"(?<![^=:,]){own_home}(?=/|$)", "~", word) if own_home else word

    return list(neutral_command(tuple(shareable(word) for word in command)))


def shareable_environment(environ: Mapping[str, str], cleaner: Cleaner = ANYBODY) -> dict[str, object]:
    """Return the names of all variables, and the values of ``RECORDED_VARIABLES``."""
    values = {
        name: cleaner.text(value)
        for name, value in sorted(environ.items())
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in RECORDED_VARIABLES) and not looks_secret(name)
    }
    return {"names": sorted(environ), "values": values}


def program_versions(command: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of Python, torch and nvtx of a command, if its program is a Python interpreter."""
    program = Path(command[0])
    if not re.fullmatch(r"(python|pypy)[\d.]*", program.name):
        return {}
    try:
        output = output_of([program, "-I", "-c", _VERSIONS_PROGRAM], timeout_s=_TOOL_TIMEOUT_S)
        answer = json.loads(output.stdout)
    except (OSError, TimeoutError, ValueError):
        return {}
    return {name: str(version) for name, version in answer.items() if version}


def _source_folder(command: tuple[str, ...], cwd: Path) -> Path:
    """Return the folder of the first argument that is a file, usually the script; else the working folder."""
    for word in command[1:]:
        path = cwd / word
        if os.path.isfile(path):  # noqa: PTH113 - is_file() raises if it has no permission or the word is too long
            return path.parent
    return cwd
