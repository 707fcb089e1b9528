"""The comparison as Markdown for a comment on a pull request: under 8 KB, with folded tables and inert names."""

from collections.abc import Iterator

from nsyswrap import units
from nsyswrap.compare import ChangeTable, Comparison, Outcome
from nsyswrap.render import vocabulary
from nsyswrap.render.comparison import summary_model
from nsyswrap.render.markdown_writer import details, escape, fitted, name, pipe_table

_MOST_ROWS = 8
_MOST_FINDINGS = 5
_MOST_ISSUES = 6
_FOLDED = ("phases", "families", "kernels", "copies", "host_calls")
_SIGNS = {
    Outcome.FASTER: "faster",
    Outcome.SLOWER: "**slower**",
    Outcome.NO_DIFFERENCE: "no difference",
    Outcome.CANNOT_TELL: "cannot tell",
}


def render(comparison: Comparison) -> str:
    """Return the comparison as Markdown that fits into a comment; where a part does not fit, a line says so."""
    return fitted(_parts(comparison))


def _parts(comparison: Comparison) -> Iterator[str]:
    """Yield the parts of the comment, the most important first."""
    yield f"### nsyswrap compare: {name(comparison.base.name)} → {name(comparison.new.name)}"
    yield f"**{escape(comparison.verdict)}**"
    if comparison.issues:
        listed = comparison.issues[:_MOST_ISSUES]
        yield "\n".join(f"> {'**Not comparable:** ' if one.blocks else ''}{escape(one.message)}  " for one in listed)
    if comparison.estimates:
        yield _step_time(comparison)
    if lines := summary_model.plan_score(comparison):
        yield f"**Plan of base**: {escape(' '.join(lines))}"
    for table in (comparison.table("ledger"), comparison.table("scaling")):
        if table is not None:
            yield f"**{table.title}**, {table.of}\n\n{_changes(table, 0.0, named=False)[0]}"
    if tensor := summary_model.tensor_words(comparison):
        yield f"**Tensor cores**: {escape(tensor)}."
    yield from _findings(comparison)
    for folded in (summary_model.moved(comparison), *(comparison.table(key) for key in _FOLDED)):
        if folded is None:
            continue
        shown = _changes(folded, summary_model.least_of(comparison, folded), named=folded.key in _FOLDED)
        if shown[0]:
            yield details(f"{folded.title}, {folded.of}", *shown)
    yield f"{escape(_sides(comparison))}"


def _step_time(comparison: Comparison) -> str:
    body = [
        (one.label, units.duration(one.base_ns), units.duration(one.new_ns), units.change(one.change),
         summary_model.interval_of(one), _SIGNS[one.outcome])
        for one in comparison.estimates
    ]  # fmt: skip
    return pipe_table(
        ("", "base", "new", "change", "95 % interval", "result"), [tuple(map(_plain, row)) for row in body], 1
    )


def _plain(cell: str) -> str:
    # A tilde or an angle bracket would be markup; bold is ours.
    return cell if cell.startswith("**") else escape(cell)


def _changes(changes: ChangeTable, least: float, *, named: bool) -> tuple[str, str]:
    """Return the changed rows as a table, and a sentence about the rows that are left out.

    Args:
        changes: The table of changes.
        least: The smallest difference that is shown.
        named: Whether the profiled program chose the names, which are then set as code.
    """
    shown = summary_model.lines_of(changes, _MOST_ROWS, least)
    if not shown.lines:
        return "", ""
    counted = any(line.counts for line in shown.lines)
    sure = any(line.interval for line in shown.lines)
    heads = ("", "base", "new", "difference", *(["95 % interval"] if sure else []), *(["times"] if counted else []))
    body = [
        (
            name(line.name) if named else escape(line.name),
            *(escape(one) for one in (line.base, line.new, line.delta)),
            *([escape(line.interval)] if sure else []),
            *([escape(line.counts)] if counted else []),
        )
        for line in shown.lines
    ]
    return pipe_table(heads, body, 1), shown.cut


def _findings(comparison: Comparison) -> Iterator[str]:
    lines = []
    for word, pairs in summary_model.findings_of(comparison):
        for pair in pairs[:_MOST_FINDINGS]:
            lost, moved = summary_model.lost_of(pair, comparison), summary_model.moved_of(pair, comparison)
            text = summary_model.headline_of(pair) + (f" ({lost})" if lost else "") + (f" {moved}" if moved else "")
            lines.append(f"- **{word}** {escape(vocabulary.rule_name(pair.rule))}: {escape(text)}")
        if len(pairs) > _MOST_FINDINGS:
            lines.append(f"- {len(pairs) - _MOST_FINDINGS} more {word}")
    if lines:
        yield "**Findings**\n\n" + "\n".join(lines)


def _sides(comparison: Comparison) -> str:
    sides = (comparison.base, comparison.new)
    listed = (
        f"{word}: {summary_model.gpus_of(side)}, {summary_model.steps_of(side)}"
        for word, side in zip(("Base", "New"), sides, strict=True)
    )
    return f"{'. '.join(listed)}. {summary_model.intervals_of(comparison)}".rstrip()
