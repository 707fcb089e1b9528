"""The findings as cards: order, stable anchors, times on one scale, and evidence with links to the timeline."""

import html
from dataclasses import replace

import hand_made
import pytest
from hand_made import MS
from timeline_fixtures import timeline_report

from nsyswrap.base.interval import Interval, between
from nsyswrap.base.intervals import Window
from nsyswrap.model import NO_PLAN, NO_STEP, Finding, Plan, PlannedChange, Report, SavingMethod
from nsyswrap.render import documents, render, report_cards
from nsyswrap.render.document import Effect, Entry
from nsyswrap.rules import code_changes, rule_name
from nsyswrap.rules.idle import DATA_WAIT
from nsyswrap.verdict import in_order

FULL = hand_made.full_report()
WAIT = FULL.findings[0]
TWO = Plan(
    111 * MS,
    (
        PlannedChange("idle/data_wait", between(78 * MS, 90 * MS)),
        PlannedChange("launches/launch_bound", between(55_500_000, 55_500_000)),
    ),
    ("After that, <b>compute</b> sets the pace.",),
)
PLANNED = replace(FULL, plan=TWO, findings=in_order(FULL.sections, FULL.findings, TWO))


def card_of(*found: Finding, plan: Plan = NO_PLAN) -> Entry:
    """Return the first card of a report with these findings."""
    return report_cards.cards(replace(FULL, findings=found, plan=plan))[0]


def effect_of(card: Entry) -> Effect:
    assert card.effect is not None
    return card.effect


def test_findings_of_the_plan_come_first_in_its_order() -> None:
    other = replace(WAIT, rule="compute/kernels", saving=between(700 * MS, 800 * MS))
    reverse = replace(TWO, changes=TWO.changes[::-1])
    launch = next(each for each in FULL.findings if each.rule == "launches/launch_bound")
    ordered = in_order((), [other, WAIT, launch], reverse)
    assert [each.rule for each in ordered] == ["launches/launch_bound", "idle/data_wait", "compute/kernels"]
    assert in_order((), [WAIT, launch, other]) == (other, WAIT, launch)


def test_each_card_of_the_plan_saves_what_its_step_is_shorter_than_the_one_before() -> None:
    first, second = (effect_of(each) for each in report_cards.cards(PLANNED)[:2])
    assert first[:5] == ("84 ms", "if the data loader kept up", "saves 27 ms", "78 to 90 ms", "simulated")
    assert (first.bar, first.ends) == (("75.60", "100.00"), ("70.20", "81.00"))
    assert second[:5] == ("56 ms", "with CUDA graphs", "saves 28 ms", "", "simulated")
    assert second.bar == ("49.95", "75.60")


def test_a_card_outside_of_the_plan_has_its_fix_alone() -> None:
    card = card_of(replace(WAIT, saving=Interval(180 * MS, 198 * MS, 216 * MS)))
    assert effect_of(card)[:5] == (
        "100 ms",
        "if the data loader kept up",
        "saves 11 ms",
        "99 to 101 ms",
        "simulated, alone",
    )
    assert card.cost == (("time lost", "33 ms a step, 30.0 %"),)


@pytest.mark.parametrize(("high", "after"), [(90, "50 ms"), (91, "unknown")])
def test_a_range_wider_than_a_factor_of_three_is_unknown(high: int, after: str) -> None:
    plan = Plan(111 * MS, (PlannedChange("idle/data_wait", Interval(30 * MS, 50 * MS, high * MS)),))
    effect = effect_of(card_of(WAIT, plan=plan))
    assert effect.after == after
    assert bool(effect.saving) == bool(effect.bar) == (not effect.why) == (after != "unknown")


def test_a_saving_that_rounds_to_nothing_is_unknown_and_no_time_at_all_is_no_effect() -> None:
    plan = Plan(111 * MS, (PlannedChange("idle/data_wait", between(110_900_000, 111 * MS)),))
    assert effect_of(card_of(WAIT, plan=plan)).after == "unknown"
    assert effect_of(card_of(replace(WAIT, saving=None))).why == "Nothing simulates what this saves."
    assert card_of(replace(WAIT, saving=between(0, 0))).effect is None


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("measured", "Measured with nsyswrap try, alone: 100 ms a step, saves 11 ms, 99 to 101 ms."),
        ("benchmarked", "Benchmarked on this GPU, alone: 100 ms a step, saves 11 ms, 99 to 101 ms."),
        ("simulated", ""),
    ],
)
def test_what_was_measured_is_beside_what_was_predicted(method: SavingMethod, words: str) -> None:
    tried = replace(WAIT, saving=Interval(180 * MS, 198 * MS, 216 * MS), saving_method=method)
    card = card_of(tried, plan=TWO)
    assert card.measured == words
    assert effect_of(card)[2:5:2] == ("saves 27 ms", "simulated")
    assert words in html.unescape(render("html", replace(FULL, findings=(tried,), plan=TWO)))
    measured = PlannedChange(tried.rule, between(99 * MS, 101 * MS), "measured")
    assert card_of(tried, plan=Plan(111 * MS, (measured,))).measured == ""


