"""Measure what nsys adds to each call that it records on this machine, and keep it for the next profile.

A short program (:mod:`nsyswrap.capture.cost_probe`) makes calls of each kind, alone and under nsys in turn. The
difference is the cost. It depends on nsys, the driver, the CPU and what is recorded, so it is measured again when one
of these changes.
"""

import hashlib
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nsyswrap.capture.capabilities import capabilities_of
from nsyswrap.capture.cost_probe import COUNT, FAST, FEWEST_BLOCKS
from nsyswrap.capture.locate import Nsys, user_folder
from nsyswrap.capture.options import CaptureOptions, profile_invocation
from nsyswrap.capture.process import output_of
from nsyswrap.capture.process_tree import adopting_orphans, children_by_parent, kill_all, reap_children
from nsyswrap.capture.run_dir import RunDir, private_folder
from nsyswrap.errors import NsyswrapError
from nsyswrap.hardware.profiler_cost import CONVOLUTION_LAUNCH, LAUNCH

SCHEMA = "nsyswrap.profiler-cost/5"
DRIVER = Path("/proc/driver/nvidia/version")
CPU = Path("/proc/cpuinfo")

# Runs of the program, each once alone and once under nsys, in turn: the speed of a machine drifts.
RUNS = 2
GRAPH_NODES = 20
# The calls of the program that stand for each kind; the last one is the usual form.
PROBED = {
    "launch": ("launch", "launch_with_queries"),
    "graph_launch": ("graph_1",),
    "call": ("event_record", "event_query", "stream_wait", "is_capturing", "synchronize"),
    "range": ("range",),
    "mark": ("mark",),
    "os_call": ("short_os_call", "os_call"),
    "operation": ("queued_kernel",),
}
TIMEOUT_S = 120

# One block in so many may be an error of the clock, or a moment in which the machine stood still.
FEWEST_PACES = 20
# The settings of the program's calls in which nsys adds least, and in which it adds the usual.
TIGHT, USUAL = "tight", "python"

KEYS = ("low_ns", "usual_ns", "high_ns")

# By call and setting: the time of a call and the pace of the machine in each block.
Times = Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]


def profiler_cost(
    options: CaptureOptions,
    nsys: Nsys,
    announce: Callable[[], object],
    *,
    again: bool = False,
    kept_only: bool = False,
) -> dict[str, Any]:
    """Return what nsys adds to each call, as `run.json` keeps it: measured now, or kept from an earlier measurement.

    Args:
        options: What is recorded.
        nsys: The nsys that records.
        announce: Called before a measurement, which takes some seconds.
        again: Measure even if a measurement is kept.
        kept_only: Measure nothing: other ranks of the job use the same machine.

    Returns:
        ``conditions``, ``calls`` and ``pace``. ``calls`` has ``low_ns``, ``usual_ns``, ``high_ns`` and ``alone_ns`` of
        each kind, with the quartiles of each call and setting; it is empty where the measurement failed, which is not
        kept. ``pace`` has ``fastest_ns`` and ``slowest_ns`` of the same work.
    """
    conditions = conditions_of(options, nsys)
    path = kept_at({**conditions, "arguments": list(options.nsys_args)})
    kept = None if again else _kept(path)
    if kept is not None:
        return {"conditions": conditions, **kept}
    if kept_only:
        return {}
    announce()
    alone, recorded = measure(options, nsys)
    measured = {"calls": costs(alone, recorded), "pace": pace_range((*alone, *recorded))}
    if measured["calls"]:
        _keep(path, measured)
    return {"conditions": conditions, **measured}


def conditions_of(options: CaptureOptions, nsys: Nsys) -> dict[str, Any]:
    """Return what the cost depends on: nsys, the driver, the CPU, Python, and what is recorded."""
    return {
        "schema": SCHEMA,
        "nsys": nsys.version_text,
        "driver": _driver_version(),
        "cpu": _cpu_name(),
        "python": platform.python_version(),
        "traces": sorted(options.traces),
        "cuda_graph": options.cuda_graph,
        "cuda_events": options.cuda_events,
        "sample": options.sample,
        "context_switches": options.context_switches,
        "python_sampling_hz": options.python_sampling_hz,
        "gpu_metrics": bool(options.gpu_metrics),
        "cuda_memory": options.cuda_memory,
    }


