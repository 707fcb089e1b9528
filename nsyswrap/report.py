"""Make the report of a trace: choose the window, run the sections, order the findings, and state the verdict."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

import numpy as np

from nsyswrap.attribution.attribution import find_attributions
from nsyswrap.attribution.copy_table import find_copies
from nsyswrap.attribution.launch_pace import find_launches
from nsyswrap.base import units
from nsyswrap.base.errors import CannotTellError
from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import NO_SETTINGS, Settings, TraceContext, find_calls, find_context, find_states
from nsyswrap.loop.extent import between, extent, part_read, recorded
from nsyswrap.loop.pattern_steps import kernel_matcher
from nsyswrap.loop.step_detection import Steps, step_matcher
from nsyswrap.model import NO_STEP, Gpu, Report, Section, StepTimes, TimelineData
from nsyswrap.program.program import ProgramAlone, find_program
from nsyswrap.ranks.collectives import NO_COLLECTIVES, Collectives, find_collectives
from nsyswrap.ranks.lateness import find_lateness
from nsyswrap.ranks.many import NO_OTHERS
from nsyswrap.sections import SECTIONS
from nsyswrap.sections.capture_check import calls_without_record, only_operations
from nsyswrap.sections.idle import find_idle_gaps, find_idle_sums
from nsyswrap.sections.idle_findings import find_idle_findings
from nsyswrap.sections.missing_events import calls_in_words, warnings_of
from nsyswrap.sections.operators import without_operators
from nsyswrap.sections.spec import About, SectionSpec
from nsyswrap.timeline.build import timeline
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array
from nsyswrap.verdict import find_verdict, in_order
from nsyswrap.what_if.fixed_step import typical
from nsyswrap.what_if.plan import find_plan
from nsyswrap.what_if.simulate import find_simulation

STEPS, ALL = "steps", "all"

# numpy releases Python's lock, so two threads can work at the same time. With fewer operations they cost more than they
# save.
WORKERS, MANY_OPERATIONS = 2, 65_536

Keys = Collection[str]
Maker = Callable[..., Any]
"""Makes a value. Its parameters name the values that it needs."""
NO_VERDICT = "No verdict: it needs all sections, and only some were made."

VALUES: Mapping[str, Maker] = {
    "others": lambda: NO_OTHERS,
    "of_all_ranks": lambda collectives: collectives,
    "lateness_of_all": lambda lateness: lateness,
    "states": find_states,
    "recorded_calls": find_calls,
    "copies": find_copies,
    "launches": find_launches,
    "attributions": find_attributions,
    "idle_gaps": find_idle_gaps,
    "idle_sums": find_idle_sums,
    "idle_findings": find_idle_findings,
    "collectives": find_collectives,
    "lateness": find_lateness,
    "simulation": find_simulation,
    # Findings take it from the simulation. It is made beside what they wait for.
    "pace": lambda simulation: simulation.predicts and simulation.fastest,
    "program": find_program,
}
"""The values that sections may name in addition to ``context`` and ``window``; each is built once."""


class Whole(NamedTuple):
    """What a report of some ranks takes from all ranks of a job."""

    window: Window
    gpus: tuple[Gpu, ...]
    values: Mapping[str, Maker]


def build_report(
    trace: Trace, window: str = "", settings: Settings = NO_SETTINGS, *, with_timeline: bool = False
) -> Report:
    """Return the report of a trace.

    Args:
        trace: The tables of one export.
        window: "steps", "all" or "START:END" in seconds since capture start; empty for steps where there are any.
        settings: How steps and phases are found.
        with_timeline: Whether the report includes the timeline of the page, which shows single operations.

    Raises:
        UsageError: The window cannot be read or is empty.
        CannotTellError: The window is "steps" and the capture has no steps, or the capture has no events.
    """
    return report_of(find_context(trace, settings), window, with_timeline=with_timeline)


def report_of(
    context: TraceContext, window: str = "", *, with_timeline: bool = False, whole: Whole | None = None, keys: Keys = ()
) -> Report:
    """Return the report of a trace, as ``build_report`` does, from its context.

    Args:
        context: The trace, its events and its loop.
        window: As for ``build_report``.
        with_timeline: As for ``build_report``.
        whole: What comes from all ranks, where the trace holds some of them.
        keys: Keys of the sections to make; empty for all. Verdict and plan need all.

    Raises:
        UsageError, CannotTellError: As ``build_report``.
    """
    trace, chosen = context.trace, whole.window if whole else choose_window(context, window)
    wanted, left_out = _wanted(context, keys)
    of_program = [each for each in wanted if each.about is not About.RECORDING]
    is_simulated = bool(of_program) and context.is_about_gpus and whole is None
    given = dict(whole.values if whole else {}) | (
        {} if is_simulated else {"program": lambda: ProgramAlone(context, chosen)}
    )
    at_once = [each for each in wanted if each.about is About.RECORDING]
    early = ("program", "pace") if is_simulated else ("program",)
    found = values_and_sections(at_once, {"context": context, "window": chosen}, given, *early)
    program: ProgramAlone = found["program"]
    if program.is_recording:
        found = alone = values_and_sections(of_program, found, given)
    else:
        # The idle time of the program has findings of its own.
        both = [each for each in wanted if each.about is About.BOTH]
        found = values_and_sections(both, found, {**given, "idle_findings": lambda: ()})
        ledger = [each for each in wanted if each.key == "ledger"]
        alone = values_and_sections([*of_program, *ledger], program.values(), {})
    sections = [_fitted(_about(each, program, found, alone, chosen), context) for each in wanted]
    used = {gpu.device_id: gpu for gpu in trace.gpus}
    gpus = whole.gpus if whole else tuple(used[device] for device in context.operations.devices if device in used)
    judged = [alone.get(f"section {each.key}", section) for each, section in zip(wanted, sections, strict=True)]
    findings = in_order(judged, (finding for section in sections for finding in section.findings))
    step, collectives = _step_times(context, chosen, program), found.get("collectives", NO_COLLECTIVES)
    ranks = found.get("of_all_ranks", collectives).ranks
    made = Report(
        capture=trace.capture,
        session=trace.session,
        # Ranks have numbers where there are several, or NCCL, MPI or a launcher gave one.
        gpus=tuple(replace(gpu, rank=ranks.number(gpu.device_id)) for gpu in gpus) if ranks.known else gpus,
        window=chosen,
        verdict=NO_VERDICT,
        program_kind=context.program_kind,
        sections=tuple(sections),
        findings=findings,
        notes=(*_unmet(context, window, chosen), *left_out, *without_operators(context), *warnings_of(trace)),
        timeline=_timeline(context, chosen, sections, collectives) if with_timeline else None,
        step=step,
    )
    if keys:
        return made
    now, about = typical(step, chosen), program.whole_window(chosen)
    own = None if now is None else replace(now, window_ns=max(round(now.window_ns / program.parts), 1))
    plan = find_plan(alone.get("simulation"), findings, own)
    findings = in_order(judged, findings, plan)
    sentence, rule = find_verdict(judged, findings, about, step, context.program_kind, plan)
    return replace(made, findings=findings, verdict=sentence, verdict_rule=rule, plan=plan)


def _about(
    spec: SectionSpec, program: ProgramAlone, found: Mapping[str, Any], alone: Mapping[str, Any], window: Window
) -> Section:
    """Return a section of the recording or of the program; with what is of the program, where it is about both.

    The findings are about all measured steps of the window.
    """
    name = f"section {spec.key}"
    section: Section = (alone if spec.about is About.PROGRAM else found)[name]
    if spec.about is not About.BOTH or program.is_recording:
        return section
    own: Section = alone[name]
    return replace(
        section,
        facts=tuple(
            (own.fact(each.label) if each.label in spec.of_program else None) or each for each in section.facts
        ),
        tables={label: (own if label in spec.of_program else section).tables[label] for label in section.tables},
        findings=tuple(program.in_whole_window(each, window) for each in own.findings),
    )


def _timeline(
    context: TraceContext, window: Window, sections: Sequence[Section], collectives: Collectives
) -> TimelineData | None:
    """Return the timeline of the page; None without GPU work."""
    by_key = {section.key: section.tables for section in sections}
    if "idle" not in by_key:
        return None
    # The GPUs of the ranks in the picture of a step; none where there is no picture.
    segments = by_key.get("ranks", {}).get("segments")
    numbers = set() if segments is None else set(segments["rank"].tolist())
    drawn = frozenset(rank.device_id for rank in collectives.ranks.each if rank.number in numbers)
    return timeline(context, window, by_key["idle"]["gaps"], collectives, drawn)


def _step_times(context: TraceContext, window: Window, program: ProgramAlone) -> StepTimes:
    """Return count, median length and mean time of the measured steps of the window, also without the profiler."""
    measured = context.steps.measured
    if not window.is_of_steps or not len(measured):
        return NO_STEP
    length = array(measured, "end") - array(measured, "start")
    step = StepTimes(context.steps.measured_count, round(float(np.median(length))), total_ns=context.steps.total_ns)
    return program.with_times(step)


def _wanted(context: TraceContext, keys: Keys) -> tuple[list[SectionSpec], tuple[str, ...]]:
    """Return the sections that the capture has tables for, and notes on the others; of those with ``keys``, if any."""
    is_part = context.trace.excerpt is not None
    candidates = [each for each in SECTIONS if (not keys or each.key in keys) and (is_part or not each.of_excerpt)]
    missing = {each.key: [spec.name for spec in each.needs if not len(context.trace[spec])] for each in candidates}
    gpu_worked = context.is_about_gpus
    wanted = [
        each
        for each in candidates
        if not missing[each.key]
        and (gpu_worked or not each.of_operations)
        and (each.applies is None or each.applies(context))
    ]
    if not gpu_worked:
        return wanted, (_without_ledger(context),)
    titles: dict[tuple[str, ...], list[str]] = {}
    for each in candidates:
        if missing[each.key]:
            titles.setdefault(tuple(missing[each.key]), []).append(each.title)
    words = {"calls": "CUDA calls", "os_calls": "operating system calls"}
    return wanted, tuple(
        f"Left out, since no {lacks} were recorded: {', '.join(given)}."
        for names, given in titles.items()
        for lacks in [" and no ".join(words.get(name, name.replace("_", " ")) for name in names)]
    )


def _fitted(section: Section, context: TraceContext) -> Section:
    """Return a section with the headlines and the advice of its findings in the words for the program."""
    fitted = context.program_kind.fitted
    findings = tuple(
        replace(each, headline=fitted(each.headline), advice=fitted(each.advice)) for each in section.findings
    )
    return replace(section, findings=findings) if findings else section


def _without_ledger(context: TraceContext) -> str:
    """Return why there is no ledger: what was recorded of the GPU and what was not, and no more than that."""
    trace, lost = context.trace, calls_in_words(*calls_without_record(context))
    calls = len(trace[tables.CALLS])
    if lost:
        why = (
            f"CUDA work was launched ({lost}), and the GPU's records of it are missing: "
            "another profiler used CUPTI, the driver is newer than nsys, buffers were lost, or the program was killed "
            "before it flushed them"
        )
    elif len(context.operations.start):
        why = f"No kernel was recorded, only {only_operations(context)}"
    elif calls:
        why = f"No GPU operation was recorded. {units.counted(calls, 'CUDA call')}: none launches a kernel"
    elif trace.session.traces and "Cuda" not in trace.session.traces:
        why = "CUDA was not traced; add cuda to the traces"
    else:
        why = "Neither a CUDA call nor a GPU operation was recorded"
    below = "Phases, steps and operating system calls are below; reports/samples/ holds a report from a real GPU."
    return f"There is no breakdown of GPU time. {why}. {below}"


def values_and_sections(
    specs: Sequence[SectionSpec], known: Mapping[str, Any], given: Mapping[str, Maker], *also: str
) -> dict[str, Any]:
    """Return the sections and the values that they name; a value that several name is built once.

    Args:
        specs: The sections.
        known: Values that are known: at least the context and the window.
        given: Functions that replace those of ``VALUES``.
        also: Names of more values.
    """
    sections = {f"section {each.key}": each.run for each in specs}
    makers: Mapping[str, Maker] = {**VALUES, **given, **sections}
    found: dict[str, Any] = {**known}
    needs: dict[str, list[str]] = {}
    pending = [*sections, *also]
    while pending:
        name = pending.pop()
        if name not in needs:
            needs[name] = list(inspect.signature(makers[name]).parameters)
            pending += [each for each in needs[name] if each not in found]
    order = TopologicalSorter({name: set(its) - found.keys() for name, its in needs.items()})
    order.prepare()
    ready: list[str] = []
    running: dict[Future[Any], str] = {}
    workers = WORKERS if len(known["context"].operations.start) >= MANY_OPERATIONS else 1
    with ThreadPoolExecutor(workers) as pool:
        while order.is_active():
            # Nothing waits for a section, so the values are made first.
            ready = sorted([*ready, *order.get_ready()], key=sections.__contains__)
            for name in [ready.pop(0) for _ in ready[: workers - len(running)]]:
                running[pool.submit(makers[name], **{each: found[each] for each in needs[name]})] = name
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for each in done:
                name = running.pop(each)
                found[name] = each.result()
                order.done(name)
    return found


def check_request(window: str, settings: Settings) -> None:
    """Check the parts of a request that do not depend on the trace.

    Raises:
        UsageError: The window or the pattern of steps cannot be read.
    """
    if window not in {"", STEPS, ALL}:
        between(window)
    step_matcher(settings.step_pattern)
    kernel_matcher(settings.step_kernel)


def choose_window(context: TraceContext, wanted: str = "") -> Window:
    """Return the window of the report.

    Raises:
        UsageError: The window cannot be read or is empty.
        CannotTellError: There are no steps, or nothing was recorded.
    """
    excerpt = context.trace.excerpt
    if wanted not in {"", STEPS, ALL}:
        given = recorded(extent(context.trace), between(wanted))
        return given if excerpt is None or excerpt.is_wanted else part_read(excerpt, "user")
    measured = measured_window(context.steps, context.settings, wanted)
    if measured is not None:
        return measured
    operations = context.operations
    if excerpt is not None:
        return part_read(excerpt, "operations")
    # Where hardly more than a copy or a memset was recorded, the report is about the host, whose time is the capture's.
    if context.is_about_gpus:
        return window_of_operations(int(operations.start.min()), int(operations.end.max()))
    if context.trace.session.duration_ns > 0:
        return Window(0, context.trace.session.duration_ns, "the whole capture", "session")
    return Window(*extent(context.trace), "the whole capture", "session")


def choose_joint_window(steps: Steps, settings: Settings, extent: tuple[int, int], wanted: str) -> Window:
    """Return the window of the report of a job whose ranks are not in one trace.

    Raises:
        UsageError: The window cannot be read or is empty.
        CannotTellError: There are no steps.
    """
    if wanted not in {"", STEPS, ALL}:
        return recorded(extent, between(wanted))
    return measured_window(steps, settings, wanted) or window_of_operations(*extent)


def measured_window(steps: Steps, settings: Settings, wanted: str) -> Window | None:
    """Return the window of the measured steps; None where there are none, or all operations are wanted.

    Raises:
        CannotTellError: The user wants steps, and there are none.
    """
    found = steps.measured_window()
    if wanted == STEPS and found is None:
        why = "the capture has no steps"
        if settings.step_kernel:
            why = f"fewer than two kernels match --step-kernel {settings.step_kernel}"
        elif settings.step_pattern:
            why = f"no range matches --step-range {settings.step_pattern}"
        raise CannotTellError(
            why,
            hint='put an NVTX range such as "batch 17" around each step, name yours with --step-range, name the '
            "kernel that begins a step with --step-kernel, or use --window all",
        )
    return None if wanted == ALL else found


def window_of_operations(start_ns: int, end_ns: int) -> Window:
    """Return the window from the first operation to the last."""
    return Window(start_ns, max(end_ns, start_ns + 1), "all GPU operations, warm-up included", "operations")


def _unmet(context: TraceContext, wanted: str, window: Window) -> Iterator[str]:
    """Yield a note for each part of the user's request that the capture, or the memory, does not allow."""
    excerpt = context.trace.excerpt
    if excerpt is not None:
        words = f"This report is about {excerpt.words(context.steps.read)}: {excerpt.reason}."
        yield f"{words} The section on the whole capture covers all operations."
    if window.source == "user" and (given := between(wanted)).label != window.label:
        yield f"--window {given.label} reaches beyond what was recorded: the numbers are about {window.label}."
    settings, texts = (
        context.settings,
        context.trace[tables.RANGES]["text"].cat.remove_unused_categories().cat.categories,
    )
    if settings.step_kernel and not len(context.steps.frame):
        yield f"--step-kernel {settings.step_kernel}: fewer than two kernels match, so there are no steps."
    elif settings.step_pattern and not len(context.steps.frame):
        yield f"--step-range {settings.step_pattern}: no range matches, so there are no steps."
    for rule in settings.phase_rules:
        if not any(rule.pattern.search(str(text)) for text in texts):
            yield f"--phase {rule.phase}={rule.pattern.pattern}: no range matches."
