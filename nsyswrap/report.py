"""One report of one trace: choose the window, run the analyses, order the findings, say the verdict."""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from nsyswrap import tables, units
from nsyswrap.errors import CannotTellError, UsageError
from nsyswrap.intervals import Window
from nsyswrap.loop.context import Settings, TraceContext
from nsyswrap.loop.step_detection import step_matcher
from nsyswrap.model import Report, Section
from nsyswrap.sections import SECTIONS
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.tables import Trace
from nsyswrap.timeline.build import timeline

ANALYSTS = 2
STEPS, ALL = "steps", "all"
BETWEEN_HINT = "seconds count from the start of the capture: --window 12.5:14"
# Nothing real lies 70 years from the start of its capture.
FARTHEST = 1 << 61
_BETWEEN = re.compile(r"(-?\d+(?:\.\d+)?):(-?\d+(?:\.\d+)?)")

# Below this share of idle or exposed time nothing but the kernels themselves limits the run.
LIMIT_SHARE = 0.10
# A verdict names a cause only where this share of the idle time is explained at all.
EXPLAINED_SHARE = 0.50

SAMPLE = (
    "No GPU operation was recorded, so there is no ledger: nsys saw no CUDA work in this program or on this machine. "
    "Phases, steps and operating system calls are below; reports/samples/ holds a report from a real GPU."
)
LIMITS = {
    "data_wait": "waiting for the data loader",
    "data_work": "preparing data in the training process",
    "cpu": "running host code between launches",
    "launch": "in launch calls",
    "queued": "past the launch and the work has not begun",
    "synchronization": "in synchronizing calls",
    "blocking_copy": "in blocking copies",
    "allocation": "allocating memory",
    "module_load": "loading modules or compiling",
    "lock": "waiting for a lock or the GIL",
    "off_cpu": "off the CPU",
    "profiler": "in the profiler itself",
}


def build_report(
    trace: Trace, window: str = "", settings: Settings | None = None, *, with_timeline: bool = False
) -> Report:
    """Return everything that is said about a trace.

    Args:
        trace: The tables of one export.
        window: "steps", "all" or "START:END" in seconds since capture start; empty for steps where there are any.
        settings: How steps and phases are found.
        with_timeline: Whether the report is to be drawn as a page, which shows single operations.

    Raises:
        UsageError: The window cannot be read or is empty.
        CannotTellError: Steps are asked for and none are found, or the capture holds nothing at all.
    """
    return report_of(TraceContext(trace, settings or Settings()), window, with_timeline=with_timeline)


def report_of(context: TraceContext, window: str = "", *, with_timeline: bool = False) -> Report:
    """Return everything that is said about a context's trace, as ``build_report`` does; the context keeps what it found.

    Raises:
        UsageError: The window cannot be read or is empty.
        CannotTellError: Steps are asked for and none are found, or the capture holds nothing at all.
    """
    trace = context.trace
    chosen = choose_window(context, window)
    sections, notes = _run(SECTIONS, context, chosen)
    used = {gpu.device_id: gpu for gpu in trace.gpus}
    gpus = tuple(used[device] for device in context.operations.devices if device in used)
    idle = next((section.tables["gaps"] for section in sections if section.key == "idle"), None)
    drawn = timeline(context, chosen, idle) if with_timeline and idle is not None else None
    findings = sorted((f for s in sections for f in s.findings), key=lambda finding: finding.order)
    return Report(
        capture=trace.capture,
        session=trace.session,
        gpus=gpus,
        window=chosen,
        verdict=verdict(sections, chosen),
        sections=tuple(sections),
        findings=tuple(findings),
        notes=(*_unmet(context, window, chosen), *notes),
        timeline=drawn,
    )


def check_request(window: str, settings: Settings) -> None:
    """Check what can be told of a request before there is a trace.

    Raises:
        UsageError: The window or the pattern of steps cannot be read.
    """
    if window not in {"", STEPS, ALL}:
        _between(window)
    step_matcher(settings.step_pattern)


def choose_window(context: TraceContext, wanted: str = "") -> Window:
    """Return the stretch that the numbers are about.

    Raises:
        UsageError: The window cannot be read or is empty.
        CannotTellError: There are no steps, or nothing was recorded.
    """
    if wanted not in {"", STEPS, ALL}:
        return _recorded(context.trace, _between(wanted))
    measured = context.steps.measured_window()
    if wanted == STEPS and measured is None:
        pattern = context.settings.step_pattern
        raise CannotTellError(
            f"no range matches --step-range {pattern}" if pattern else "the capture has no steps",
            hint='put an NVTX range such as "batch 17" around each step, name yours with --step-range, '
            "or use --window all",
        )
    if measured is not None and wanted != ALL:
        return measured
    operations = context.operations
    if len(operations.start):
        start, end = int(operations.start.min()), int(operations.end.max())
        return Window(start, max(end, start + 1), "all GPU operations, warm-up included", "operations")
    if context.trace.session.duration_ns > 0:
        return Window(0, context.trace.session.duration_ns, "the whole capture", "session")
    return Window(*_extent(context.trace), "the whole capture", "session")


def _extent(trace: Trace) -> tuple[int, int]:
    """Return the start of the first event of a trace and the end of the last, ns.

    Raises:
        CannotTellError: It has none.
    """
    events = [frame for frame in trace.frames.values() if "end" in frame and len(frame)]
    if not events:
        raise CannotTellError("the capture holds no events at all", hint="run nsyswrap doctor")
    first = min(int(frame["start"].min()) for frame in events)
    last = max(int(frame["end"].max()) for frame in events)
    return first, max(last, first + 1)


