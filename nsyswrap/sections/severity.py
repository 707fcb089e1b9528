"""The rules for printing a finding and for its severity, the same for all sections. No fact depends on them."""

from collections.abc import Iterable

from nsyswrap.base import units
from nsyswrap.base.intervals import Window
from nsyswrap.model import Finding, Severity
from nsyswrap.rules.rule import Rule
from nsyswrap.what_if.saving import LEAST_SAVING_SHARE, Saving

# A finding is a note from 2 % of the window, a warning from 5 %, a problem from 20 %. Source: torch_tb_profiler advises
# from 5 % of the step; the other two are ours, so that a CI job does not report noise.
NOTE_SHARE, WARNING_SHARE, PROBLEM_SHARE = 0.02, 0.05, 0.20
# What takes more of the window than this is no mere note, even if the change saves little as it is simulated. Ours.
MOST_SHARE = 0.50
MORE_THAN_LOST = "it saves more than the time lost: operations after it begin earlier as well"


def ordered(findings: Iterable[Finding | None]) -> tuple[Finding, ...]:
    """Return the findings there are, the most important first."""
    return tuple(sorted((each for each in findings if each), key=lambda each: each.order))


def worth_printing(lost_ns: int, window: Window) -> bool:
    """Return whether a finding takes enough of the window to be printed."""
    return lost_ns >= NOTE_SHARE * window.length_ns


def severity_of(lost_ns: int, saving: Saving, window: Window) -> Severity:
    """Return the severity of a finding: by its time lost, or by the least that it saves where that is more."""
    share = max(lost_ns, saving.time.low if saving.time else 0) / window.length_ns
    saves_little = saving.time is not None and saving.time.point < LEAST_SAVING_SHARE * window.length_ns
    is_known = share <= MOST_SHARE or saving.method == "benchmarked"
    if share < WARNING_SHARE or (saves_little and is_known):
        return Severity.NOTE
    return Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING


def make_finding(  # noqa: PLR0913 - the parts of a finding
    *,
    rule: Rule,
    lost_ns: int,
    saving: Saving,
    window: Window,
    evidence: tuple[str, ...] = (),
    headline: str = "",
    advice: str = "",
    device_id: int | None = None,
    is_note: bool = False,
    usual_share: float | None = None,
    worst: Severity = Severity.PROBLEM,
) -> Finding:
    """Return a finding with its severity, and its prediction as the last lines of evidence.

    Args:
        rule: The rule.
        lost_ns: Time it takes inside the window.
        saving: What fixing it saves.
        window: Interval of the numbers.
        evidence: The numbers that support it.
        headline: One sentence: what is wrong; empty for that of the rule, with the share of the window.
        advice: One sentence: the change to make; empty for that of the rule.
        device_id: Its GPU; None for the whole capture.
        is_note: Whether it is always a note.
        usual_share: The loss as a share, where every program loses some in this way: then a small loss with a small
            sure saving is a note.
        worst: The highest severity that it can have.
    """
    surely_saved = saving.time.low if saving.time else 0
    is_small = surely_saved < WARNING_SHARE * window.length_ns
    is_usual = usual_share is not None and usual_share < PROBLEM_SHARE and is_small
    saves_more = saving.time is not None and saving.time.point > lost_ns
    return Finding(
        rule.key,
        max(
            severity_of(lost_ns, saving, window),
            Severity.NOTE if is_note or is_usual else worst,
            key=lambda each: each.rank,
        ),
        headline or rule.headline.format(share=units.share(lost_ns / window.length_ns)),
        lost_ns,
        saving.time,
        advice or rule.advice,
        (*evidence, *saving.evidence, *((MORE_THAN_LOST,) if saves_more else ())),
        device_id,
        window,
        saving.method,
        saving.what_if,
    )
