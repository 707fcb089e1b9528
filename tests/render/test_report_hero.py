"""The bars below the verdict: the step now, divided into accounts that add up and have names, and the step then."""

import re
from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hand_made import MS
from real_captures import RealReport, of_captures

from nsyswrap.base.interval import Interval
from nsyswrap.model import NO_PLAN, NO_STEP, Gpu, Plan, PlannedChange, Report
from nsyswrap.render import documents, render, report_hero
from nsyswrap.render.document import Bar, Hero

REPORT = hand_made.full_report()


def with_gpus(count: int) -> Report:
    """Return a report on several GPUs that all do the same."""
    sections = []
    for section in REPORT.sections:
        wanted = {"ledger": "devices", "idle": "attribution"}.get(section.key)
        tables = dict(section.tables)
        if wanted:
            tables[wanted] = pd.concat([tables[wanted].assign(device_id=number) for number in range(count)])
        sections.append(replace(section, tables=tables))
    gpus = tuple(Gpu(number, "NVIDIA H200") for number in range(count))
    return replace(REPORT, gpus=gpus, sections=tuple(sections))


def bar_of(report: Report) -> Bar:
    """Return the bar of the step now of a report that has one."""
    shown = report_hero.hero(report)
    assert shown is not None
    return shown.bars[0]


@of_captures(["ranks/loader", "cnn_amp", "ddp_2gpu_slow_links"], few={"ranks/loader"})
def test_the_parts_of_a_real_step_fill_the_bar_in_order(name: str, real_report: RealReport) -> None:
    """Each part starts where the one before it ends; the last ends at 100 per cent."""
    shown = bar_of(real_report(name))
    end = 0.0
    for part in shown.parts:
        assert float(part.x) == pytest.approx(end, abs=1e-3)
        assert float(part.width) > 0
        end = float(part.x) + float(part.width)
    assert end == pytest.approx(100, abs=1e-3)
    assert len({part.label for part in shown.parts}) == len(shown.parts)
    assert not any("_" in part.label or "/" in part.label for part in shown.parts)


def test_without_steps_the_bar_is_the_window() -> None:
    shown = bar_of(replace(REPORT, plan=NO_PLAN, step=NO_STEP))
    assert shown[:2] == ("steps 3 to 20", "2.00 s")


def hero_of(*steps: Interval[int]) -> Hero:
    """Return the bars of a report whose plan has these steps."""
    plan = Plan(111 * MS, tuple(PlannedChange("idle/data_wait", step) for step in steps))
    shown = report_hero.hero(replace(REPORT, plan=plan))
    assert shown is not None
    return shown


def test_the_second_bar_is_the_step_after_the_plan_on_the_scale_of_the_first() -> None:
    now, then = hero_of(Interval(78 * MS, 84 * MS, 90 * MS), Interval(50 * MS, 55_500_000, 60 * MS)).bars
    assert (now.amount, now.range) == ("111 ms", "")
    assert then[:2] == ("after the plan", "56 ms")
    assert (then.range, then.ends) == ("50 to 60", ("45.00", "54.00"))
    assert [part.width for part in then.parts] == ["49.95"]


def test_the_range_after_the_plan_ends_at_the_step_now() -> None:
    """The cards of the plan say so too."""
    _, then = hero_of(Interval(78 * MS, 84 * MS, 90 * MS), Interval(50 * MS, 100 * MS, 120 * MS)).bars
    assert (then.amount, then.range) == ("100 ms", "50 to 111")


@pytest.mark.parametrize(("high", "name"), [(90, "after the plan"), (91, "after 1 change of the plan")])
def test_a_step_whose_range_is_wider_than_a_factor_of_three_is_no_bar(high: int, name: str) -> None:
    assert hero_of(Interval(78 * MS, 84 * MS, 90 * MS), Interval(30 * MS, 50 * MS, high * MS)).bars[1].name == name


@pytest.mark.parametrize(("high", "word"), [(108, "likely"), (109, "rough")])
def test_the_answer_says_how_sure_it_is(high: int, word: str) -> None:
    """Up to half as much again is likely; the words lead to how it is known."""
    words, anchor = hero_of(Interval(72 * MS, 84 * MS, high * MS)).sure
    assert words == f"How sure: {word}, simulated; the step is as recorded, with nsys"
    assert anchor == "section-prediction"


def test_several_gpus_share_a_bar() -> None:
    """It is that of the GPU that the verdict is about; else its shares are the means over the GPUs, and it says so."""
    one, two = bar_of(REPORT), bar_of(with_gpus(2))
    assert two.name == f"{one.name}, GPU 0"
    assert bar_of(replace(with_gpus(2), verdict_rule=None)).name == f"{one.name}, mean of 2 GPUs"
    assert [part.share for part in one.parts] == [part.share for part in two.parts]


def test_small_accounts_of_idle_time_are_one() -> None:
    """The four largest keep their names."""
    sections = []
    for section in REPORT.sections:
        tables = dict(section.tables)
        if section.key == "idle":
            rows = tables["attribution"].iloc[[0] * 7]
            tables["attribution"] = rows.assign(
                rule=[f"idle/rule_{at}" for at in range(7)], idle_ns=range(700, 0, -100)
            )
        sections.append(replace(section, tables=tables))
    idle = [part for part in bar_of(replace(REPORT, sections=tuple(sections))).parts if part.key.startswith("idle")]
    assert len(idle) == 5
    assert idle[-1].label == "other idle time"


@pytest.mark.parametrize("form", ["html", "slim"])
def test_the_page_labels_the_bar_before_the_plan(form: str) -> None:
    page = documents.render("report", form, REPORT)
    part = page[page.index('<figure class="hero">') : page.index('id="plan"')]
    largest = max(bar_of(REPORT).parts, key=lambda row: float(row.width))
    assert f">{largest.inside.text}</text>" in part
    assert largest.label in largest.inside.text
    assert set(re.findall(r"url\(#([\w-]+)\)", part)) <= set(re.findall(r'<pattern id="([\w-]+)"', page))


@of_captures(["ranks/loader", "cnn_amp", "gallery/vgg16-amp"], few={"ranks/loader"})
def test_each_part_has_its_name_and_share_in_the_bar_or_beside_it(name: str, real_report: RealReport) -> None:
    """On a wide page once. Only parts below 1 % have no name; a label in the bar is never without name or share."""
    report = real_report(name)
    page = render("html", report)
    figure = page[page.index('<figure class="hero">') : page.index('id="plan"')]
    in_bar = re.findall(r">([^<>]+)</text>", figure)
    beside = re.findall(r"<span( class=\"only-narrow\")?>.*?</svg>(.*?) <b>(.*?)</b></span>", figure)
    only_here = [f"{label} {share}" for narrow, label, share in beside if not narrow]
    parts = [f"{part.label} {part.share}" for part in bar_of(report).parts if float(part.width) >= 1]
    assert only_here
    assert sorted(in_bar + only_here) == sorted(parts)
    narrow_bar = re.findall(r"<svg class=\"inside\".*?>([^<>]+)</text>", figure)
    assert sorted(narrow_bar + [f"{label} {share}" for _, label, share in beside]) == sorted(parts)
