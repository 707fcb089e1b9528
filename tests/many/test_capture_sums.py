"""The sums of a capture add up to the nanosecond, are the same from its report.json, and survive the wire."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest
from hand_made import full_report, hostile_report, no_gpu_report, report_with, section_with, two_gpu_report
from made_sums import made_sums

from nsyswrap.base.errors import ExportError
from nsyswrap.many.capture_sums import MOST_KERNELS, decoded, encoded, failed, sums_of
from nsyswrap.model import Report
from nsyswrap.render.json_reader import parse_report
from nsyswrap.render.json_report import render

REPORTS = (full_report, two_gpu_report, no_gpu_report, hostile_report)


@pytest.mark.parametrize("make", REPORTS, ids=lambda make: make.__name__)
def test_sums_add_up_and_survive(make: Callable[[], Report]) -> None:
    """The same sums come from report.json, and from their own JSON."""
    report = make()
    sums = sums_of(report, "host-aa")
    ledger = report.section("ledger")
    windows = 0 if ledger is None or not len(ledger.tables["devices"]) else ledger.tables["devices"]["window_ns"].sum()
    assert sums.gpu_ns == windows
    assert sum(sums.idle.values()) in {0, sums.ledger["idle_ns"]}
    assert decoded(encoded(sums)) == sums
    assert sums_of(parse_report(render(report), "report.json"), "host-aa") == sums


def test_a_finding_about_several_gpus_loses_time_on_each() -> None:
    """Its time is the mean over GPUs; that of a finding about one GPU counts once. A rule has one row."""
    report = two_gpu_report()
    one = report.findings[0] if report.findings else full_report().findings[0]
    about = [replace(one, rule="a/b", lost_ns=10, device_id=device) for device in (None, 0, 1)]
    found = sums_of(replace(report, findings=tuple(about))).findings
    assert [(each.rule, each.lost_ns) for each in found] == [("a/b", 2 * 10 + 10 + 10)]


def test_small_kernels_are_one_sum() -> None:
    count = MOST_KERNELS + 3
    names = [f"k{number}" for number in range(count)]
    summary = pd.DataFrame({"name": names, "count": [2] * count, "total_ns": range(count)})
    sums = sums_of(report_with(section_with("kernels", summary=summary)))
    assert sums.kernels[0].name == f"k{count - 1}"
    assert len(sums.kernels) == MOST_KERNELS
    assert sums.other_kernels == ("", 6, 0 + 1 + 2)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "nsyswrap.capture-sums/3"}', '{"schema": "x/9"}'])
def test_damaged_sums_are_an_error(text: str) -> None:
    with pytest.raises(ExportError):
        decoded(text)


def test_a_reason_travels_as_sums_do() -> None:
    assert decoded(failed("it is <empty>\n")) == "it is <empty>\n"
    assert decoded(encoded(made_sums())) == made_sums()
