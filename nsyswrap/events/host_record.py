"""What `nsyswrap profile` sampled of the host and the GPUs while the program ran, in the time of the capture.

The samples are in `host.json` beside the capture. Each covers the time since the previous sample.

The marks are ranges of the NVTX domain of ``--annotate``. Their texts are not phases. They say what the CPU did inside
a phase, and which line called it: "torch.save at train.py:88".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Spans, Times, merge
from nsyswrap.events import api_calls
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array

AT = " at "
COLLECTION, TOKENIZER = "garbage collection", "tokenizer"
CHECKPOINTS = (
    *("torch.save", "torch.load", "safetensors.save_file", "safetensors.load_file"),
    *("torch.distributed.checkpoint.save", "torch.distributed.checkpoint.load"),
    *("Accelerator.save_state", "Accelerator.load_state", "Trainer._save_checkpoint", "Trainer.save_checkpoint"),
)
KINDS: Mapping[str, int] = MappingProxyType(
    {
        COLLECTION: api_calls.GARBAGE_COLLECTION,
        TOKENIZER: api_calls.TOKENIZER,
        **dict.fromkeys(CHECKPOINTS, api_calls.CHECKPOINT),
    }
)
"""The kind of each mark, by its text without the line."""
_COLUMNS = ["start", "end", "thread"]
_TYPES = {"start": "int64", "end": "int64", "thread": "int64", "text": "str", "kind": "int64"}


@dataclass(frozen=True, slots=True)
class Samples:
    """Numbers that were sampled over time: arrays of equal length.

    Attributes:
        at: When each row was sampled, in ns since capture start, ascending.
    """

    at: Times
    values: Mapping[str, Times]

    def growth(self, name: str, start_ns: int, end_ns: int) -> int:
        """Return by how much a sum grew in an interval, with linear interpolation between samples."""
        if len(self.at) < 2:  # noqa: PLR2004 - growth needs two samples
            return 0
        low, high = np.interp([start_ns, end_ns], self.at, self.values[name])
        return round(float(high - low))


NO_SAMPLES = Samples(np.empty(0, np.int64), {})


@dataclass(frozen=True, slots=True)
class BlockedCalls:
    """What a thread was reading from or writing to each time that it was sampled.

    Attributes:
        at: The moments, in ns since capture start, ascending.
        on: "file", "pipe", "socket" or "terminal" for each.
    """

    at: Times
    on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GpuSamples:
    """The NVML samples of one GPU.

    Attributes:
        bus: Its place on the PCI bus; empty if unknown.
        max_sm_mhz: The highest clock of its multiprocessors.
        power_limit_mw: Its power limit; 0 if unknown.
        samples: ``sm_mhz``, ``reasons``, ``power_mw``, ``celsius`` and ``processes``.
        energy: Its energy so far, ``mj``; empty where it has no counter, and in older records.
    """

    index: int
    name: str
    bus: str
    max_sm_mhz: int
    power_limit_mw: int
    samples: Samples
    energy: Samples = NO_SAMPLES


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The samples of one run.

    Attributes:
        times: When samples were taken, in ns since capture start.
        spent_ns: CPU time that taking them cost, in our process.
        cores: Cores of the machine and of the program, NUMA nodes and clocks, as far as they are known.
        quota_cores: CPU time that the program may use in the time of one core; None without a quota.
        throttled: How often (``count``) and how long (``ns``) the program was stopped for its quota, so far.
        threads: Run time (``on_cpu_ns``) and time ready without a core (``delay_ns``) so far, by process and thread.
        waits: What threads were reading from or writing to, by process and thread; empty in older records.
        processes: Page faults that read from disk, bytes read and written so far, by process.
    """

    times: Times = field(default_factory=lambda: np.empty(0, np.int64))
    spent_ns: int = 0
    cores: Mapping[str, int] = field(default_factory=dict)
    quota_cores: float | None = None
    throttled: Samples = NO_SAMPLES
    threads: Mapping[tuple[int, int], Samples] = field(default_factory=dict)
    waits: Mapping[tuple[int, int], BlockedCalls] = field(default_factory=dict)
    processes: Mapping[int, Samples] = field(default_factory=dict)
    gpus: tuple[GpuSamples, ...] = ()

    def of_thread(self, thread: int) -> Samples:
        """Return the samples of a thread by its global id in the capture."""
        return self.threads.get((tables.pid(thread), tables.tid(thread)), NO_SAMPLES)


NO_RECORD = HostRecord()