def kept_at(conditions: Mapping[str, Any]) -> Path:
    """Return the file in the user's cache folder that keeps the costs for these conditions."""
    base = user_folder(os.environ, "XDG_CACHE_HOME", ".cache")
    text = json.dumps(conditions, sort_keys=True)
    return base / "nsyswrap" / "profiler_cost" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def measure(options: CaptureOptions, nsys: Nsys) -> tuple[list[Times], list[Times]]:
    """Run the program some times, alone and under nsys in turn, and return the call times of both."""
    alone, recorded = [], []
    try:
        with private_folder() as folder:
            for number in range(RUNS):
                alone.append(_timed((), folder / f"alone-{number}.json", COUNT))
                target = folder / f"recorded-{number}.json"
                recorded.append(_timed(_under_nsys(options, nsys, folder / f"run-{number}"), target))
    except (NsyswrapError, OSError, TimeoutError, ValueError):
        return [], []
    return alone, recorded


def _under_nsys(options: CaptureOptions, nsys: Nsys, folder: Path) -> tuple[str, ...]:
    """Return the command line of nsys that records a program with these options from its start to its end."""
    folder.mkdir()
    run_dir = RunDir(folder)
    run_dir.out.mkdir()
    whole = replace(options, delay_s=0.0, duration_s=0.0, capture_range="", pytorch="")
    argv = profile_invocation(whole, nsys, capabilities_of(nsys), run_dir, ()).argv
    return argv[: -len(run_dir.inner(()))]


def _timed(prefix: tuple[str, ...], target: Path, *arguments: str) -> Times:
    """Run the program with some arguments, and return the times that it wrote.

    Raises:
        OSError: It wrote none.
        ValueError: What it wrote cannot be read.
    """
    command = (sys.executable, "-m", "nsyswrap.capture.cost_probe", str(target), *arguments)
    excluded = frozenset(children_by_parent().get(os.getpid(), ()))
    with adopting_orphans():
        try:
            output_of((*prefix, *command), timeout_s=TIMEOUT_S)
        finally:
            kill_all(os.getpid(), excluded)  # an nsys that crashed leaves its agent and the program
            reap_children(excluded)
    found: Times = json.loads(target.read_text(encoding="utf-8"))
    return found


def costs(alone: Sequence[Times], recorded: Sequence[Times]) -> dict[str, dict[str, Any]]:
    """Return the cost of each kind of call from the times of its blocks, alone and under nsys, in ns.

    A kind may stand for several calls. Then its cost ranges from the cheapest call to the costliest.
    """
    if not alone or not recorded:
        return {}
    pace = statistics.median(pace for run in (*alone, *recorded) for _, pace in run["nothing"][TIGHT])
    probed = {
        name: _cost(name, alone, recorded, pace)
        for name in recorded[0]
        if all(name in run for run in (*alone, *recorded))
    }
    if "launch" not in probed and "driver_launch" in probed:
        probed["launch"] = probed["driver_launch"]
    found: dict[str, dict[str, Any]] = {}
    for kind, names in PROBED.items():
        there = [probed[name] for name in names if name in probed]
        if there:
            found[kind] = {
                "low_ns": min(each["low_ns"] for each in there),
                "usual_ns": there[-1]["usual_ns"],
                "high_ns": max(each["high_ns"] for each in there),
                "alone_ns": min(each["alone_ns"] for each in there),
                "quartiles_ns": {name: probed[name]["quartiles_ns"] for name in names if name in probed},
            }
    one, many = (probed.get(name) for name in ("graph_1", f"graph_{GRAPH_NODES}"))
    if one and many:
        node = [round(max(many[key] - one[key], 0) / (GRAPH_NODES - 1)) for key in (*KEYS, "alone_ns")]
        found["graph_node"] = dict(zip((*KEYS, "alone_ns"), (*sorted(node[:-1]), node[-1]), strict=True))
    if "launch" in found:
        found |= _launches_of_steps(found["launch"], alone, recorded)
    return found


def _launches_of_steps(
    launch: Mapping[str, Any], alone: Sequence[Times], recorded: Sequence[Times]
) -> dict[str, dict[str, Any]]:
    """Return what nsys adds to the launches of training steps, by kind; nothing where no steps were timed.

    The step of linear layers has launches of one kind and gives their cost. In the step of convolutions that cost is
    taken from all other launches, and the rest belongs to those of the convolutions.

    Args:
        launch: What it adds to a launch without PyTorch: the least, and how long the call takes alone.
        alone: The times without nsys, with the number of launches.
        recorded: The times under nsys.
    """
    plain, whole = (_added_to_step(name, alone, recorded) for name in ("plain_step", "convolution_step"))
    if plain is None or whole is None:
        return {}
    (added, counts), (all_added, all_counts) = plain, whole
    others, own = (all_counts.get(kind, 0) for kind in (LAUNCH, CONVOLUTION_LAUNCH))
    per_launch = [each / sum(counts.values()) for each in added]
    found = {LAUNCH: _with_costs(launch, per_launch)}
    if own:
        per_own = [(each - others * less) / own for each, less in zip(all_added, per_launch, strict=True)]
        found[CONVOLUTION_LAUNCH] = _with_costs(launch, per_own)
    return found


