"""The program that measures how long collectives of NCCL take on the GPUs of this machine, by the size of the message.

The program's own Python runs it, which has its PyTorch and its NCCL, and may lack nsyswrap. So it imports nothing of
ours. One process drives all GPUs, so nothing is launched late. It prints JSON, or one line on why it measured nothing.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Call = Callable[[], object]

# Sizes of a message, in bytes: as NCCL records them, so of AllGather and ReduceScatter it is the part of one rank.
SIZES = tuple(1 << each for each in (20, 22, 24, 26))
# Calls in a row that are timed together, so that launches do not count, and how often; the first warms up.
IN_A_ROW, TIMED = 8, 6


def calls_of(torch: Any, size: int, gpus: int) -> Iterator[tuple[str, Call]]:  # noqa: ANN401 - a module without types
    """Yield the kinds of collectives of all GPUs, with the call of one with a message of a size."""
    nccl = torch.cuda.nccl
    part, whole = (
        [torch.zeros(count // 4, device=f"cuda:{each}") for each in range(gpus)] for count in (size, size * gpus)
    )
    yield "AllReduce", lambda: nccl.all_reduce(part, part)
    yield "AllGather", lambda: nccl.all_gather(part, whole)
    yield "ReduceScatter", lambda: nccl.reduce_scatter(whole, part)
    yield "Broadcast", lambda: nccl.broadcast(part)
    yield "Reduce", lambda: nccl.reduce(part, part[0])
    yield "SendRecv", lambda: part[1].copy_(part[0])


def seconds_of(torch: Any, call: Call, gpus: int) -> list[float]:  # noqa: ANN401 - a module without types
    """Return how long a call takes of each of some rows of calls, in s."""
    found = []
    for _ in range(TIMED + 1):
        began = time.perf_counter()
        for _ in range(IN_A_ROW):
            call()
        for each in range(gpus):
            torch.cuda.synchronize(each)
        found.append((time.perf_counter() - began) / IN_A_ROW)
    return found[1:]


def measure(torch: Any, gpus: int) -> dict[str, object]:  # noqa: ANN401 - a module without types
    """Return the GPUs and their rates: of each kind a list of sizes, each with the median time in ns.

    Raises:
        AssertionError, RuntimeError: PyTorch cannot use the GPUs, or has no NCCL.
    """
    gpus = min(gpus, torch.cuda.device_count())
    if gpus < 2:  # noqa: PLR2004 - a link has two ends
        raise RuntimeError("fewer than two GPUs are visible")
    rates: dict[str, list[list[float]]] = {}
    for size in SIZES:
        for kind, call in calls_of(torch, size, gpus):
            rates.setdefault(kind, []).append([size, 1e9 * statistics.median(seconds_of(torch, call, gpus))])
    return {"gpu": torch.cuda.get_device_name(0), "gpus": gpus, "rates": rates}


def main() -> int:
    """Print the rates as JSON; return 1 where they cannot be measured, with the reason."""
    try:
        import torch  # noqa: PLC0415 - it takes seconds, and may be missing

        found = measure(torch, int(sys.argv[1]))
    except (ImportError, OSError, AssertionError, AttributeError, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
