"""Page, terminal and Markdown print only numbers that are in report.json or follow from it."""

import html
import json
import re
from collections.abc import Iterator
from itertools import accumulate, chain, product
from typing import Any

import hand_made
import pytest

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.render import render
from nsyswrap.render.step_scale import StepScale, step_scale

REPORTS = {"one GPU": hand_made.full_report(), "two GPUs": hand_made.two_gpu_report()}
DURATION = re.compile(r"(?<![\w.,])(?:\d[\d,]*(?:\.\d+)?) (?:ns|µs|ms|s)(?!\w)")
SHARE = re.compile(r"[<>]?\d+\.\d %")


def leaves(tree: object) -> Iterator[object]:
    """Yield every value of a JSON tree."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        for item in tree:
            yield from leaves(item)
    else:
        yield tree


def gap_lengths(tree: dict[str, Any]) -> Iterator[int]:
    """Yield the length of each gap, added up from its rows, and of each cause in it."""
    gap: list[dict[str, Any]] = []
    for row in [*tree["sections"]["idle"]["tables"]["gaps"], None]:
        if gap and (row is None or row["start_ns"] != gap[-1]["end_ns"]):
            yield gap[-1]["end_ns"] - gap[0]["start_ns"]
            gap = []
        if row is not None:
            gap.append(row)
            yield row["end_ns"] - row["start_ns"]


def times(tree: dict[str, Any]) -> set[int | float]:
    """Return all times of the report: its numbers, gaps, windows, predicted steps, and idle time by rule and phase."""
    by_rule: dict[tuple[object, ...], int] = {}
    for row in tree["sections"]["idle"]["tables"]["attribution"]:
        for key in ((row["device_id"], row["rule"]), (row["device_id"], row["rule"], row["phase"])):
            by_rule[key] = by_rule.get(key, 0) + row["idle_ns"]
    idle = sorted(by_rule.values())
    window = tree["window"]["end_ns"] - tree["window"]["start_ns"]
    plain = {value for value in leaves(tree) if isinstance(value, int | float) and not isinstance(value, bool)}
    return {*plain, *gap_lengths(tree), *idle, *accumulate(idle), window}


def of_steps(tree: dict[str, Any], scale: StepScale) -> Iterator[str]:
    """Yield the times of a step that follow from plan and savings, on one scale, and the differences of all of them."""
    count, window = tree["step"]["count"], tree["window"]["end_ns"] - tree["window"]["start_ns"]
    ends = [[one["step"][name] for name in ("low_ns", "point_ns", "high_ns")] for one in tree["plan"]]
    savings = [saving for one in tree["findings"] for saving in (one["saving"] or {}).values()]
    steps = [scale.now_ns, *chain(*ends), *((window - saving) // count for saving in savings)]
    shown = [round(step / scale.scale.divisor, scale.scale.decimals) for step in steps]
    differences = [(one - other) * scale.scale.divisor for one, other in product(shown, repeat=2) if one > other]
    lost = [one["lost_ns"] / window * scale.now_ns for one in tree["findings"]]
    yield from map(scale.text, [*steps, *differences, *lost])


def shares(tree: dict[str, Any]) -> set[str]:
    """Return all shares of the report: its own, and its times over the totals they are parts of."""
    devices = tree["sections"]["ledger"]["tables"]["devices"]
    wholes = {row["window_ns"] for row in devices} | {tree["sections"]["tensor_cores"]["facts"]["kernel_ns"]["value"]}
    found = {units.share(value) for value in leaves(tree) if isinstance(value, float) and 0 <= value <= 1}
    found |= {units.share_of(time, whole) for time in times(tree) for whole in wholes if 0 <= time <= whole}
    total, idle = (sum(row[name] for row in devices) for name in ("window_ns", "idle_ns"))
    found |= {units.share_of(idle, total), units.share_of(total - idle, total)}
    for section in tree["sections"].values():
        for rows in section["tables"].values():
            weights = [row.get("total_ns", row.get("idle_ns", 0)) for row in rows]
            found |= {units.share_of(part, sum(weights)) for part in accumulate(weights) if sum(weights)}
    return found


@pytest.mark.parametrize("form", ["text", "markdown"])
@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_every_time_is_one_of_the_json(form: str, report: Report) -> None:
    tree = json.loads(render("json", report))
    scale = step_scale(report)
    assert scale is not None
    known = {show(value) for value in times(tree) for show in (units.duration, units.point)}
    printed = set(DURATION.findall(text_of(form, report)))
    assert printed
    assert printed - known - set(of_steps(tree, scale)) == set()


@pytest.mark.parametrize("form", ["text", "markdown"])
@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_every_share_is_one_of_the_json(form: str, report: Report) -> None:
    tree = json.loads(render("json", report))
    printed = set(SHARE.findall(text_of(form, report)))
    assert printed
    assert printed - shares(tree) == set()


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_the_page_says_the_shares_of_the_terminal(report: Report) -> None:
    """The page has every share that the terminal prints."""
    page = html.unescape(render("html", report))
    assert {one for one in SHARE.findall(render("text", report)) if one not in page} == set()


def text_of(form: str, report: Report) -> str:
    """Return the text of a form, without the numbers of hand-made sentences."""
    shown = " ".join(html.unescape(render(form, report)).split())
    for finding in report.findings:
        for line in finding.evidence:
            shown = shown.replace(line, "")
    return shown
