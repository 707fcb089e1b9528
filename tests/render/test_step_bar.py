"""The bar below the verdict: the step now, divided into accounts that add up and have names."""

import re
from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from real_captures import RealReport

from nsyswrap.model import NO_PLAN, NO_STEP, Gpu, Report
from nsyswrap.render import documents, render, step_bar

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


def bar_of(report: Report) -> step_bar.StepBar:
    """Return the bar of a report that has one."""
    shown = step_bar.step_bar(report)
    assert shown is not None
    return shown


@pytest.mark.parametrize("name", ["ranks/loader", "cnn_amp", "ddp_2gpu_slow_links"])
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


def test_the_bar_is_the_mean_step() -> None:
    assert bar_of(REPORT)[:2] == ("a mean step now", "111 ms")


def test_without_steps_the_bar_is_the_window() -> None:
    shown = bar_of(replace(REPORT, plan=NO_PLAN, step=NO_STEP))
    assert shown[:2] == ("steps 3 to 20", "2.00 s")


def test_several_gpus_share_a_bar() -> None:
    """Its shares are the means over the GPUs, and it says so."""
    one, two = bar_of(REPORT), bar_of(with_gpus(2))
    assert (one.whose, two.whose) == ("", "mean of 2 GPUs")
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


def test_without_a_gpu_there_is_no_bar() -> None:
    sections = tuple(section for section in REPORT.sections if section.key != "ledger")
    report = replace(REPORT, sections=sections)
    assert step_bar.step_bar(report) is None
    assert 'class="now"' not in render("html", report)


@pytest.mark.parametrize("form", ["html", "slim"])
def test_the_page_labels_the_bar_before_the_plan(form: str) -> None:
    page = documents.render("report", form, REPORT)
    part = page[page.index('<figure class="now">') : page.index('id="plan"')]
    largest = max(bar_of(REPORT).parts, key=lambda row: float(row.width))
    assert f">{largest.inside.text}</text>" in part
    assert largest.label in largest.inside.text
    assert set(re.findall(r"url\(#([\w-]+)\)", part)) <= set(re.findall(r'<pattern id="([\w-]+)"', page))


@pytest.mark.parametrize("name", ["ranks/loader", "cnn_amp", "gallery/vgg16-amp"])
def test_each_part_has_its_name_and_share_in_the_bar_or_beside_it(name: str, real_report: RealReport) -> None:
    """On a wide page once. Only parts below 1 % have no name; a label in the bar is never without name or share."""
    report = real_report(name)
    page = render("html", report)
    figure = page[page.index('<figure class="now">') : page.index('id="plan"')]
    in_bar = re.findall(r">([^<>]+)</text>", figure)
    beside = re.findall(r"<span( class=\"only-narrow\")?>.*?</svg>(.*?) <b>(.*?)</b></span>", figure)
    only_here = [f"{label} {share}" for narrow, label, share in beside if not narrow]
    parts = [f"{part.label} {part.share}" for part in bar_of(report).parts if float(part.width) >= 1]
    assert only_here
    assert sorted(in_bar + only_here) == sorted(parts)
    narrow_bar = re.findall(r"<svg class=\"inside\".*?>([^<>]+)</text>", figure)
    assert sorted(narrow_bar + [f"{label} {share}" for _, label, share in beside]) == sorted(parts)
