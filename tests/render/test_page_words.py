"""What a reader sees on a page are words: no key of a column, a rule, a cause, an operation or a part of a step."""

import html
import re

import pytest
from real_captures import RealReport, of_captures

from nsyswrap.attribution.causes import CAUSES
from nsyswrap.model import Report
from nsyswrap.render import documents, render
from nsyswrap.rules import RULES
from nsyswrap.rules.work_names import OPERATION_NAMES, TENSOR_REASONS, TENSOR_USES
from nsyswrap.sections.step_breakdown import ROLES

# Parts of a page that no reader sees, or that are code to copy.
UNSEEN = re.compile(r"<(style|script|template|code)\b[^>]*>.*?</\1>", re.DOTALL)
FEW = ("ranks/loader", "mnist_counters_python")
TEXT = re.compile(r">([^<]+)<")
NAMES = (*CAUSES, *RULES, *OPERATION_NAMES, *TENSOR_USES, *TENSOR_REASONS, *ROLES)


def keys_of(report: Report) -> set[str]:
    """Return the keys that a report holds: those of its tables and facts, and all that cells may hold."""
    columns = {str(name) for section in report.sections for table in section.tables.values() for name in table.columns}
    facts = {fact.label for section in report.sections for fact in section.facts}
    return {key for key in (*columns, *facts, *NAMES) if "_" in key or "/" in key}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["html", "slim"])
@of_captures(["cnn_amp", *FEW, "ranks/pipeline_bubbles"], few=FEW)
def test_a_page_of_a_real_capture_shows_no_key(name: str, form: str, real_report: RealReport) -> None:
    report = real_report(name)
    page = documents.render("report", form, report)
    shown = {html.unescape(text).strip() for text in TEXT.findall(UNSEEN.sub("", page))}
    assert len(shown) > 50
    assert shown & keys_of(report) == set()


@pytest.mark.slow
@of_captures(["cnn_amp", "ranks/loader"], few=FEW)
def test_a_heading_of_a_page_has_no_underscore(name: str, real_report: RealReport) -> None:
    page = render("html", real_report(name))
    heads = re.findall(r"<(?:th scope=\"col\"|caption|h2|h3|dt|summary)[^>]*>(.*?)</(?:th|caption|h2|h3|dt)>", page)
    plain = [html.unescape(re.sub(r"<[^>]+>", "", head)).strip() for head in heads]
    assert len(plain) > 100
    # Names of kernels and ranges are the program's own.
    assert [head for head in plain if re.fullmatch(r"[a-z]+(_[a-z]+)+", head)] == []
