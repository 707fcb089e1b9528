"""Checks whether two reports can be compared; the issues are shown before the verdict."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import combinations

from nsyswrap.base import units
from nsyswrap.base.program_name import working_words
from nsyswrap.compare.comparison import ComparabilityIssue, ComparisonOptions, IssueKind, Side
from nsyswrap.model import Gpu, Report
from nsyswrap.rules import capture

# Intervals from fewer steps contain the true value too rarely; docs/compare.md has the rates.
FEWEST_STEPS = 10
# A step whose input differs in size by more than this share does different work.
WORK_SHARE = 0.01
_INCOMPLETE = capture.INCOMPLETE.key
# The section of a report about a part of a capture.
_PART = "whole_capture"
_MOST_WORDS = 8
_MOST_PARTS = 4
_LONGEST = 200
# Sections that have rows only with additional recording options of nsys.
_EXTRAS = {"counters": "GPU counters", "python_lines": "Python stacks", "device_memory": "memory"}


def find_issues(base: Side, new: Side, options: ComparisonOptions) -> list[ComparabilityIssue]:
    """Return the issues of a comparison; those that withhold the verdict come first."""
    found = [*_between(base, new), *(one for side in (base, new) for one in _among_runs(side))]
    return accepted(found, options.accept)


def between_runs(side: Side, options: ComparisonOptions) -> list[ComparabilityIssue]:
    """Return the differences among the runs of one side; those that withhold the verdict come first."""
    return accepted(_among_runs(side), options.accept)


def accepted(found: Iterable[ComparabilityIssue], kinds: frozenset[IssueKind]) -> list[ComparabilityIssue]:
    """Return issues, those that the user accepts without their effect; those that withhold the verdict come first."""
    issues = [
        ComparabilityIssue(one.kind, f"{one.message} You accepted this.", blocks=False) if one.kind in kinds else one
        for one in found
    ]
    return sorted(dict.fromkeys(issues), key=lambda one: not one.blocks)


def _between(base: Side, new: Side) -> list[ComparabilityIssue]:
    return [
        *_machines(base, new),
        *_steps(base, new),
        *_incomplete(base, new),
        *_gpus(base.report, new.report),
        *_traces(base.report, new.report),
        *_windows(base, new),
        *_parts(base, new),
        *_versions(base, new),
        *_command(base.report, new.report),
        *_work(base, new),
        *(
            [ComparabilityIssue(IssueKind.SAME, "Base and new are the same capture.", blocks=False)]
            if _is_same(base.report, new.report)
            else []
        ),
    ]


def _among_runs(side: Side) -> Iterator[ComparabilityIssue]:
    """Yield the differences among the runs of one side, and runs that are given twice."""
    first, *others = (
        Side(side.name, (report,), (steps,), 0, (origin,))
        for report, steps, origin in zip(side.reports, side.runs, side.origins, strict=True)
    )
    for run in others:
        for one in _between(first, run):
            if one.kind not in {IssueKind.STEPS, IssueKind.SAME}:
                words = f"Among the runs of {side.name}: {one.message[0].lower()}{one.message[1:]}"
                yield ComparabilityIssue(one.kind, words, blocks=one.blocks, hint=one.hint)
    for report, another in combinations(side.reports, 2):
        if _is_same(report, another):
            words = f"One capture is given twice as a run of {side.name}."
            yield ComparabilityIssue(IssueKind.SAME, words, blocks=True, hint="give each run once")


def other(what: str, now: str, before: str) -> str:
    """Return a sentence about what differs: ``Other driver: 580 against 570.``, new against base."""
    return f"Other {what}: {now or 'unknown'} against {before or 'unknown'}."


def _machines(base: Side, new: Side) -> Iterator[ComparabilityIssue]:
    """Yield an issue where the two sides ran on different kinds of machine, as far as this is known."""
    before, now = (sorted({one.machine for one in side.origins}) for side in (base, new))
    if before != now and "" not in (*before, *now):
        words = other("machine", " and ".join(now), " and ".join(before))
        hint = "run both on one machine, or use --accept machine to compare machines"
        yield ComparabilityIssue(IssueKind.MACHINE, words, blocks=True, hint=hint)


def _steps(base: Side, new: Side) -> Iterator[ComparabilityIssue]:
    for side in (base, new):
        name = side.name if len(side.runs) == 1 else f"a run of {side.name}"
        yield from few_steps(name, min(run.count for run in side.runs))


def few_steps(name: str, count: int) -> Iterator[ComparabilityIssue]:
    """Yield the issue of a run with so few measured steps that they cannot be compared."""
    if not count:
        words = f"{name} has no measured steps in its window, so there is no step time to compare."
        hint = 'put an NVTX range such as "batch 17" around each step, or use --step-range or --step-kernel'
        yield ComparabilityIssue(IssueKind.STEPS, words, blocks=True, hint=hint)
    elif count < FEWEST_STEPS:
        words = f"{name} has {count} measured steps; a comparison needs {FEWEST_STEPS}."
        yield ComparabilityIssue(IssueKind.STEPS, words, blocks=True, hint="profile more steps")


def _incomplete(base: Side, new: Side) -> Iterator[ComparabilityIssue]:
    for side in (base, new):
        if any(finding.rule == _INCOMPLETE for finding in side.report.findings):
            yield incomplete(side.name)


def incomplete(name: str) -> ComparabilityIssue:
    """Return the issue of a run whose capture lost events."""
    words = f"The capture of {name} is incomplete, so lost events cannot be compared."
    hint = "follow the advice in its report and capture again"
    return ComparabilityIssue(IssueKind.INCOMPLETE, words, blocks=True, hint=hint)


def _gpus(base: Report, new: Report) -> Iterator[ComparabilityIssue]:
    before, now = (_gpu_words(report.gpus) for report in (base, new))
    if before != now:
        hint = "compare runs on the same GPU, or use --accept gpu to compare GPUs"
        yield ComparabilityIssue(IssueKind.GPU, other("GPU", now, before), blocks=True, hint=hint)


def _gpu_words(gpus: tuple[Gpu, ...]) -> str:
    counted = Counter((gpu.name, gpu.sm_count) for gpu in gpus)
    several = len({name for name, _ in counted}) < len(counted)
    words = (
        units.times(count, name) + (f" with {multiprocessors} SMs" if several or multiprocessors else "")
        for (name, multiprocessors), count in sorted(counted.items())
    )
    return " and ".join(words) or "none"


def _traces(base: Report, new: Report) -> Iterator[ComparabilityIssue]:
    """Yield differences in what nsys recorded; recording takes time, mostly for calls, ranges and graph nodes."""
    before, now = (
        {*report.session.traces, *(what for key, what in _EXTRAS.items() if _has_rows(report, key))}
        for report in (base, new)
    )
    differences = [f"only base traced {', '.join(sorted(before - now))}"] if before - now else []
    differences += [f"only new traced {', '.join(sorted(now - before))}"] if now - before else []
    graphs = (base.session.graph_trace, new.session.graph_trace)
    if graphs[0] != graphs[1] and any(_has_rows(report, "cuda_graphs") for report in (base, new)):
        differences.append("CUDA graphs were traced as {} and as {}".format(*(one or "unknown" for one in graphs)))
    if differences:
        words = f"nsys recorded different events, and recording takes time: {'; '.join(differences)}."
        hint = "profile both with the same options, or use --accept traces"
        yield ComparabilityIssue(IssueKind.TRACES, words, blocks=True, hint=hint)


def _has_rows(report: Report, key: str) -> bool:
    section = report.section(key)
    return section is not None and any(len(table) for table in section.tables.values())


def _windows(base: Side, new: Side) -> Iterator[ComparabilityIssue]:
    before, now = base.report.window, new.report.window
    if before.source != now.source:
        words = f"The windows differ: {before.label} in base, {now.label} in new."
        hint = "use the same --window for both, or --accept window"
        yield ComparabilityIssue(IssueKind.WINDOW, words, blocks=True, hint=hint)
    elif before.source == "user":
        yield ComparabilityIssue(IssueKind.WINDOW, "Both windows were chosen by the user.", blocks=False)
    families = base.steps.family, new.steps.family
    if all(families) and families[0] != families[1]:
        words = f"Steps have different names, {families[0]} and {families[1]}: check that they do the same work."
        yield ComparabilityIssue(IssueKind.WINDOW, words, blocks=False)


def _parts(base: Side, new: Side) -> Iterator[ComparabilityIssue]:
    """Yield a side whose capture was read in part: its steps count, and they may not be those of the other side."""
    for side in (base, new):
        section = side.report.section(_PART)
        read = section.fact("read") if section else None
        if read is not None:
            words = f"The capture of {side.name} was read in part: {read.value}."
            yield ComparabilityIssue(IssueKind.WINDOW, words, blocks=False, hint="give both the same --memory")


def _versions(base: Side, new: Side) -> Iterator[ComparabilityIssue]:
    before, now = base.report.session, new.report.session
    pairs = (
        ("torch", base.origin.torch, new.origin.torch),
        ("driver", before.driver_version, now.driver_version),
        ("CUDA", before.cuda_version, now.cuda_version),
        ("nsys", before.nsys_version, now.nsys_version),
        ("export schema", before.schema_version, now.schema_version),
    )
    for what, earlier, later in pairs:
        if earlier != later:
            yield ComparabilityIssue(IssueKind.VERSIONS, other(what, later, earlier), blocks=False)


def _command(base: Report, new: Report) -> Iterator[ComparabilityIssue]:
    before, now = (working_words(one.session.command) for one in (base, new))
    if before == now:
        return
    before, now = ((*words[:_LONGEST], *(["..."] if len(words) > _LONGEST else [])) for words in (before, now))
    parts = [
        f"{_words(now, start, end)} against {_words(before, first, last)}"
        for kind, first, last, start, end in SequenceMatcher(None, before, now, autojunk=False).get_opcodes()
        if kind != "equal"
    ]
    more = f"; {len(parts) - _MOST_PARTS} more" if len(parts) > _MOST_PARTS else ""
    listed = "; ".join(parts[:_MOST_PARTS]) or f"after their first {_LONGEST} arguments"
    yield ComparabilityIssue(IssueKind.COMMAND, f"Other arguments: {listed}{more}.", blocks=False)


def _words(command: Sequence[str], first: int, last: int) -> str:
    """Return some arguments of a command, with the option before them; "nothing" where there are none."""
    if first == last:
        return "nothing"
    shown = command[first : min(last, first + _MOST_WORDS)]
    option = command[first - 1 : first] if first and command[first - 1].startswith("-") else ()
    return shlex.join([*option, *shown]) + (" ..." if last - first > _MOST_WORDS else "")


def _work(base: Side, new: Side) -> Iterator[ComparabilityIssue]:
    """Yield an issue where a step copies different amounts to the GPU: its batch may have another size."""
    before, now = (_input_bytes(side) for side in (base, new))
    if before is None or now is None or abs(now - before) <= WORK_SHARE * max(before, now):
        return
    words = f"Other data: a step copies {units.size(now)} to the GPU against {units.size(before)}."
    yield ComparabilityIssue(IssueKind.WORK, words, blocks=False)


def _input_bytes(side: Side) -> float | None:
    """Return the bytes copied from CPU to GPU in a step; None where they are unknown."""
    table = side.report.rows("copies", "summary")
    if table is None or not side.report.window.is_of_steps or not side.step_count:
        return None
    return float(table.loc[table["kind"] == "Host-to-Device", "bytes"].sum()) / side.step_count


def _is_same(one: Report, other: Report) -> bool:
    return bool(one.session.started_utc) and (one.session, one.capture.bytes) == (other.session, other.capture.bytes)
