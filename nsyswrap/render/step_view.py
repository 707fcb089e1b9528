"""The part of the page on the typical step: its picture, and what the script needs to draw any other step."""

import json
from typing import NamedTuple

from markupsafe import Markup

from nsyswrap.base import units
from nsyswrap.model import Report, TimelineData, TimelineRow
from nsyswrap.render import page_findings, step_picture, summary_model
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.page_tables import Span
from nsyswrap.render.step_picture import Pinned, StepPicture
from nsyswrap.render.step_rows import steps_of
from nsyswrap.rules import rule_name, rule_of
from nsyswrap.rules.ranks import LATE
from nsyswrap.timeline.typical_step import by_length

_NAME_WIDTH = 40


class StepView(NamedTuple):
    """The typical step as the template prints it.

    Attributes:
        name: Its name.
        length: Its length.
        note: What it is the middle of.
        gpu: Its GPU; empty where there is one only.
        span: Its interval.
        picture: The drawing.
        data: Constants and findings for the script, as JSON.
        steps: Number of measured steps.
        fastest: Length of the fastest step.
        slowest: Length of the slowest one.
        gpus: Label of each GPU whose steps can be drawn.
    """

    name: str
    length: str
    note: str
    gpu: str
    span: Span
    picture: StepPicture
    data: Markup
    steps: int
    fastest: str
    slowest: str
    gpus: tuple[str, ...]


class TypicalStep(NamedTuple):
    """The typical step of a report: its GPU and interval, its name, and the number and lengths of steps.

    Attributes:
        data: The timeline.
        gpus: The rows of all GPUs; it is on the first one.
        span: Its interval.
        name: Its name.
        note: What it is the middle of.
        steps: Number of measured steps.
        ends: Length of the fastest and of the slowest step, ns.
    """

    data: TimelineData
    gpus: tuple[TimelineRow, ...]
    span: Span
    name: str
    note: str
    steps: int
    ends: tuple[int, int]

    @property
    def length(self) -> str:
        """Return its length as text."""
        return units.duration(self.span.end_ns - self.span.start_ns)

    @property
    def gpu(self) -> str:
        """Return the name of its GPU; empty where there is one only."""
        return visible(self.gpus[0].label) if len(self.gpus) > 1 else ""


def typical_step(report: Report) -> TypicalStep | None:
    """Return the typical step of a report; None where no measured step or no GPU is on its timeline."""
    data = report.timeline
    gpus = () if data is None else tuple(row for row in data.rows if row.kind == "gpu")
    if data is None or not gpus:
        return None
    row = steps_of(data, gpus[0])
    if row is None:
        return None
    start, end = row.items.start, row.items.end
    ordered = by_length(start, end, row.items.code == 1, data.window)
    if not len(ordered):
        return None
    fastest, slowest = (int(end[at] - start[at]) for at in ordered[[0, -1]])
    middle = int(ordered[(len(ordered) - 1) // 2])
    span = Span(int(start[middle]), int(end[middle]))
    name, note = _name(data, row, middle), _note(data, row, len(ordered))
    return TypicalStep(data, gpus, span, name, note, len(ordered), (fastest, slowest))


def view(report: Report) -> StepView | None:
    """Return the typical step of a report; None where no measured step or no GPU is on its timeline."""
    step = typical_step(report)
    if step is None:
        return None
    found, inferred = findings(report), are_inferred(report)
    span = (step.span.start_ns, step.span.end_ns)
    fastest, slowest = map(units.duration, step.ends)
    return StepView(
        name=step.name,
        length=step.length,
        note=step.note,
        gpu=_gpu(step.gpu, step.note),
        span=step.span,
        picture=step_picture.draw(step.data, step.gpus[0], span, found, inferred=inferred),
        data=_data(found, inferred=inferred),
        steps=step.steps,
        fastest=fastest,
        slowest=slowest,
        gpus=tuple(visible(gpu.label) for gpu in step.gpus),
    )


def findings(report: Report) -> tuple[Pinned, ...]:
    """Return the findings with their numbers on the page, one for each group."""
    groups = summary_model.finding_groups(report)
    shown = page_findings.findings(report)
    return tuple(
        Pinned(
            number=number,
            rule=group[0].rule,
            devices=_devices([one.device_id for one in group], group[0].rule),
            anchor=one.anchor,
            headline=one.headline,
        )
        for number, (group, one) in enumerate(zip(groups, shown, strict=True), 1)
    )


def _devices(found: list[int | None], rule: str) -> tuple[int, ...]:
    """Return the GPUs of a finding; none where it is about all of them. A late rank is seen on the GPUs that wait."""
    known = [each for each in found if each is not None]
    return () if len(known) < len(found) or rule == LATE.key else tuple(known)


def _note(data: TimelineData, row: TimelineRow, count: int) -> str:
    """Return which step is drawn; each rank may have another number of steps in the window."""
    rank, comma, _ = row.label.partition(", ")
    is_one_of_several = comma and sum(each.kind == "steps" for each in data.rows) > 1
    where = f"of {visible(rank)}" if is_one_of_several else "in the window"
    return f"the only step {where}" if count == 1 else f"the middle of {units.count(count)} steps {where}"


def _gpu(label: str, note: str) -> str:
    """Return the label of a GPU, without its rank where the note names it."""
    rank, comma, rest = label.partition(", ")
    return rest if comma and note.endswith(f" of {rank}") else label


def _name(data: TimelineData, row: TimelineRow, at: int) -> str:
    names, number = data.texts.get("step", ()), int(row.items.details["step"][at])
    return elide(names[number], _NAME_WIDTH) if number < len(names) else "step"


def are_inferred(report: Report) -> bool:
    """Return whether phases are inferred from what the threads launch, and not marked by ranges."""
    return any(bool(row.get("inferred")) for row in summary_model.rows(report.section("phases"), "phases"))


def _data(found: tuple[Pinned, ...], *, inferred: bool) -> Markup:
    """Return what the script needs to draw other steps, as JSON that cannot end its element."""
    picture = step_picture
    content = {
        "columns": picture.COLUMNS,
        "apart": picture.APART,
        "sizes": {"head": picture.HEAD, "space": picture.SPACE, "axis": picture.AXIS},
        "most": {"threads": picture.MOST_THREADS, "arrows": picture.MOST_ARROWS},
        "arrows": {"apart": picture.ARROWS_APART, "shortest": picture.SHORTEST_ARROW},
        "lanes": [[kind.key, kind.name, list(kind.classes), kind.height] for kind in picture.GPU_LANES],
        "phases": picture.PHASES.height,
        "thread": picture.THREAD.height,
        "states": picture.STATES,
        "inferred": inferred,
        "findings": [
            {
                "number": one.number,
                "rule": one.rule,
                "place": rule_of(one.rule).row_and_class,
                "devices": one.devices,
                "anchor": one.anchor,
                "name": visible(rule_name(one.rule)),
            }
            for one in found
        ],
    }
    # In JSON, "<" occurs only inside strings, where its escape means the same.
    return Markup(json.dumps(content, separators=(",", ":")).replace("<", "\\u003c"))  # noqa: S704
