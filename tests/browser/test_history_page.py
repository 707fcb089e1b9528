"""The page of the history, and the list of keys of pages with tables alone, in a real browser."""

from pathlib import Path

import made_results
import pytest
from browser_pages import WIDTHS, needs_chromium, opened
from made_results import LONG_NAME, trend
from made_runs import IDENTITY
from made_sums import made_sums
from playwright.sync_api import Browser

from nsyswrap.many.totals import totals_of
from nsyswrap.render import documents

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page of two programs."""
    path = tmp_path_factory.mktemp("history") / "history.html"
    programs = [trend((10.0, 11.0), program, 8, 1) for program in (IDENTITY, LONG_NAME)]
    path.write_text(documents.render("history", "html", made_results.history(*programs)), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_as_wide_as_the_screen_with_and_without_scripts(
    browser: Browser, history: Path, width: int
) -> None:
    for scripts in (True, False):
        with opened(browser, history, width=width, java_script_enabled=scripts) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator(".between").count() == (2 if scripts else 0)
            assert page.locator("figure circle").count() == 32


def test_two_runs_that_are_chosen_show_what_moved(browser: Browser, history: Path) -> None:
    """At first these are the first and the last run; their dots are marked, and the parts add up."""
    with opened(browser, history) as page:
        between = page.locator("#program-1 .between")
        assert between.locator("tbody tr").first.inner_text().split("\t") == [
            "time per step",
            "10.0 ms",
            "11.0 ms",
            "+1.01 ms",
        ]
        dots = page.locator("#program-1 figure a").evaluate_all("(all) => all.map((one) => one.className.baseVal)")
        assert [at for at, name in enumerate(dots) if name == "picked"] == [0, 15]
        between.locator("select.to").select_option("0")
        assert {row.split("\t")[-1] for row in between.locator("tbody tr").all_inner_texts()} == {"+0 ns"}
        assert page.locator("#program-1 figure a.picked").count() == 1


def test_the_list_of_keys_has_only_keys_that_the_page_has(browser: Browser, history: Path, tmp_path: Path) -> None:
    """There is no palette, no timeline, no finding to go to and no glossary on these pages."""
    many = tmp_path / "many.html"
    many.write_text(
        documents.render("many", "html", totals_of([("a", made_sums(1)), ("b", made_sums(2))])), encoding="utf-8"
    )
    for path in (history, many):
        with opened(browser, path) as page:
            page.keyboard.press("?")
            assert page.locator("#help dt").all_inner_texts() == ["f", "?"]
            page.locator("#help-close").click()
            page.keyboard.press("f")
            assert page.evaluate("document.activeElement.id") == "search"
