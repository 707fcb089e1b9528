"""What came of trying changes: the sentence, the lines to write, and what each change did."""

import ast
from collections.abc import Mapping, Sequence

from nsyswrap.base import units
from nsyswrap.base.json_codec import Tree
from nsyswrap.experiments.outcome import FAILED, NOT_APPLICABLE, Trial, TriedChange
from nsyswrap.experiments.tried.turns import FASTER, SET
from nsyswrap.render.document import Column, Document, DocumentSection, Hero, Lines, Table, Tone
from nsyswrap.render.measured_hero import MeasuredTime, hero
from nsyswrap.rules.code import PYTORCH

# Characters of a line of code.
LONGEST_LINE = 88
NOTHING_HELPS = "No change makes the program faster by 1 % or more."


def document(trial: Trial) -> Document:
    """Return the result as a document."""
    tone: Tone = "good" if trial.kept else ""
    return Document(
        command="try",
        title=units.counted(
            sum(each.verdict != NOT_APPLICABLE and each.spec != SET for each in trial.outcomes), "change"
        ),
        outcome="faster" if trial.kept else "nothing helps",
        tone=tone,
        verdict=verdict(trial),
        lead=(*_hero(trial.together), Lines(trial.notes, "notes")),
        sections=(
            *(
                DocumentSection(f"lines-{number}", f"What to write: {library}", "", (Lines(lines, "code"),))
                for number, (library, lines) in enumerate(lines_by_library(trial).items())
            ),
            DocumentSection("changes", "What each change does", "", (_table(trial),)),
            DocumentSection("others", "What does not apply", "", (Lines(_reasons(trial), "bullets"),)),
            DocumentSection("workers", "Workers of the loader", "", (_workers(trial),) if trial.points else ()),
        ),
    )


def _hero(best: TriedChange | None) -> tuple[Hero, ...]:
    """Return a step as it is and with the changes that help, on one scale; nothing where none helps."""
    if best is None or best.interval is None or best.verdict != FASTER:
        return ()
    after = best.interval.map(lambda ratio: ratio * best.before_ns)
    times = MeasuredTime("a step now", best.before_ns), MeasuredTime("with the changes", after.point, after)
    return hero(*times, sure="measured in turns")


def verdict(trial: Trial) -> str:
    """Return the result in one sentence."""
    best, names = trial.together, ", ".join(each.name for each in trial.kept)
    if not names:
        return NOTHING_HELPS
    if best is None or best.verdict != FASTER:
        return f"Each of these makes a step shorter; how much they do together is not sure: {names}."
    return f"{units.factor(1 / best.ratio)} times as fast: {names}."


def lines_by_library(trial: Trial) -> dict[str, tuple[str, ...]]:
    """Return the lines to write for the changes to make, by library; where one has no own lines, PyTorch's hold."""
    libraries = dict.fromkeys(library for each in trial.kept for library in each.lines)
    return {
        library: tuple(_joined([each.lines.get(library, each.lines[PYTORCH]) for each in trial.kept]).splitlines())
        for library in libraries
    }


def _joined(texts: Sequence[str]) -> str:
    """Return Python code as one text, in which calls whose result has the same name are one call with all arguments."""
    found: dict[str, str] = {}
    arguments: dict[str, dict[str, str]] = {}
    for text in texts:
        for each in ast.parse(text).body:
            words = "\n".join(text.splitlines()[each.lineno - 1 : each.end_lineno])
            if not isinstance(each, ast.Assign) or not isinstance(each.value, ast.Call):
                found[words] = words
                continue
            call = each.value
            key, before = f"{ast.unparse(each.targets[0])} = {ast.unparse(call.func)}", len(arguments)
            known = arguments.setdefault(key, {})
            given = {str(ast.get_source_segment(text, one)): "" for one in call.args}
            given |= {str(one.arg): f"={ast.get_source_segment(text, one.value)}" for one in call.keywords}
            # A name stands for what the program has, and a value for what to write.
            names = {one.arg for one in call.keywords if isinstance(one.value, ast.Name)}
            known |= {name: value for name, value in given.items() if name not in known or name not in names}
            found[key] = words if len(arguments) > before else _call(key, known)
    return "\n".join(found.values())


def _call(function: str, arguments: Mapping[str, str]) -> str:
    """Return a call, one argument a line where it is long."""
    words = [f"{name}{value}" for name, value in arguments.items()]
    line = f"{function}({', '.join(words)})"
    return (
        line if len(line) <= LONGEST_LINE else "\n    ".join((f"{function}(", *(f"{each}," for each in words))) + "\n)"
    )


def _table(trial: Trial) -> Table:
    rows = [each for each in trial.outcomes if each.verdict != NOT_APPLICABLE]
    return Table(
        "changes",
        "What each change does",
        (
            Column("change", "change", "text", [each.name for each in rows]),
            Column("result", "result", "text", [each.verdict for each in rows]),
            Column("speed", "time of a step", "share", [each.ratio if each.pairs else None for each in rows],
                   [_ratio(each) for each in rows]),
            Column("before_ns", "before", "ns", [each.before_ns if each.pairs else None for each in rows]),
            Column("after_ns", "with it", "ns", [each.after_ns if each.pairs else None for each in rows]),
            Column("alters", "alters", "text", [each.alters for each in rows]),
            Column("note", "note", "text", [_note(each) for each in rows]),
        ),
        most={"text": len(rows), "markdown": len(rows), "slim": len(rows)},
        brief=("change", "result", "speed", "note"),
    )  # fmt: skip


def _reasons(trial: Trial) -> tuple[str, ...]:
    """Return why changes do not apply, with those that each reason is about."""
    names: dict[str, list[str]] = {}
    for each in trial.outcomes:
        if each.verdict == NOT_APPLICABLE:
            names.setdefault(each.words, []).append(each.name)
    return tuple(f"{reason}: {', '.join(some)}" for reason, some in names.items())


def _workers(trial: Trial) -> Table:
    """Return what each number of workers brings, and the cores and the memory that it takes."""
    points = trial.points
    cores = [f"{each.cores:.1f}" for each in points]
    return Table(
        "workers",
        "Workers of the loader",
        (
            Column("workers", "workers", "number", [each.workers for each in points]),
            Column("step_ns", "step", "ns", [each.step_ns for each in points]),
            Column("cores", "cores in use", "number", [each.cores for each in points], cores),
            Column("worker_bytes", "memory of the workers", "bytes", [each.worker_bytes for each in points]),
        ),
        most={"text": len(points), "markdown": len(points), "slim": len(points)},
    )


def _ratio(outcome: TriedChange) -> str:
    """Return the change of a step with its interval, such as "-12 % (-14 to -10 %)"."""
    if outcome.interval is None:
        return ""
    low, high = (round(100 * (end - 1)) for end in outcome.interval.ends)
    return f"{units.change(outcome.ratio - 1)} ({low} to {high} %)"


def _note(outcome: TriedChange) -> str:
    if outcome.verdict == FAILED or outcome.words:
        return outcome.words
    if outcome.pays_after > 1:
        return f"pays after {units.counted(outcome.pays_after, 'step')}"
    return ""


def tree(trial: Trial) -> Tree:
    """Return the result as nested dictionaries and lists of plain Python values."""
    return {
        **trial.tree(),
        "verdict": verdict(trial),
        "lines": {k: list(v) for k, v in lines_by_library(trial).items()},
    }
