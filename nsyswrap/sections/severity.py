"""The rules for printing a finding and for its severity, the same for all sections. No fact depends on them."""

from nsyswrap.base.intervals import Window
from nsyswrap.model import Finding, Severity
from nsyswrap.what_if.saving import LEAST_SAVING_SHARE, Saving

# A finding is a note from 2 % of the window, a warning from 5 %, a problem from 20 %. Source: torch_tb_profiler advises
# from 5 % of the step; the other two are ours, so that a CI job does not report noise.
NOTE_SHARE, WARNING_SHARE, PROBLEM_SHARE = 0.02, 0.05, 0.20
# What takes more of the window than this is no mere note, even if the change saves little as it is simulated. Ours.
MOST_SHARE = 0.50
MORE_THAN_LOST = "it saves more than the time lost: operations after it begin earlier as well"


def worth_printing(lost_ns: int, window: Window) -> bool:
    """Return whether a finding takes enough of the window to be printed."""
    return lost_ns >= NOTE_SHARE * window.length_ns


def severity_of(lost_ns: int, saving: Saving, window: Window) -> Severity:
    """Return the severity of a finding: by its time lost, or by the least that it saves where that is more."""
    share = max(lost_ns, saving.time.low if saving.time else 0) / window.length_ns
    is_known = share <= MOST_SHARE or saving.method == "benchmarked"
    if share < WARNING_SHARE or (_saves_little(saving, window) and is_known):
        return Severity.NOTE
    return Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING


def _saves_little(saving: Saving, window: Window) -> bool:
    """Return whether a predicted saving is so small that the finding is only a note, whatever its time lost."""
    return saving.time is not None and saving.time.point < LEAST_SAVING_SHARE * window.length_ns


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
    usual_share: float | None = None,
    worst: Severity = Severity.PROBLEM,
) -> Finding:
    """Return a finding with its severity, and its prediction as the last lines of evidence.

    Args:
        rule: Key of the rule.
        headline: One sentence: what is wrong.
        lost_ns: Time it takes inside the window.
        saving: What fixing it saves.
        advice: One sentence: the change to make.
        evidence: The numbers that support it.
        device_id: Its GPU; None for the whole capture.
        window: Interval of the numbers.
        is_note: Whether it is always a note.
        usual_share: The loss as a share, where every program loses some in this way: then a small loss with a small
            sure saving is a note.
        worst: The highest severity that it can have.
    """
    is_note = is_note or (usual_share is not None and _is_usual(usual_share, saving, window))
    severity = _at_most(Severity.NOTE if is_note else worst, severity_of(lost_ns, saving, window))
    proof = (*evidence, *_saving_evidence(saving, lost_ns))
    how = (saving.method, saving.what_if)
    return Finding(rule, severity, headline, lost_ns, saving.time, advice, proof, device_id, window, *how)


def _is_usual(share: float, saving: Saving, window: Window) -> bool:
    """Return whether a loss that every program has is no more than a note: it is small, and so is its sure saving."""
    return share < PROBLEM_SHARE and (saving.time.low if saving.time else 0) < WARNING_SHARE * window.length_ns


def _at_most(worst: Severity, severity: Severity) -> Severity:
    """Return a severity, limited to the worst one that is allowed."""
    return max(severity, worst, key=lambda each: each.rank)


def _saving_evidence(saving: Saving, lost_ns: int) -> tuple[str, ...]:
    """Return the evidence of a predicted saving, with an explanation where it exceeds the time lost."""
    return (*saving.evidence, *((MORE_THAN_LOST,) if saving.time is not None and saving.time.point > lost_ns else ()))
