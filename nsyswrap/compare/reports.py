"""Compares two sides: issues, step times, changed amounts, findings, and a verdict of one sentence."""

from collections.abc import Sequence

from nsyswrap.base import units
from nsyswrap.compare.changes import basis_of, change_tables, fact_changes
from nsyswrap.compare.comparability import find_issues
from nsyswrap.compare.comparison import (
    ChangeTable,
    ComparabilityIssue,
    Comparison,
    ComparisonOptions,
    Estimate,
    IssueKind,
    Outcome,
    Side,
    deciding,
)
from nsyswrap.compare.estimates import CONFIDENCE, MEAN, MEDIAN, Decision, decide, estimate_changes
from nsyswrap.compare.findings import pair_findings
from nsyswrap.compare.plan_score import score_plan
from nsyswrap.compare.run_noise import run_noise
from nsyswrap.model import Report
from nsyswrap.rules import rule_name
from nsyswrap.rules.work_names import LEDGER_NAMES

# The verdict names a part as the reason if it makes at least this share of the change.
MAIN_SHARE = 0.4
# Median step and time per step show the same change if neither changed by more than this factor times the other.
AGREEING = 2.0


def compare_reports(
    base: Sequence[Report], new: Sequence[Report], names: tuple[str, str], options: ComparisonOptions | None = None
) -> Comparison:
    """Return the comparison of two sides.

    Args:
        base: The reports before the change: one, or one for each run of the same program.
        new: The reports after the change.
        names: Names of the two sides in texts.
        options: How they are compared.
    """
    chosen = options or ComparisonOptions()
    before, now = (Side.of(name, reports) for name, reports in zip(names, (base, new), strict=True))
    basis = basis_of(before, now)
    issues = tuple(find_issues(before, now, chosen))
    timed = not any(one.kind is IssueKind.STEPS for one in issues)
    noise = run_noise(before.runs, now.runs, CONFIDENCE) if timed else 0.0
    estimates = estimate_changes(before.runs, now.runs, chosen.margin, noise) if timed else ()
    what = "runs" if len(base) + len(new) > 2 else "steps"  # noqa: PLR2004 - one run each
    decision = decide(estimates, what) if estimates else Decision(Outcome.CANNOT_TELL)
    tables = change_tables(before, now, basis)
    blocks = tuple(one for one in issues if one.blocks)
    findings = pair_findings(before, now, basis)
    return Comparison(
        base=before,
        new=now,
        options=chosen,
        outcome=Outcome.CANNOT_TELL if blocks else decision.outcome,
        verdict=_verdict(decision, estimates, tables, blocks),
        hint=next((one.hint for one in blocks if one.hint), decision.hint),
        issues=issues,
        estimates=estimates,
        basis=basis,
        tables=tables,
        facts=fact_changes(before.report, now.report),
        findings=findings,
        plan_score=score_plan(before.report, now.report, findings, blocked=bool(blocks)),
    )


def _verdict(
    decision: Decision,
    estimates: tuple[Estimate, ...],
    tables: tuple[ChangeTable, ...],
    blocks: tuple[ComparabilityIssue, ...],
) -> str:
    """Return the verdict; where an issue withholds it, the issue comes first."""
    sentence = _sentence(decision, estimates, tables) if estimates else ""
    if not blocks:
        return sentence
    reason = f"Cannot tell: {_as_clause(blocks[0].message)}."
    if not sentence or decision.outcome is Outcome.CANNOT_TELL:
        return reason
    return f"{reason} Apart from that: {sentence}"


def _as_clause(sentence: str) -> str:
    """Return a sentence as a clause: without its full stop, and in lower case where it begins with an article."""
    words = sentence.removesuffix(".")
    return words[0].lower() + words[1:] if words.startswith(("The ", "A ")) else words


def _sentence(decision: Decision, estimates: tuple[Estimate, ...], tables: tuple[ChangeTable, ...]) -> str:
    one = deciding(estimates, decision.outcome)
    times = f"{units.duration(one.base_ns)} in base and {units.duration(one.new_ns)} in new"
    interval = f"95 % interval of the change {units.change(one.change.low)} to {units.change(one.change.high)}"
    if decision.outcome is Outcome.CANNOT_TELL:
        return f"Cannot tell: {decision.reason} ({one.label} {times}, {interval})."
    if decision.outcome is Outcome.NO_DIFFERENCE:
        return f"No difference: the {one.label} {'is' if one.label == MEAN else 'takes'} {times} ({interval})."
    less = decision.outcome is Outcome.FASTER
    word, how = ("Faster", "less") if less else ("Slower", "more")
    bounds = sorted(map(abs, one.change.ends))
    amount = f"{units.share(abs(one.change.point))} {how} (95 % interval {units.share_band(*bounds)})"
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
