"""Evaluate a trace of PyTorch's profiler by the definitions of its TensorBoard plugin.

The plugin is no longer maintained. Its definitions are in docs/sections/step_breakdown.md: a nanosecond of a step goes
to the first role that holds, of kernel, memcpy, memset, runtime, data loader, CPU and other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Spans, covered, merge, subtract

Times = npt.NDArray[np.int64]

ROLES = ("kernel", "memcpy", "memset", "runtime", "dataloader", "cpu_exec", "other")
STEP = "ProfilerStep#"
LOADER = "enumerate(DataLoader)"
# Categories of events, as Kineto writes them, by role.
CATEGORIES: Mapping[str, frozenset[str]] = {
    "kernel": frozenset({"kernel"}),
    "memcpy": frozenset({"gpu_memcpy"}),
    "memset": frozenset({"gpu_memset"}),
    "runtime": frozenset({"cuda_runtime", "cuda_driver"}),
    "cpu_exec": frozenset({"cpu_op", "user_annotation", "python_function"}),
}
ON_DEVICE = ("kernel", "memcpy", "memset")


@dataclass(frozen=True, slots=True)
class Event:
    """One event with a length.

    Attributes:
        args: What else is known, such as ``blocks per SM``.
    """

    name: str
    category: str
    start: int
    end: int
    args: Mapping[str, Any]


def events_in(trace: Mapping[str, Any]) -> list[Event]:
    """Return the events with a length; times of the trace are microseconds with decimals."""
    found = []
    for each in trace["traceEvents"]:
        if each.get("ph") == "X" and "dur" in each:
            start = round(float(each["ts"]) * 1000)
            end = start + round(float(each["dur"]) * 1000)
            found.append(Event(each["name"], each.get("cat", ""), start, end, each.get("args", {})))
    return found


def host_steps(events: Sequence[Event]) -> list[tuple[int, int]]:
    steps = [each for each in events if each.name.startswith(STEP) and each.category == "user_annotation"]
    return sorted((each.start, each.end) for each in steps)


def device_steps(events: Sequence[Event]) -> list[tuple[int, int]]:
    """Return the steps as the plugin counts them: each lasts until its last operation has ended on the device."""
    launch = {each.args.get("correlation"): each.start for each in of_role(events, "runtime")}
    device = [each for role in ON_DEVICE for each in of_role(events, role)]
    last: dict[int, int] = {}
    hosts = host_steps(events)
    for each in device:
        when = launch.get(each.args.get("correlation"))
        at = next((index for index, (start, end) in enumerate(hosts) if when is not None and start <= when < end), None)
        if at is not None:
            last[at] = max(last.get(at, 0), each.end)
    steps: list[tuple[int, int]] = []
    for at, (start, end) in enumerate(hosts):
        begins = max(start, steps[-1][1]) if steps else start
        steps.append((begins, max(begins, end, last.get(at, end))))
    return steps


def of_role(events: Sequence[Event], role: str) -> list[Event]:
    """Return the events of a role; steps and waits for data do not count as work of the program."""
    if role == "dataloader":
        return [each for each in events if each.name.startswith(LOADER)]
    return [each for each in events if each.category in CATEGORIES[role] and not each.name.startswith((STEP, LOADER))]


def breakdown(events: Sequence[Event], steps: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Return the mean time of each role a step, in ns; they add up to the mean step."""
    start, end = (np.array(each, np.int64) for each in zip(*steps, strict=True))
    taken: list[Spans] = []
    mean: dict[str, float] = {}
    for role in ROLES[:-1]:
        spans = spans_of(of_role(events, role))
        for each in taken:
            spans = subtract(spans, each)
        taken.append(spans)
        mean[role] = float(covered(spans, start, end).mean())
    mean["other"] = float((end - start).mean()) - sum(mean.values())
    return mean


def spans_of(events: Sequence[Event]) -> Spans:
    return merge(np.array([each.start for each in events], np.int64), np.array([each.end for each in events], np.int64))


def utilization(events: Sequence[Event], span: tuple[int, int]) -> float:
    """Return the share of a span in which a kernel runs."""
    low, high = np.array([span[0]]), np.array([span[1]])
    return float(covered(spans_of(of_role(events, "kernel")), low, high)[0]) / (span[1] - span[0])


def sm_efficiency(events: Sequence[Event], span: tuple[int, int]) -> float:
    """Return the plugin's estimate: the time mean of min(1, blocks of all running kernels / multiprocessors)."""
    kernels = of_role(events, "kernel")
    start = np.clip([each.start for each in kernels], *span)
    end = np.clip([each.end for each in kernels], *span)
    share = np.array([float(each.args["blocks per SM"]) for each in kernels])
    at, change = np.concatenate([start, end]), np.concatenate([share, -share])
    order = np.argsort(at, kind="stable")
    level = np.minimum(np.cumsum(change[order]), 1.0)[:-1]
    return float(np.dot(level, np.diff(at[order]))) / (span[1] - span[0])


def achieved_occupancy(events: Sequence[Event], span: tuple[int, int], share_of: Mapping[int, float]) -> float:
    """Return the mean of an occupancy of each kernel, weighted by its time inside a span."""
    kernels = of_role(events, "kernel")
    clipped = (
        np.clip([each.end for each in kernels], *span) - np.clip([each.start for each in kernels], *span)
    ).astype(float)
    return float(np.average([share_of[at] for at in range(len(kernels))], weights=clipped))
