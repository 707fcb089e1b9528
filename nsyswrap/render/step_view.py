"""The part of the page on the typical step: its words, and what the script needs to draw it and any other step."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from nsyswrap.base import units
from nsyswrap.model import Report, TimelineData, TimelineItems, TimelineRow
from nsyswrap.render import report_cards, summary_model, timeline_view
from nsyswrap.render.document import Span
from nsyswrap.render.escape import as_json, elide, visible
from nsyswrap.rules import rule_name, rule_of
from nsyswrap.rules.ranks import LATE
from nsyswrap.timeline.typical_step import by_length

_NAME_WIDTH = 40


class TypicalStep(NamedTuple):
    """The typical step of a report.

    Attributes:
        gpus: The rows of all GPUs; it is on the first one.
        note: What it is the middle of.
        script_data: What the script needs to draw it, as JSON.
    """

    data: TimelineData
    gpus: tuple[TimelineRow, ...]
    span: Span
    name: str
    note: str
    script_data: Markup = Markup()

    @property
    def length(self) -> str:
        """Return its length as text."""
        return units.duration(self.span.end_ns - self.span.start_ns)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the name of each GPU whose steps can be drawn."""
        return tuple(visible(gpu.label) for gpu in self.gpus)

    @property
    def gpu(self) -> str:
        """Return the name of its GPU, without its rank where the note names it; empty where there is one GPU only."""
        rank, comma, rest = self.labels[0].partition(", ")
        return "" if len(self.gpus) == 1 else rest if comma and f" of {rank}," in self.note else self.labels[0]

    def alone(self) -> TimelineData:
        """Return the bins of the timeline that hold this step, with their items."""
        data, (start, end) = self.data, self.span
        first, last = int(np.searchsorted(data.edges, start, "right")) - 1, int(np.searchsorted(data.edges, end))
        rows = []
        for row in data.rows:
            its = row.items
            kept = (its.end > start) & (its.start < end)
            details = {name: values[kept] for name, values in its.details.items()}
            items = TimelineItems(its.start[kept], its.end[kept], its.code[kept], details)
            rows.append(replace(row, sums=row.sums[:, first:last], exact=row.exact[first:last], items=items))
        return replace(data, edges=data.edges[first : last + 1], rows=tuple(rows), gaps=())


def typical_step(report: Report) -> TypicalStep | None:
    """Return the typical step of a report; None where no measured step or no GPU is on its timeline."""
    data = report.timeline
    found = [] if data is None else [row for row in data.rows if row.kind == "gpu"]
    # Where the problem is comes first.
    device = summary_model.device_of_verdict(report)
    gpus = tuple(sorted(found, key=lambda row: row.device_id != device))
    row = None if data is None or not gpus else steps_of(data, gpus[0])
    if data is None or row is None:
        return None
    start, end = row.items.start, row.items.end
    ordered = by_length(start, end, row.items.code == 1, data.window)
    if not len(ordered):
        return None
    middle = int(ordered[(len(ordered) - 1) // 2])
    names, number = data.texts.get("step", ()), int(row.items.details["step"][middle])
    return TypicalStep(
        data=data,
        gpus=gpus,
        span=Span(int(start[middle]), int(end[middle])),
        name=elide(names[number], _NAME_WIDTH) if number < len(names) else "step",
        note=_note(data, row, len(ordered)),
    )


def steps_of(data: TimelineData, gpu: TimelineRow) -> TimelineRow | None:
    """Return the row of the steps of a GPU's process; where it has none, the first one, since ranks step together."""
    steps, process = [row for row in data.rows if row.kind == "steps"], timeline_view.process_of(data, gpu)
    return next(iter([*(row for row in steps if row.process == process), *steps]), None)


def _note(data: TimelineData, row: TimelineRow, count: int) -> str:
    """Return which step is drawn; each rank may have another number of steps in the window."""
    rank, comma, _ = row.label.partition(", ")
    is_one_of_several = comma and sum(each.kind == "steps" for each in data.rows) > 1
    where = f"of {visible(rank)}" if is_one_of_several else "in the window"
    which = f"the only step {where}" if count == 1 else f"the middle of {units.count(count)} steps {where}"
    return f"{which}, as recorded"


def are_inferred(report: Report) -> bool:
    """Return whether phases are inferred from what the threads launch, and not marked by ranges."""
    return any(bool(row.get("inferred")) for row in summary_model.rows(report.section("phases"), "phases"))


def script_data(report: Report) -> Markup:
    """Return what the script needs to draw steps, as JSON: whether phases are inferred, and the findings.

    A finding may have a place in a step. The one that the verdict states is the problem, which the picture highlights.
    """
    groups, shown = summary_model.finding_groups(report), report_cards.cards(report)
    return as_json(
        {
            "inferred": are_inferred(report),
            "problem": report_cards.verdict_anchor(report),
            "device": summary_model.device_of_verdict(report),
            "findings": [
                {
                    "rule": group[0].rule,
                    "place": rule_of(group[0].rule).row_and_class,
                    "devices": _devices([one.device_id for one in group], group[0].rule),
                    "anchor": one.anchor,
                    "name": visible(rule_name(group[0].rule)),
                }
                for group, one in zip(groups, shown, strict=True)
            ],
        }
    )


def _devices(found: list[int | None], rule: str) -> list[int]:
    """Return the GPUs of a finding; none where it is about all of them. A late rank is seen on the GPUs that wait."""
    known = [each for each in found if each is not None]
    return [] if len(known) < len(found) or rule == LATE.key else known