def test_without_steps_a_card_has_the_saving_of_the_window() -> None:
    (card,) = report_cards.cards(replace(FULL, findings=(WAIT,), step=NO_STEP, plan=NO_PLAN))
    assert card.effect is None
    assert card.cost == (("time lost", "601 ms, 30.0 %"), ("predicted saving", "up to 601 ms"))


@pytest.mark.parametrize(
    ("rule", "anchor"),
    [
        ("idle/data_wait", "finding-idle-data-wait"),
        ("tensor_cores/not_used", "finding-tensor-cores-not-used"),
        (hand_made.HOSTILE, "finding-img-src-x-onerror-alert-1-script-31m-cmd"),
        ("\u202e", "finding-other"),
        ("x" * 500, "finding-" + "x" * 60),
    ],
)
def test_an_anchor_follows_from_the_rule_alone(rule: str, anchor: str) -> None:
    assert report_cards.anchor(rule) == anchor


def test_two_findings_of_one_rule_have_two_anchors_and_the_plan_is_on_the_first() -> None:
    cards = report_cards.cards(replace(FULL, findings=(WAIT, replace(WAIT, advice="Do something else.")), plan=TWO))
    assert [card.anchor for card in cards] == ["finding-idle-data-wait", "finding-idle-data-wait-2"]
    assert [effect_of(card).how for card in cards] == ["simulated", "simulated, alone"]


def test_cards_stay_in_the_order_of_the_report() -> None:
    assert [card.rule for card in report_cards.cards(FULL)] == [rule_name(one.rule) for one in FULL.findings]


def test_a_share_of_another_window_than_that_of_the_breakdown_names_it() -> None:
    other = replace(WAIT, window=Window(0, 2_000 * MS, "all operations", "session"))
    assert card_of(other).cost == (("time lost", "33 ms a step, 30.0 % of all operations"),)


def test_the_verdict_leads_to_its_finding() -> None:
    assert report_cards.verdict_anchor(FULL) == report_cards.cards(FULL)[0].anchor
    assert report_cards.verdict_anchor(replace(FULL, verdict_rule=None)) == ""
    assert report_cards.verdict_anchor(replace(FULL, findings=())) == ""


def test_evidence_that_names_a_gap_leads_to_it() -> None:
    """The gap is found by rule, GPU and start, so that the link has its exact ends."""
    line = "33.0 ms at 1.210000 s: thread 7 waits for data"
    card = card_of(replace(WAIT, evidence=(line, "98.2 % of the window")))
    assert [one.span for one in card.evidence] == [(1_210 * MS, 1_243 * MS), None]


@pytest.mark.parametrize(("device_id", "rule"), [(1, "idle/data_wait"), (0, "idle/launch"), (0, "copies/exposed")])
def test_a_gap_of_another_gpu_or_rule_is_not_linked(device_id: int, rule: str) -> None:
    line = "33.0 ms at 1.210000 s: thread 7 waits"
    assert card_of(replace(WAIT, device_id=device_id, rule=rule, evidence=(line,))).evidence[0].span is None


def test_a_card_has_the_times_of_its_longest_gap_as_the_axis_of_nsight_shows_them() -> None:
    assert card_of(WAIT).span == (1_210 * MS, 1_243 * MS)
    page = render("html", replace(FULL, findings=(WAIT,)))
    assert "the longest is from 1.210000 s to 1.243000 s on the axis." in page


def test_a_card_without_gaps_has_the_times_of_the_longest_kernel_that_its_evidence_names() -> None:
    report = timeline_report()
    data = report.timeline
    assert data is not None
    row = next(each for each in data.rows if each.kind == "stream" and len(each.items.start))
    name = data.kernels[int(row.items.details["name"][0])].name
    found = replace(WAIT, rule="compute/kernels", device_id=row.device_id, evidence=(f"9 launches of {name}",))
    (card,) = report_cards.cards(replace(report, findings=(found,)))
    assert card.span is not None
    starts = [one.items.start for one in data.rows if one.kind == "stream" and one.device_id == row.device_id]
    assert any(card.span.start_ns in start for start in starts)
    assert report_cards.cards(replace(report, findings=(replace(found, evidence=("none",)),)))[0].span is None


def test_long_evidence_is_cut_and_its_whole_is_there() -> None:
    page = render("html", replace(FULL, findings=(replace(WAIT, evidence=("12 launches of " + "k" * 900,)),)))
    assert page.count("k" * 900) == 1
    assert f"{'k' * 90}…" in page


