"""Findings on how a job of several GPUs is written: communication that it need not make, or makes at the wrong time.

Each is about the program, so its change is made on all ranks at once.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Indices, Spans, Times, Window, intersect, merge, total
from nsyswrap.events.operations import COMMUNICATION, COMPUTE, COPY
from nsyswrap.hardware.kernel_names.collectives import ALL_REDUCE
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import OPTIMIZER
from nsyswrap.model import Finding
from nsyswrap.ranks.activity import COMPUTES, account_of
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.lateness import Lateness
from nsyswrap.ranks.same_work import SLOWER
from nsyswrap.rules import communication, ranks
from nsyswrap.rules.rule import Rule
from nsyswrap.sections.communication_advice import FORWARD, of_activations
from nsyswrap.sections.places import place_lines
from nsyswrap.sections.severity import NOTE_SHARE, WARNING_SHARE, make_finding
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded
from nsyswrap.what_if.bucket_sizes import in_parts, latency_ns
from nsyswrap.what_if.communication_overlap import PHASE as BACKWARD
from nsyswrap.what_if.communication_overlap import exposed, step_of
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.saving import HALF, Saving, WhatIf, estimated, predict
from nsyswrap.what_if.simulate import Simulation

# What DistributedDataParallel puts into a bucket by default. Source: its documentation, bucket_cap_mb.
BUCKET_BYTES = 25 << 20
# Buckets are small where a pass has more than twice as many as it needs, and the usual one has less than a quarter of
# the size; one is large that holds twice the default and more than half of all. Ours: the default's first bucket holds
# 1 MiB, the last one what is left, and each is at least as large as its largest parameter. Of many large ones, only the
# last is left after the pass.
MANY_TIMES, SMALL_PART, LARGE_TIMES = 2, 4, 2
# The sum of integers in a kernel's name: ncclDevKernel_AllReduce_Sum_u32_RING_LL, ncclKernel_AllReduce_..._Sum_int32_t.
# Source: NVIDIA/nccl, src/device/generate.py. DistributedDataParallel counts users of each parameter in int32. Source:
# PyTorch, torch/csrc/distributed/c10d/reducer.cpp, all_reduce_local_used_map.
_INTEGERS = re.compile(r"_[iu]32(?:_|$)|_u?int32_t")
_JOINS = re.compile("CatArrayBatchedCopy")
# What keeps a rank whose compute takes longer: names and grids of all its kernels are those of the others, or not.
UNEVEN = (ranks.UNEVEN_INPUT.key, ranks.UNKNOWN.key)
# Work is uneven in turn where no rank has more than this share of it, in so many steps or more. Ours.
MOST_OF_ONE, FEWEST_STEPS = 2 / 3, 5
TO_DEVICE, TO_HOST, ON_DEVICE = "Host-to-Device", "Device-to-Host", "Device-to-Device"


class Sums(NamedTuple):
    """The all-reduces of a job in its measured steps: arrays of one value for each kernel.

    Attributes:
        row: Row of the context's operations.
        size: Bytes of the message; -1 where NCCL did not record it.
        step: Row of the step in which it was launched.
        launched: When, in ns.
        passed: Number of the backward pass in which it was launched; -1 for none.
    """

    row: Indices
    size: Times
    device: npt.NDArray[np.int32]
    step: Indices
    launched: Times
    passed: Indices
    is_integer: npt.NDArray[np.bool_]

    def of(self, rows: Indices | npt.NDArray[np.bool_]) -> "Sums":
        """Return some of them."""
        return Sums(*(getattr(self, name)[rows] for name in self._fields))

    def groups(self) -> Iterator["Sums"]:
        """Yield those of each GPU, step and backward pass, in order of their launch."""
        order = np.lexsort([self.launched, self.passed, self.step, self.device])
        keys = np.stack([self.device, self.step, self.passed])[:, order]
        edges = np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1
        for each in np.split(order, edges):
            if len(each):
                yield self.of(each)


def find_findings(
    simulation: Simulation, collectives: Collectives, lateness: Lateness, window: Window
) -> tuple[Finding, ...]:
    """Return the findings on how the job is written."""
    context = simulation.context
    if not context.program_kind.is_pytorch or context.steps.measured_count == 0:
        return ()
    sums = find_sums(context, simulation.collectives)
    return (
        *_needless(simulation, sums, window),
        *_buckets(simulation, sums, window),
        *_one_process(simulation, window),
        *_in_turn(simulation, collectives, lateness, window),
    )


def find_sums(context: TraceContext, collectives: Collectives) -> Sums:
    """Return the all-reduces of gradients, and of what DistributedDataParallel adds to them, in measured steps."""
    kinds = [code for code, kind in enumerate(collectives.kinds) if kind == ALL_REDUCE]
    at = np.flatnonzero(np.isin(collectives.kind, kinds) & (context.operations.call[collectives.row] >= 0))
    rows = collectives.row[at]
    frame, operations = context.trace[tables.KERNELS], context.operations
    names = coded(frame, "name_id")[operations.row[rows]]
    integers = [each for each in np.unique(names).tolist() if _INTEGERS.search(context.trace.text(int(each)))]
    launched = array(context.trace[tables.CALLS], "start")[operations.call[rows]]
    found = Sums(
        row=rows,
        size=collectives.bytes[at],
        device=collectives.device_id[at],
        step=_measured_step(context, rows),
        launched=launched,
        passed=_passes(context, rows, launched),
        is_integer=np.isin(names, integers),
    )
    found = found.of(found.step >= 0)
    floats = np.sort(found.row[~found.is_integer])
    found = found.of(found.passed >= 0)
    return found.of(found.is_integer) if of_activations(context, collectives, floats) else found


def _measured_step(context: TraceContext, rows: Indices) -> Indices:
    """Return the measured step in which each operation was launched; -1 for none."""
    step = step_of(context, rows)
    is_measured = ~array(context.steps.frame, "warm_up") if len(context.steps.frame) else np.zeros(0, bool)
    found: Indices = np.where((step >= 0) & np.append(is_measured, False)[step], step, -1)
    return found


def _passes(context: TraceContext, rows: Indices, launched: Times) -> Indices:
    """Return the number of the backward pass of its process in which each operation was launched; -1 for none.

    Threads of autograd launch in no other phase, whatever the error of their clock.
    """
    ranges, process = context.phases.ranges, context.operations.process[rows]
    thread = coded(context.trace[tables.CALLS], "thread")[context.operations.call[rows]]
    main = context.phases.main_thread
    ranges = ranges[ranges["phase"] == context.phases.code(BACKWARD)]
    found = np.full(len(rows), -1, np.intp)
    for each in tables.distinct(process).tolist():
        mine, own = np.flatnonzero(process == each), ranges[ranges["process"] == each]
        # Threads of autograd have their own ranges inside that of the main thread.
        passes = merge(array(own, "start"), array(own, "end"))
        if len(passes.start):
            at = np.searchsorted(passes.start, launched[mine], side="right") - 1
            inside = (launched[mine] < passes.end[np.maximum(at, 0)]) | (thread[mine] != main[each])
            found[mine] = np.where((at >= 0) & inside, at, -1)
    return found


def _needless(simulation: Simulation, sums: Sums, window: Window) -> Iterator[Finding]:
    """Yield the findings on what need not be done at all."""
    context = simulation.context
    rows, passes = _repeated(sums.of(~sums.is_integer))
    unused = "the map of used parameters is neither copied nor summed; what its search takes on the host is left in"
    for rule, mine, assumed in (
        (communication.EACH_MICROBATCH, rows, "only the last microbatch of a step sums gradients over ranks"),
        (communication.UNUSED_PARAMETERS, _of_unused(context, sums.of(sums.is_integer)), unused),
        (
            communication.BUFFERS,
            _of_buffers(context, simulation.collectives),
            "buffers are neither joined, nor broadcast, nor copied back",
        ),
    ):
        if len(mine):
            saving = predict(simulation, partial(_without, mine, assumed))
            yield _finding(simulation, rule, rule.headline.format(passes=passes), mine, saving, window)


def _repeated(sums: Sums) -> tuple[Indices, int]:
    """Return the sums of all but the last pass of each step, and the passes of a step, where passes sum the same."""
    by_step: dict[tuple[int, int], list[Sums]] = {}
    for each in sums.groups():
        by_step.setdefault((int(each.device[0]), int(each.step[0])), []).append(each)
    alike = [
        passes
        for passes in by_step.values()
        if len(passes) > 1 and len({tuple(sorted(each.size.tolist())) for each in passes}) == 1
    ]
    if not alike or len(alike) <= HALF * len(by_step):
        return np.empty(0, np.intp), 0
    rows = np.concatenate([each.row for passes in alike for each in passes[:-1]])
    return rows, round(float(np.median([len(each) for each in alike])))


def _of_unused(context: TraceContext, sums: Sums) -> Indices:
    """Return the sums of maps of used parameters and the copies to the GPU before them, where no map is read back.

    A rank reads the map back only where one of its own parameters was not used.
    """
    copies = _copies(context)
    if not len(sums.row) or not len(copies.row):
        return np.empty(0, np.intp)
    found = []
    for at, row in enumerate(sums.row.tolist()):
        same = (copies.step == sums.step[at]) & (copies.size == sums.size[at]) & (copies.device == sums.device[at])
        if copies.row[same & (copies.kind == TO_HOST) & (copies.launched > sums.launched[at])].size:
            return np.empty(0, np.intp)
        before = np.flatnonzero(same & (copies.kind == TO_DEVICE) & (copies.launched < sums.launched[at]))
        if len(before):
            found += [row, int(copies.row[before[-1]])]
    return np.unique(found).astype(np.intp) if len(found) > len(sums.row) else np.empty(0, np.intp)


class _Copies(NamedTuple):
    """Copies in measured steps: row of the context's operations, step, bytes, GPU, kind, and when it was launched."""

    row: Indices
    step: Indices
    size: Times
    device: npt.NDArray[np.int32]
    kind: npt.NDArray[np.object_]
    launched: Times


