"""The timeline in a real browser: its numbers equal the report's, links open it, and it names its items."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hand_made
import numpy as np
import pytest
from browser_pages import needs_chromium, write
from playwright.sync_api import Browser, Page
from real_captures import RealReport
from timeline_fixtures import DATA_WAIT, US, timeline_report
from timeline_page import (  # noqa: F401 - a fixture
    DETAIL,
    LEDGER,
    LIVE,
    ROWS,
    ledger,
    load,
    opened_fixture,
    place,
    press,
    settled,
    view,
)

from nsyswrap.model import Report, TimelineItems
from nsyswrap.render import html_writer, report_document

pytestmark = needs_chromium

KINDS = {
    "compute": "compute_ns",
    "communication": "communication_transfer_ns",
    "communication_wait": "communication_wait_ns",
    "copy": "copy_exposed_ns",
    "memset": "memset_exposed_ns",
}


def expected(report: Report) -> dict[str, list[int]]:
    """Return the time of each class in the window, for each GPU, from the report."""
    section, idle = report.section("ledger"), report.section("idle")
    assert section is not None
    assert idle is not None
    devices = section.tables["devices"]
    found = {kind: [int(ns) for ns in devices[column]] for kind, column in KINDS.items()}
    sums = idle.tables["attribution"].groupby(["rule", "device_id"])["idle_ns"].sum()
    for name in sums.index.get_level_values("rule").unique():
        found[str(name)] = [int(sums.get((name, device), 0)) for device in devices["device_id"]]
    return {name: ns for name, ns in found.items() if any(ns)}


def test_the_window_has_the_numbers_of_the_ledger(real_report: RealReport, opened: Callable[..., Page]) -> None:
    report = real_report("mnist_counters_python", with_timeline=True)
    page = opened(report)
    press(page, "0")
    assert view(page) == (report.window.start_ns, report.window.end_ns)
    assert ledger(page) == expected(report)
    assert page.locator(f"{LEDGER} [data-exact=true]").count() == 1


def test_a_brush_has_the_numbers_of_a_report_of_that_window(
    real_report: RealReport, opened: Callable[..., Page]
) -> None:
    """For any selected interval, a report with that window has the same busy times of the GPU."""
    report = real_report("cnn_amp", with_timeline=True)
    third = report.window.length_ns // 3
    start, end = report.window.start_ns + third, report.window.end_ns - third
    page = opened(report, f"#t={start}-{end}")
    own = expected(real_report("cnn_amp", f"{start / 1e9:.9f}:{end / 1e9:.9f}"))
    shown = ledger(page)
    assert {kind: shown[kind] for kind in own if kind in KINDS} == {kind: own[kind] for kind in own if kind in KINDS}
    assert sum(ns for (ns,) in shown.values()) == end - start


def test_every_zoom_adds_up(opened: Callable[..., Page]) -> None:
    """In every view, exact or binned, busy and idle time of each GPU add up to the view, except for rounding."""
    for is_exact in (True, False):
        page = opened(timeline_report(is_exact=is_exact))
        for key in "wwdwwaswd":
            press(page, key)
            start, end = view(page)
            for device in (0, 1):
                assert sum(ns[device] for ns in ledger(page).values()) == pytest.approx(end - start, abs=4)


def test_an_interval_between_edges_is_exact_in_a_binned_capture(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report(is_exact=False), f"#t={1_200 * US}-{2_400 * US}")
    assert ledger(page)["compute"] == [600 * US, 0]
    assert page.locator(f"{LEDGER} [data-exact=true]").count() == 1
    page = opened(timeline_report(is_exact=False), f"#t={1_230 * US}-{2_410 * US}")
    assert page.locator(f"{LEDGER} [data-exact=false]").count() == 1
    assert "bins of 100 µs" in page.inner_text(LEDGER)


def test_a_part_of_a_bin_that_is_all_idle_is_known(opened: Callable[..., Page]) -> None:
    """GPU 1 is busy only from 2 ms to 2.1 ms. Any other bin is all idle, so each part of it is exact."""
    report = timeline_report()
    assert report.timeline is not None
    row = next(one for one in report.timeline.rows if one.label == "GPU 1")
    nothing = TimelineItems(row.items.start[:0], row.items.end[:0], row.items.code[:0])
    binned = replace(row, exact=np.zeros_like(row.exact), items=nothing)
    page = opened(replace(report, timeline=replace(report.timeline, rows=(binned,))), f"#t={1_230 * US}-{2_310 * US}")
    assert ledger(page) == {"copy": [100 * US], "idle/cpu": [980 * US]}
    assert page.locator(f"{LEDGER} [data-exact=true]").count() == 1


@pytest.mark.parametrize(
    ("fragment", "length"),
    [
        (f"#t={500 * US}-{700 * US}", "200 µs"),
        ("#t=0.0005-0.0007", "200 µs"),
        ("#t=0s-0.001s", "1.00 ms"),
        ("#gap=2", "1.50 ms"),
    ],
)
def test_a_link_leads_to_a_time_or_a_gap(opened: Callable[..., Page], fragment: str, length: str) -> None:
    page = opened(timeline_report(), fragment)
    assert f"Selected: {length}" in page.inner_text(LEDGER)
    assert page.locator(ROWS).is_visible()
    assert page.evaluate("document.querySelector('#timeline').getBoundingClientRect().top") < 900


def test_pointing_tells_what_a_kernel_is(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report(), f"#t={1_000 * US}-{1_100 * US}")
    page.mouse.move(*place(page, "stream 7", 1_020 * US))
    tip = page.inner_text('[data-tl="tip"]')
    assert "gemm_bf16" in tip
    for words in ("50.0 µs", "on tensor cores, bf16, cutlass", "264 blocks of 256 threads", "forward"):
        assert words in tip
    assert "12.0 µs after cudaLaunchKernel began on thread 4711 python3" in tip
    page.mouse.move(5, 5)
    assert not page.locator('[data-tl="tip"]').is_visible()


def test_clicking_keeps_the_details_of_a_gap(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report(), f"#t={1_000 * US}-{1_100 * US}")
    page.mouse.click(*place(page, "GPU 0", 1_070 * US))
    settled(page)
    detail = page.inner_text(DETAIL)
    for words in (
        "idle: data loader wait",
        "50.0 µs",
        "The CPU waited for the data loader.",
        "thread 4711 waits for data in poll",
    ):
        assert words in detail


def test_rows_and_items_are_walked_by_keys(opened: Callable[..., Page]) -> None:
    """The details are a live region, so a screen reader says them."""
    page = opened(timeline_report())
    press(page, "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown")
    assert page.inner_text(DETAIL) == "Row GPU 0, stream 7"
    press(page, ".")
    first = page.inner_text(DETAIL)
    press(page, ".")
    assert "gemm_bf16" in first
    assert page.inner_text(DETAIL) != first
    press(page, ",")
    assert page.inner_text(DETAIL) == first
    assert page.get_attribute(DETAIL, "aria-live") == "polite"
    press(page, "f")
    start, end = view(page)
    assert end - start == pytest.approx(65 * US, rel=0.01)


def pixels(page: Page, row: str, at_ns: float) -> list[tuple[int, int, int]]:
    """Return the colours of one pixel column of a row, from bottom to top."""
    tops = {"GPU 0": (89, 60), "GPU 1": (194, 60)}
    top, height = tops[row]
    start, end = view(page)
    script = """([selector, part, top, height]) => {
      const canvas = document.querySelector(selector);
      const x = Math.round(172 + part * (canvas.clientWidth - 172));
      const copy = new OffscreenCanvas(1, height).getContext("2d", { willReadFrequently: true });
      copy.drawImage(canvas, x, top, 1, height, 0, 0, 1, height);
      return [...copy.getImageData(0, 0, 1, height).data];
    }"""
    found: list[Any] = page.evaluate(script, [ROWS, (at_ns - start) / (end - start), top, height])
    return [(found[i], found[i + 1], found[i + 2]) for i in range(0, len(found), 4)][::-1]


def test_a_bar_is_as_high_as_its_column_is_busy(opened: Callable[..., Page]) -> None:
    """The view shows 4 ms in about 900 columns, so a column of less than 5 us is either busy or idle.

    In a longer view each column would be half busy. No operation is drawn wider than it is.
    """
    blue = (0x00, 0x54, 0xA9)
    page = opened(timeline_report())
    press(page, "s", "s")
    assert pixels(page, "GPU 0", 1_026 * US)[5:40] == [blue] * 35
    assert blue not in pixels(page, "GPU 0", 1_075 * US)
    assert blue not in pixels(page, "GPU 1", 1_000 * US)


def test_nothing_of_hostile_names_runs_or_reaches_the_markup(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report(hostile=hand_made.HOSTILE))
    press(page, "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", ".")
    assert "<img src=x onerror=alert(1)>" in page.inner_text(DETAIL)
    assert "[U+202E]" in page.inner_text(DETAIL)
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == len(html_writer.SCRIPTS) + len(report_document.SCRIPTS) + 3


def test_the_page_s_own_theme_reaches_the_rows(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report())
    before = pixels(page, "GPU 1", 2_050 * US)[30]
    page.click("#theme")
    settled(page)
    assert (before, pixels(page, "GPU 1", 2_050 * US)[30]) == ((0x60, 0x49, 0x00), (0xFF, 0xD8, 0x1B))


def test_without_a_script_there_are_strips(browser: Browser, tmp_path: Path) -> None:
    file = write(timeline_report(), tmp_path)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("#timeline svg").count() == 2
    page.locator("details.group > summary").filter(has_text="Timeline").click()
    assert page.locator("#timeline svg").first.is_visible()
    assert not page.locator(ROWS).is_visible()
    assert "GPU 0 busy 50.0 %" in page.inner_text("#timeline")
    context.close()


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("launches/launch_bound", "idle: launch-bound kernels"),
        ("idle/data_wait", "idle: data loader wait"),
        ("data_wait", "idle: data loader wait"),
        ("new_kind/odd_rule", "idle: new kind: odd rule"),
    ],
)
def test_idle_time_is_named_by_its_rule_or_cause_and_coloured(
    name: str, label: str, opened: Callable[..., Page]
) -> None:
    """A class that the script does not know has words and a colour, too."""
    report = timeline_report()
    assert report.timeline is not None
    code = DATA_WAIT
    rows = tuple(
        replace(row, classes=(*row.classes[:code], name, *row.classes[code + 1 :])) if row.kind == "gpu" else row
        for row in report.timeline.rows
    )
    page = opened(replace(report, timeline=replace(report.timeline, rows=rows)))
    row = page.locator(f'{LEDGER} tr[data-class="{name}"]')
    assert row.locator("th").inner_text() == label
    assert row.locator(".tl-swatch.tl-striped").evaluate("(one) => getComputedStyle(one).backgroundImage") != "none"
