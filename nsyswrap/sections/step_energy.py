"""The energy of a recorded step, from the counters of the GPUs (NVML).

::

    samples     |.......|.......|.......|.......|.......|
    steps           |-- at least 2 s ---------------|
    at least            |.......|.......|.......|
    at most     |.......|.......|.......|.......|.......|

The counters are sampled every 200 ms, so the energy between the outer samples is the most, that between the inner ones
the least. It is that of the whole GPU: other programs on it count, too. What a kernel or a layer takes is not known.
"""

import numpy as np

from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Window
from nsyswrap.events.host_record import GpuSamples
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.gpu_samples import sampled_device
from nsyswrap.loop.own_windows import find_own_windows

# Shorter runs have too few samples. Source: ours; ten samples, so that both ends are a fifth at most.
LEAST_NS = 2_000_000_000


def find_step_energy(context: TraceContext, window: Window) -> Interval[float] | None:
    """Return the joules of a measured step on all GPUs of the program; None where they are not known."""
    steps = context.steps.measured_count if window.is_of_steps else 0
    if not steps or window.length_ns < LEAST_NS:
        return None
    own, found = find_own_windows(context, window), []
    for gpu in context.settings.host.gpus:
        device = sampled_device(context, gpu)
        if device is not None:
            energy = _energy_mj(gpu, own.on(device))
            if energy is None:
                return None
            found.append(energy)
    if not found:
        return None
    low, point, high = (sum(each) / steps / 1000 for each in zip(*found, strict=True))
    return Interval(low, point, high)


def _energy_mj(gpu: GpuSamples, window: Window) -> tuple[int, int, int] | None:
    """Return the energy of a GPU in a window, in mJ: at least, in between, and at most; None if samples are missing."""
    at, energy = gpu.energy.at, gpu.energy.values.get("mj")
    if energy is None or not len(at) or at[0] > window.start_ns or at[-1] < window.end_ns:
        return None
    inner = np.searchsorted(at, window.start_ns, side="left"), np.searchsorted(at, window.end_ns, side="right") - 1
    outer = np.searchsorted(at, window.start_ns, side="right") - 1, np.searchsorted(at, window.end_ns, side="left")
    low, high = (int(energy[last] - energy[first]) for first, last in (inner, outer))
    return max(low, 0), gpu.energy.growth("mj", window.start_ns, window.end_ns), high


def energy_words(energy: Interval[float]) -> str:
    """Return the energy of a step with its range."""
    return f"{energy.point:.3g} J, {energy.low:.3g} to {energy.high:.3g}"
