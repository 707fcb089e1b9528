"""When a finding is worth printing, and how much it matters: one rule for all sections. No fact depends on it."""

from nsyswrap.intervals import Window
from nsyswrap.model import Finding, Severity
from nsyswrap.what_if.changes import Saving

# Time lost is worth a sentence from 2 % of the window on, a warning from 5 %, a problem from 20 %. Source:
# torch_tb_profiler advises from 5 % of the step on; the other two are ours, so that a CI job is not told of noise.
NOTE_SHARE, WARNING_SHARE, PROBLEM_SHARE = 0.02, 0.05, 0.20
# A predicted saving below this part of the step is no reason for a warning, whatever the share of the time. Source:
# ours; two runs of one program differ by as much.
LEAST_SAVING_SHARE = 0.01
MORE_THAN_LOST = "it saves more than the time lost: what waits behind it comes earlier as well"


def worth_printing(lost_ns: int, window: Window) -> bool:
    """Return whether a finding takes enough of the window to be printed."""
    return lost_ns >= NOTE_SHARE * window.length_ns


def severity_of(lost_ns: int, saving: Saving, window: Window) -> Severity:
    """Return how much a finding matters, by the time it takes and the time that fixing it saves."""
    share = lost_ns / window.length_ns
    if share < WARNING_SHARE or _saves_little(saving, window):
        return Severity.NOTE
    return Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING


def _saves_little(saving: Saving, window: Window) -> bool:
    if saving.low_ns is None or saving.high_ns is None:
        return False
    return saving.low_ns + saving.high_ns < 2 * LEAST_SAVING_SHARE * window.length_ns


def make_finding(  # noqa: PLR0913 - the parts of a finding
    *,
    rule: str,
    headline: str,
    lost_ns: int,
    saving: Saving,
    advice: str,
    evidence: tuple[str, ...],
    device_id: int | None,
    window: Window,
    is_note: bool = False,
    worst: Severity = Severity.PROBLEM,
) -> Finding:
    """Return a finding with its severity, and its prediction as the last lines of evidence.

    Args:
        rule: Key of the rule.
        headline: One sentence: what is wrong.
        lost_ns: Time it takes inside the window.
        saving: What fixing it saves.
        advice: One sentence: the change to make.
        evidence: The numbers it rests on.
        device_id: GPU it is about; None for the whole capture.
        window: Interval the numbers are about.
        is_note: Whether it is never more than a note.
        worst: The severity that it does not exceed.
    """
    severity = Severity.NOTE if is_note else severity_of(lost_ns, saving, window)
    more = (MORE_THAN_LOST,) if (saving.high_ns or 0) > lost_ns else ()
    return Finding(
        rule=rule,
        severity=max(severity, worst, key=lambda each: each.rank),
        headline=headline,
        lost_ns=lost_ns,
        saving_low_ns=saving.low_ns,
        saving_high_ns=saving.high_ns,
        advice=advice,
        evidence=(*evidence, *saving.evidence, *more),
        device_id=device_id,
        window=window,
        saving_method=saving.method,
    )
