"""Which kernels are collectives, with their library and kind. All who ask whether a kernel communicates ask here.

``rules_collectives`` says what counts as communication, and why.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from nsyswrap.hardware.kernel_names.classify import subject
from nsyswrap.hardware.kernel_names.readers import value_of
from nsyswrap.hardware.kernel_names.rules_collectives import COLLECTIVES

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "AllReduce", "AllGather", "ReduceScatter"
SEND_RECEIVE, ALL_TO_ALL = "SendRecv", "AllToAll"
DISPATCH, COMBINE = "Dispatch", "Combine"
NCCL = "nccl"

# NCCL 2.4 to 2.28: ncclAllReduceRingLLKernel_sum_f32, ncclKernel_AllReduce_RING_LL_Sum_float,
# ncclDevKernel_AllReduce_Sum_f32_RING_LL, ncclSymkDevKernel_AllReduce_...
_OF_NCCL = re.compile(r"nccl(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv)|nccl\w*?Kernel_([A-Za-z]+)")
# Kinds of all others, by words of the function's name. The first match decides: an all-reduce with a barrier is an
# all-reduce.
_KINDS = (
    ("Notify", r"notify|exchange_?split|AllToAllMetadata"),
    (DISPATCH, r"dispatch"),
    (COMBINE, r"combine"),
    (ALL_REDUCE, r"all_?reduce|cross_device_reduce_[12]stage|rdxn|nvshmemi_reduce"),
    (REDUCE_SCATTER, r"reduce_?scatter|_rs(?![a-z])"),
    (ALL_GATHER, r"all_?gather|fcollect|_ag(?![a-z])"),
    (ALL_TO_ALL, r"all_?(?:to|2)_?all|a2a"),
    ("Broadcast", r"broadcast|bcast"),
    (ALL_REDUCE, r"lamport|parallel_qknorm|gpu_(?:mc|rw|rr)"),
    (SEND_RECEIVE, r"send|recv|p2p|put_|_get_"),
    ("Barrier", r"barrier|sync|signal|wait|clean"),
    ("Reduce", r"reduce"),
)


class CollectiveName(NamedTuple):
    """What the name of a collective's kernel says.

    Attributes:
        library: Library that it comes from, such as ``nccl``; empty if the name does not say.
        kind: Such as ``AllReduce`` or ``Dispatch``; the name of the function if that does not say.
    """

    library: str
    kind: str


def is_collective(name: str) -> bool:
    """Return whether a kernel is communication: a part of a collective or of a message between ranks."""
    return collective_name(name) is not None


@lru_cache(maxsize=4096)
def collective_name(name: str) -> CollectiveName | None:
    """Return the library and the kind of a collective; None for any other kernel."""
    text = subject(name)
    rule = next((rule for rule in COLLECTIVES if rule.pattern.search(text)), None)
    return CollectiveName(value_of(rule.library, text), kind_of(name)) if rule else None


def kind_of(name: str) -> str:
    """Return the kind of collective of a kernel, from its name: "AllReduce"; the function's name if it has none."""
    text = subject(name)
    if (found := _OF_NCCL.search(text)) is not None:
        return found[1] or found[2]
    function = re.split(r"[<(]", text, maxsplit=1)[0].rpartition("::")[2]
    return next((kind for kind, words in _KINDS if re.search(words, function, re.IGNORECASE)), function)
