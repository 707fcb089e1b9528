"""What to do about exposed transfer: by what the collectives carry, and when the next kernels need it."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Times
from nsyswrap.events.operations import COMPUTE
from nsyswrap.hardware.kernel_names.collectives import (
    ALL_GATHER,
    ALL_TO_ALL,
    COMBINE,
    DISPATCH,
    CollectiveName,
    collective_name,
)
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import OPTIMIZER
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.links import SLOW_FACTOR, fast_ns, fastest, source_of
from nsyswrap.rules import communication
from nsyswrap.rules.program_kind import Wording, joined
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded
from nsyswrap.what_if.bucket_sizes import half_as_large, twice_as_large
from nsyswrap.what_if.communication_overlap import PHASE as BACKWARD
from nsyswrap.what_if.communication_overlap import beside_backward, exposed, fewer_bytes, is_reduction, overlaps_already
from nsyswrap.what_if.saving import HALF, Saving, WhatIf, faster, predict, saving_of
from nsyswrap.what_if.simulate import Simulation

EXPOSED, SLOW_LINKS = communication.EXPOSED.key, communication.SLOW_LINKS.key
LATE_GATHERS = communication.LATE_GATHERS.key
OF_EXPERTS = frozenset({ALL_TO_ALL, DISPATCH, COMBINE})
# Libraries whose collectives have no gradients: they serve models.
ENGINES = frozenset({"vllm", "sglang", "flashinfer", "tensorrt_llm", "lmdeploy"})
FORWARD, TRAINING = "forward", {BACKWARD, OPTIMIZER}
# The type of the elements in a kernel's name, with its bits: ncclDevKernel_AllReduce_Sum_bf16_RING_LL. Source:
# NVIDIA/nccl, src/device/generate.py.
_TYPE = re.compile(r"_(?:bf|f|i|u)(\d+)(?:e\dm\d)?(?:_|$)")
# What to do about messages in a program that is not PyTorch's.
OVERLAP_MESSAGES = (
    "Let communication run beside kernels: start it on a stream of its own as soon as its data is ready, in several "
    "parts; and send less, in half precision."
)
FEWER_MESSAGES = "Send less: in half precision, less often, or to fewer GPUs; check the links."
OF_SERVERS = (
    "Communicate less: split the model over fewer GPUs and the requests over the rest (fewer ways of tensor "
    "parallelism, more replicas), batch more requests, and use the engine's own all-reduce where the GPUs have NVLink."
)
OVERLAP_ADVICE = Wording(
    "Let communication run beside the backward pass: DistributedDataParallel instead of all_reduce after it, smaller "
    "buckets (bucket_cap_mb), and gradients in bfloat16 (bf16_compress_hook).",
    OVERLAP_MESSAGES,
    jax="Let communication run beside kernels: XLA's latency-hiding scheduler "
    "(--xla_gpu_enable_latency_hiding_scheduler=true), and gradients in bfloat16.",
    server=OF_SERVERS,
)
FEWER_ADVICE = Wording(
    "Communication runs beside the backward pass already and takes longer. Send less: gradients in bfloat16 "
    "(bf16_compress_hook), a larger batch, or gradients accumulated over several steps (no_sync); check the links.",
    f"Communication runs beside kernels already and takes longer. {FEWER_MESSAGES}",
    server=OF_SERVERS,
)
NEEDED_ADVICE = Wording(
    "Most of it is not a reduction of gradients: the next layer needs the data at once. With FSDP, prefetch earlier "
    "(forward_prefetch, limit_all_gathers=False) or keep gathered weights (reshard_after_forward=False); with "
    "DataParallel, use DistributedDataParallel; send bfloat16.",
    OVERLAP_MESSAGES,
    server=OF_SERVERS,
)
IN_TURN_ADVICE = Wording(
    "Weights are gathered only after the layer before has computed. Gather them while it computes: with FSDP "
    "backward_prefetch=BACKWARD_PRE and forward_prefetch=True, with fully_shard set_modules_to_forward_prefetch and "
    "set_modules_to_backward_prefetch; in your own code all_gather with async_op=True, one layer ahead.",
    "Weights are gathered only after the layer before has computed. Gather them while it computes, one layer ahead, "
    "on a stream of their own.",
)
ACTIVATIONS_ADVICE = Wording(
    "The layers are split over ranks, and the next kernel needs the sum of the activations at once. Split them over "
    "fewer GPUs and the batches over the rest, send bfloat16, or overlap the sums with the products (torch.compile has "
    "asynchronous tensor parallelism).",
    "The layers are split over ranks, and the next kernel needs the sum of the activations at once. Split them over "
    "fewer GPUs and the batches over the rest, send bfloat16, or overlap the sums with the products.",
    server=OF_SERVERS,
)
FORWARD_ADVICE = Wording(
    "There is no backward pass to overlap with. Communicate less: split the model over fewer GPUs and the batches "
    "over the rest, and send bfloat16. Or take two halves of a batch in turn: one computes while the other is sent.",
    FEWER_MESSAGES,
    server=OF_SERVERS,
)
EXPERTS_ADVICE = (
    "Tokens are sent to experts on other GPUs and back, and the next layer needs them at once. Take two halves of a "
    "batch in turn: one computes while the other is sent. Send FP8, and place experts that are used together on one "
    "host."
)
LINKS_ADVICE = (
    "Let NCCL use NVLink: NCCL_DEBUG=INFO shows each connection, which should be P2P and neither SHM nor NET. Unset "
    "NCCL_P2P_DISABLE, make all GPUs of the job visible to each rank, and look at nvidia-smi topo -m and nvlink -s."
)
OTHER_RANKS_ADVICE = (
    "Profile all ranks and give their captures to nsyswrap ranks: if another rank is late, it is the one to fix. Where "
    "the time is transfer: "
)
MAY_WAIT = "or nothing is saved, where this rank waits for one whose work the capture does not show"
NEEDED_AT_ONCE = Saving(None, None, ("no saving is predicted: the next layer needs the data at once",))


class TransferAdvice(NamedTuple):
    """What to do about the exposed transfer of one GPU."""

    rule: str
    text: str
    saving: Saving
    evidence: tuple[str, ...] = ()


def is_split(collectives: Collectives) -> bool:
    """Return whether the capture has the other ranks, so that a wait for a late one does not count as transfer."""
    return bool(collectives.matched.any()) and not collectives.ranks.missing


def advice_for(simulation: Simulation, device: int, rows: Indices) -> TransferAdvice:
    """Return the change to make for the collectives of one device, and what it saves."""
    advice = _of_transfer(simulation, device, rows)
    if is_split(simulation.collectives):
        return advice
    return advice._replace(text=joined(OTHER_RANKS_ADVICE, advice.text), saving=_or_nothing(advice.saving))


def _or_nothing(saving: Saving) -> Saving:
    """Return a saving of transfer that may be nothing, since the transfer may be a wait."""
    if saving.time is None:
        return saving
    change = saving.what_if and replace(saving.what_if, or_nothing=True)
    return replace(saving, time=replace(saving.time, low=0), evidence=(*saving.evidence, MAY_WAIT), what_if=change)


def _of_transfer(simulation: Simulation, device: int, rows: Indices) -> TransferAdvice:
    """Return the change to make where all of the time is transfer."""
    context, collectives = simulation.context, simulation.collectives
    shown = fastest(context, collectives, rows)
    if shown is not None and shown[0] > SLOW_FACTOR:
        said = (
            f"the fastest large collective moves {units.size(shown[1])}/s on each link; "
            f"these GPUs can {units.size(shown[2])}/s ({source_of(context)})"
        )
        return TransferAdvice(SLOW_LINKS, LINKS_ADVICE, predict(simulation, on_fast_links), (said,))
    length = exposed(context, rows, collectives)
    if (text := _without_gradients(context, rows, length)) is not None:
        return TransferAdvice(EXPOSED, text, NEEDED_AT_ONCE)
    reduces = is_reduction(context, rows)
    if length[reduces].sum() < HALF * length.sum():
        return _gathered(simulation)
    if of_activations(context, collectives, rows[reduces]):
        return TransferAdvice(EXPOSED, ACTIVATIONS_ADVICE, NEEDED_AT_ONCE)
    sizes = _of_bucket_sizes(simulation, device) if context.program_kind.is_pytorch else ()
    if overlaps_already(context, rows[reduces], device, collectives):
        return TransferAdvice(EXPOSED, FEWER_ADVICE, predict(simulation, fewer_bytes), sizes)
    return TransferAdvice(EXPOSED, OVERLAP_ADVICE, predict(simulation, partial(beside_backward, device)), sizes)


def _of_bucket_sizes(simulation: Simulation, device: int) -> tuple[str, ...]:
    """Return what smaller and larger buckets save, each where it can be simulated."""
    if not simulation.predicts:
        return ()
    found = []
    for change in (half_as_large(device, simulation), twice_as_large(device, simulation)):
        if change is not None:
            saving = saving_of(simulation, change)
            saved = f"about {units.duration(saving.point)}" if saving.point else "nothing"
            found.append(f"simulated: {change.assumed} (bucket_cap_mb) save {saved}")
    return tuple(found)


def _without_gradients(context: TraceContext, rows: Indices, length: Times) -> str | None:
    """Return what to do about collectives that most of the time carry no gradients; None where they may."""
    half = HALF * length.sum()
    if length[_named(context, rows, lambda name: name.kind in OF_EXPERTS)].sum() > half:
        return EXPERTS_ADVICE
    seen = {context.phases.name(code) for code in np.unique(context.phases.ranges["phase"]).tolist()}
    of_engines = length[_named(context, rows, lambda name: name.library in ENGINES)].sum() > half
    return FORWARD_ADVICE if of_engines or (FORWARD in seen and not seen & TRAINING) else None


def _gathered(simulation: Simulation) -> TransferAdvice:
    """Return the advice on gathered weights: gather them earlier, where they wait for a layer that need not be over.

    All ranks gather together and run the same program. So the one whose host is most in time shows when they could
    gather.
    """
    context, collectives = simulation.context, simulation.collectives
    shares = []
    for mine in (collectives.row[collectives.on(each)] for each in context.operations.devices):
        gathers = mine[~is_reduction(context, mine)]
        fits = int(beside_the_layer_before(context, collectives, gathers).sum())
        shares.append((fits, int(exposed(context, gathers, collectives).sum())))
    fits, alone = max(shares, key=lambda each: each[0] / max(each[1], 1))
    if fits <= HALF * alone:
        return TransferAdvice(EXPOSED, NEEDED_ADVICE, NEEDED_AT_ONCE)
    said = f"{units.duration(fits)} of {units.duration(alone)} fit beside the layer before"
    return TransferAdvice(LATE_GATHERS, IN_TURN_ADVICE, predict(simulation, _gathered_ahead), (said,))


def beside_the_layer_before(context: TraceContext, collectives: Collectives, rows: Indices) -> Times:
    """Return how much exposed transfer of each gathering fits beside the compute between it and the one before, in ns.

    ::

        compute      |## layer 1 ##|          |## layer 2 ##|
        gathering                  |= layer 2 =|             |= layer 3 =|
        ahead        |= layer 2 =|

    The compute is that of the forward and the backward pass since any other operation: the optimizer changes weights
    before they are gathered. It counts only where the host had launched the gathering before that compute ended,
    otherwise the host is late; and where one of the passes goes on after it.
    """
    operations, found = context.operations, np.zeros(len(rows), np.int64)
    gathers = np.flatnonzero(_named(context, rows, lambda name: name.kind == ALL_GATHER))
    order = gathers[np.argsort(operations.start[rows[gathers]], kind="stable")]
    mine = operations.on(int(operations.device_id[rows[0]])) if len(order) else rows[:0]
    mine = mine[operations.kind[mine] == COMPUTE]
    if not len(mine):
        return found
    passes = [context.phases.code(name) for name in (FORWARD, BACKWARD)]
    in_pass = np.isin(context.phase_of_operations[mine], passes)
    begun, end = collectives.begun(operations, rows[order]), operations.end[rows[order]]
    before = np.searchsorted(operations.end[mine], begun, side="right")
    after_gather = np.searchsorted(operations.start[mine], np.concatenate([[begun[0]], end[:-1]]))
    last_other = np.maximum.accumulate(np.where(in_pass, 0, np.arange(len(mine)) + 1))
    since = np.maximum(after_gather, np.where(before > 0, last_other[before - 1], 0))
    sums = np.concatenate([[0], np.cumsum(operations.end[mine] - operations.start[mine])])
    computed = np.maximum(sums[before] - sums[np.minimum(since, before)], 0)
    # Where the call is not known, it counts as launched when it started.
    call, launched = operations.call[rows[order]], operations.start[rows[order]].copy()
    launched[call >= 0] = array(context.trace[tables.CALLS], "end")[call[call >= 0]]
    queued = launched <= np.where(before > 0, operations.end[mine][before - 1], -1)
    goes_on = np.append(in_pass, False)[before]
    alone = exposed(context, rows[order], collectives)
    found[order] = np.where(queued & goes_on, np.minimum(alone, computed), 0)
    return found


def _named(context: TraceContext, rows: Indices, is_wanted: Callable[[CollectiveName], bool]) -> npt.NDArray[np.bool_]:
    """Return which kernels are collectives whose name says something."""
    frame, operations = context.trace[tables.KERNELS], context.operations
    names = coded(frame, "name_id")[operations.row[rows]]
    said = ((each, collective_name(context.trace.text(int(each)))) for each in np.unique(names))
    wanted = [each for each, name in said if name is not None and is_wanted(name)]
    found: npt.NDArray[np.bool_] = np.isin(names, wanted) & (operations.table[rows] == 0)
    return found


def _gathered_ahead(simulation: Simulation) -> WhatIf:
    """Return the change "gather one layer ahead", for the gatherings of all GPUs."""
    context, ran, collectives = simulation.context, simulation.operations, simulation.collectives
    share = np.zeros(len(collectives.row))
    for device in context.operations.devices:
        mine = collectives.on(device)
        mine = mine[np.isin(collectives.row[mine], ran)]
        ahead = beside_the_layer_before(context, collectives, collectives.row[mine])
        share[mine] = np.minimum(ahead / np.maximum(collectives.end[mine] - collectives.arrival[mine], 1), 1.0)
    # Where one rank could have begun, the others could: all launch it one layer earlier.
    matched = np.flatnonzero(collectives.matched)
    of_group = np.zeros(int(collectives.group.max(initial=0)) + 1)
    np.maximum.at(of_group, collectives.group[matched], share[matched])
    share[matched] = of_group[collectives.group[matched]]
    return faster(collectives.row, 1 - share, "weights are gathered beside the layer before, as far as they fit")


def of_activations(context: TraceContext, collectives: Collectives, rows: Indices) -> bool:
    """Return whether most reductions carry activations: the forward and the backward pass have some of the same size.

    Gradients are reduced in or after the backward pass only. Sizes are numbers of elements, since the passes may differ
    in precision. Where NCCL did not record sizes, those of the forward pass must take a quarter of the time or more: in
    tensor parallelism both passes have as many.
    """
    at = np.searchsorted(collectives.row, rows)
    known = at < len(collectives.row)
    if not known.any():
        return False
    rows, at = rows[known], at[known]
    length = context.operations.end[rows] - collectives.begun(context.operations, rows)
    forward = context.phase_of_operations[rows] == context.phases.code(FORWARD)
    if (collectives.bytes[at] >= 0).all():
        ids = coded(context.trace[tables.KERNELS], "name_id")[context.operations.row[rows]]
        names, place = np.unique(ids, return_inverse=True)
        found = [_TYPE.search(context.trace.text(int(each))) for each in names]
        sizes = np.array([max(int(each.group(1)) // 8, 1) if each else 1 for each in found], np.int64)
        elements = collectives.bytes[at] // sizes[place]
        of = (collectives.communicator[at].astype(np.int64) << np.int64(48)) + elements
        same = np.isin(of, of[forward])
    else:
        same = np.full(len(rows), 2 * length[forward].sum() > HALF * length.sum())
    is_most = length[same].sum() > HALF * length.sum()
    return bool(is_most and length[same & forward].any() and length[same & ~forward].any())


def on_fast_links(simulation: Simulation) -> WhatIf:
    """Return the change "links that do what they can", for the collectives of all GPUs; small ones stay as they are."""
    collectives = simulation.collectives
    fast = fast_ns(simulation.context, collectives)
    length = np.maximum(collectives.end - collectives.arrival, 1)
    known = ~np.isnan(fast) & np.isin(collectives.row, simulation.operations)
    return faster(
        collectives.row[known],
        np.minimum(fast[known] / length[known], 1.0),
        f"collectives take as long as these GPUs need for them ({source_of(simulation.context)})",
    )
