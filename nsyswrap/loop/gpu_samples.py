"""Which GPU of a capture the driver's samples (NVML) are about, and its clock at any time."""

import numpy as np

from nsyswrap.base.intervals import Times
from nsyswrap.events.host_record import GpuSamples
from nsyswrap.loop.context import TraceContext

# The bus, device and function of a PCI place; tools write the domain with four digits or eight.
_PLACE = len("1B:00.0")


def sampled_device(context: TraceContext, gpu: GpuSamples) -> int | None:
    """Return the device of the capture at this GPU's place on the bus, or the only device of a machine with one GPU."""
    devices = context.operations.devices
    if len(devices) == 1 and len(context.settings.host.gpus) == 1:
        return int(devices[0])
    places = {each.bus[-_PLACE:].upper(): each.device_id for each in context.trace.gpus if each.bus}
    found = places.get(gpu.bus[-_PLACE:].upper())
    return found if found in devices else None


def clock_at(context: TraceContext, device_id: int, times: Times) -> Times:
    """Return the clock of the multiprocessors of a GPU at some times, in Hz; 0 where it was not sampled.

    A sample holds until the next one that differs, and to the end of the samples.
    """
    sampled = context.settings.host.times
    for gpu in context.settings.host.gpus:
        if sampled_device(context, gpu) == device_id and len(gpu.samples.at):
            row = np.searchsorted(gpu.samples.at, times, side="right") - 1
            known = (row >= 0) & (times <= sampled[-1])
            return np.where(known, gpu.samples.values["sm_mhz"][row] * 1_000_000, 0)
    return np.zeros(len(times), np.int64)