def _copies(context: TraceContext) -> _Copies:
    operations, frame = context.operations, context.trace[tables.COPIES]
    rows = np.flatnonzero((operations.kind == COPY) & (operations.call >= 0))
    step, place = _measured_step(context, rows), operations.row[rows]
    rows, place, step = rows[step >= 0], place[step >= 0], step[step >= 0]
    kinds = np.array([context.trace.copy_kinds.get(int(each), "") for each in array(frame, "copy_kind")[place]], object)
    launched = array(context.trace[tables.CALLS], "start")[operations.call[rows]]
    return _Copies(rows, step, array(frame, "bytes")[place], operations.device_id[rows], kinds, launched)


def _of_buffers(context: TraceContext, collectives: Collectives) -> Indices:
    """Return broadcasts of buffers, with the kernels that join buffers before them and the copies back after them.

    ::

        host of a rank    cat | broadcast | copy | copy | copy | first layer
    """
    operations, copies = context.operations, _copies(context)
    kinds = [code for code, kind in enumerate(collectives.kinds) if kind == "Broadcast"]
    gpus = Counter(rank.process for rank in collectives.ranks.each)
    one_gpu = [rank.device_id for rank in collectives.ranks.each if gpus[rank.process] == 1]
    sent = collectives.row[np.isin(collectives.kind, kinds) & np.isin(collectives.device_id, one_gpu)]
    sent = sent[(_measured_step(context, sent) >= 0) & (operations.call[sent] >= 0)]
    back = set(copies.row[copies.kind == ON_DEVICE].tolist())
    frame, found = context.trace[tables.KERNELS], []
    texts = coded(frame, "name_id")
    for device in tables.distinct(operations.device_id[sent]).tolist():
        launches = _in_order(context, device)
        place = {int(row): at for at, row in enumerate(launches.tolist())}
        broadcast = set(sent[operations.device_id[sent] == device].tolist())
        for row in sorted(broadcast):
            first = last = place[row]
            while last + 1 < len(launches) and int(launches[last + 1]) in back | broadcast:
                last += 1
            if int(launches[last]) not in back:
                continue
            while (
                first
                and operations.table[launches[first - 1]] == 0
                and _JOINS.search(context.trace.text(int(texts[operations.row[launches[first - 1]]])))
            ):
                first -= 1
            found.append(launches[first : last + 1])
    steps = len(tables.distinct(_measured_step(context, sent)))
    whole = len(context.steps.measured)
    return np.unique(np.concatenate(found)) if found and steps > HALF * whole else np.empty(0, np.intp)