def test_the_same_matter_on_another_gpu_is_one_line_and_its_evidence_says_where() -> None:
    card = card_of(WAIT, replace(WAIT, device_id=1, evidence=("seen",)))
    assert [where for where, _ in card.also] == ["GPU 1"]
    assert card.evidence[-1].text == "GPU 1: seen"


@pytest.mark.parametrize(
    ("rule", "section"),
    [
        ("idle/cpu", ("ledger", "GPU time breakdown")),
        ("copies/exposed", ("section-copies", "Memory copies")),
        ("brand_new/rule", ("", "")),
    ],
)
def test_a_card_leads_to_the_section_of_its_numbers(rule: str, section: tuple[str, str]) -> None:
    assert card_of(replace(WAIT, rule=rule)).source == section


def test_a_card_names_the_line_of_python_with_most_samples() -> None:
    card = card_of(replace(WAIT, evidence=("most samples: train.py:40, 12 of 20",)))
    assert card.place == "Most samples: train.py:40, 12 of 20"


def test_a_rank_that_is_late_has_the_code_of_what_makes_it_late() -> None:
    """Its advice is that of its own idle time."""
    late = replace(WAIT, rule="ranks/late", advice=DATA_WAIT.advice)
    assert card_of(late).code == code_changes("idle/data_wait") != ()


def test_text_and_markdown_have_the_cards_below_the_verdict() -> None:
    text, markdown = render("text", PLANNED), render("markdown", PLANNED)
    for shown in (text, markdown):
        places = [shown.index(part) for part in (FULL.verdict[:30], "if the data loader kept up", "compute", "idle")]
        assert places == sorted(places)
    assert "84 ms (78 to 90) if the data loader kept up; saves 27 ms, simulated" in text
    assert "<b>" not in markdown


@pytest.mark.parametrize("form", ["html", "slim"])
def test_the_page_has_each_advice_once_with_its_bar_code_and_check(form: str) -> None:
    """The answer above the cards says the first one, too."""
    page = documents.render("report", form, PLANNED).partition("<template")[0]
    part = page[page.index('id="plan"') :]
    for one in PLANNED.findings[:2]:
        assert part.count(html.escape(one.advice)) == 1
    assert 'class="p-after" width="75.60%"' in part
    assert "persistent_workers=True,\n" in part
    assert "nsyswrap profile --then ." in part
    assert "&lt;b&gt;compute" in part


def test_where_there_is_no_plan_the_reason_is_said_or_nothing() -> None:
    reason = replace(FULL, plan=Plan(notes=("No plan: the window is not made of steps.",)))
    for form in ("text", "markdown", "html"):
        assert "No plan: the window is not made of steps." in render(form, reason)
        assert "No plan" not in render(form, replace(FULL, plan=NO_PLAN))
    assert "--then" not in render("html", reason)


def test_the_check_runs_the_profiled_command_again() -> None:
    def check(*command: str) -> str:
        capture = replace(FULL.capture, folder="reports/the base")
        report: Report = replace(PLANNED, session=replace(FULL.session, command=command), capture=capture)
        return report_cards.check(report)

    assert check("python3", "train it.py", "--lr", "1") == (
        "nsyswrap profile --then 'reports/the base' -- python3 'train it.py' --lr 1"
    )
    assert check() == "nsyswrap profile --then 'reports/the base' -- PROGRAM"


def test_commands_name_the_capture_as_it_lies_and_no_command_names_several() -> None:
    one = replace(PLANNED, capture=replace(FULL.capture, name="capture.sqlite", folder="reports/base"))
    assert report_cards.share(one) == "nsyswrap redact reports/base/capture.sqlite -o shared.sqlite"
    assert report_cards.page_command(one) == ": nsyswrap report reports/base/capture.sqlite"
    ranks = replace(one, capture=replace(one.capture, name="2 ranks"))
    assert (report_cards.share(ranks), report_cards.page_command(ranks)) == ("", ".")


def test_the_page_holds_the_summary_in_markdown() -> None:
    page = render("html", PLANNED)
    held = page[page.index('<template id="summary">') + 23 : page.index("</template>")]
    assert html.unescape(held) == render("markdown", PLANNED)


def test_where_python_was_not_sampled_a_command_records_the_line() -> None:
    """A report with samples names the line, or has none to name."""
    sections = tuple(one for one in FULL.sections if one.key not in {"python_lines", "operators"})
    report = replace(FULL, sections=sections, findings=tuple(replace(one, evidence=()) for one in FULL.findings))
    assert report_cards.line_command(report).startswith("nsyswrap profile --python-sampling -- python train.py ")
    assert report_cards.NO_LINE in render("html", report)
    assert report_cards.line_command(FULL) == ""
    assert report_cards.NO_LINE not in render("html", FULL)
