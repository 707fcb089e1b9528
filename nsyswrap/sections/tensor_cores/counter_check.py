"""Tensor-core work by hardware counter and by kernel name, with a finding where the two contradict each other.

They are different quantities. The counter shows how much of the time the tensor pipes of all SMs were active. A name
shows that a kernel uses them at all. So the counter cannot exceed the share by name::

    kernels           |--tensor--|--other--|-------idle------|     by name: 10 of 20
    Tensor Active     40 %       0 %       0 %                     by counter: 4 of 20
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nsyswrap.base import units
from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Indices, Spans, Window, clip, merge, overlap, total, union
from nsyswrap.events.gpu_counters import PER_CENT, CounterSamples
from nsyswrap.events.operations import COMPUTE
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import Finding, Severity
from nsyswrap.rules import tensor_cores
from nsyswrap.trace import tables

COUNTER = "Tensor Active"
# On Turing this counter includes half-precision arithmetic of ordinary cores. Source: nsys's description of the metric.
SHARED_WITH = "FP16"

# Samples inside kernels without tensor work read 0.5 to 1 %. Source: three captures of an H200.
NOISE_SHARE = 0.01
# Lowest activity of kernels that used tensor cores: 3.9 % of their time. Source: Nsight Compute on 2600
# launches of BERT and ResNet-50 on an H200.
LEAST_ACTIVE_SHARE = 0.039


@dataclass(frozen=True, slots=True)
class TensorWork:
    """Tensor work by counter and by name, over the time in which compute kernels ran and the counter was sampled.

    Attributes:
        active_ns: Upper bound of the time integral of the counter: the time that the pipes were active at full rate.
        least_ns: Lower bound of the same; samples are whole per cent, rounded up.
        rounding_ns: One per cent of the sampled time, for a version of nsys that may round down.
        kernel_ns: Time in which any compute kernel ran.
        tensor_ns: Time in which a kernel ran whose name shows that it uses tensor cores.
        possible_ns: The same, with kernels of unknown verdict and graphs traced as a whole.
    """

    active_ns: float
    least_ns: float
    rounding_ns: float
    kernel_ns: int
    tensor_ns: int
    possible_ns: int

    @property
    def share(self) -> float:
        """Return the upper bound of the activity of the tensor pipes, as a share of the time in which kernels ran."""
        return self.active_ns / self.kernel_ns

    @property
    def share_low(self) -> float:
        """Return the lower bound of ``share``."""
        return self.least_ns / self.kernel_ns

    @property
    def exceeds_names(self) -> bool:
        """Return whether the counter shows more work than the kernels that may use tensor cores can do."""
        return self.least_ns > self.possible_ns + NOISE_SHARE * self.kernel_ns

    @property
    def falls_short_of_names(self) -> bool:
        """Return whether the counter shows less work than the kernels that use tensor cores must do."""
        most = self.active_ns + self.rounding_ns
        return most < LEAST_ACTIVE_SHARE * self.tensor_ns


def count_tensor_work(context: TraceContext, window: Window, tensor: Indices, unknown: Indices) -> TensorWork | None:
    """Return the tensor work of all GPUs in their parts of the window; None where one with kernels was not sampled."""
    if not context.counter_samples:
        return None
    operations, own = context.operations, find_own_windows(context, window)
    graphs = operations.from_table(tables.GRAPHS)
    compute = np.flatnonzero(operations.kind == COMPUTE)
    found = []
    for device in np.unique(operations.device_id[compute]).tolist():
        samples = next(_of_tensor_cores(context, device), None)
        if samples is None:
            return None
        part = own.on(device)
        sampled = clip(samples.spans, part.start_ns, part.end_ns)
        busy, sure, maybe = (
            _running(context, rows[operations.device_id[rows] == device], part)
            for rows in (compute, tensor, np.concatenate([unknown, graphs]))
        )
        found.append(
            TensorWork(
                active_ns=int(samples.integral(sampled.start, sampled.end).sum()) / PER_CENT,
                least_ns=int(samples.at_least.integral(sampled.start, sampled.end).sum()) / PER_CENT,
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
    for samples in context.counter_samples:
        if samples.device_id == device and samples.name.startswith(COUNTER) and SHARED_WITH not in samples.name:
            yield samples


def _running(context: TraceContext, rows: Indices, window: Window) -> Spans:
    spans = merge(context.operations.start[rows], context.operations.end[rows])
    return clip(spans, window.start_ns, window.end_ns)


def contradictions(counted: TensorWork | None, window: Window) -> Iterator[Finding]:
    """Yield a finding where counter and names cannot both be right."""
    if counted is None:
        return
    if counted.exceeds_names:
        yield _finding(
            counted,
            "The hardware counted more tensor-core work than the kernels' names allow.",
            "Trust the counter and report the kernel names: a name rule takes a tensor-core kernel for an ordinary "
            "one, or another program used the GPU.",
            window,
        )
    elif counted.falls_short_of_names:
        yield _finding(
            counted,
            "By their names kernels use tensor cores, but the hardware counted almost no tensor-core work.",
            "Measure the kernels with Nsight Compute: their names may mislead, or they mostly wait for memory.",
            window,
        )


def _finding(counted: TensorWork, headline: str, advice: str, window: Window) -> Finding:
    by_counter = units.share_band(counted.share_low, counted.share)
    low, high = (units.share(part / counted.kernel_ns) for part in (counted.tensor_ns, counted.possible_ns))
    return Finding(
        rule=tensor_cores.COUNTER_DISAGREES.key,
        severity=Severity.NOTE,
        headline=headline,
        lost_ns=0,
        saving=Interval(0, 0, 0),
        advice=advice,
        evidence=(
            f"tensor pipes active {by_counter} of the time in kernels, by counter",
            f"{low} of it in kernels that use them by name, {high} with those of unknown verdict",
        ),
        device_id=None,
        window=window,
    )
