"""Compare nsyswrap's step-time breakdown with PyTorch's own profiler: `breakdown_table.py report.json trace.json`.

The first is nsyswrap's report of the training loop under nsys, the second the trace of the same loop under
torch.profiler. Markdown goes to stdout.
"""

import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from nsyswrap.hardware.occupancy_calculator import LIMITS, WARP_THREADS, Limits, Shapes, occupancy

Numbers = Mapping[str, float]


def beside(name: str) -> ModuleType:
    """Return a module from the folder of this file."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def ours(report: Mapping[str, Any]) -> dict[str, float]:
    """Return nsyswrap's numbers: mean ns of each role, and the three shares."""
    sections = report["sections"]
    numbers = {row["role"]: float(row["mean_ns"]) for row in sections["step_breakdown"]["tables"]["mean"]}
    occupancy_facts = sections["occupancy"]["facts"]
    return {
        **{role: ns for role, ns in numbers.items() if role != "communication"},
        "utilization": sections["step_breakdown"]["facts"]["gpu_utilization_share"]["value"],
        "sm_efficiency": occupancy_facts["sm_efficiency_estimate_share"]["value"],
        "achieved": occupancy_facts["achieved_estimate_share"]["value"],
    }


def theirs(trace: Mapping[str, Any], *, on_device: bool) -> dict[str, float]:
    """Return the plugin's numbers of a trace, with steps as the host or as the device sees them."""
    reading = beside("torch_trace")
    events = reading.events_in(trace)
    steps = reading.device_steps(events) if on_device else reading.host_steps(events)
    span = (steps[0][0], steps[-1][1])
    kernels = reading.of_role(events, "kernel")
    theirs_by_kernel = {at: float(each.args["est. achieved occupancy %"]) / 100 for at, each in enumerate(kernels)}
    unlimited = {at: unlimited_share(each.args, trace) for at, each in enumerate(kernels)}
    return {
        **reading.breakdown(events, steps),
        "utilization": reading.utilization(events, span),
        "sm_efficiency": reading.sm_efficiency(events, span),
        "achieved": reading.achieved_occupancy(events, span, theirs_by_kernel),
        "achieved_unlimited": reading.achieved_occupancy(events, span, unlimited),
    }


def unlimited_share(args: Mapping[str, Any], trace: Mapping[str, Any]) -> float:
    """Return a kernel's occupancy by the plugin's formula, without its limit of 48 KiB of shared memory."""
    gpu = trace["deviceProperties"][0]
    limits = limits_of(gpu)
    threads = int(np.prod(args["block"]))
    shared = int(args["shared memory"])
    shape = Shapes(*(np.array([each], np.int64) for each in (threads, int(args["registers per thread"]), shared, 0)))
    resident = int(occupancy(limits, shape)[0][0])
    return min(resident, float(args["blocks per SM"])) * threads / (limits.warps * WARP_THREADS)


def limits_of(gpu: Mapping[str, Any]) -> Limits:
    """Return the limits of the GPU that a trace names."""
    return LIMITS[int(gpu["computeMajor"]), int(gpu["computeMinor"])]


def table(columns: Mapping[str, Numbers], roles: Sequence[str]) -> str:
    """Return two Markdown tables: mean times of the roles, and the shares."""
    heads = "".join(f"{name} | " for name in columns)
    lines = [f"| mean a step | {heads}", f"|---|{'---|' * len(columns)}"]
    steps = {name: sum(numbers[role] for role in roles) for name, numbers in columns.items()}
    for role in roles:
        cells = (
            f"{numbers[role] / 1e6:.3f} ms, {numbers[role] / steps[name]:.1%}" for name, numbers in columns.items()
        )
        lines.append(f"| {role} | {' | '.join(cells)} |")
    lines.append(f"| step | {' | '.join(f'{each / 1e6:.3f} ms' for each in steps.values())} |")
    lines += ["", f"| share | {heads}", f"|---|{'---|' * len(columns)}"]
    for key in ("utilization", "sm_efficiency", "achieved", "achieved_unlimited"):
        cells = (f"{numbers[key]:.2%}" if key in numbers else "-" for numbers in columns.values())
        lines.append(f"| {key} | {' | '.join(cells)} |")
    return "\n".join(line.rstrip() for line in lines)


def main(report: str, trace: str) -> None:
    loaded = json.loads(Path(trace).read_text(encoding="utf-8"))
    columns = {
        "nsyswrap": ours(json.loads(Path(report).read_text(encoding="utf-8"))),
        "torch.profiler, steps on the host": theirs(loaded, on_device=False),
        "torch.profiler, steps as the plugin bounds them": theirs(loaded, on_device=True),
    }
    print(table(columns, beside("torch_trace").ROLES))


if __name__ == "__main__":
    main(*sys.argv[1:3])
