"""The verdict: the first finding in a sentence, with the time of a step now and with the fix."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nsyswrap.attribution.attribution import RULES
from nsyswrap.base import units
from nsyswrap.base.intervals import Window
from nsyswrap.model import NO_PLAN, Finding, Plan, Section, Severity, StepTimes
from nsyswrap.rules import capture, gpu, idle, memory, rule_of
from nsyswrap.rules.copies import EXPOSED, PAGEABLE
from nsyswrap.rules.optimizer import MANY_KERNELS
from nsyswrap.rules.program_kind import UNKNOWN, ProgramKind
from nsyswrap.rules.ranks import LATE
from nsyswrap.sections.capture_check import (
    COPIES_UNRECORDED,
    MEMSETS_UNRECORDED,
    ONLY_OPERATIONS,
    UNRECORDED,
    outweighs,
)
from nsyswrap.what_if.fixed_step import CurrentStep, is_known, typical
from nsyswrap.what_if.saving import HALF, LEAST_SAVING_SHARE

if TYPE_CHECKING:
    import pandas as pd

# Rules of findings whose cause the capture does not show.
CANNOT_TELL = (idle.UNKNOWN.key, idle.NOT_TRACED.key)
# Rules of findings on copies.
ON_COPIES = (PAGEABLE.key, EXPOSED.key, memory.MIGRATIONS.key)
NO_KERNELS = "No kernel was recorded, only {work}."
OF_HOST = "This report is about the host's time, not the GPU's."
NO_GPU_WORK = "No GPU work was recorded: this report is about the host's time, not the GPU's."
NO_RECORDS = f"The GPU's records are missing: {{calls}} and no {{work}}. {OF_HOST}"
# From this share of the window, time that the capture cannot explain decides the verdict, and so does idle time of the
# GPU. Source: ours.
LIMIT_SHARE = 0.10
UNSURE = "Cannot tell whether the GPU waits without the profiler: no step was timed alone."
COMPUTE_BOUND = "Compute-bound: kernels run {share} of the time."
ONE_STEP = "Only one step was recorded, so there is no step time. Record at least ten: `--steps 20`."


def in_order(sections: Sequence[Section], findings: Iterable[Finding], plan: Plan = NO_PLAN) -> tuple[Finding, ...]:
    """Return all findings in the order of the report, the one that the verdict states first.

    Those of the plan come first, in its order, and a late rank before what its host does; then those with the largest
    predicted saving. What nothing can simulate is in no plan: it comes before changes that alone save less than it is
    estimated to save. Where copies take more than half of the time with no kernel running, the one on copies is the
    first of those outside of the plan.
    """
    planned = {change.rule: float(number) for number, change in enumerate(plan.changes)}
    found = sorted(findings, key=lambda each: each.order)
    rules, last = [each.rule for each in found], float(len(plan.changes))
    if LATE.key in rules:
        # What its host does is why a rank is late: the rank is named first, where it saves most of that.
        saves = {each.device_id: _saved(each) for each in found if each.rule == LATE.key}
        its_host = {
            each.rule
            for each in found
            if each.rule in RULES and each.device_id in saves and saves[each.device_id] > HALF * _saved(each)
        }
        after = [planned[rule] for rule in its_host if rule in planned]
        if LATE.key not in planned:
            after += [planned[rule] for rule in rules[rules.index(LATE.key) :] if rule in planned]
        planned |= {LATE.key: min(*after, planned.get(LATE.key, last)) - 0.5} if after else {}
    ledger = next((section.tables["devices"] for section in sections if section.key == "ledger"), None)
    copies = ON_COPIES if ledger is not None and _is_mostly_copies(ledger) else ()
    alone = {each.rule: each.saving.point for each in found if each.rule in planned and each.saving is not None}
    for each in found:
        if each.rule not in planned and each.saving is not None and each.saving_method == "estimated":
            less = [planned[rule] for rule, saving in alone.items() if saving < each.saving.point]
            planned |= {each.rule: min(less) - 0.5} if less else {}
    return tuple(sorted(found, key=lambda each: (planned.get(each.rule, last), each.rule not in copies)))


def _saved(finding: Finding) -> int:
    return 0 if finding.saving is None else finding.saving.point


def _is_mostly_copies(ledger: "pd.DataFrame") -> bool:
    return 2 * int(ledger["copy_exposed_ns"].sum()) > int(ledger["window_ns"].sum())


def find_verdict(  # noqa: PLR0913, PLR0917 - one argument a source
    sections: Sequence[Section],
    findings: Sequence[Finding],
    window: Window,
    step: StepTimes,
    kind: ProgramKind = UNKNOWN,
    plan: Plan = NO_PLAN,
) -> tuple[str, str | None]:
    """Return what limits the run in a sentence or two, and the rule of the finding that they state.

    Args:
        sections: The sections of the report.
        findings: All findings, in order. The verdict never states the finding on missing events.
        window: Interval of the findings.
        step: The measured steps of the window.
        kind: What kind of program it is.
        plan: The changes in the order that helps most.

    Returns:
        The sentences, after one on each GPU that power or heat slowed down, and the rule of the first finding. The rule
        is None where kernels limit the run: where there is no finding, or one on idle time while the GPU is busy for
        more than nine tenths. It is also None where missing events can change more time than the first finding has
        lost, or where the GPU is idle for longer without a cause that the capture shows.
    """
    sentence, rule = _limit(sections, findings, window, step, kind, plan)
    slowed = [each.headline for each in findings if each.rule == gpu.SLOWED.key]
    return " ".join([*slowed, sentence]), rule


def _limit(  # noqa: PLR0913, PLR0917 - one argument a source
    sections: Sequence[Section],
    findings: Sequence[Finding],
    window: Window,
    step: StepTimes,
    kind: ProgramKind,
    plan: Plan,
) -> tuple[str, str | None]:
    """Return the sentence on what limits the run, apart from the clock of its GPUs, and its rule."""
    by_key = {section.key: section for section in sections}
    if "ledger" not in by_key:
        return _of_host(by_key.get("capture_check"), findings, window, step, kind)
    check, gpus = by_key.get("capture_check"), len(by_key["ledger"].tables["devices"])
    only = check.fact(ONLY_OPERATIONS) if check else None
    about = f"{NO_KERNELS.format(work=only.value)} " if only else ""
    first = next((each for each in findings if each.rule != capture.INCOMPLETE.key), None)
    limits = first is not None and first.severity is not Severity.NOTE
    least_ns = round(LIMIT_SHARE * window.length_ns * gpus)
    lost_ns = _lost_ns(findings, first, gpus) if first and limits else 0
    if outweighs(check, lost_ns if limits else least_ns):
        return f"Cannot tell: the capture is incomplete, and up to {_affected(check)} of the time may be wrong.", None
    unexplained = sum(each.lost_ns for each in findings if each.rule in CANNOT_TELL)
    if unexplained >= least_ns and unexplained > lost_ns:
        share = units.share(unexplained / (window.length_ns * gpus))
        known = (
            f" Apart from that: {first.headline}{_per_step(first, window, step, kind, plan)}"
            if first and limits
            else ""
        )
        return f"Cannot tell: the GPU is idle for {share} of the time and the capture does not show why.{known}", None
    if first is None or not limits:
        return about + _without_finding(by_key["ledger"], by_key.get("compute"), plan, typical(step, window)), None
    then = _per_step(first, window, step, kind, plan)
    if says_idle(first.rule) and (busy := _busy(by_key["ledger"], step)):
        return f"{about}{busy}{then}", None
    return f"{about}{first.headline}{then}", first.rule


def says_idle(rule: str | None) -> bool:
    """Return whether the findings of a rule are on idle time alone: not on copies or short kernels as well."""
    return rule in RULES and rule not in {MANY_KERNELS.key, *ON_COPIES}


def _busy(ledger: Section, step: StepTimes) -> str:
    """Return what keeps the GPUs busy, in a sentence; empty where they are idle for a tenth of the time.

    Where no step was timed alone, they are idle for as long only if they are in the shortest step that may be.
    """
    devices = ledger.tables["devices"]
    compute, idle, whole = (int(devices[f"{each}_ns"].sum()) for each in ("compute", "idle", "window"))
    kernels = units.share(compute / whole)
    if whole - compute < LIMIT_SHARE * whole:
        return COMPUTE_BOUND.format(share=kernels)
    if idle >= LIMIT_SHARE * whole:
        alone = step.alone if step.alone_source == "simulated" else None
        is_sure = alone is None or (whole - idle) * alone.point <= (1 - LIMIT_SHARE) * whole * alone.low
        return "" if is_sure else UNSURE
    return f"The GPU is busy {units.share(1 - idle / whole)} of the time, with kernels for {kernels}."


def _of_host(
    check: Section | None, findings: Sequence[Finding], window: Window, step: StepTimes, kind: ProgramKind
) -> tuple[str, str | None]:
    """Return the verdict of a capture without GPU work: the first finding on the host, if there is one."""
    known = (each for each in findings if each.rule != capture.INCOMPLETE.key)
    first = next((each for each in known if each.severity is not Severity.NOTE), None)
    about = NO_GPU_WORK
    if check and (only := check.fact(ONLY_OPERATIONS)):
        about = f"{NO_KERNELS.format(work=only.value)} {OF_HOST}"
    for label, call, work in (
        (MEMSETS_UNRECORDED, "memset call", "memset"),
        (COPIES_UNRECORDED, "copy call", "copy"),
        (UNRECORDED, "launch call", "kernel"),
    ):
        if check and (missing := check.fact(label)) and isinstance(missing.value, int):
            calls = units.counted(missing.value, f"{call} was recorded", f"{call}s were recorded")
            about = NO_RECORDS.format(calls=calls, work=work)
    if first is None:
        return about, None
    # A finding on the host says by itself that it is not about the GPU.
    said = "" if about == NO_GPU_WORK else f"{about} "
    return f"{said}{first.headline}{_per_step(first, window, step, kind)}", first.rule


def _lost_ns(findings: Sequence[Finding], first: Finding, gpus: int) -> int:
    """Return the time lost to the rule of a finding, summed over GPUs as ``capture_check`` sums its time."""
    return sum(each.lost_ns * (gpus if each.device_id is None else 1) for each in findings if each.rule == first.rule)


def _affected(check: Section | None) -> str:
    """Return the share of the window that can be wrong because the capture is incomplete."""
    fact = check.fact("affected_share") if check else None
    return units.text(fact.value if fact else None, "share")


def _per_step(finding: Finding, window: Window, step: StepTimes, kind: ProgramKind, plan: Plan = NO_PLAN) -> str:
    """Return a sentence on the time of a step now and with the fix, as the plan has it; empty where there are none."""
    now = typical(step, window)
    if now is None:
        return f" {ONE_STEP}" if step.count == 1 else ""
    saving, planned = finding.saving, [each.step for each in plan.changes[:1] if each.rule == finding.rule]
    if not planned and (saving is None or saving.point < LEAST_SAVING_SHARE * window.length_ns):
        return f" {_now(now)}."
    after = planned[0] if planned or saving is None else now.after(saving)
    if not is_known(after):
        return f" {_now(now)}; what it saves is not known well."
    about = units.about(after.point, now.length.point)
    # The least that it saves is more than the time that the finding names.
    more = now.length.point - after.high > finding.lost_ns / window.length_ns * now.length.point
    too = ", as other waits shrink, too" if more and finding.rule in {*RULES, gpu.BETWEEN_OPERATIONS.key} else ""
    return f" {_now(now)}; {about} {kind.fitted(rule_of(finding.rule).fixed)}{too}."


def _now(step: CurrentStep) -> str:
    """Return the time of a step in words, with a caution where few steps were measured."""
    recorded = " as recorded" if step.is_recorded else ""
    few = f", in {step.count} steps only" if step.is_of_few else ""
    return f"A step takes {units.duration(step.length.point)}{recorded}{few}"


def _without_finding(ledger: Section, kernels: Section | None, plan: Plan, step: CurrentStep | None) -> str:
    """Return the verdict of a run without warnings; with the kinds of kernels that take most of the time."""
    devices = ledger.tables["devices"]
    compute, whole = int(devices["compute_ns"].sum()), int(devices["window_ns"].sum())
    if whole - compute >= LIMIT_SHARE * whole:
        rest, copies = units.share((whole - compute) / whole), int(devices["copy_exposed_ns"].sum())
        mostly = ", mostly because of copies" if copies > (whole - compute) / 2 else ""
        if not compute:
            return f"The GPU is idle for {units.share(int(devices['idle_ns'].sum()) / whole)} of the time."
        idle_for = f"Kernels do not run for {rest} of the time{mostly}"
        if step is not None and len(plan.changes) > 1 and is_known(plan.changes[1].step):
            after = units.about(plan.changes[1].step.point, step.length.point)
            return f"{idle_for}; two changes help only together. {_now(step)}; {after} with both."
        return f"{idle_for}, and no change is predicted to save much of it."
    main = kernels.fact("main_kernels") if kernels else None
    most = f" Kernel time: {main.value}." if main and main.value else ""
    return f"{COMPUTE_BOUND.format(share=units.share(compute / whole))}{most}"
