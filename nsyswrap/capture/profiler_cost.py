"""Measure what nsys adds to each call that it records on this machine, and keep it for the next profile.

A short program (:mod:`nsyswrap.capture.cost_probe`) makes calls of each kind, alone, under nsys that records, and under
nsys that is armed, in turns (:mod:`nsyswrap.capture.probe_turns`). The difference is the cost. It depends on nsys, the
driver, the CPU and what is recorded, so it is measured again when one of these changes.
"""

import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.cost_probe import TIGHT
from nsyswrap.capture.kept_measurement import driver_version, keep, kept, kept_at
from nsyswrap.capture.locate import Nsys, capabilities_of
from nsyswrap.capture.options import ARMED_RANGE, CaptureOptions, profile_invocation
from nsyswrap.capture.probe_turns import LAUNCHES, LONGEST, Times, run_probes
from nsyswrap.capture.run_dir import RunDir, private_folder
from nsyswrap.hardware.profiler_cost import ARMED, CONVOLUTION_LAUNCH, LAUNCH, SLOWDOWN

SCHEMA = "nsyswrap.profiler-cost/10"
KIND = "profiler_cost"
CPU = Path("/proc/cpuinfo")

GRAPH_NODES = 20
# A launch as PyTorch makes it, with queries of the device.
QUERIED = "launch_with_queries"
# The calls of the program that stand for each kind; the last one is the usual form.
PROBED = {
    "launch": ("launch", QUERIED),
    "graph_launch": ("graph_1",),
    "call": ("event_record", "event_query", "stream_wait", "is_capturing", "synchronize"),
    "range": ("range",),
    "mark": ("mark",),
    "os_call": ("short_os_call", "os_call"),
    "operation": ("queued_empty_kernel", "queued_short_kernel"),
    "graph_operation": ("queued_empty_node", "queued_short_node"),
}
# The training step whose work from one launch to the next stands for each kind of launch.
STEP_OF = {LAUNCH: "plain_step", CONVOLUTION_LAUNCH: "convolution_step"}

# One block in so many may be an error of the clock, or a moment in which the machine stood still.
FEWEST_PACES = 20
# The setting of the program's calls in which nsys adds the usual.
USUAL = "python"

KEYS = ("low_ns", "usual_ns", "high_ns")
# Why nothing was measured, in what ``profiler_cost`` returns.
FAILURE = "failure"


def profiler_cost(
    options: CaptureOptions,
    nsys: Nsys,
    announce: Callable[[], object],
    *,
    again: bool = False,
    kept_only: bool = False,
) -> dict[str, Any]:
    """Return what nsys adds to each call, as `run.json` keeps it: measured now, or kept from an earlier measurement.

    ``announce`` is called before a measurement, which takes some seconds. With ``kept_only`` nothing is measured: other
    ranks of the job use the same machine.

    Returns:
        ``conditions``, ``calls``, ``pace`` and ``armed``. ``calls`` has ``low_ns``, ``usual_ns``, ``high_ns`` and
        ``alone_ns`` of each kind, with the quartiles of each call and setting; it is empty where the measurement
        failed, which is not kept: ``failure`` says why. ``pace`` has ``fastest_ns`` and ``slowest_ns`` of the same
        work, ``armed`` how many times as long training steps take while nsys is armed; None without steps.
    """
    conditions = conditions_of(options, nsys)
    path = kept_at(KIND, {**conditions, "arguments": list(options.nsys_args)})
    found = {} if again else kept(path)
    if found.get("calls"):
        return {"conditions": conditions, **found}
    if kept_only:
        return {}
    announce()
    try:
        alone, recorded, armed = measure(options, nsys)
    except (NsyswrapError, OSError, ValueError) as error:
        return {"conditions": conditions, "calls": {}, "pace": {}, FAILURE: str(error)}
    ratios = [_ratios(alone, armed, step, TIGHT)[1] for step in STEP_OF.values() if step in alone and step in armed]
    slowed = max(round(statistics.mean(ratios), 3), 1.0) if ratios else None
    measured = {"calls": costs(alone, recorded), "pace": pace_range((alone, recorded)), ARMED: slowed}
    if measured["calls"]:
        keep(path, measured)
    return {"conditions": conditions, **measured}