def _in_order(context: TraceContext, device: int) -> Indices:
    """Return the operations of a GPU whose launch is known, in order of their launch."""
    operations = context.operations
    rows = operations.on(device)
    rows = rows[operations.call[rows] >= 0]
    launched = array(context.trace[tables.CALLS], "start")[operations.call[rows]]
    found: Indices = rows[np.argsort(launched, kind="stable")]
    return found


def around(context: TraceContext, rows: Indices) -> Mapping[int, Spans]:
    """Return the host's time for the launches of some operations, by thread, without the usual gap before a launch.

    ::

        launch | usual gap |.... prepares .... | launch of a row |... launch of a row | usual gap | launch
                           |------------------- its time -------------------------|
    """
    operations, calls = context.operations, context.trace[tables.CALLS]
    every = np.unique(operations.call[operations.call >= 0])
    start, end, thread = array(calls, "start")[every], array(calls, "end")[every], coded(calls, "thread")[every]
    is_one = np.isin(every, operations.call[rows])
    found: dict[int, Spans] = {}
    for each in tables.distinct(thread[is_one]).tolist():
        mine = np.flatnonzero(thread == each)
        mine = mine[np.argsort(start[mine], kind="stable")]
        one = is_one[mine]
        gap = start[mine][1:] - end[mine][:-1]
        others = gap[~one[1:] & ~one[:-1]]
        usual = int(np.median(others)) if len(others) else 0
        at = np.flatnonzero(one[1:]) + 1
        low = np.minimum(end[mine][at - 1] + np.where(one[at - 1], 0, usual), start[mine][at])
        found[each] = merge(low, end[mine][at])
    return found


