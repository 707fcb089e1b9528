"""The ranks of a job in a real browser: on one screen, readable, accessible, and reachable by keyboard."""

from pathlib import Path

import hand_made
import pytest
from browser_pages import HEIGHT, NARROW, WIDE, needs_chromium, opened, until, write
from made_rank_sections import LENGTH, with_ranks
from playwright.sync_api import Browser

pytestmark = needs_chromium

AXE = Path(__file__).parents[1] / "vendor" / "axe.min.js"
START = hand_made.WINDOW.start_ns
# How far each text sticks out of its segment, in pixels; and each drawn element out of the page.
OUTSIDE = """() => {
  const shown = [...document.querySelectorAll(".rank-text")].filter((one) => getComputedStyle(one).display !== "none");
  const rows = [...document.querySelectorAll(".rank-row")];
  const rects = rows.flatMap((row) => [...row.querySelectorAll("g > rect")]).map((one) => one.getBoundingClientRect());
  return shown.map((text) => {
    const box = text.getBoundingClientRect();
    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    const around = rects.find((one) => one.left <= x && x <= one.right && one.top <= y && y <= one.bottom);
    return Math.max(around.left - box.left, box.right - around.right);
  });
}"""


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a job with four ranks, one of them late."""
    return write(with_ranks(hand_made.full_report(), 4, 2), tmp_path_factory.mktemp("few"))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a job with 64 ranks, one of them late."""
    return write(with_ranks(hand_made.full_report(), 64, 21), tmp_path_factory.mktemp("many"))


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_texts_of_a_step_lie_inside_their_segments(browser: Browser, few: Path, width: int) -> None:
    with opened(browser, few, width=width) as page:
        outside = page.evaluate(OUTSIDE)
        assert len(outside) >= 4
        assert max(outside) <= 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_sixty_four_ranks_and_their_matrix_fit_on_one_screen(browser: Browser, many: Path) -> None:
    with opened(browser, many) as page:
        top = page.locator("#ranks .beside > figure:first-child").bounding_box()
        matrix = page.locator("#ranks .beside > figure:last-child").bounding_box()
        assert top is not None
        assert matrix is not None
        assert abs(top["y"] - matrix["y"]) < 4, "they are side by side"
        assert max(top["height"], matrix["height"]) < HEIGHT - 100
        rows = page.locator("#ranks .rank-row a")
        assert (rows.count(), page.locator('#ranks .rank-row a:not([tabindex="-1"])').count()) == (64, 1)


def test_a_row_leads_to_its_time_by_keyboard(browser: Browser, few: Path) -> None:
    with opened(browser, few) as page:
        page.locator("#ranks .rank-row a").nth(2).focus()
        page.keyboard.press("Enter")
        until(page, f"location.hash === '#t={START}-{START + LENGTH}'")


@pytest.mark.parametrize(("name", "width", "scheme"), [("few", NARROW, "dark"), ("many", WIDE, "light")])
def test_the_ranks_are_accessible(
    browser: Browser, request: pytest.FixtureRequest, name: str, width: int, scheme: str
) -> None:
    """axe-core finds nothing serious in this part of the page."""
    path = request.getfixturevalue(name)
    with opened(browser, path, width=width, color_scheme=scheme, bypass_csp=True) as page:
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run('#ranks', { resultTypes: ['violations'] })")
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in serious] == []
