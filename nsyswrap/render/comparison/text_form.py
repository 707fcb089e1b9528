"""The comparison for a terminal: the verdict first, then its evidence, readable without colour."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nsyswrap import units
from nsyswrap.compare import Comparison, FindingPair, Outcome
from nsyswrap.render import vocabulary
from nsyswrap.render.blocks_as_text import printed
from nsyswrap.render.comparison import summary_model
from nsyswrap.render.distinct_names import shorten_all
from nsyswrap.render.escape import elide, visible

_HEADING, _MUTED = "bold", "dim"
_STYLES = {Outcome.FASTER: "bold green", Outcome.SLOWER: "bold red", Outcome.CANNOT_TELL: "bold yellow"}
_MOST_ROWS = 5
_MOST_FINDINGS = 4
_MOST_ISSUES = 6
_NAME_WIDTH = 30
_TABLES = ("phases", "families", "kernels", "copies", "host_calls")


def render(comparison: Comparison, *, width: int = 80, colour: bool = False) -> str:
    """Return the comparison as text for a terminal.

    Args:
        comparison: The comparison.
        width: Largest line width in columns.
        colour: Whether to add terminal colours; no information is in the colour alone.
    """
    return printed(_blocks(comparison), width=width, colour=colour)


def _blocks(comparison: Comparison) -> Iterator[RenderableType]:
    yield from _header(comparison)
    yield Text("\n").append(visible(comparison.verdict), style=_STYLES.get(comparison.outcome, _HEADING))
    yield from _issues(comparison)
    yield from _step_time(comparison)
    yield from _plan_score(comparison)
    ledger = comparison.table("ledger")
    if ledger is not None:
        yield from _changes(summary_model.lines_of(ledger, _MOST_ROWS))
    scaling = comparison.table("scaling")
    if scaling is not None:
        yield from _changes(summary_model.lines_of(scaling, _MOST_ROWS))
    if tensor := summary_model.tensor_words(comparison):
        yield _title("Tensor cores", "").append(f"  {tensor}", style="not bold")
    quiet = []
    for table in (summary_model.moved(comparison), *(comparison.table(key) for key in _TABLES)):
        if table is None:
            continue
        shown = summary_model.lines_of(table, _MOST_ROWS, summary_model.least_of(comparison, table))
        quiet += [] if shown.lines else [table.title]
        yield from _changes(shown)
    if quiet:
        yield Text(
            f"\nChanged by less than {units.share(summary_model.NOTABLE_SHARE)} of a step: {', '.join(quiet)}.",
            style=_MUTED,
        )
    yield from _findings(comparison)


def _header(comparison: Comparison) -> Iterator[Text]:
    line = Text("nsyswrap compare  ", style=_MUTED)
    base, new = (elide(side.name, _NAME_WIDTH * 2) for side in (comparison.base, comparison.new))
    yield line.append(f"{base} → {new}", style=_HEADING)
    for label, side in (("base", comparison.base), ("new ", comparison.new)):
        yield Text(
            f"{label}  {visible(summary_model.gpus_of(side))}; {visible(summary_model.steps_of(side))}", style=_MUTED
        )


def _issues(comparison: Comparison) -> Iterator[RenderableType]:
    if not comparison.issues:
        return
    yield _title("Comparable", "no" if comparison.blocked else "yes, with these notes")
    for one in comparison.issues[:_MOST_ISSUES]:
        yield _indented(Text("NO    " if one.blocks else "note  ").append(visible(one.message)))
        if one.blocks and one.hint:
            yield _indented(Text(f"-> {visible(one.hint)}", style=_MUTED), 8)


def _step_time(comparison: Comparison) -> Iterator[RenderableType]:
    if not comparison.estimates:
        return
    sides = (comparison.base, comparison.new)
    counts = [len(side.runs) if comparison.of_runs else side.step_count for side in sides]
    yield _title("Step time", f"{counts[0]} and {counts[1]} {'runs' if comparison.of_runs else 'steps'}")
    table = _table(("", "base", "new", "change", "95 % interval", "result"), left=1)
    for one in comparison.estimates:
        times = (units.duration(one.base_ns), units.duration(one.new_ns), units.change(one.change))
        table.add_row(one.label, *times, summary_model.interval_of(one), one.outcome.value)
    yield _indented(table)
    if note := summary_model.one_run_each(comparison):
        yield _indented(Text(note, style=_MUTED))


def _plan_score(comparison: Comparison) -> Iterator[RenderableType]:
    if not (lines := summary_model.plan_score(comparison)):
        return
    yield _title("Plan", "of base, checked against new")
    yield from (_indented(Text(visible(line))) for line in lines)


def _changes(shown: summary_model.Table) -> Iterator[RenderableType]:
    if not shown.lines:
        return
    yield _title(shown.title, shown.of + (f"; {shown.cut}" if shown.cut else ""))
    with_interval = any(line.interval for line in shown.lines)
    with_counts = any(line.counts for line in shown.lines)
    heads = ["", "base", "new", "difference", *(["95 % interval"] if with_interval else [])]
    drawn = _table([*heads, *(["times"] if with_counts else [])], left=1)
    for line, name in zip(shown.lines, shorten_all([each.name for each in shown.lines], _NAME_WIDTH), strict=True):
        extra = [*([line.interval] if with_interval else []), *([line.counts] if with_counts else [])]
        drawn.add_row(name, line.base, line.new, line.delta, *extra)
    yield _indented(drawn)


def _findings(comparison: Comparison) -> Iterator[RenderableType]:
    groups = summary_model.findings_of(comparison)
    counts = ", ".join(f"{len(pairs)} {word}" for word, pairs in groups if pairs)
    yield _title("Findings", counts or "none")
    for word, pairs in groups:
        for pair in pairs[:_MOST_FINDINGS]:
            yield _indented(_finding(word, pair, comparison))


def _finding(word: str, pair: FindingPair, comparison: Comparison) -> Text:
    lost, moved = summary_model.lost_of(pair, comparison), summary_model.moved_of(pair, comparison)
    text = f"{word:<7}  {visible(vocabulary.rule_name(pair.rule))}, {summary_model.place_of(pair)}"
    return Text(text + (f": {lost}" if lost else "") + (f"\n         {visible(moved)}" if moved else ""))


def _table(labels: Sequence[str], *, left: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_MUTED)
    for at, label in enumerate(labels):
        narrow = at < left
        table.add_column(
            label, justify="left" if narrow else "right", vertical="bottom", overflow="ellipsis", no_wrap=narrow
        )
    return table


def _title(words: str, note: str) -> Text:
    line = Text("\n").append(visible(words).upper(), style=_HEADING)
    return line.append(f"  {visible(note)}", style=_MUTED) if note else line


def _indented(words: RenderableType, by: int = 2) -> Padding:
    return Padding(words, (0, 0, 0, by))
