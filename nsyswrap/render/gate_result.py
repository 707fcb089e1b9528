"""The result of the gate as text, as Markdown for a comment, and as JSON; each form is a pure function."""

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nsyswrap import units
from nsyswrap.errors import UsageError
from nsyswrap.gate import Gate, GateOutcome, Measure, TimedRun, noise_words
from nsyswrap.render.blocks_as_text import printed
from nsyswrap.render.escape import visible

if TYPE_CHECKING:
    from nsyswrap.render.json_report import Tree

SCHEMA = "nsyswrap.gate/1"
MARKER = "<!-- nsyswrap gate -->"
"""The first line of the Markdown: a job finds its earlier comment by it."""
_HEADS = ("", "earlier", "new", "change", "noise", "result")
_MOST_ISSUES = 6
_MOST_RUNS = 40
_HEADING, _MUTED = "bold", "dim"
_STYLES = {
    GateOutcome.PASSES: "bold green",
    GateOutcome.REGRESSED: "bold red",
    GateOutcome.CANNOT_TELL: "bold yellow",
}


def render(form: str, gate: Gate, *, width: int = 80, colour: bool = False) -> str:
    """Return the result in one form.

    Args:
        form: A key of ``FORMS``.
        gate: The result.
        width: Largest line width of text, in columns.
        colour: Whether text has terminal colours; no information is in the colour alone.

    Raises:
        UsageError: There is no such form.
    """
    if form not in FORMS:
        raise UsageError(f"there is no form {form!r}", hint=f"Choose one of: {', '.join(FORMS)}.")
    return printed(_blocks(gate), width=width, colour=colour) if form == "text" else FORMS[form](gate)


def _text(gate: Gate) -> str:
    return printed(_blocks(gate), width=80, colour=False)


def _blocks(gate: Gate) -> Iterator[RenderableType]:
    yield Text("nsyswrap gate  ", style=_MUTED).append(_counts(gate), style=_HEADING)
    yield Text("\n").append(visible(gate.verdict), style=_STYLES[gate.outcome])
    if gate.hint:
        yield Text(f"-> {visible(gate.hint)}", style=_MUTED)
    if gate.measures:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_MUTED)
        for at, head in enumerate(_HEADS):
            table.add_column(head, justify="right" if 0 < at < len(_HEADS) - 1 else "left", vertical="bottom")
        for one in gate.measures:
            table.add_row(*_cells(one))
        yield _title("Step time")
        yield Padding(table, (0, 0, 0, 2))
    if gate.blame:
        yield _title("What takes longer")
        for part in gate.blame:
            words = f"{units.difference(part.delta_ns, 'ns')} a step  {visible(part.words)}"
            yield Padding(Text(words), (0, 0, 0, 2))
    if gate.notes or gate.issues:
        yield _title("Notes")
        for note in gate.notes:
            yield Padding(Text(visible(note)), (0, 0, 0, 2))
        for issue in gate.issues[:_MOST_ISSUES]:
            yield Padding(Text(f"{'NOT COMPARABLE: ' if issue.blocks else ''}{visible(issue.message)}"), (0, 0, 0, 2))


def _title(words: str) -> Text:
    return Text("\n").append(words.upper(), style=_HEADING)


def _counts(gate: Gate) -> str:
    new = len(gate.new)
    return f"{new} new run{'' if new == 1 else 's'} against {len(gate.earlier)}"


def _cells(one: Measure) -> tuple[str, ...]:
    return (
        one.label,
        units.duration(one.earlier_ns),
        units.duration(one.new_ns),
        units.change(one.change),
        noise_words(one.limit),
        one.outcome.value,
    )


def _markdown(gate: Gate) -> str:
    from nsyswrap.render.markdown_report import fitted  # noqa: PLC0415 - loads what a report is rendered with

    return fitted(_parts(gate))


def _parts(gate: Gate) -> Iterator[str]:
    """Yield the parts of the comment, the most important first."""
    from nsyswrap.render.markdown_report import details, escape, name, pipe_table  # noqa: PLC0415 - as above

    yield f"{MARKER}\n### nsyswrap gate: {gate.outcome.value}"
    yield f"**{escape(gate.verdict)}**"
    if gate.hint:
        yield escape(f"What helps: {gate.hint}.")
    if gate.issues:
        yield "\n".join(
            f"> {'**Not comparable:** ' if one.blocks else ''}{escape(one.message)}  "
            for one in gate.issues[:_MOST_ISSUES]
        )
    if gate.notes:
        yield "\n".join(f"> {escape(note)}  " for note in gate.notes)
    if gate.measures:
        yield pipe_table(_HEADS, [tuple(map(escape, _cells(one))) for one in gate.measures], 1)
    if gate.blame:
        rows = [
            (escape(one.words), escape(units.difference(one.delta_ns, "ns")), escape(units.change(one.share)))
            for one in gate.blame
        ]
        yield pipe_table(("what takes longer", "a step", "of a step"), rows, 1)
    if gate.measures:
        runs = [(run, "earlier") for run in gate.earlier[-_MOST_RUNS:]] + [(run, "new") for run in gate.new]
        body = [
            (name(run.name), name(run.commit[:10]), side, escape(units.duration(run.mean_ns))) for run, side in runs
        ]
        left = len(gate.earlier) - _MOST_RUNS
        table = pipe_table(("run", "commit", "", "time per step"), body, 3)
        yield details(_counts(gate), table, f"{left} more earlier runs" if left > 0 else "")


def _json(gate: Gate) -> str:
    from nsyswrap.render.json_report import format_document  # noqa: PLC0415 - as above

    return format_document(tree(gate))


def tree(gate: Gate) -> "Tree":
    """Return the result as nested dictionaries and lists of plain Python values."""
    return {
        "schema": SCHEMA,
        "outcome": gate.outcome.value,
        "verdict": gate.verdict,
        "hint": gate.hint,
        "more_runs": gate.more_runs,
        "find_share": gate.options.find,
        "margin_share": gate.options.margin,
        "false_alarms_share": gate.options.false_alarms,
        "accepted": sorted(one.value for one in gate.options.accept),
        "step_time": [
            {
                "label": one.label,
                "earlier_ns": one.earlier_ns,
                "new_ns": one.new_ns,
                "change_share": one.change,
                "noise_share": one.limit if math.isfinite(one.limit) else None,
                "outcome": one.outcome.value,
            }
            for one in gate.measures
        ],
        "blame": [{"part": one.words, "delta_ns": one.delta_ns, "step_share": one.share} for one in gate.blame],
        "notes": list(gate.notes),
        "issues": [
            {"kind": one.kind.value, "blocks": one.blocks, "message": one.message, "hint": one.hint}
            for one in gate.issues
        ],
        "earlier": [_run(run) for run in gate.earlier],
        "new": [_run(run) for run in gate.new],
    }


def _run(run: TimedRun) -> "Tree":
    return {"name": run.name, "commit": run.commit, "mean_ns": run.mean_ns, "median_ns": run.median_ns}


FORMS: Mapping[str, Callable[[Gate], str]] = MappingProxyType({"text": _text, "markdown": _markdown, "json": _json})
"""Each form of the result, by name."""
