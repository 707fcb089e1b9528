"""The plan as the outputs show it."""

import html
from dataclasses import replace

import hand_made
import pytest
from hand_made import MS
from markupsafe import escape

from nsyswrap.base.interval import Interval, between
from nsyswrap.model import NO_PLAN, Plan, PlannedChange
from nsyswrap.render import documents, plan_view, render
from nsyswrap.rules import code_changes
from nsyswrap.rules.idle import DATA_WAIT

REPORT = hand_made.full_report()
TWO = Plan(
    111 * MS,
    (
        PlannedChange("idle/data_wait", between(78 * MS, 90 * MS)),
        PlannedChange("other/rule", between(55_500_000, 55_500_000)),
    ),
    ("Then bounded by <b>compute</b>.",),
)
PLANNED = replace(REPORT, plan=TWO)


def test_rows_are_the_step_now_and_after_each_change() -> None:
    shown = plan_view.plan(PLANNED)
    assert shown.measure == "mean step; do these in order, each row includes those above"
    assert [row.label for row in shown.rows] == ["now", "if the data loader kept up", "if fixed"]
    assert [row.time for row in shown.rows] == ["111 ms", "78.0 to 90.0 ms", "55.5 ms"]
    assert [(row.low, row.high) for row in shown.rows] == [("100.00", "100.00"), ("70.27", "81.08"), ("50.00", "50.00")]
    assert [row.anchor for row in shown.rows] == ["", "finding-idle-data-wait", ""]


@pytest.mark.parametrize(("high", "time"), [(90, "30.0 to 90.0 ms"), (91, "unknown")])
def test_a_range_wider_than_a_factor_of_three_is_unknown(high: int, time: str) -> None:
    change = PlannedChange("idle/data_wait", Interval(30 * MS, 50 * MS, high * MS))
    row = plan_view.plan(replace(REPORT, plan=Plan(111 * MS, (change,)))).rows[1]
    assert row.time == time
    assert bool(row.saving) == bool(row.speed) == (time != "unknown")


def test_text_and_markdown_list_the_plan_below_the_verdict() -> None:
    text, markdown = render("text", PLANNED), render("markdown", PLANNED)
    for shown in (text, markdown):
        places = [shown.index(part) for part in (REPORT.verdict[:30], "if the data loader kept up", "compute", "idle")]
        assert places == sorted(places)
    assert "1 78.0 to 90.0 ms  if the data loader kept up" in text
    assert "1. **78.0 to 90.0 ms** if the data loader kept up: saves 21.0 to 33.0 ms, 1.23 to 1.42" in markdown
    assert "<b>" not in markdown


def test_the_page_draws_each_step_as_a_bar_and_links_its_finding() -> None:
    page = render("html", PLANNED)
    part = page[page.index('id="plan"') : page.index('class="notes"')]
    assert part.count("<li>") == part.count("<svg") == 2
    assert '<a href="#finding-idle-data-wait">if the data loader kept up</a>' in part
    assert 'width="70.27%"' in part
    assert "&lt;b&gt;compute" in part


def test_a_finding_whose_advice_the_plan_gives_leads_there() -> None:
    """The advice is on the page once; a finding that the plan leaves out has its own."""
    page = render("html", PLANNED)
    first, second = (str(escape(one.advice)) for one in PLANNED.findings[:2])
    assert first != second
    assert (page.count(f">{first}<"), page.count(second)) == (1, 1)
    card = page[page.index('id="finding-idle-data-wait"') :]
    assert '<a href="#plan">if the data loader kept up</a>' in card[: card.index("</li>")]


def test_where_there_is_no_plan_the_reason_is_said_or_nothing() -> None:
    reason = replace(REPORT, plan=Plan(notes=("No plan: the window is not made of steps.",)))
    nothing = replace(REPORT, plan=NO_PLAN)
    for form in ("text", "markdown", "html"):
        assert "No plan: the window is not made of steps." in render(form, reason)
        assert "No plan" not in render(form, nothing)
    assert 'id="plan"' not in render("html", nothing)


def test_without_a_plan_the_first_finding_says_what_to_try() -> None:
    """It has its advice and its code, on the slim page, too; with a plan the plan says it."""
    report = replace(
        REPORT, plan=Plan(notes=("No plan: no change saves 1 % of the step.",)), verdict_rule="idle/data_wait"
    )
    waits = next(each for each in report.findings if each.rule == "idle/data_wait")
    assert plan_view.plan(report).instead == (
        "finding-idle-data-wait",
        plan_view.Action(waits.advice, "", code_changes("idle/data_wait")),
    )
    for page in map(str, (render("html", report), documents.render("report", "slim", report))):
        part = page[page.index('aria-label="What to try"') :]
        assert str(escape(waits.advice)) in part[: part.index("No plan: no change")]
        assert "persistent_workers=True,\n" in part[: part.index("No plan: no change")]
    assert plan_view.plan(PLANNED).instead is None
    assert plan_view.plan(replace(report, verdict_rule=None)).instead is None