def _without(rows: Indices, assumed: str, run: Simulation) -> WhatIf:
    """Return the change "these operations go away", on all GPUs."""
    rows = rows[np.isin(rows, run.operations)]
    return WhatIf(Change(host=around(run.context, rows), operations=rows, factor=0.0), assumed)


def _finding(  # noqa: PLR0913, PLR0917 - the parts of a finding
    simulation: Simulation, rule: Rule, headline: str, rows: Indices, saving: Saving, window: Window
) -> Finding:
    context = simulation.context
    return make_finding(
        rule=rule,
        headline=headline,
        lost_ns=_lost_ns(simulation, rows),
        saving=saving,
        evidence=place_lines(context, rows, context.operations.end[rows] - context.operations.start[rows]),
        window=window,
    )


def _lost_ns(simulation: Simulation, rows: Indices) -> int:
    """Return the exposed transfer of some collectives on the GPU that has most of it, in ns."""
    operations = simulation.context.operations
    rows = np.sort(rows[operations.kind[rows] == COMMUNICATION])
    ns, device = exposed(simulation.context, rows, simulation.collectives), operations.device_id[rows]
    return max((int(ns[device == each].sum()) for each in tables.distinct(device).tolist()), default=0)


def _buckets(simulation: Simulation, sums: Sums, window: Window) -> Iterator[Finding]:
    """Yield the finding on buckets that are much smaller or larger than the default, where that costs something."""
    gradients = sums.of(~sums.is_integer & (sums.size >= 0))
    passes = list(gradients.groups())
    if not passes:
        return
    whole = float(np.median([each.size.sum() for each in passes]))
    count = float(np.median([len(each.size) for each in passes]))
    usual = float(np.median(gradients.size))
    device = int(passes[0].device[0])
    if count > MANY_TIMES * (whole / BUCKET_BYTES + 1) and SMALL_PART * usual < BUCKET_BYTES:
        latency = latency_ns(device, simulation)
        if latency is None:
            return
        rule, headline = communication.SMALL_BUCKETS, communication.SMALL_BUCKETS.headline.format(count=round(count))
        saving = predict(simulation, partial(_joined, passes, latency))
    else:
        largest = int(gradients.size.max())
        if largest < LARGE_TIMES * BUCKET_BYTES or largest <= HALF * whole:
            return
        rule = communication.LARGE_BUCKETS
        headline = rule.headline.format(size=units.size(largest))
        saving = predict(simulation, partial(_divided, device, largest))
    if saving.time is not None and saving.time.point >= NOTE_SHARE * window.length_ns:
        yield _finding(simulation, rule, headline, gradients.row, saving, window)