def read_record(recorded: object, epoch_ns: int | None) -> HostRecord:
    """Return the samples of a `host.json` in the time of a capture; none where they cannot be read or aligned.

    Args:
        recorded: What the file holds; None for no file.
        epoch_ns: Time 0 of the capture in ns since 1970, UTC; 0 where its times are UTC already, None if unknown.
    """
    if not isinstance(recorded, Mapping) or epoch_ns is None:
        return NO_RECORD
    try:
        return _record(recorded, epoch_ns)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return NO_RECORD


def _record(recorded: Mapping[str, Any], epoch_ns: int) -> HostRecord:
    times = np.array(recorded["times_ns"], np.int64) - epoch_ns
    if (times[1:] < times[:-1]).any():
        raise ValueError("the clock went back while samples were taken")
    quota = recorded["quota_cores"]
    return HostRecord(
        times=times,
        spent_ns=int(recorded["spent_ns"]),
        cores={str(name): int(value) for name, value in recorded["cores"].items()},
        quota_cores=None if quota is None else float(quota),
        throttled=_samples(recorded["throttled"], times, ("count", "ns")) if recorded["throttled"] else NO_SAMPLES,
        threads={
            (int(each["process"]), int(each["thread"])): _samples(each, times, ("on_cpu_ns", "delay_ns"))
            for each in recorded["threads"]
        },
        waits={
            (int(each["process"]), int(each["thread"])): _blocked(each, epoch_ns) for each in recorded.get("waits", ())
        },
        processes={
            int(each["process"]): _samples(each, times, ("major_faults", "read_bytes", "written_bytes"))
            for each in recorded["processes"]
        },
        gpus=tuple(_gpu(each, times) for each in recorded["gpus"]),
    )


def _samples(recorded: Mapping[str, Any], times: Times, names: tuple[str, ...]) -> Samples:
    at: npt.NDArray[np.intp] = np.array(recorded["at"], np.intp)
    values = {name: np.array(recorded[name], np.int64) for name in names}
    if any(len(each) != len(at) for each in values.values()):
        raise ValueError("columns of different length")
    return Samples(times[at], values)


def _blocked(recorded: Mapping[str, Any], epoch_ns: int) -> BlockedCalls:
    at, on = np.array(recorded["at_ns"], np.int64) - epoch_ns, tuple(map(str, recorded["on"]))
    if len(at) != len(on) or (at[1:] < at[:-1]).any():
        raise ValueError("columns of different length, or the clock went back")
    return BlockedCalls(at, on)


def _gpu(recorded: Mapping[str, Any], times: Times) -> GpuSamples:
    return GpuSamples(
        index=int(recorded["index"]),
        name=str(recorded["name"]),
        bus=str(recorded["bus"]),
        max_sm_mhz=int(recorded["max_sm_mhz"]),
        power_limit_mw=int(recorded["power_limit_mw"]),
        samples=_samples(recorded, times, ("sm_mhz", "reasons", "power_mw", "celsius", "processes")),
        energy=_samples(recorded["energy"], times, ("mj",)) if recorded.get("energy") else NO_SAMPLES,
    )


def find_marks(trace: Trace) -> pd.DataFrame:
    """Return the marks with columns start, end, thread, text and kind, in order of start."""
    ranges = trace[tables.RANGES]
    ours = injected(ranges)
    # A capture without marks may have many texts.
    names = ranges["text"].cat.categories.tolist() if ours.any() else []
    kinds = np.array([KINDS.get(str(each).split(AT)[0], -1) for each in names], np.int64)
    if not (kinds >= 0).any():
        return _none()
    kind = kinds[ranges["text"].cat.codes.to_numpy()]
    rows = np.flatnonzero((kind >= 0) & ours)
    return ranges.iloc[rows][_COLUMNS].assign(text=ranges["text"].iloc[rows].astype(str), kind=kind[rows])


def injected(ranges: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return for each range whether nsyswrap put it into the program."""
    return tables.rows_where(ranges["domain"], tables.OWN_DOMAIN.__eq__)


@cache
def _none() -> pd.DataFrame:
    """Return the marks of a trace that has none."""
    return pd.DataFrame({name: pd.Series([], dtype=of) for name, of in _TYPES.items()})


def spans_of(marks: pd.DataFrame, thread: int, kinds: Iterable[int]) -> Spans:
    """Return when marks of some kinds are open on a thread."""
    mine = np.flatnonzero((array(marks, "thread") == thread) & np.isin(array(marks, "kind"), list(kinds)))
    return merge(array(marks, "start")[mine], array(marks, "end")[mine])
