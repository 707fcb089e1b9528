"""Advice on copies: those from or to pageable memory, which hold the host, and those that no kernel hides."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from nsyswrap import tables, units
from nsyswrap.events.operations import COMMUNICATION, COMPUTE, COPY
from nsyswrap.intervals import NOTHING, Indices, Spans, Window, clip, merge, subtract, total, union
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding, Severity
from nsyswrap.sections.idle_findings import NOTE_SHARE, PROBLEM_SHARE, WARNING_SHARE
from nsyswrap.tables import array
from nsyswrap.what_if.changes import WhatIf, beside_kernels, blocking_copies, gains

UPLOAD = "Host-to-Device"
ADVICE = {
    UPLOAD: "Copy the next batch while this one trains: pinned memory, non_blocking=True and a stream of its own. "
    "Send less: integers or float16 that the GPU converts; keep on the GPU what is used again.",
    "Device-to-Host": "Copy to the host less often (.item(), .cpu(), print(loss), checkpoints), and what has to be "
    "there into a pinned tensor with non_blocking=True, on a stream of its own.",
    "Device-to-Device": "Copy less inside the GPU: take views in place of .clone(), and write results where they are "
    "wanted (out=, or slices of a tensor made once) in place of copying them there.",
    "Peer-to-Peer": "Send less from GPU to GPU: keep each tensor where it is used (DistributedDataParallel, with a "
    "process for each GPU, in place of DataParallel), and send the rest on a stream of its own while kernels run.",
}


def findings(context: TraceContext, copies: pd.DataFrame, window: Window) -> tuple[Finding, ...]:
    """Return what is worth saying of each device's copies.

    Args:
        context: The trace and its operations.
        copies: The copies of the window, as ``copies.find_copies`` returns them.
        window: Stretch they are about.
    """
    found: list[Finding | None] = []
    for device in context.operations.devices:
        exclusive = context.operations.exclusive(device, window)
        mine = copies[copies["device_id"] == device]
        found += [
            _pageable(context, mine, exclusive, device, window),
            _exposed(context, mine, exclusive, device, window),
        ]
    return tuple(sorted((each for each in found if each), key=lambda finding: finding.order))


def _pageable(
    context: TraceContext, copies: pd.DataFrame, exclusive: list[Spans], device: int, window: Window
) -> Finding | None:
    """Return advice on copies of pageable memory: their calls hold the host until the driver has staged the data.

    ::

        call    |--------|           its cost: the host is held, and no kernel hides it
        kernel  ####|      |###
        cost        |-----|
    """
    mine = copies[_uploads(copies)]
    call, held = _held(context, mine, window)
    cost = total(subtract(held, union(exclusive[COMPUTE], exclusive[COMMUNICATION])))
    return _finding(
        rule="copies/pageable",
        headline="The host is held by copies of pageable memory, with no kernel running, for {share} of the time.",
        advice="Copy from pinned memory without blocking: DataLoader(pin_memory=True) and tensor.to(device, "
        "non_blocking=True). To the host, copy into a pinned tensor, and less often.",
        cost=cost,
        context=context,
        what=blocking_copies,
        evidence=(f"{units.duration(total(held))} of the host in {len(call)} calls", *_by_kind(mine)),
        device=device,
        window=window,
    )


def _held(context: TraceContext, uploads: pd.DataFrame, window: Window) -> tuple[Indices, Spans]:
    """Return the calls of some copies, and when one of them holds the host."""
    calls = context.trace[tables.CALLS]
    # One call may be several copies, so calls are taken once.
    call = np.unique(array(uploads, "call"))
    held = merge(array(calls, "start")[call], array(calls, "end")[call])
    return call, clip(held, window.start_ns, window.end_ns)


def staging(context: TraceContext, copies: pd.DataFrame, device: int, window: Window) -> Spans:
    """Return when pageable memory is staged for a device and the host is held; nothing where no finding says so.

    Args:
        context: The trace and its operations.
        copies: The copies of the window, as ``copies.find_copies`` returns them.
        device: The GPU that they go to.
        window: Stretch they are about.
    """
    _, held = _held(context, copies[_uploads(copies) & (copies["device_id"] == device)], window)
    compute, communication, *_ = context.operations.exclusive(device, window)
    cost = total(subtract(held, union(compute, communication)))
    return held if cost >= NOTE_SHARE * window.length_ns else NOTHING


def _uploads(copies: pd.DataFrame) -> "pd.Series[bool]":
    """Return which copies hold the host until pageable memory is staged; those to the host are waits for the GPU."""
    return copies["pageable"] & copies["blocking"] & (copies["kind"] == UPLOAD)


def _exposed(
    context: TraceContext, copies: pd.DataFrame, exclusive: list[Spans], device: int, window: Window
) -> Finding | None:
    """Return advice on copies that no kernel hides."""
    staged = _uploads(copies)
    mine = copies[(copies["exposed"] > 0) & ~staged]
    cost = max(total(exclusive[COPY]) - int(copies["exposed"][staged].sum()), 0)
    return _finding(
        rule="copies/exposed",
        headline="The GPU copies and computes nothing for {share} of the time.",
        advice=_advice(mine),
        cost=cost,
        context=context,
        what=partial(beside_kernels, device=device, kind=COPY, named="copies"),
        evidence=_by_kind(mine),
        device=device,
        window=window,
    )


def _advice(copies: pd.DataFrame) -> str:
    """Return the change to make against the direction of copies that is exposed longest."""
    exposed = copies.groupby("kind")["exposed"].sum()
    dearest = max(exposed.index, key=lambda kind: (int(exposed[kind]), kind), default=UPLOAD)
    return ADVICE.get(str(dearest), ADVICE[UPLOAD])


def _finding(  # noqa: PLR0913 - the parts of a finding that differ
    *,
    rule: str,
    headline: str,
    advice: str,
    cost: int,
    context: TraceContext,
    what: Callable[[TraceContext, Window], WhatIf],
    evidence: tuple[str, ...],
    device: int,
    window: Window,
) -> Finding | None:
    share = cost / window.length_ns
    if share < NOTE_SHARE:
        return None
    gained = gains(context, window, what)
    grave = Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING
    return Finding(
        rule=rule,
        severity=grave if share >= WARNING_SHARE else Severity.NOTE,
        headline=headline.format(share=units.share(share)),
        lost_ns=cost,
        saving_low_ns=gained.low_ns,
        saving_high_ns=gained.high_ns,
        advice=advice,
        evidence=(*evidence, *gained.said),
        device_id=device,
        window=window,
    )


def _by_kind(copies: pd.DataFrame) -> tuple[str, ...]:
    """Return a line for each direction and pair of memories, dearest first."""
    lines = []
    for (kind, source, target), mine in copies.groupby(["kind", "source_memory", "target_memory"]):
        duration, size = int(mine["duration"].sum()), int(mine["bytes"].sum())
        whole = int((mine["end"] - mine["start"]).sum())
        rate = f", {units.size(size * 1e9 / whole)} a second" if whole else ""
        line = (
            f"{units.duration(duration)} in {len(mine)} {kind} copies, {source} to {target}, {units.size(size)}{rate}, "
            f"{units.duration(int(mine['exposed'].sum()))} of it exposed"
        )
        lines.append((-duration, line))
    return tuple(line for _, line in sorted(lines))
