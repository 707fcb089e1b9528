"""Severity depends on the share of the window and on the saving of a fix."""

from dataclasses import replace

import pytest
from analysis_fixtures import window
from savings import ends_of

from nsyswrap.base.interval import between
from nsyswrap.model import Finding, SavingMethod, Severity
from nsyswrap.rules.idle import CPU
from nsyswrap.sections.severity import MORE_THAN_LOST, make_finding, severity_of, worth_printing
from nsyswrap.what_if.saving import NO_SAVING, Saving

WHOLE = window(5000, 6000)
UNKNOWN = Saving(None, None, ("nothing is known",))


def saves(low: int, high: int) -> Saving:
    """Return a simulated saving, with a line of evidence."""
    return Saving(between(low, high), "simulated", ("simulated: a change",))


def made(
    lost: int,
    saving: Saving,
    *,
    is_note: bool = False,
    usual_share: float | None = None,
    worst: Severity = Severity.PROBLEM,
) -> Finding:
    """Return a finding in a window of 1000 ns."""
    return make_finding(
        rule=CPU,
        headline="Something takes time.",
        lost_ns=lost,
        saving=saving,
        advice="Do less.",
        evidence=("a number",),
        device_id=1,
        window=WHOLE,
        is_note=is_note,
        usual_share=usual_share,
        worst=worst,
    )


@pytest.mark.parametrize(("lost", "worth"), [(0, False), (19, False), (20, True), (1000, True)])
def test_a_finding_needs_two_per_cent_of_the_window(lost: int, worth: bool) -> None:  # noqa: FBT001
    assert worth_printing(lost, WHOLE) == worth


@pytest.mark.parametrize(
    ("lost", "severity"),
    [(20, "note"), (49, "note"), (50, "warning"), (199, "warning"), (200, "problem"), (1000, "problem")],
)
@pytest.mark.parametrize("saving", [UNKNOWN, saves(10, 10), saves(0, 900)])
def test_severity_follows_the_share_of_the_window(lost: int, severity: str, saving: Saving) -> None:
    """A finding is a note below 5 %, a warning below 20 %, else a problem, even if no saving can be predicted."""
    assert severity_of(lost, saving, WHOLE) == severity
    assert made(lost, saving).severity == severity


@pytest.mark.parametrize(
    ("least", "severity"), [(49, "note"), (50, "warning"), (199, "warning"), (200, "problem"), (900, "problem")]
)
def test_severity_follows_what_is_saved_at_least_where_that_is_more(least: int, severity: str) -> None:
    """Short gaps between operations take 2 % of the time; a compiler that fuses them saves their kernels as well."""
    assert severity_of(20, saves(least, 950), WHOLE) == severity


@pytest.mark.parametrize(
    ("saving", "severity"),
    [
        (NO_SAVING, "note"),
        (saves(0, 19), "note"),
        (saves(9, 10), "note"),
        (saves(0, 20), "problem"),
        (saves(10, 10), "problem"),
    ],
)
def test_a_saving_below_one_per_cent_of_the_window_is_a_note(saving: Saving, severity: str) -> None:
    """The mean of the least and the most counts; half of the window is lost."""
    assert made(500, saving).severity == severity


@pytest.mark.parametrize(("method", "severity"), [("simulated", "problem"), ("benchmarked", "note")])
def test_what_takes_most_of_the_window_is_a_note_only_where_the_change_was_measured(
    method: SavingMethod, severity: str
) -> None:
    """It takes 600 of 1000 ns, and the change saves nothing."""
    assert made(600, replace(saves(0, 0), method=method)).severity == severity


def test_a_saving_that_cannot_be_predicted_is_none_and_does_not_soften() -> None:
    found = made(500, UNKNOWN)
    assert (*ends_of(found), found.saving_method) == (None, None, None)
    assert (found.severity, found.evidence) == ("problem", ("a number", "nothing is known"))


@pytest.mark.parametrize(
    ("worst", "lost", "severity"),
    [
        (Severity.PROBLEM, 500, "problem"),
        (Severity.WARNING, 500, "warning"),
        (Severity.WARNING, 30, "note"),
        (Severity.NOTE, 500, "note"),
    ],
)
def test_a_finding_does_not_exceed_its_worst_severity(worst: Severity, lost: int, severity: str) -> None:
    """The worst severity is a limit and does not raise the severity."""
    assert made(lost, saves(20, 200), worst=worst).severity == severity


@pytest.mark.parametrize(
    ("share", "least", "severity"),
    [(0.19, 49, "note"), (0.19, 50, "warning"), (0.20, 49, "warning"), (0.20, 0, "warning")],
)
def test_a_loss_of_every_program_is_a_note_unless_it_or_its_sure_saving_is_large(
    share: float, least: int, severity: str
) -> None:
    assert made(100, saves(least, 300), usual_share=share, worst=Severity.WARNING).severity == severity


def test_a_note_stays_one() -> None:
    assert made(900, saves(800, 900), is_note=True).severity is Severity.NOTE


@pytest.mark.parametrize(("high", "more"), [(700, ()), (702, (MORE_THAN_LOST,))])
def test_a_saving_of_more_than_the_time_lost_is_explained(high: int, more: tuple[str, ...]) -> None:
    """The estimate is the middle: 500 or 501. For example, a wait delays the launches after it."""
    found = made(500, saves(300, high))
    assert (*ends_of(found), found.saving_method) == (300, high, "simulated")
    assert found.evidence == ("a number", "simulated: a change", *more)


def test_a_finding_keeps_what_it_is_made_of() -> None:
    found = made(60, saves(30, 60))
    assert (found.rule, found.headline, found.lost_ns) == ("idle/cpu", "Something takes time.", 60)
    assert (found.advice, found.device_id, found.window) == ("Do less.", 1, WHOLE)
