"""Measure once on a machine how long collectives of NCCL take between its GPUs, by the size of the message.

A program (:mod:`nsyswrap.capture.link_rates_probe`) runs for some seconds with the Python of the profiled program,
after a job of several ranks has ended.
"""

from collections.abc import Callable, Sequence
from typing import Any

from nsyswrap.capture import link_rates_probe
from nsyswrap.capture.product_rates import RATES, conditions_of, printed, rates_of
from nsyswrap.capture.recorded_run import LINK_RATES

SCHEMA = "nsyswrap.link-rates/1"
# Variables that keep NCCL from using all links. Source: NCCL's documentation of its environment variables.
_LEFT_OUT = frozenset({
    *("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_P2P_DIRECT_DISABLE", "NCCL_SHM_DISABLE", "NCCL_PROTO", "NCCL_ALGO"),
    *("NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_MIN_CTAS", "NCCL_NTHREADS", "NCCL_BUFFSIZE"),
    *("NCCL_NCHANNELS_PER_PEER", "NCCL_MAX_P2P_NCHANNELS", "NCCL_LAUNCH_MODE", "CUDA_LAUNCH_BLOCKING"),
})  # fmt: skip


def link_rates(
    python: Sequence[str], ranks: int, announce: Callable[[], object], *, kept_only: bool = False
) -> dict[str, Any]:
    """Return how long collectives take, as `run.json` keeps it: measured now, or kept from an earlier measurement.

    Returns:
        ``conditions``, ``gpu``, ``gpus`` and ``rates``: of each kind of collective a list of sizes in bytes, each with
        the time in ns. Without rates ``failure`` says why, which is not kept. Empty without several GPUs.
    """
    if ranks < 2:  # noqa: PLR2004 - a single rank has no links
        return {}
    conditions = {**conditions_of(python, SCHEMA), "ranks": ranks}

    def measure(python: Sequence[str]) -> dict[str, Any]:
        found = printed(python, link_rates_probe, str(ranks), left_out=_LEFT_OUT)
        if not found[RATES]:
            raise ValueError("no collective could be timed")
        return found

    return rates_of(LINK_RATES, conditions, python, announce, measure, kept_only=kept_only)
