"""The rows of the timeline that belong to a GPU: those of the process that launches on it."""

from nsyswrap.model import TimelineData, TimelineRow

HOST_ROWS = frozenset({"steps", "phases", "thread"})


def process_of(data: TimelineData, gpu: TimelineRow) -> int:
    """Return the process that launches on a GPU: that of its streams, the only one, or that of its rank; else -1."""
    streams = [row for row in data.rows if row.kind == "stream" and row.device_id == gpu.device_id and row.process]
    host = [row for row in data.rows if row.kind in HOST_ROWS]
    rank, comma, _ = gpu.label.partition(", ")
    of_rank = [row for row in host if comma and row.label.startswith(f"{rank}, ")]
    only = host if len({row.process for row in host}) == 1 else []
    return next((row.process for row in (*streams, *only, *of_rank)), -1)


def rows_of(data: TimelineData, kind: str, process: int) -> list[TimelineRow]:
    """Return the rows of one kind of a process."""
    return [row for row in data.rows if row.kind == kind and row.process == process]


def steps_of(data: TimelineData, gpu: TimelineRow) -> TimelineRow | None:
    """Return the row of the steps of a GPU's process; where it has none, the first one, since ranks step together."""
    own = rows_of(data, "steps", process_of(data, gpu))
    return next(iter([*own, *(row for row in data.rows if row.kind == "steps")]), None)
