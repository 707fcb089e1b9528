"""Measure the page: seconds to draw it in Python, its size, its first paint and its zoom steps in headless Chromium.

    python bench/bench_page.py [EXPORT.sqlite | EXPORT.sqlite.xz]...

Without arguments it takes the sample on MNIST. For the budget of large captures give it the export that
`bench/bench_analysis.py --folder FOLDER` keeps. Seconds differ from machine to machine; the budgets are meant for two
cores.
"""

import argparse
import lzma
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import CDPSession, Page, sync_playwright

from nsyswrap.loop.context import Settings, find_context
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.render import render
from nsyswrap.report import build_report
from nsyswrap.timeline.build import timeline
from nsyswrap.trace.load import load_export

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "reports" / "samples" / "mnist-1-worker" / "capture.sqlite.xz"
CHROMIUM = Path(shutil.which("chromium") or shutil.which("chromium-headless-shell") or "chromium")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")

# Budgets. A page of up to this many operations counts as small.
SMALL = 100_000
MOST_MB = {"small": 1.0, "large": 8.0}
MOST_DRAW_S, MOST_PAINT_MS, MOST_STEP_MS = 5.0, 1000.0, 50.0
STEPS = 12
# Time from the key press to the drawing. It is made before the next frame and read back, so it is complete.
STEP = """async (key) => {
  const canvas = document.querySelector('[data-tl="rows"]');
  const began = performance.now();
  canvas.dispatchEvent(new KeyboardEvent("keydown", { code: key, key, bubbles: true }));
  await new Promise(requestAnimationFrame);
  canvas.getContext("2d").getImageData(0, 0, 1, 1);
  return performance.now() - began;
}"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"
LIVE = '[data-tl="live"]:not([hidden])'
# Selects the kernel that runs most often, as a click on one of its bars does, and waits until it is drawn.
SELECT = """async () => {
  const { selection, things, timeline } = globalThis.nsyswrap;
  const names = timeline.kernels();
  const counts = names.map((name) => timeline.statistics({ kind: "kernel", id: name, start_ns: null, end_ns: null })
    ?.kernels.reduce((sum, one) => sum + one.count, 0) ?? 0);
  const most = names[counts.indexOf(Math.max(...counts))];
  selection.select(things.plain("kernel", things.wholeName(most)));
  await new Promise((done) => setTimeout(done, 500));
  document.querySelector('[data-tl="fit"]').click();
  await new Promise((done) => setTimeout(done, 500));
  return `${Math.max(...counts)} places of ${most.slice(0, 40)}`;
}"""
READY = "performance.getEntriesByName('timeline-ready')[0].startTime"


class Drawn(NamedTuple):
    """A page and what it took: operations of the capture, seconds for the timeline and for the page."""

    page: str
    operations: int
    timeline_s: float
    page_s: float


def draw(export: Path) -> Drawn:
    """Return the page of an export; the timeline is also built alone, to separate its time from the analyses."""
    trace = load_export(export)
    report = build_report(trace, with_timeline=True)
    context = find_context(trace, Settings())
    operations = len(context.operations.start)
    _ = context.phase_of_operations, [context.operations.busy(device) for device in context.operations.devices]
    idle = report.section("idle")
    began = time.process_time()
    if idle is not None:
        timeline(context, report.window, idle.tables["gaps"], find_collectives(context))
    between = time.process_time()
    page = render("html", report)
    return Drawn(page, operations, between - began, time.process_time() - between)


class Steps(NamedTuple):
    """What zooming in, moving and zooming out again took: milliseconds of each step, and CPU of the page in a step."""

    taken: list[float]
    cpu_ms: float

    def line(self, name: str, more: str = "") -> str:
        typical, worst = statistics.median(self.taken), max(self.taken)
        kept = budget(typical, MOST_STEP_MS)
        return f"  {name:18} {typical:8.0f} ms  ({kept}; worst {worst:.0f} ms; {self.cpu_ms:.1f} ms CPU a step{more})"


def steps(page: Page) -> Steps:
    """Move the timeline by keys, and return what it took. CPU counts what a busy machine does not change."""
    keys = ["KeyW"] * STEPS + ["KeyD"] * STEPS + ["KeyS"] * STEPS
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = cpu_s(session)
    taken = [float(page.evaluate(STEP, key)) for key in keys]
    return Steps(taken, (cpu_s(session) - before) * 1e3 / len(keys))


def cpu_s(session: CDPSession) -> float:
    """Return the CPU time of the tasks of a page so far, in seconds."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def budget(value: float, most: float) -> str:
    return f"budget {most:g}, {'kept' if value <= most else 'BROKEN'}"


def measure(page: Page, export: Path, folder: Path) -> None:
    """Draw the page of one export and print what it takes."""
    drawn = draw(export)
    size = len(drawn.page.encode("utf-8")) / 1e6
    most = MOST_MB["small" if drawn.operations <= SMALL else "large"]
    file = folder / "page.html"
    file.write_text(drawn.page, encoding="utf-8")
    page.goto(file.as_uri())
    page.locator("details.group", has=page.locator(LIVE)).evaluate("(group) => { group.open = true; }")
    page.wait_for_selector(LIVE)
    page.locator('[data-tl="rows"]').scroll_into_view_if_needed()
    paint, ready = page.evaluate(PAINT), page.evaluate(READY)
    taken = steps(page)
    both = drawn.timeline_s + drawn.page_s
    print(f"{export.name}: {drawn.operations} operations")
    print(f"  drawing in Python  {both:8.2f} s CPU  ({budget(both, MOST_DRAW_S)}; timeline {drawn.timeline_s:.2f} s)")
    print(f"  size               {size:8.2f} MB  ({budget(size, most)})")
    print(f"  first paint        {paint:8.0f} ms  ({budget(paint, MOST_PAINT_MS)}; timeline ready at {ready:.0f} ms)")
    print(taken.line("zoom step"))
    selected = page.evaluate(SELECT)
    print(steps(page).line("with a selection", f"; {selected}"))


def unpacked(export: Path, folder: Path) -> Path:
    if export.suffix != ".xz":
        return export
    target = folder / f"{export.parent.name}-{export.stem}"
    with lzma.open(export) as packed, target.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return target


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exports", nargs="*", type=Path, default=[SAMPLE], help="exports of nsys")
    parser.add_argument("--browser", type=Path, default=CHROMIUM, help="Chromium")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.browser, args=[*FLAGS])
        for export in options.exports:
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            measure(context.new_page(), unpacked(export, Path(temporary)), Path(temporary))
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
