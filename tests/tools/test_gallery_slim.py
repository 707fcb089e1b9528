"""The pages of the gallery's cases: committed for each case, small, and with the verdict of today's rules."""

import html
import sys
from dataclasses import replace
from pathlib import Path

import gallery_index as cards
import gallery_slim as slim
import hand_made
from gallery_results import GALLERY

from nsyswrap.render.escape import unbroken
from nsyswrap.verdict import in_order

ROOT = Path(__file__).resolve().parents[2]
LARGEST_PAGE = 60_000  # bytes


def test_each_card_leads_to_a_small_page_named_after_its_case() -> None:
    """A page has the verdict of today; `make reports` writes it again."""
    found = sys.modules["gallery_results"].results()
    index = (ROOT / "reports" / "index.html").read_text(encoding="utf-8")
    assert index == cards.page(found)
    assert len(found) == 41
    for result in found:
        name = result.case.name
        page = (GALLERY / name / slim.SLIM).read_text(encoding="utf-8")
        assert len(page.encode()) <= LARGEST_PAGE, name
        assert f"<h1><bdi>{name}</bdi></h1>" in page
        assert f'<h3><a href="gallery/{name}/{slim.SLIM}">{name}</a></h3>' in index
        assert html.escape(unbroken(cards.today(result).verdict)).replace("&#x27;", "&#39;") in page, name
        session = result.report["session"]
        assert f"Captured on {session['started_utc'][:10]} with nsys {session['nsys_version']}." in page


def test_a_committed_report_has_the_verdict_and_the_order_of_its_page() -> None:
    """`make reports` writes both again."""
    for result in sys.modules["gallery_results"].results():
        assert slim.of_today(result.report) == result.report, result.case.name


def test_the_order_of_findings_is_that_of_today() -> None:
    report = hand_made.full_report()
    backwards = replace(report, findings=report.findings[::-1])
    assert slim.judged(backwards).findings == in_order(report.sections, report.findings, report.plan)


def test_the_page_says_what_it_lacks_and_where_more_is(tmp_path: Path) -> None:
    text = (GALLERY / "decoding" / "report.json").read_text(encoding="utf-8")
    assert "The capture is beside it" in slim.slim_page("decoding", text)
    page = slim.slim_page("decoding", text, tmp_path)
    assert "The capture is beside it" not in page
    assert "This is the short form of report.json" in page
    assert "<h1><bdi>decoding</bdi></h1>" in page
