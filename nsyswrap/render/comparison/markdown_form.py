"""The comparison as Markdown for a comment on a change: under 8 KB, tables folded away, names inert."""

from collections.abc import Iterator

from nsyswrap import units
from nsyswrap.compare import ChangeTable, Comparison, Outcome
from nsyswrap.render.comparison import summary_model
from nsyswrap.render.markdown_report import details, escape, fitted, name, pipe_table

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
    """Return the comparison as Markdown that a comment holds; where a part does not fit, a line says so."""
    return fitted(_parts(comparison))


def _parts(comparison: Comparison) -> Iterator[str]:
    """Yield the parts of the comment, the most important first."""
    yield f"### nsyswrap compare: {name(comparison.base.name)} → {name(comparison.new.name)}"
    yield f"**{escape(comparison.verdict)}**"
    if comparison.issues:
        listed = comparison.issues[:_MOST_ISSUES]
        yield "\n".join(f"> {'**Not comparable:** ' if one.blocks else ''}{escape(one.words)}  " for one in listed)
    if comparison.estimates:
        yield _step_time(comparison)
    ledger = comparison.table("ledger")
    if ledger is not None:
        yield f"**{ledger.title}**, {ledger.of}\n\n{_changes(ledger, 0.0, named=False)[0]}"
    if tensor := summary_model.tensor_words(comparison):
        yield f"**Tensor cores**: {escape(tensor)}."
    yield from _findings(comparison)
    for folded in (summary_model.moved(comparison), *(comparison.table(key) for key in _FOLDED)):
        if (
            folded is not None
            and (shown := _changes(folded, summary_model.least_of(comparison, folded), named=True))[0]
        ):
            yield details(f"{folded.title}, {folded.of}", *shown)
    yield f"{escape(_sides(comparison))}"


def _step_time(comparison: Comparison) -> str:
    body = [
        (one.label, units.duration(one.base_ns), units.duration(one.new_ns), units.change(one.change),
         summary_model.interval_of(one), _SIGNS[one.outcome])
        for one in comparison.estimates
    ]  # fmt: skip
    return pipe_table(
        ("", "base", "new", "change", "95 % interval", "says"), [tuple(map(_plain, row)) for row in body], 1
    )


def _plain(cell: str) -> str:
    # A tilde or an angle bracket would be markup; bold is ours.
    return cell if cell.startswith("**") else escape(cell)


def _changes(changes: ChangeTable, least: float, *, named: bool) -> tuple[str, str]:
    """Return the rows that differ as a table, and the sentence that states the cut; names of programs are set as code.

    Args:
        changes: What moved.
        least: The smallest difference that is shown.
        named: Whether the program chose the names.
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
            cost = summary_model.cost_of(pair, comparison)
            told = f" ({cost})" if cost else ""
            lines.append(f"- **{word}** {name(pair.rule)} {escape(summary_model.headline_of(pair) + told)}")
        if len(pairs) > _MOST_FINDINGS:
            lines.append(f"- {len(pairs) - _MOST_FINDINGS} more {word}")
    if lines:
        yield "**Findings**\n\n" + "\n".join(lines)


def _sides(comparison: Comparison) -> str:
    sides = (comparison.base, comparison.new)
    told = (
        f"{word}: {summary_model.gpus_of(side)}, {summary_model.steps_of(side)}"
        for word, side in zip(("Base", "New"), sides, strict=True)
    )
    return f"{'. '.join(told)}. {summary_model.intervals_of(comparison)}".rstrip()