def _with_costs(launch: Mapping[str, Any], added: Sequence[float]) -> dict[str, Any]:
    """Return a launch with what nsys adds usually and at most, never less than the least."""
    usual = max(added[0], launch["low_ns"])
    return {**launch, "usual_ns": round(usual), "high_ns": round(max(usual, added[1], launch["high_ns"]))}


def _added_to_step(
    name: str, alone: Sequence[Times], recorded: Sequence[Times]
) -> tuple[list[float], Mapping[str, float]] | None:
    """Return what nsys adds to a step, in ns: usually and at most, and the launches of a step by kind.

    Only blocks at the fastest pace of the machine count: how much slower a slow machine is differs from code to code.
    The usual is the difference of their medians: what slows only some steps under nsys is part of it. None where a run
    has no such blocks, or where nothing was timed or counted.
    """
    runs = [[run[name][TIGHT] for run in each if name in run] for each in (alone, recorded)]
    counts = next((run[f"{name}_launches"] for run in alone if f"{name}_launches" in run), {})
    paces = [pace for run in (*alone, *recorded) for pace in _paces(run)]
    if not all(runs) or not counts:
        return None
    fastest = min(paces) * FAST
    lengths = [[time for run in each for time, pace in run if pace <= fastest] for each in runs]
    if min(map(len, lengths)) < FEWEST_BLOCKS:
        return None
    (_, without, _), (_, under, most) = (statistics.quantiles(each) for each in lengths)
    return [under - without, most - without], {kind: blocks[0][0] for kind, blocks in counts.items()}


def pace_range(runs: Sequence[Times]) -> dict[str, int]:
    """Return how long the work that shows the pace of the machine took at its fastest and at its slowest times, in ns.

    The extremes of a few blocks may be errors, so one block in twenty is left out on each side; nothing of too few.
    """
    paces = sorted(pace for run in runs for pace in _paces(run))
    if len(paces) < FEWEST_PACES:
        return {}
    cut = len(paces) // FEWEST_PACES
    return {"fastest_ns": round(paces[cut]), "slowest_ns": round(paces[-1 - cut])}


def _paces(run: Times) -> list[float]:
    """Return the paces of the machine in the blocks of one run."""
    return [pace for settings in run.values() for blocks in settings.values() for _, pace in blocks if pace]


def _cost(name: str, alone: Sequence[Times], recorded: Sequence[Times], pace: float) -> dict[str, Any]:
    """Return the cost of one call of the program, over all settings, at the usual pace of the machine."""

    def at_pace(runs: Sequence[Times], call: str, setting: str) -> list[float]:
        return [time * pace / its_pace if its_pace else time for run in runs for time, its_pace in run[call][setting]]

    quartiles = {}
    for setting in recorded[0][name]:
        without, under = (statistics.quantiles(at_pace(runs, name, setting)) for runs in (alone, recorded))
        quartiles[setting] = [round(under[at] - without[2 - at]) for at in range(3)]
    first = next(iter(quartiles))
    clock = statistics.median(at_pace(alone, "nothing", TIGHT)) if first == TIGHT else 0.0
    length = statistics.median(at_pace(alone, name, first)) - clock
    return {
        "low_ns": max(min(each[0] for each in quartiles.values()), 0),
        "usual_ns": max(quartiles.get(USUAL, quartiles[first])[1], 0),
        "high_ns": max(*(each[2] for each in quartiles.values()), 0),
        "alone_ns": round(max(length, 0)),
        "quartiles_ns": quartiles,
    }


def _driver_version() -> str:
    """Return the version of the NVIDIA driver; empty where there is none."""
    try:
        words = DRIVER.read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return ""
    return next((word for word in words if word[:1].isdigit()), "")


def _cpu_name() -> str:
    try:
        lines = CPU.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _kept(path: Path) -> dict[str, Any] | None:
    """Return the costs in a file; None where there is none, or where it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("calls") else None


def _keep(path: Path, measured: Mapping[str, Any]) -> None:
    """Write the costs to a file for this user only; nothing is kept if the folder cannot be written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(measured, sort_keys=True), encoding="utf-8")
        fresh.replace(path)
    except OSError:
        return
