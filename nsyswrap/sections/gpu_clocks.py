"""The clocks of the GPUs in the window, and whether power or heat lowered them, as the driver reports it (NVML).

The energy of a recorded step::

    samples     |.......|.......|.......|.......|.......|
    steps           |-- at least 2 s ---------------|
    at least            |.......|.......|.......|
    at most     |.......|.......|.......|.......|.......|

The counters are sampled every 200 ms, so the energy between the outer samples is the most, that between the inner ones
the least. It is that of the whole GPU: other programs on it count, too. What a kernel or a layer takes is not known.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.base.interval import Interval, between
from nsyswrap.base.intervals import Times, Window
from nsyswrap.events.host_record import GpuSamples
from nsyswrap.loop.context import TraceContext, sampled_device
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import Finding
from nsyswrap.rules.gpu import SLOWED
from nsyswrap.sections.severity import WARNING_SHARE, make_finding
from nsyswrap.what_if.saving import Saving

COLUMNS = (
    *("device_id", "gpu", "slowed_share", "why", "median_mhz", "max_mhz"),
    *("mean_watt", "limit_watt", "max_celsius", "process_count"),
)
# Bits of nvmlClocksEventReasons. The other bits (an idle GPU, clocks that a user chose) do not slow work that wants
# more. Source: nvml.h of CUDA 13.
REASONS = {
    0x4: "the power limit",
    0x8: "a hardware slowdown for power or heat",
    0x20: "heat",
    0x40: "heat",
    0x80: "the power supply",
}
ADVICE = {
    "the power limit": "Other numbers of this report are those of a slower GPU. Raise the power limit (nvidia-smi -pl) "
    "if you may, or compare runs only at the same limit.",
    "heat": "Other numbers of this report are those of a slower GPU. Look after its cooling, and measure again.",
}


# Shorter runs have too few samples. Source: ours; ten samples, so that both ends are a fifth at most.
LEAST_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class GpuClock:
    """The clock of one GPU in a window.

    Attributes:
        device_id: The GPU in the capture; None where it is not known which of them it is.
        gpu: Its number and name on the machine.
        slowed_share: Share of the samples with work on the GPU in which power or heat lowered the clock.
        lost_share: Share of the highest clock that was missing then, on average over all samples.
        why: Why, in words; the most frequent reason first.
        median_mhz: Median clock of these samples; of all samples where there are none.
        limit_watt: Power limit; 0 if unknown.
        max_celsius: Highest temperature.
        process_count: Most processes that computed on it at once, as far as the driver tells.
    """

    device_id: int | None
    gpu: str
    slowed_share: float
    lost_share: float
    why: str
    median_mhz: int
    max_mhz: int
    mean_watt: int
    limit_watt: int
    max_celsius: int
    process_count: int


def find_clocks(context: TraceContext, window: Window) -> list[GpuClock]:
    """Return the clock of each GPU that was sampled inside its part of the window and computed for the program."""
    clocks, own = [], find_own_windows(context, window)
    for gpu in context.settings.host.gpus:
        device = sampled_device(context, gpu)
        values = _inside(gpu, window if device is None else own.on(device), context.settings.host.times)
        if values is not None and (device is not None or not context.operations.devices):
            clocks.append(_clock(gpu, device, values))
    return clocks


def _inside(gpu: GpuSamples, window: Window, times: Times) -> dict[str, Times] | None:
    """Return the values at each sample of the window, with one before and after it; a value holds until it changes.

    None where the samples do not reach the window.
    """
    first = max(int(np.searchsorted(times, window.start_ns, side="right")) - 1, 0)
    at = times[first : int(np.searchsorted(times, window.end_ns, side="left")) + 1]
    if not len(at) or at[-1] < window.start_ns or at[0] >= window.end_ns:
        return None
    row = np.searchsorted(gpu.samples.at, at, side="right") - 1
    row = row[row >= 0]
    return {name: each[row] for name, each in gpu.samples.values.items()} if len(row) else None


def _clock(gpu: GpuSamples, device: int | None, values: dict[str, Times]) -> GpuClock:
    reasons, clock = values["reasons"], values["sm_mhz"]
    mask = sum(REASONS)
    slowed: npt.NDArray[np.bool_] = (reasons & mask) != 0
    below = np.maximum(gpu.max_sm_mhz - clock, 0) / max(gpu.max_sm_mhz, 1)
    counts: dict[str, int] = {}
    for bit, text in REASONS.items():
        counts[text] = counts.get(text, 0) + int(((reasons & bit) != 0).sum())
    named = [text for text, count in sorted(counts.items(), key=lambda each: -each[1]) if count]
    return GpuClock(
        device_id=device,
        gpu=f"GPU {gpu.index}, {gpu.name}",
        slowed_share=float(slowed.mean()),
        lost_share=float((below * slowed).mean()),
        why=" and ".join(named),
        median_mhz=int(np.median(clock[slowed] if slowed.any() else clock)),
        max_mhz=gpu.max_sm_mhz,
        mean_watt=round(float(values["power_mw"].mean()) / 1000),
        limit_watt=round(gpu.power_limit_mw / 1000),
        max_celsius=int(values["celsius"].max()),
        process_count=int(values["processes"].max()),
    )


def is_slowed(clock: GpuClock) -> bool:
    """Return whether power or heat lowered the clock so much that the verdict states it first."""
    return clock.lost_share >= WARNING_SHARE


def slowed_finding(clock: GpuClock, window: Window) -> Finding | None:
    """Return the finding on a GPU that was slowed; None for one that was not.

    The time lost is that of work which keeps pace with the clock. Work that waits for memory loses less.
    """
    if not is_slowed(clock):
        return None
    lost = round(clock.lost_share * window.length_ns)
    first = clock.why.split(" and ")[0]
    return make_finding(
        rule=SLOWED,
        headline=(
            f"The GPU ran at {clock.median_mhz} of {clock.max_mhz} MHz for {units.share(clock.slowed_share)} of the "
            f"time because of {clock.why}."
        ),
        lost_ns=lost,
        saving=Saving(
            between(0, lost), "estimated", ("at most: work that waits for memory does not keep pace with the clock",)
        ),
        advice=ADVICE.get(first, ADVICE["heat"]),
        evidence=(
            f"{clock.gpu}: {clock.mean_watt} W on average, limit {clock.limit_watt} W, at most {clock.max_celsius} °C",
        ),
        device_id=clock.device_id,
        window=window,
        is_note=True,
    )


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