def _divided(device: int, largest: int, simulation: Simulation) -> WhatIf:
    """Return the change "buckets of 25 MiB", for buckets that are larger; none where one parameter fills a bucket."""
    change = in_parts(device, round(largest / BUCKET_BYTES), simulation)
    return replace(change, assumed=f"{change.assumed}; nothing, if one parameter fills the bucket", or_nothing=True)


def _joined(passes: list[Sums], latency: float, simulation: Simulation) -> WhatIf:
    """Return the change "buckets of 25 MiB", for buckets that are smaller: the last of those joined carries all."""
    context, operations = simulation.context, simulation.context.operations
    rows, factors, gone = [], [], []
    for each in passes:
        if not np.isin(each.row, simulation.operations).all():
            continue
        length = np.maximum(operations.end[each.row] - simulation.collectives.begun(operations, each.row), 1)
        bucket = np.cumsum(each.size) // BUCKET_BYTES
        last = np.append(bucket[1:] != bucket[:-1], True)
        joined = np.bincount(bucket, length - latency)[bucket[last]] + latency
        factor = np.zeros(len(length))
        factor[last] = np.maximum(joined, latency) / length[last]
        rows.append(each.row)
        factors.append(factor)
        gone.append(each.row[~last])
    if not rows:
        return WhatIf(Change(), "buckets hold 25 MiB")
    change = Change(
        host=around(context, np.concatenate(gone)), operations=np.concatenate(rows), factor=np.concatenate(factors)
    )
    return WhatIf(change, "buckets hold 25 MiB: fewer latencies, and fewer launches on the host")


def _one_process(simulation: Simulation, window: Window) -> Iterator[Finding]:
    """Yield the finding on ``nn.DataParallel``: one process broadcasts weights to its GPUs, and reduces gradients."""
    context, collectives = simulation.context, simulation.collectives
    rows = collectives.row[_measured_step(context, collectives.row) >= 0]
    kinds = {collectives.kinds[each] for each in np.unique(collectives.kind).tolist()}
    processes = tables.distinct(context.operations.process[rows])
    devices = tables.distinct(context.operations.device_id[rows])
    if len(processes) != 1 or len(devices) < 2 or not {"Broadcast", "Reduce"} <= kinds:  # noqa: PLR2004 - several GPUs
        return
    rule, saving = communication.DATA_PARALLEL, Saving(None, None, ())
    reductions = collectives.row[collectives.kind == collectives.kinds.index("Reduce")]
    reduced_ns = _lost_ns(simulation, np.intersect1d(reductions, rows))
    if (step := _with_a_process_each(context, devices.tolist(), reduced_ns)) is not None:
        steps, whole = max(context.steps.measured_count, 1), window.length_ns
        saved = (round(max(whole - steps * each, 0)) for each in (step.high, step.point, step.low))
        said = "at best kernels run without a break, at worst each host takes as long for its own launches as now"
        saving = Saving(Interval(*saved), "estimated", (f"estimated: {said}",))
    yield _finding(simulation, rule, rule.headline.format(gpus=len(devices)), rows, saving, window)


