"""What the hardware counted of the tensor cores, beside what the kernels' names say; where both cannot be, a finding.

The counter is another quantity than the share by name: it says how much of the time the tensor pipes of all SMs were
active, while a name says that a kernel uses them at all. So it cannot exceed the share by name::

    kernels           |--tensor--|--other--|-------idle------|     by name: 10 of 20
    Tensor Active     40 %       0 %       0 %                     by counter: 4 of 20
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nsyswrap import tables, units
from nsyswrap.events.gpu_counters import PER_CENT, CounterSamples
from nsyswrap.events.operations import COMPUTE
from nsyswrap.intervals import Indices, Spans, Window, clip, merge, overlap, total, union
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding, Severity

COUNTER = "Tensor Active"
# Turing counts half-precision arithmetic of the ordinary cores with it. Source: the metric's description in nsys.
SHARED_WITH = "FP16"

# Samples that lie inside kernels without tensor work read 0.5 to 1 %. Source: three captures of an H200.
NOISE_SHARE = 0.01
# The least active of the kernels that did use tensor cores: 3.9 % of their time. Source: Nsight Compute on 2600
# launches of BERT and ResNet-50 on an H200.
LEAST_ACTIVE_SHARE = 0.039
# Names that promise less than this are not held against the counter.
MUCH_SHARE = 0.20


@dataclass(frozen=True, slots=True)
class TensorWork:
    """Tensor work by counter and by name, over the time in which compute kernels ran and the counter was sampled.

    Attributes:
        active_ns: Time integral of the counter: so long would the pipes have been active at full rate, at most.
        least_ns: The same at least: samples are whole numbers of per cent, rounded up.
        rounding_ns: One per cent of the sampled time, for a version of nsys that may round down.
        kernel_ns: Time in which any compute kernel ran.
        tensor_ns: Time in which a kernel ran whose name says tensor cores.
        possible_ns: The same, with kernels whose name does not tell and graphs traced as a whole.
    """

    active_ns: float
    least_ns: float
    rounding_ns: float
    kernel_ns: int
    tensor_ns: int
    possible_ns: int

    @property
    def share(self) -> float:
        """Return how active the tensor pipes were at most, as a share of the time in which kernels ran."""
        return self.active_ns / self.kernel_ns

    @property
    def share_low(self) -> float:
        """Return how active they were at least."""
        return self.least_ns / self.kernel_ns

    @property
    def exceeds_names(self) -> bool:
        """Return whether more was counted than kernels that may use tensor cores can have done."""
        return self.least_ns > self.possible_ns + NOISE_SHARE * self.kernel_ns

    @property
    def falls_short_of_names(self) -> bool:
        """Return whether less was counted than kernels that do use tensor cores must have done."""
        most = self.active_ns + self.rounding_ns
        return self.tensor_ns >= MUCH_SHARE * self.kernel_ns and most < LEAST_ACTIVE_SHARE * self.tensor_ns


def count_tensor_work(context: TraceContext, window: Window, tensor: Indices, unknown: Indices) -> TensorWork | None:
    """Return the tensor work of all GPUs; None where a GPU that ran kernels was not sampled.

    Args:
        context: The trace and its operations.
        window: Stretch of time.
        tensor: Operations whose name says tensor cores.
        unknown: Operations whose name does not tell.
    """
    if not context.counter_samples:
        return None
    operations = context.operations
    graphs = operations.from_table(tables.GRAPHS)
    compute = np.flatnonzero(operations.kind == COMPUTE)
    found = []
    for device in np.unique(operations.device_id[compute]).tolist():
        reading = next(_of_tensor_cores(context, device), None)
        if reading is None:
            return None
        sampled = clip(reading.spans, window.start_ns, window.end_ns)
        busy, sure, maybe = (
            _running(context, rows[operations.device_id[rows] == device], window)
            for rows in (compute, tensor, np.concatenate([unknown, graphs]))
        )
        found.append(
            TensorWork(
                active_ns=int(reading.integral(sampled.start, sampled.end).sum()) / PER_CENT,
                least_ns=int(reading.at_least.integral(sampled.start, sampled.end).sum()) / PER_CENT,
                rounding_ns=total(sampled) / PER_CENT,
                kernel_ns=overlap(sampled, busy),
                tensor_ns=overlap(sampled, sure),
                possible_ns=overlap(sampled, union(sure, maybe)),
            )
        )
    return _sum(found) if any(each.kernel_ns for each in found) else None


def _sum(parts: list[TensorWork]) -> TensorWork:
    return TensorWork(
        active_ns=sum(part.active_ns for part in parts),
        least_ns=sum(part.least_ns for part in parts),
        rounding_ns=sum(part.rounding_ns for part in parts),
        kernel_ns=sum(part.kernel_ns for part in parts),
        tensor_ns=sum(part.tensor_ns for part in parts),
        possible_ns=sum(part.possible_ns for part in parts),
    )


def _of_tensor_cores(context: TraceContext, device: int) -> Iterator[CounterSamples]:
    for reading in context.counter_samples:
        if reading.device_id == device and reading.name.startswith(COUNTER) and SHARED_WITH not in reading.name:
            yield reading


def _running(context: TraceContext, rows: Indices, window: Window) -> Spans:
    spans = merge(context.operations.start[rows], context.operations.end[rows])
    return clip(spans, window.start_ns, window.end_ns)


def contradictions(counted: TensorWork | None, window: Window) -> Iterator[Finding]:
    """Yield a finding where counter and names cannot both be right.

    Args:
        counted: Tensor work by both; None where there is no counter.
        window: Stretch it is about.
    """
    if counted is None:
        return
    if counted.exceeds_names:
        yield _finding(
            counted,
            "The hardware counted more tensor-core work than the kernels' names allow.",
            "Take the counter's word and tell us the kernel names: a rule calls a tensor-core kernel an ordinary one, "
            "or another program used the GPU.",
            window,
        )
    elif counted.falls_short_of_names:
        yield _finding(
            counted,
            "The kernels' names say tensor cores, and the hardware counted next to no tensor-core work.",
            "Look at the kernels with Nsight Compute: their names may mislead, or they wait for memory nearly always.",
            window,
        )


def _finding(counted: TensorWork, headline: str, advice: str, window: Window) -> Finding:
    by_counter = units.share_band(counted.share_low, counted.share)
    low, high = (units.share(part / counted.kernel_ns) for part in (counted.tensor_ns, counted.possible_ns))
    return Finding(
        rule="tensor_cores/counter_disagrees",
        severity=Severity.NOTE,
        headline=headline,
        lost_ns=0,
        saving_low_ns=0,
        saving_high_ns=0,
        advice=advice,
        evidence=(
            f"tensor pipes active {by_counter} of the time in kernels, by counter",
            f"{low} of it in kernels that use them by name, {high} with those whose name does not tell",
        ),
        device_id=None,
        window=window,
    )
