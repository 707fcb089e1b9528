"""The program as it runs alone: what a step of it is spent on, and where its length comes from."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.idle_accounts import idle_accounts
from nsyswrap.base import units
from nsyswrap.base.intervals import Window
from nsyswrap.base.row_sums import typed_table
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import Fact, Section
from nsyswrap.program.program import ProgramAlone
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.rules import cause_name
from nsyswrap.rules.work_names import LEDGER_NAMES
from nsyswrap.sections.ledger import ROWS, ledger_rows
from nsyswrap.sections.spec import About, Kind, SectionSpec
from nsyswrap.what_if.without_profiler import LEAST, MOST

AS_RECORDED = (
    "All numbers are as recorded: they contain what nsys cost, which was not measured. 'nsyswrap profile' measures it."
)
UNCERTAIN = (
    "All numbers are as recorded: they contain what nsys cost. That cannot be taken out: the step alone was not timed, "
    "or the simulation does not reproduce the run."
)
TIMED = (
    "The recorded run is simulated without what nsys cost, so that its step is as long as {count} steps without nsys: "
    "{how} All findings, the plan and the savings are about this run."
)
SIMULATED = (
    "The recorded run is simulated without the usual cost of each call. All findings, the plan and the savings are "
    "about this run. Its step was not measured: let 'nsyswrap profile' time steps before it records any, or use "
    "--baseline where the program has no steps."
)
BY_COST = "{share} of the range from the least to the most that was measured for a call."
BY_PACE = "the machine was faster or slower than while it recorded."
OPEN = "its kernels set the pace, so all that was measured for a call is possible."
SCALED = " All times were then scaled by {factor}, since no cost of the calls explains the rest."
COLUMNS, TYPES = ("device_id", "rank", "account", "rule", "ns"), (np.int64, object, str, str, np.int64)
# A scale nearer to 1 is not worth a sentence. Source: ours, as the least share of a finding.
NOTABLE_SCALE = 0.02


def run(
    context: TraceContext,
    window: Window,
    program: ProgramAlone,
    collectives: Collectives,
    attributions: tuple[Attribution, ...],
) -> Section:
    """Return where the time of a step of the program goes, by part of the ledger and cause of idle time."""
    calibration, step = program.calibration, program.step
    length = None if program.is_recording or step is None else step.point
    return SECTION.made(
        window,
        facts=(
            Fact("step_alone_ns", None if step is None else step.point, "ns"),
            Fact("step_alone_low_ns", None if step is None else step.low, "ns"),
            Fact("step_alone_high_ns", None if step is None else step.high, "ns"),
            Fact("steps_timed_alone", 0 if calibration is None else calibration.count, "count"),
        ),
        tables={"step": _step(context, window, collectives, () if program.is_recording else attributions, length)},
        notes=(_note(program),),
    )


def _step(
    context: TraceContext,
    window: Window,
    collectives: Collectives,
    attributions: tuple[Attribution, ...],
    step_ns: int | None,
) -> pd.DataFrame:
    """Return the accounts of a step on each GPU, in ns; they add up to the step. Those of idle time have a rule.

    The recording has none here: its ledger and its idle time have sections of their own.
    """
    steps = []
    for each in attributions:
        length = mean_step(context, window, each.device_id) if step_ns is None else step_ns
        steps.append((each.device_id, window_accounts(context, window, collectives, each), length))
    return accounts_of_steps(collectives, steps)


def accounts_of_steps(
    collectives: Collectives, steps: Sequence[tuple[int, Mapping[tuple[str, str], int], int]]
) -> pd.DataFrame:
    """Return a row for each account of a step of each GPU, of the GPUs, their accounts, and the length of a step."""
    rows = []
    for device, accounts, length in steps:
        rank = collectives.ranks.number(device) if collectives.ranks.known else None
        shares = shared_out(np.array([*accounts.values()]), length)
        rows += [(device, rank, *account, ns) for account, ns in zip(accounts, shares, strict=True) if ns]
    table = typed_table(rows, dict(zip(COLUMNS, TYPES, strict=True)))
    return table.assign(rank=table["rank"].astype("Int64"))


def window_accounts(
    context: TraceContext, window: Window, collectives: Collectives, attribution: Attribution
) -> dict[tuple[str, str], int]:
    """Return the time of a GPU in its part of a window by account and rule, in ns; the sum is the length of the part.

    An account is a part of the ledger, or a cause of idle time, which has a rule.
    """
    own = find_own_windows(context, window).on(attribution.device_id)
    ledger = ledger_rows(context.operations, attribution.device_id, own, collectives)
    accounts: dict[tuple[str, str], int] = {(LEDGER_NAMES[name], ""): ledger[name] for name in ROWS[:-1]}
    for each in idle_accounts(attribution, context.phases):
        account = f"{LEDGER_NAMES['idle_ns']}: {cause_name(each.cause)}", each.rule
        accounts[account] = accounts.get(account, 0) + each.idle_ns
    return accounts


def mean_step(context: TraceContext, window: Window, device_id: int) -> int:
    """Return the mean time of a step of a GPU in a window, in ns; all of it where the window is not made of steps."""
    steps = context.steps.measured_count if window.is_of_steps else 1
    return round(find_own_windows(context, window).on(device_id).length_ns / max(steps, 1))


def shared_out(parts: np.ndarray, whole: int) -> list[int]:
    """Return whole numbers in proportion to some parts that add up to a whole; the largest rests are rounded up."""
    exact = parts * (whole / max(int(parts.sum()), 1))
    found = np.floor(exact).astype(np.int64)
    missing = int(whole - found.sum()) if parts.any() else 0
    found[np.argsort(found - exact, kind="stable")[:missing]] += 1
    return [int(each) for each in found]


def _note(program: ProgramAlone) -> str:
    """Return what the numbers are about, and how the step alone is known."""
    calibration = program.calibration
    if calibration is None:
        return AS_RECORDED if program.step is None else UNCERTAIN
    if not calibration.count:
        return SIMULATED
    low, high = calibration.extent.ends
    if high > MOST or low < LEAST:
        how = BY_PACE
    elif (low, high) == (LEAST, MOST):
        how = OPEN
    else:
        how = BY_COST.format(share=units.share((calibration.extent.point - LEAST) / (MOST - LEAST)))
    said = TIMED.format(count=units.count(calibration.count), how=how)
    if abs(calibration.scale - 1) >= NOTABLE_SCALE:
        said += SCALED.format(factor=f"{calibration.scale:.2f}")
    return said


SECTION = SectionSpec(
    key="program",
    title="The program without the profiler",
    run=run,
    about=About.PROGRAM,
    of_operations=True,
    place=155,
    columns={"step": " ".join(COLUMNS)},
    kinds={Kind.TEXT: "account"},
    captions={"step": "A step of the program"},
    units={"ns": "ns"},
    headings={"ns": "a step"},
    facts={
        "step_alone_ns": "median step",
        "step_alone_low_ns": "step, at least",
        "step_alone_high_ns": "step, at most",
        "steps_timed_alone": "steps timed without nsys",
    },
)