def conditions_of(options: CaptureOptions, nsys: Nsys) -> dict[str, Any]:
    """Return what the cost depends on: nsys, the driver, the CPU, Python, and what is recorded."""
    return {
        "schema": SCHEMA,
        "nsys": nsys.version_text,
        "driver": driver_version(),
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


def measure(options: CaptureOptions, nsys: Nsys) -> tuple[Times, Times, Times]:
    """Run the program alone, under nsys, and under nsys that is armed and silent, and return the call times of each.

    All run at the same time. Where a GPU lets one process use it, the others have no CUDA calls then, and they run one
    after the other.

    Raises:
        NsyswrapError: nsys cannot record a program with these options.
        OSError: A program could not be started, ended early or took too long.
        ValueError: What it answered cannot be read.
    """
    with private_folder() as folder:
        ways = [replace(options, capture_range=each) for each in ("", ARMED_RANGE)]

        def prefixes(name: str) -> list[tuple[str, ...]]:
            return [(), *(_under_nsys(each, nsys, folder / f"{name}{n}-{folder.name}") for n, each in enumerate(ways))]

        runs = run_probes(prefixes("run"), folder)
        if len({frozenset(_timed(each)) for each in runs}) > 1:
            runs = [found for prefix in prefixes("again") for found in run_probes([prefix], folder)]
    alone, recorded, armed = runs
    return alone, recorded, armed


def _timed(run: Times) -> list[str]:
    return [name for name in run if not name.endswith((LAUNCHES.format(""), LONGEST.format("")))]


def _under_nsys(options: CaptureOptions, nsys: Nsys, folder: Path) -> tuple[str, ...]:
    """Return the command line of nsys that records a program with these options.

    With a range that the program never begins, nsys stays armed. Its session has the name of the folder, which no other
    run on the machine may have.
    """
    folder.mkdir()
    run_dir = RunDir(folder)
    run_dir.out.mkdir()
    whole = replace(options, delay_s=0.0, duration_s=0.0, pytorch="", steps="")
    argv = profile_invocation(whole, nsys, capabilities_of(nsys), run_dir, ()).argv
    return argv[: -len(run_dir.inner(()))]


def costs(alone: Times, recorded: Times) -> dict[str, dict[str, Any]]:
    """Return the cost of each kind of call from the times of its blocks, alone and under nsys, in ns.

    A kind may stand for several calls. Then its cost ranges from the cheapest call to the costliest.
    """
    probed = {name: _cost(name, alone, recorded) for name in _timed(recorded) if name in alone}
    if "launch" not in probed and "driver_launch" in probed:
        probed["launch"] = probed["driver_launch"]
    by_kind: dict[str, dict[str, Any]] = {}
    for kind, names in PROBED.items():
        there = [probed[name] for name in names if name in probed]
        if there:
            by_kind[kind] = {
                "low_ns": min(each["low_ns"] for each in there),
                "usual_ns": there[-1]["usual_ns"],
                "high_ns": max(each["high_ns"] for each in there),
                "alone_ns": min(each["alone_ns"] for each in there),
                "quartiles_ns": {name: probed[name]["quartiles_ns"] for name in names if name in probed},
            }
    one, many = (probed.get(name) for name in ("graph_1", f"graph_{GRAPH_NODES}"))
    if one and many:
        node = [round(max(many[key] - one[key], 0) / (GRAPH_NODES - 1)) for key in (*KEYS, "alone_ns")]
        by_kind["graph_node"] = dict(zip((*KEYS, "alone_ns"), (*sorted(node[:-1]), node[-1]), strict=True))
    if "launch" in by_kind:
        by_kind |= _launches_of_steps(by_kind["launch"], alone, recorded)
    return by_kind


def _launches_of_steps(launch: Mapping[str, Any], alone: Times, recorded: Times) -> dict[str, dict[str, Any]]:
    """Return what nsys adds to the launches of training steps, by kind; nothing where no steps were timed.

    The step of linear layers has launches of one kind and gives their cost. In the step of convolutions that cost is
    taken from all other launches, and the rest belongs to those of the convolutions. ``launch`` is what it adds to a
    launch without PyTorch: the least, and how long the call takes alone.
    """
    counts = {kind: _launches(alone, step) for kind, step in STEP_OF.items()}
    if not all(counts.values()) or not all(step in run for step in STEP_OF.values() for run in (alone, recorded)):
        return {}
    added = {kind: _quartiles(alone, recorded, step, TIGHT) for kind, step in STEP_OF.items()}
    others, own = (counts[CONVOLUTION_LAUNCH].get(kind, 0) for kind in (LAUNCH, CONVOLUTION_LAUNCH))
    per_launch = [each / sum(counts[LAUNCH].values()) for each in added[LAUNCH]]
    costs_of = {kind: partial(_with_costs, launch, longest=_longest(alone, step)) for kind, step in STEP_OF.items()}
    by_kind = {LAUNCH: {**costs_of[LAUNCH](per_launch), SLOWDOWN: _slowdown(alone, recorded, STEP_OF[LAUNCH])}}
    if own:
        per_own = [
            (each - others * less) / own for each, less in zip(added[CONVOLUTION_LAUNCH], per_launch, strict=True)
        ]
        slowdown = _slowdown(alone, recorded, STEP_OF[CONVOLUTION_LAUNCH])
        by_kind[CONVOLUTION_LAUNCH] = {**costs_of[CONVOLUTION_LAUNCH](per_own), SLOWDOWN: slowdown}
    return by_kind


def _launches(run: Times, step: str) -> dict[str, float]:
    """Return how many kernels a step launches, by the kind of launch."""
    return {kind: count for kind, ((count, _),) in run.get(LAUNCHES.format(step), {}).items()}


def _longest(run: Times, step: str) -> float:
    """Return the longest work before a launch of a step, as a multiple of the mean."""
    return run.get(LONGEST.format(step), {TIGHT: [(1.0, 0.0)]})[TIGHT][0][0]


def _with_costs(launch: Mapping[str, Any], added: Sequence[float], longest: float) -> dict[str, Any]:
    """Return a launch with what nsys adds usually and at most, never less than the least.

    The most is what it adds to the launch with the longest work before it.
    """
    _, usual, most = added
    usual = max(usual, launch["low_ns"])
    return {**launch, "usual_ns": round(usual), "high_ns": round(max(usual * longest, most, launch["high_ns"]))}


def _slowdown(alone: Times, recorded: Times, step: str) -> list[float]:
    """Return how many times as long work takes under nsys, at least 1: a step usually, and at most.

    The most is the third quartile of the step's blocks, or of those of a launch with queries: work that is nothing but
    calls of CUDA.
    """
    of_step = _ratios(alone, recorded, step, TIGHT)
    of_calls = [_ratios(alone, recorded, QUERIED, setting) for setting in alone.get(QUERIED, ())]
    return [max(round(each, 3), 1.0) for each in (of_step[1], max(each[2] for each in (of_step, *of_calls)))]


def _ratios(alone: Times, recorded: Times, call: str, setting: str) -> list[float]:
    """Return how many times as long a call takes under nsys: the quartiles over its blocks."""
    pairs = zip(alone[call][setting], recorded[call][setting], strict=True)
    return statistics.quantiles(under / without for (without, _), (under, _) in pairs)


def _quartiles(alone: Times, recorded: Times, call: str, setting: str) -> list[float]:
    """Return by how much longer a call takes under nsys, in ns: the quartiles over its blocks."""
    pairs = zip(alone[call][setting], recorded[call][setting], strict=True)
    return statistics.quantiles(under - without for (without, _), (under, _) in pairs)


def pace_range(runs: Sequence[Times]) -> dict[str, int]:
    """Return how long the work that shows the pace of the machine took at its fastest and at its slowest times, in ns.

    The extremes of a few blocks may be errors, so one block in twenty is left out on each side; nothing of too few.
    """
    paces = sorted(
        pace for run in runs for settings in run.values() for blocks in settings.values() for _, pace in blocks if pace
    )
    if len(paces) < FEWEST_PACES:
        return {}
    cut = len(paces) // FEWEST_PACES
    return {"fastest_ns": round(paces[cut]), "slowest_ns": round(paces[-1 - cut])}


def _cost(name: str, alone: Times, recorded: Times) -> dict[str, Any]:
    """Return the cost of one call of the program, over all settings."""
    quartiles = {
        setting: [round(each) for each in _quartiles(alone, recorded, name, setting)] for setting in alone[name]
    }
    first = next(iter(quartiles))
    clock = statistics.median(time for time, _ in alone["nothing"][TIGHT]) if first == TIGHT else 0.0
    length = statistics.median(time for time, _ in alone[name][first]) - clock
    return {
        "low_ns": max(min(each[0] for each in quartiles.values()), 0),
        "usual_ns": max(quartiles.get(USUAL, quartiles[first])[1], 0),
        "high_ns": max(*(each[2] for each in quartiles.values()), 0),
        "alone_ns": round(max(length, 0)),
        "quartiles_ns": quartiles,
    }


def _cpu_name() -> str:
    try:
        lines = CPU.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
