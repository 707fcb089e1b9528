"""Made records of the host, as in `host.json`, with the times of a made capture."""

from collections.abc import Mapping, Sequence
from typing import Any

from export_builder import PID

from nsyswrap.events.host_record import HostRecord, read_record

# The start of a made capture, as ``ExportBuilder.session`` writes it.
STARTED_NS = 10**18


def recorded(times: Sequence[int], **parts: Any) -> dict[str, Any]:  # noqa: ANN401 - any part of the JSON
    """Return a record with samples at these times, in ns since capture start. Other parts are empty unless given."""
    empty: dict[str, Any] = {
        "schema": "nsyswrap.host/1",
        "times_ns": [STARTED_NS + each for each in times],
        "spent_ns": 0,
        "cores": {"machine": 8, "allowed": 2},
        "quota_cores": None,
        "throttled": None,
        "threads": [],
        "processes": [],
        "gpus": [],
    }
    return empty | parts


def thread_samples(
    delays: Sequence[int], ran: Sequence[int] | None = None, thread: int = PID, process: int = PID
) -> dict[str, Any]:
    """Return the samples of a thread: its total time without a core and its total running time so far, in ns."""
    on_cpu = [0] * len(delays) if ran is None else list(ran)
    at = list(range(len(delays)))
    return {"process": process, "thread": thread, "at": at, "on_cpu_ns": on_cpu, "delay_ns": list(delays)}


def gpu_samples(clocks: Sequence[int], reasons: Sequence[int], **rest: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the samples of a GPU whose highest clock is 2000 MHz."""
    count = len(clocks)
    columns = {"power_mw": [650_000] * count, "celsius": [60] * count, "processes": [1] * count}
    about = {"index": 0, "name": "NVIDIA H200", "max_sm_mhz": 2000, "power_limit_mw": 700_000, "bus": ""}
    return about | {"at": list(range(count)), "sm_mhz": list(clocks), "reasons": list(reasons)} | columns | rest


def record_of(made: Mapping[str, Any]) -> HostRecord:
    """Return a record with the times of a made capture."""
    return read_record(made, STARTED_NS)