def _with_a_process_each(context: TraceContext, devices: list[int], reduced_ns: int) -> Interval[float] | None:
    """Return how long a step takes with a process for each GPU, in ns; None where the phases are not known.

    The GPUs take at least as long as they compute now. The hosts take at most the backward pass, which autograd already
    runs on a thread for each GPU, the optimizer, the forward pass of one GPU at the pace of the backward pass, and the
    reduction of the gradients as far as it is exposed now.
    """
    operations, steps = context.operations, context.steps
    rows = np.flatnonzero((operations.kind == COMPUTE) & (operations.call >= 0))
    rows = rows[_measured_step(context, rows) >= 0]
    phase = context.phase_of_operations[rows]
    length, count = operations.end[rows] - operations.start[rows], max(steps.measured_count, 1)
    computes = max(int(length[operations.device_id[rows] == each].sum()) for each in devices)
    launches = {name: float((phase == context.phases.code(name)).sum()) / len(devices) for name in (FORWARD, BACKWARD)}
    host = {name: _host_ns(context, name) for name in (BACKWARD, OPTIMIZER)}
    if not launches[BACKWARD] or not host[BACKWARD]:
        return None
    hosts = sum(host.values()) + launches[FORWARD] * host[BACKWARD] / launches[BACKWARD]
    low, high = computes / count, (max(hosts, computes) + reduced_ns) / count
    return Interval(low, (low + high) / 2, high)


def _host_ns(context: TraceContext, phase: str) -> int:
    """Return how long the host is in a phase in the measured steps, in ns; once where several threads are."""
    ranges, steps = context.phases.ranges, context.steps.measured
    own = ranges[ranges["phase"] == context.phases.code(phase)]
    spans, inside = (merge(array(each, "start"), array(each, "end")) for each in (own, steps))
    return total(intersect(spans, inside))


def _in_turn(simulation: Simulation, collectives: Collectives, lateness: Lateness, window: Window) -> Iterator[Finding]:
    """Yield the finding on work that is uneven in each step, each time on another rank: no rank is late on average."""
    charges, count = lateness.charges, len(collectives.ranks.each)
    accounts = tables.distinct(charges.account).tolist()
    computes = [each for each in accounts if account_of(each, len(lateness.phases))[0] == COMPUTES]
    uneven = charges.of(np.isin(charges.account, computes) & (charges.waiting != charges.late))
    uneven = uneven.of(np.isin(uneven.rule.astype(str), UNEVEN))
    if not len(uneven.wait_ns) or not _differs_in_turn(simulation.context):
        return
    by_rank = {each: int(uneven.wait_ns[uneven.late == each].sum()) for each in tables.distinct(uneven.late).tolist()}
    # Each step ends when its longest rank does; with equal work, after the mean of all.
    saved = int(uneven.wait_ns.sum()) // count
    if max(by_rank.values()) > MOST_OF_ONE * sum(by_rank.values()) or saved < WARNING_SHARE * window.length_ns:
        return
    rule = ranks.IN_TURN
    yield make_finding(
        rule=rule,
        lost_ns=saved,
        saving=estimated(saved, window.length_ns, "each step takes as long as the mean of its ranks"),
        evidence=tuple(
            f"{units.duration(ns)} of waits for rank {collectives.ranks.number(device)}, which has more to compute"
            for device, ns in sorted(by_rank.items(), key=lambda each: -each[1])
        ),
        window=window,
    )


def _differs_in_turn(context: TraceContext) -> bool:
    """Return whether ranks have kernels of other grids in most steps, and not always the same rank the largest."""
    operations, frame = context.operations, context.trace[tables.KERNELS]
    rows = np.flatnonzero((operations.kind == COMPUTE) & (operations.table == 0) & (operations.call >= 0))
    step = _measured_step(context, rows)
    blocks = coded(frame, "grid_blocks")[operations.row[rows]]
    work = pd.DataFrame({"step": step, "device": operations.device_id[rows], "blocks": blocks})[step >= 0]
    # The host of one rank may be steps ahead, so a step is known by its name.
    work["step"] = context.steps.frame["name"].astype(str).to_numpy()[work["step"]]
    sums = work.pivot_table(index="step", columns="device", values="blocks", aggfunc="sum").dropna()
    if len(sums) < FEWEST_STEPS or sums.shape[1] < 2:  # noqa: PLR2004 - a rank is compared with another
        return False
    differs = sums.max(axis=1) > SLOWER * sums.min(axis=1)
    return bool(differs.mean() > HALF and len(set(sums[differs].idxmax(axis=1))) > 1)
