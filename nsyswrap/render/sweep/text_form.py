"""A sweep for a terminal: the verdict and the advice first, then the cells, the limits and the scaling."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nsyswrap import units
from nsyswrap.render.blocks_as_text import printed
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.sweep import summary_model
from nsyswrap.sweep.advice import advice
from nsyswrap.sweep.limits import limit_changes, limit_of
from nsyswrap.sweep.results import CellResult, Sweep
from nsyswrap.sweep.scaling import STRONG, WEAK, scaling

_HEADING, _MUTED = "bold", "dim"
# The page and the JSON have all.
_MOST_CELLS, _MOST_CHANGES, _MOST_SCALING = 40, 10, 16
_VALUE_WIDTH = 16


def render(sweep: Sweep, *, width: int = 100, colour: bool = False) -> str:
    """Return the sweep as text for a terminal.

    Args:
        sweep: The sweep.
        width: Largest line width in columns.
        colour: Whether to add terminal colours; no information is in the colour alone.
    """
    return printed(_blocks(sweep), width=width, colour=colour)


def _blocks(sweep: Sweep) -> Iterator[RenderableType]:
    yield Text(f"nsyswrap sweep  {visible(sweep.spec.name)}", style=_MUTED)
    yield Text("\n").append(visible(summary_model.verdict(sweep)), style=_HEADING)
    yield from (_indented(Text(f"- {visible(each)}")) for each in advice(sweep))
    yield from (Text(visible(note), style=_MUTED) for note in summary_model.notes(sweep))
    yield from _cells(sweep)
    yield from _changes(sweep)
    yield from _scaling(sweep, STRONG)
    yield from _scaling(sweep, WEAK)


def _cells(sweep: Sweep) -> Iterator[RenderableType]:
    own = [each for each in sweep.cells if not each.cell.same_as]
    measured = [each for each in own if each.step is not None]
    axes = [axis.name for axis in sweep.spec.axes if len(axis.values) > 1] or [sweep.spec.axes[0].name]
    if measured:
        cut = "" if len(measured) <= _MOST_CELLS else f"{_MOST_CELLS} of {len(measured)}"
        yield _title("Cells", cut)
        table = _table((*axes, "runs", "samples/s", "step", "+-", "limited by"))
        for each in measured[:_MOST_CELLS]:
            table.add_row(*(elide(each.cell.value(axis), _VALUE_WIDTH) for axis in axes), *_row(each))
        yield _indented(table)
    failed = [each for each in own if each.step is None]
    if failed:
        yield _title("Not measured", summary_model.cells(len(failed)))
    for each in failed[:_MOST_CELLS]:
        reason = f": {each.failed.reason}" if each.failed else ""
        yield _indented(Text(visible(f"{each.cell.label}: {summary_model.ending_of(each)}{reason}")))


def _row(result: CellResult) -> tuple[str, ...]:
    """Return the numbers of a cell that was measured."""
    step, limit = result.step, limit_of(result)
    if step is None:
        return ()
    rate = "" if result.cell.batch is None else summary_model.per_second(result.cell.batch, step.mean_ns)
    words = "" if limit is None else f"{limit.group.value} {units.share(limit.share)}"
    return str(len(result.runs)), rate, units.duration(step.mean_ns), units.share(step.half_width), words


def _changes(sweep: Sweep) -> Iterator[RenderableType]:
    found = limit_changes(sweep)
    if not found:
        return
    yield _title("Where the limit changes", "")
    for each in found[:_MOST_CHANGES]:
        others = ", ".join(f"{axis} {value}" for axis, value in each.others)
        words = f"{each.axis} {each.before} to {each.after}: from {each.limit_before.words} to {each.limit_after.words}"
        yield _indented(Text(visible(f"{words}, {others}" if others else words)))


def _scaling(sweep: Sweep, kind: str) -> Iterator[RenderableType]:
    rows = scaling(sweep, kind)
    if not rows:
        return
    yield _title(summary_model.TITLES[kind], "" if len(rows) <= _MOST_SCALING else f"{_MOST_SCALING} of {len(rows)}")
    others = [axis for axis, _ in rows[0].others if len({cell.cell.value(axis) for cell in sweep.cells}) > 1]
    table = _table((*others, "batch", "GPUs", "step", "speedup", "efficiency", "at least", "at most"))
    for each in rows[:_MOST_SCALING]:
        values = dict(each.others)
        names = (elide(values[axis], _VALUE_WIDTH) for axis in others)
        kept = "" if each.kept is None else f"{each.kept:g}"
        shares = (units.share(one) for one in (each.efficiency, each.low, each.high))
        gpus = f"{each.base_gpus} to {each.gpus}"
        table.add_row(*names, kept, gpus, units.duration(each.step_ns), f"{each.speedup:.2f}", *shares)
    yield _indented(table)


def _table(labels: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_MUTED)
    for at, label in enumerate(labels):
        justify = "left" if not at or label == "limited by" else "right"
        is_last = label == "limited by"
        table.add_column(label, justify=justify, vertical="bottom", overflow="fold", no_wrap=not is_last)  # type: ignore[arg-type]
    return table


def _title(words: str, note: str) -> Text:
    line = Text("\n").append(visible(words).upper(), style=_HEADING)
    return line.append(f"  {visible(note)}", style=_MUTED) if note else line


def _indented(words: RenderableType, by: int = 2) -> Padding:
    return Padding(words, (0, 0, 0, by))