def _recorded(trace: Trace, asked: Window) -> Window:
    """Return the part of a window given by hand that lies between the first event and the last.

    Raises:
        UsageError: There is none.
        CannotTellError: There are no events.
    """
    first, last = _extent(trace)
    start, end = max(asked.start_ns, first), min(asked.end_ns, last)
    if end <= start:
        held = f"the capture's events lie from {_bounds(first, last)}"
        raise UsageError(f"--window {asked.label}: nothing was recorded there, {held}", hint=BETWEEN_HINT)
    if (start, end) == (asked.start_ns, asked.end_ns):
        return asked
    return Window(start, end, _bounds(start, end), asked.source)


def _bounds(start_ns: int, end_ns: int) -> str:
    return f"{start_ns / 1e9:.9g} s to {end_ns / 1e9:.9g} s"


def _unmet(context: TraceContext, wanted: str, window: Window) -> Iterator[str]:
    """Yield what of the user's request could not be met as it stands."""
    if window.source == "user" and (asked := _between(wanted)).label != window.label:
        yield f"--window {asked.label} reaches beyond what was recorded: the numbers are about {window.label}."
    settings, texts = (
        context.settings,
        context.trace[tables.RANGES]["text"].cat.remove_unused_categories().cat.categories,
    )
    if settings.step_pattern and not len(context.steps.frame):
        yield f"--step-range {settings.step_pattern}: no range matches, so there are no steps."
    for rule in settings.phase_rules:
        if not any(rule.pattern.search(str(text)) for text in texts):
            yield f"--phase {rule.phase}={rule.pattern.pattern}: no range matches."


def _between(text: str) -> Window:
    found = _BETWEEN.fullmatch(text.strip())
    if not found:
        raise UsageError(f"--window {text!r} is none of steps, all and START:END in seconds", hint=BETWEEN_HINT)
    start, end = (round(float(bound) * 1e9) for bound in found.groups())
    if end <= start:
        raise UsageError(f"--window {text}: the end must come after the start", hint=BETWEEN_HINT)
    if max(-start, end) > FARTHEST:
        raise UsageError(f"--window {text}: no capture lasts that long", hint=BETWEEN_HINT)
    return Window(start, end, f"{found.group(1)} s to {found.group(2)} s", "user")


def _run(
    analyses: tuple[SectionSpec, ...], context: TraceContext, window: Window
) -> tuple[list[Section], tuple[str, ...]]:
    """Return the sections of all analyses that the capture has tables for, and what was left out and why.

    numpy lets go of Python's lock, so two threads share the work. What many of them need is worked out before, beside
    those that do not need it.
    """
    missing = {each.key: [spec.name for spec in each.needs if not len(context.trace[spec])] for each in analyses}
    whole = [each for each in analyses if not missing[each.key]]
    with ThreadPoolExecutor(ANALYSTS) as pool:
        running = {each.key: pool.submit(each.run, context, window) for each in whole if each.of_calls}
        gpu_worked = len(context.operations.start) > 0
        _ = context.phases
        wanted = [each for each in whole if gpu_worked or not each.of_operations]
        begun = sorted((each for each in wanted if each.key not in running), key=lambda each: each.of_gains)
        running |= {each.key: pool.submit(each.run, context, window) for each in begun}
        sections = [running[each.key].result() for each in wanted]
    if not gpu_worked:
        return sections, (SAMPLE,)
    left_out = [each for each in analyses if missing[each.key]]
    return sections, tuple(
        f"{each.title}: left out, the capture has no {' and no '.join(missing[each.key]).replace('_', ' ')}."
        for each in left_out
    )


def verdict(sections: Iterable[Section], window: Window) -> str:
    """Return one sentence: what limits this run."""
    by_key = {section.key: section for section in sections}
    check = by_key.get("capture_check")
    if "ledger" not in by_key:
        return "No GPU work was recorded: this says where the host's time went, not the GPU's."
    sentence = _limit(by_key["ledger"], by_key.get("idle"), window)
    if check and any(finding.rule == "capture/incomplete" for finding in check.findings):
        return f"Cannot tell: the capture is incomplete. What it holds says: {sentence}"
    return sentence


def _limit(ledger: Section, idle: Section | None, window: Window) -> str:
    devices = ledger.tables["devices"]
    whole = int(devices["window_ns"].sum())
    shares = {row: int(devices[row].sum()) / whole for row in devices.columns if row not in {"device_id", "window_ns"}}
    over = f"in {window.label}"
    worst = max((row for row in shares if row != "compute_ns"), key=lambda row: shares[row])
    if shares[worst] < LIMIT_SHARE:
        return f"Compute-bound: kernels run {units.share(shares['compute_ns'])} of the time, {over}."
    if worst != "idle_ns" or idle is None:
        what = worst.removesuffix("_exposed_ns")
        return f"Bound by {what}: {units.share(shares[worst])} of the time no kernel hides it, {over}."
    share = units.share(shares[worst])
    causes = idle.tables["causes"].groupby("cause")["idle_ns"].sum().sort_values(ascending=False, kind="stable")
    total = int(causes.sum())
    known = causes[~causes.index.isin(["unknown", "not_traced"])]
    if not len(known) or known.sum() < EXPLAINED_SHARE * total:
        return f"The GPU is idle {share} of the time, and the capture cannot show why, {over}."
    name = str(known.index[0])
    part = units.share(int(known.iloc[0]) / whole)
    return f"The GPU is idle {share} of the time; for {part} of the time the host is {LIMITS[name]}, {over}."
