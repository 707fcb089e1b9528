"""Code, the command that checks a change and the summary, as text and as a picture, are copied in a real browser."""

from pathlib import Path

import hand_made
import pytest
from browser_pages import needs_chromium, opened, write
from playwright.sync_api import Browser

from nsyswrap.render import render, report_cards
from nsyswrap.rules import code_changes

pytestmark = needs_chromium

REPORT = hand_made.full_report()


def test_what_is_copied_is_what_is_shown(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, write(REPORT, tmp_path), permissions=["clipboard-read", "clipboard-write"]) as page:

        def copied(button: str, place: int = 0) -> str:
            page.locator(button).nth(place).click()
            page.locator("#status").get_by_text("Copied", exact=True).wait_for()
            text: str = page.evaluate("navigator.clipboard.readText()")
            page.evaluate("document.getElementById('status').textContent = ''")
            return text

        plan = page.locator("#plan")
        plan.locator("details.code > summary").first.click()
        changes = code_changes("idle/data_wait")
        assert [copied("#plan .clip", place) for place in range(len(changes))] == [each.code for each in changes]
        assert copied("#next .clip") == report_cards.check(REPORT)
        assert copied("#copy-summary") == render("markdown", REPORT)


DRAWN = """async () => {
  const [item] = await navigator.clipboard.read();
  const image = await createImageBitmap(await item.getType("image/png"));
  const canvas = new OffscreenCanvas(image.width, image.height);
  const pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  const { data } = pen.getImageData(0, 0, image.width, image.height);
  const colours = new Set();
  for (let at = 0; at < data.length; at += 4) colours.add(data.slice(at, at + 3).join(","));
  return { width: image.width, height: image.height, colours: [...colours] };
}"""

# The colours of the parts of the step that are idle time.
IDLE_HUES = """() => [...document.querySelectorAll(".hero .bar:first-of-type > rect")]
  .map((part) => /#([\\w-]+)/.exec(part.getAttribute("fill"))).filter((fill) => fill?.[1].startsWith("idle"))
  .map((fill) => getComputedStyle(document.querySelector(`#${fill[1]} rect`)).fill.replace(/^rgb\\(|\\)$| /g, ""))"""


@pytest.mark.parametrize(("scheme", "compute"), [("light", "0,84,169"), ("dark", "47,141,240")])
def test_the_summary_is_copied_as_a_picture(browser: Browser, tmp_path: Path, scheme: str, compute: str) -> None:
    """In the colours of the page, with the hue of compute and those of accounts of idle time."""
    allowed = ["clipboard-read", "clipboard-write"]
    with opened(browser, write(REPORT, tmp_path), permissions=allowed, color_scheme=scheme) as page:
        page.click("#copy-picture")
        page.locator("#status").get_by_text("Copied", exact=True).wait_for()
        drawn = page.evaluate(DRAWN)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor").removeprefix("rgb(").rstrip(")")
        hues = page.evaluate(IDLE_HUES)
    assert (drawn["width"], drawn["height"]) == (1200, 630)
    assert {background.replace(" ", ""), compute} <= set(drawn["colours"])
    assert hues
    assert set(hues) <= set(drawn["colours"])


def test_the_picture_names_the_parts_of_the_step_and_nothing_runs_out_of_it(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, write(REPORT, tmp_path), permissions=["clipboard-read", "clipboard-write"]) as page:
        page.evaluate("""() => {
            const draw = CanvasRenderingContext2D.prototype.fillText;
            globalThis.drawn = [];
            CanvasRenderingContext2D.prototype.fillText = function (text, x, ...rest) {
              globalThis.drawn.push([text, x + this.measureText(text).width]);
              return draw.call(this, text, x, ...rest);
            };
        }""")
        page.click("#copy-picture")
        page.locator("#status").get_by_text("Copied", exact=True).wait_for()
        drawn = page.evaluate("globalThis.drawn")
        titles = page.locator(".hero .bar:first-of-type > rect title").all_text_contents()
        changes = page.locator("#plan > .findings .saving").all_inner_texts()
    texts = [text for text, _ in drawn]
    parts = [f"{title.split(':')[0]} {title.split(', ')[-1]}" for title in titles]
    assert parts
    assert changes
    assert {*parts, *changes} <= set(texts)
    assert max(right for _, right in drawn) <= 1200
    assert not any(text.endswith("…") for text in texts)


def test_a_picture_that_cannot_be_copied_is_saved(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, write(REPORT, tmp_path)) as page:
        page.evaluate("() => { navigator.clipboard.write = async () => { throw new Error('refused'); }; }")
        with page.expect_download() as download:
            page.click("#copy-picture")
        assert download.value.suggested_filename == "nsyswrap-summary.png"
        assert download.value.path().read_bytes().startswith(b"\x89PNG")
        page.locator("#status").get_by_text("Saved as a file", exact=True).wait_for()
