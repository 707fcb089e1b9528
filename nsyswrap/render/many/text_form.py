"""The totals of many captures for a terminal: the verdict first, then the largest rows of each table."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nsyswrap import units
from nsyswrap.many.totals import ManyCaptures
from nsyswrap.render.blocks_as_text import printed
from nsyswrap.render.distinct_names import shorten_all
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.many import summary_model
from nsyswrap.render.vocabulary import LEDGER_PARTS, rule_name

_HEADING, _MUTED = "bold", "dim"
_MOST_FINDINGS, _MOST_KERNELS, _MOST_OUTLIERS, _MOST_GROUPS, _MOST_FAILED = 8, 5, 5, 5, 5
_NAME_WIDTH = 36


def render(many: ManyCaptures, *, width: int = 80, colour: bool = False) -> str:
    """Return the totals as text for a terminal.

    Args:
        many: The totals.
        width: Largest line width in columns.
        colour: Whether to add terminal colours; no information is in the colour alone.
    """
    return printed(_blocks(many), width=width, colour=colour)


def _blocks(many: ManyCaptures) -> Iterator[RenderableType]:
    yield Text("nsyswrap analyze-many", style=_MUTED)
    yield Text("\n").append(visible(summary_model.verdict(many)), style=_HEADING)
    yield from (Text(visible(note), style=_MUTED) for note in summary_model.notes(many))
    yield from _ledger(many)
    yield from _findings(many)
    yield from _kernels(many)
    yield from _outliers(many)
    for grouping in many.groups:
        yield from _groups(grouping, many)
    yield from _failed(many)


def _ledger(many: ManyCaptures) -> Iterator[RenderableType]:
    if not many.gpu_ns:
        return
    yield _title("Where GPU time went", units.duration(many.gpu_ns))
    table = _table(("", "share", "time"))
    for part in LEDGER_PARTS:
        if time := many.ledger[part.column]:
            table.add_row(part.label, units.share_of(time, many.gpu_ns), units.duration(time))
    yield _indented(table)


def _findings(many: ManyCaptures) -> Iterator[RenderableType]:
    rows = summary_model.top_findings(many, _MOST_FINDINGS)
    if not rows:
        return
    yield _title("Findings", "largest loss first")
    table = _table(("", "captures", "lost", "of GPU time", "largest"))
    for each in rows:
        lost = units.share_of(each.lost_ns, many.gpu_ns) if many.gpu_ns else ""
        most = units.share(each.most_share)
        table.add_row(
            visible(rule_name(each.rule)), units.count(each.captures), units.duration(each.lost_ns), lost, most
        )
    yield _indented(table)


def _kernels(many: ManyCaptures) -> Iterator[RenderableType]:
    if not many.kernels:
        return
    yield _title("Kernels", f"{units.duration(many.kernel_ns)} in all")
    table = _table(("", "captures", "time", "share"))
    shown = many.kernels[:_MOST_KERNELS]
    for each, name in zip(shown, shorten_all([each.name for each in shown], _NAME_WIDTH), strict=True):
        share = units.share_of(each.total_ns, many.kernel_ns) if many.kernel_ns else ""
        table.add_row(name, units.count(each.captures), units.duration(each.total_ns), share)
    yield _indented(table)


def _outliers(many: ManyCaptures) -> Iterator[RenderableType]:
    if not many.outliers:
        return
    yield _title("Outliers", f"{summary_model.captures(len(many.outliers))}, by step")
    table = _table(("", "step", "usual", "what changed most", "by"))
    for each in many.outliers[:_MOST_OUTLIERS]:
        times = (units.duration(each.step_ns), units.duration(each.usual_ns))
        part = visible(summary_model.part_name(each.part))
        table.add_row(elide(each.name, _NAME_WIDTH), *times, part, units.duration(each.part_ns) if part else "")
    yield _indented(table)


def _groups(grouping: str, many: ManyCaptures) -> Iterator[RenderableType]:
    rows = many.groups[grouping]
    if not rows:
        return
    shown = rows[-_MOST_GROUPS:] if grouping == "day" else rows[:_MOST_GROUPS]
    yield _title(
        summary_model.GROUP_TITLES[grouping], "" if len(rows) == len(shown) else f"{len(shown)} of {len(rows)}"
    )
    table = _table(("", "captures", "GPU time", "idle", "step / usual", "costs most"))
    for each in shown:
        idle = units.share_of(each.ledger["idle_ns"], each.gpu_ns) if each.gpu_ns else ""
        usual = "" if each.usual_share is None else units.number(each.usual_share)
        rule = visible(rule_name(each.rule)) if each.rule else ""
        name = elide(summary_model.group_name(grouping, each.name), _NAME_WIDTH)
        table.add_row(name, units.count(each.captures), units.duration(each.gpu_ns), idle, usual, rule)
    yield _indented(table)


def _failed(many: ManyCaptures) -> Iterator[RenderableType]:
    if not many.failed:
        return
    yield _title("Not read", summary_model.captures(len(many.failed)))
    for each in many.failed[:_MOST_FAILED]:
        yield _indented(Text(f"{visible(each.name)}: {visible(each.error)}"))
    if len(many.failed) > _MOST_FAILED:
        yield _indented(Text(f"{len(many.failed) - _MOST_FAILED} more", style=_MUTED))


def _table(labels: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_MUTED)
    for at, label in enumerate(labels):
        justify = "left" if not at or label in {"what changed most", "costs most"} else "right"
        table.add_column(label, justify=justify, vertical="bottom", overflow="fold", no_wrap=not at)  # type: ignore[arg-type]
    return table


def _title(words: str, note: str) -> Text:
    line = Text("\n").append(visible(words).upper(), style=_HEADING)
    return line.append(f"  {visible(note)}", style=_MUTED) if note else line


def _indented(words: RenderableType, by: int = 2) -> Padding:
    return Padding(words, (0, 0, 0, by))
