"""Whether two ranks do the same work: the same kernels, for as long, with as many launches."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices
from nsyswrap.loop.phase_detection import NONE
from nsyswrap.ranks.rank_times import RankTimes
from nsyswrap.rules import ranks

SLOWER_GPU, MORE_WORK = ranks.SLOWER_GPU.key, ranks.UNEVEN_INPUT.key
PACE, UNKNOWN, PIPELINE = ranks.PACE.key, ranks.UNKNOWN.key, ranks.PIPELINE.key
UNNAMED = ranks.WITHOUT_CAUSE
# Two ranks do the same work where this share of their kernels has the same name and grid. Ours: ranks of one program
# with equal inputs have it at 1; a few kernels chosen by measuring may differ.
ALIKE_SHARE = 0.95
# A rank launches more than another in a phase where it has more than this many times as many operations. Ours.
MORE_LAUNCHES = 1.5
# Kernels of a slower GPU take more than this many times as long. Ours: on two like GPUs with the same kernels and
# little communication they took 1.002 times as long.
SLOWER = 1.02
# Pairs of ranks that are compared at a time, so that the arrays stay small.
PAIRS = 1 << 12


def compared_work(times: Mapping[int, RankTimes], pairs: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
    """Return why a late GPU's compute is longer: ``MORE_WORK``, ``SLOWER_GPU``, or ``UNKNOWN`` where it is neither.

    With it comes how much longer the same kernels take on the late GPU, in ns. It is more work where names and grids of
    the kernels differ. Kernels of the optimizer are left out: they do not depend on the size of the input. It is a
    slower GPU where the same kernels take longer. A GPU that waits has slower kernels, too: the collective that waits
    keeps multiprocessors busy.

    Args:
        times: The times of each GPU.
        pairs: The GPU that waits, and the late one.
    """
    devices = sorted({device for pair in pairs for device in pair})
    if not devices:
        return []
    kernels = pd.concat([times[device].kernels for device in devices], keys=range(len(devices)), names=["place"])
    place = kernels.index.get_level_values("place").to_numpy()
    column = pd.factorize(kernels.reset_index("place").index)[0]
    count, length = (np.zeros((len(devices), int(column.max(initial=-1)) + 1)) for _ in range(2))
    np.add.at(count, (place, column), kernels["count"].to_numpy())
    np.add.at(length, (place, column), kernels["length"].to_numpy())
    rows = np.searchsorted(devices, np.array(pairs, np.int64).reshape(-1, 2))
    parts = (rows[first : first + PAIRS] for first in range(0, len(rows), PAIRS))
    return [reason for some in parts for reason in _reasons(count, length, some)]


def _reasons(count: npt.NDArray[np.float64], length: npt.NDArray[np.float64], rows: Indices) -> list[tuple[str, int]]:
    """Return the reason for each pair of GPUs in ``rows``, from count and length in ns of each kernel by GPU."""
    one, other = rows[:, 0], rows[:, 1]
    share = count / np.maximum(count.sum(axis=1, keepdims=True), 1)
    alike = np.minimum(share[one], share[other]).sum(axis=1)
    both = (count[one] > 0) & (count[other] > 0)
    mean = length / np.maximum(count, 1)
    expected = np.where(both, mean[one] * count[other], 0).sum(axis=1)
    taken = np.where(both, length[other], 0).sum(axis=1)
    slower = np.where(taken > SLOWER * expected, SLOWER_GPU, UNKNOWN)
    reason = np.where(alike < ALIKE_SHARE, MORE_WORK, slower)
    longer = np.rint(np.maximum(taken - expected, 0)).astype(np.int64)
    return list(zip(reason.tolist(), longer.tolist(), strict=True))


def launches_more(
    times: Mapping[int, RankTimes], waiting: Indices, late: Indices, phase: Indices, phases: tuple[str, ...]
) -> npt.NDArray[np.bool_]:
    """Return where a late rank launches more in a phase than the rank that waits: then it is not just slower.

    Args:
        times: The times of each GPU.
        waiting: GPUs that wait.
        late: GPUs of the late ranks.
        phase: Phase codes; -1 for none.
        phases: Name of each phase code.
    """
    devices = np.array(sorted(times), np.int64)
    names = (*phases, NONE)  # -1 is the last.
    table = np.array([[times[each].launched.get(name, 0) for name in names] for each in devices.tolist()])
    mine, others = (table[np.searchsorted(devices, each), phase] for each in (late, waiting))
    more: npt.NDArray[np.bool_] = mine > MORE_LAUNCHES * others
    return more
