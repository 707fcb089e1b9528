"""Compares two sides: issues, step times, changed amounts, findings, and a verdict of one sentence."""

from collections.abc import Sequence

from nsyswrap.base import units
from nsyswrap.compare.changes import basis_of, change_tables, fact_changes
from nsyswrap.compare.comparability import find_issues
from nsyswrap.compare.comparison import (
    OTHERS,
    ChangeTable,
    ComparabilityIssue,
    Comparison,
    ComparisonOptions,
    Estimate,
    IssueKind,
    Outcome,
    RunMachine,
    Side,
    deciding,
)
from nsyswrap.compare.estimates import MEAN, MEDIAN, Decision, decide, estimate_changes
from nsyswrap.compare.findings import pair_findings
from nsyswrap.compare.plan_score import score_plan
from nsyswrap.model import Report
from nsyswrap.rules import rule_name
from nsyswrap.rules.work_names import LEDGER_NAMES

# The verdict names a part as the reason if it makes at least this share of the change.
MAIN_SHARE = 0.4
# Median step and time per step show the same change if neither changed by more than this factor times the other.
AGREEING = 2.0


def compare_reports(
    base: Sequence[Report],
    new: Sequence[Report],
    names: tuple[str, str],
    options: ComparisonOptions | None = None,
    origins: tuple[Sequence[RunMachine], Sequence[RunMachine]] = ((), ()),
) -> Comparison:
    """Return the comparison of two sides.

    Args:
        base: The reports before the change: one, or one for each run of the same program.
        new: The reports after the change.
        names: Names of the two sides in texts.
        options: How they are compared.
        origins: Where each run of both sides was made; empty where that is unknown.
    """
    chosen = options or ComparisonOptions()
    before, now = (Side.of(*one) for one in zip(names, (base, new), origins, strict=True))
    basis = basis_of(before, now)
    issues = tuple(find_issues(before, now, chosen))
    others = [one.message for one in issues if one.kind in OTHERS and not one.blocks]
    timed = not any(one.kind is IssueKind.STEPS for one in issues)
    estimates = estimate_changes(before.runs, now.runs, chosen.find) if timed else ()
    decision = decide(estimates, before.runs, now.runs, chosen.find) if timed else Decision(Outcome.CANNOT_TELL)
    tables = change_tables(before, now, basis)
    blocks = tuple(one for one in issues if one.blocks)
    findings = pair_findings(before, now, basis)
    tells = estimates and not (blocks and decision.outcome is Outcome.CANNOT_TELL)
    sentence = _sentence(decision, estimates, tables, chosen.find) if tells else ""
    return Comparison(
        base=before,
        new=now,
        options=chosen,
        outcome=Outcome.CANNOT_TELL if blocks else decision.outcome,
        verdict=_verdict(sentence, blocks, others),
        hint=next((one.hint for one in blocks if one.hint), decision.hint),
        issues=issues,
        estimates=estimates,
        basis=basis,
        tables=tables,
        facts=fact_changes(before.report, now.report),
        findings=findings,
        plan_score=score_plan(before.report, now.report, findings, blocked=bool(blocks)),
    )


def _verdict(sentence: str, blocks: tuple[ComparabilityIssue, ...], others: Sequence[str]) -> str:
    """Return the verdict: first what withholds it and what else differs, then the sentence about the step."""
    if not blocks:
        return " ".join([*others, sentence])
    reason = " ".join([f"Cannot tell: {_as_clause(blocks[0].message)}.", *others])
    return f"{reason} Apart from that: {sentence}" if sentence else reason


def _as_clause(sentence: str) -> str:
    """Return a sentence as a clause: without its full stop, and in lower case where no name begins it."""
    words = sentence.removesuffix(".")
    return words[0].lower() + words[1:] if words.startswith(("The ", "A ", "Other ")) else words


def _sentence(decision: Decision, estimates: tuple[Estimate, ...], tables: tuple[ChangeTable, ...], find: float) -> str:
    one = deciding(estimates, decision.outcome)
    times = f"{units.duration(one.base_ns)} in base and {units.duration(one.new_ns)} in new"
    interval = f"95 % interval of the change {' to '.join(map(units.change, one.change.ends))}"
    if decision.outcome is Outcome.CANNOT_TELL:
        return f"Cannot tell: {decision.reason} ({one.label} {times}, {interval})."
    if decision.outcome is Outcome.NO_DIFFERENCE:
        verb = "is" if one.label == MEAN else "takes"
        return f"No difference of {units.percent(find)}: the {one.label} {verb} {times} ({interval})."
    less = decision.outcome is Outcome.FASTER
    word = "Faster" if less else "Slower"
    amount = f"{units.share_band(*sorted(map(abs, one.change.ends)))} {word.lower()}"
    times = f"{units.duration(one.new_ns)} instead of {units.duration(one.base_ns)}, {amount}"
    if one.label == MEAN:
        clause = f"the {MEAN} is {times}, but the {MEDIAN} does not show it"
    else:
        clause = f"the {MEDIAN} takes {times}"
    return f"{word}: {clause}{_reason(one, estimates, tables, less=less)}."


def _reason(decided: Estimate, estimates: tuple[Estimate, ...], tables: tuple[ChangeTable, ...], *, less: bool) -> str:
    """Return a clause about the part of the ledger or of idle time that makes most of the change; empty without one.

    Parts add up to the time per step, so they explain a median step only where it changed by a similar amount.
    """
    whole = next(one for one in estimates if one.label == MEAN)
    by_key = {table.key: table.changes for table in tables}
    in_ns = all(table.unit == "ns" for table in tables if table.key == "ledger")
    ratio = (whole.new_ns - whole.base_ns) / (decided.new_ns - decided.base_ns)
    if not in_ns or not 1 / AGREEING <= ratio <= AGREEING:
        return ""
    parts = [one for one in by_key.get("ledger", ()) if one.name != "idle_ns"]
    idle = by_key.get("idle", ())
    candidates = [one for one in (*parts, *idle) if (one.delta < 0) == less]
    main = max(candidates, key=lambda one: abs(one.delta), default=None)
    if main is None or abs(main.delta) < MAIN_SHARE * abs(whole.new_ns - whole.base_ns):
        return ""
    how = f"{units.duration(abs(main.delta))} {'less' if less else 'more'}"
    if main in idle:
        return f", mostly because the GPU is idle {how} ({rule_name(main.name)})"
    return f", mostly in {LEDGER_NAMES.get(main.name, main.name)} ({how})"