def test_the_first_three_changes_say_what_to_do() -> None:
    """The advice is that of the finding; a change without a finding has none."""
    rows = plan_view.plan(PLANNED).rows
    waits = next(each for each in REPORT.findings if each.rule == "idle/data_wait")
    assert [row.action is not None for row in rows] == [False, True, False]
    assert rows[1].action == plan_view.Action(waits.advice, "", code_changes("idle/data_wait"))
    many = replace(TWO, changes=(PlannedChange("idle/data_wait", between(78 * MS, 90 * MS)),) * 4)
    actions = [row.action for row in plan_view.plan(replace(PLANNED, plan=many)).rows]
    assert [each is not None for each in actions] == [False, True, True, True, False]


def test_an_action_names_the_line_of_python_with_most_samples() -> None:
    findings = tuple(replace(each, evidence=("most samples: train.py:40, 12 of 20",)) for each in REPORT.findings)
    action = plan_view.plan(replace(PLANNED, findings=findings)).rows[1].action
    assert action is not None
    assert action.line == "Most samples: train.py:40, 12 of 20"


def test_each_change_says_how_many_times_as_fast_the_step_gets() -> None:
    assert [row.speed for row in plan_view.plan(PLANNED).rows] == [
        "",
        "1.23 to 1.42 times as fast",
        "2.00 times as fast",
    ]


def test_each_change_says_what_a_step_saves_with_it_and_those_before_it() -> None:
    assert [row.saving for row in plan_view.plan(PLANNED).rows] == ["", "saves 21.0 to 33.0 ms", "saves 55.5 ms"]
    page = render("html", PLANNED)
    assert "saves 21.0 to 33.0 ms</span>" in page


def test_changes_after_the_third_are_folded() -> None:
    """The folded list goes on counting, and its heading says how short the step gets."""
    five = replace(TWO, changes=(*TWO.changes, *TWO.changes, TWO.changes[1]))
    page = render("html", replace(PLANNED, plan=five))
    part = page[page.index('id="plan"') : page.index('class="notes"')]
    shown, folded = part.split('<details class="more-changes">')
    assert (shown.count("<li>"), folded.count("<li>")) == (3, 2)
    assert "<summary>2 more, down to 55.5 ms</summary>" in folded
    assert '<ol start="4">' in folded
    assert folded.index("</details>") < folded.index("Then bounded by")


def test_a_rank_that_is_late_has_the_code_of_what_makes_it_late() -> None:
    """Its advice is that of its own idle time."""
    waits = next(each for each in REPORT.findings if each.rule == "idle/data_wait")
    late = replace(waits, rule="ranks/late", advice=DATA_WAIT.advice)
    plan = replace(TWO, changes=(PlannedChange("ranks/late", between(78 * MS, 90 * MS)),))
    action = plan_view.plan(replace(PLANNED, findings=(late,), plan=plan)).rows[1].action
    assert action is not None
    assert action.code == code_changes("idle/data_wait") != ()


def test_the_check_runs_the_profiled_command_again() -> None:
    session = replace(REPORT.session, command=("python3", "train it.py", "--lr", "1"))
    assert plan_view.plan(replace(PLANNED, session=session)).check == (
        "nsyswrap profile --then FOLDER -- python3 'train it.py' --lr 1"
    )
    session = replace(REPORT.session, command=())
    assert plan_view.plan(replace(PLANNED, session=session)).check == "nsyswrap profile --then FOLDER -- PROGRAM"


def test_the_page_holds_advice_code_and_the_check() -> None:
    page = render("html", PLANNED)
    part = page[page.index('id="plan"') : page.index('class="notes"')]
    assert "persistent_workers=True,\n" in part
    assert part.count("<pre ") == len(code_changes("idle/data_wait")) + 1
    assert "nsyswrap profile --then FOLDER" in part


def test_the_page_holds_the_summary_in_markdown() -> None:
    page = render("html", PLANNED)
    held = page[page.index('<template id="summary">') + 23 : page.index("</template>")]
    assert html.unescape(held) == render("markdown", PLANNED)


def test_the_first_change_says_how_to_see_lines_where_python_was_not_sampled() -> None:
    """A report with samples names the line, or has none to name."""
    sections = tuple(one for one in REPORT.sections if one.key != "python_lines")
    report = replace(REPORT, sections=sections, findings=tuple(replace(one, evidence=()) for one in REPORT.findings))
    assert plan_view.plan(report).lines == plan_view.NO_LINES
    assert render("html", report).count(html.escape(plan_view.NO_LINES)) == 1
    assert plan_view.plan(REPORT).lines == ""
    assert plan_view.NO_LINES not in render("html", REPORT)
