"""The part of the page on the typical step: its picture, and what the script needs to draw any other step."""

import json
from typing import NamedTuple

from markupsafe import Markup

from nsyswrap import units
from nsyswrap.model import Report, TimelineData, TimelineRow
from nsyswrap.render import page_findings, step_picture, summary_model
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.page_tables import Span
from nsyswrap.render.step_picture import Picture, Pinned
from nsyswrap.render.step_rows import steps_of
from nsyswrap.rule_names import rule_name
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
    picture: Picture
    data: Markup
    steps: int
    fastest: str
    slowest: str
    gpus: tuple[str, ...]


def view(report: Report) -> StepView | None:
    """Return the typical step of a report; None where no measured step or no GPU is on its timeline."""
    data = report.timeline
    gpus = [] if data is None else [row for row in data.rows if row.kind == "gpu"]
    if data is None or not gpus:
        return None
    row = steps_of(data, gpus[0])
    if row is None:
        return None
    start, end = row.items.start, row.items.end
    ordered = by_length(start, end, row.items.code == 1, data.window)
    if not len(ordered):
        return None
    lengths = [units.duration(int(end[at] - start[at])) for at in ordered[[0, -1]]]
    middle = int(ordered[(len(ordered) - 1) // 2])
    span = Span(int(start[middle]), int(end[middle]))
    found, inferred = findings(report), _are_inferred(report)
    return StepView(
        name=_name(data, row, middle),
        length=units.duration(span.end_ns - span.start_ns),
        note=_note(len(ordered)),
        gpu=visible(gpus[0].label) if len(gpus) > 1 else "",
        span=span,
        picture=step_picture.draw(data, gpus[0], (span.start_ns, span.end_ns), found, inferred=inferred),
        data=_data(found, inferred=inferred),
        steps=len(ordered),
        fastest=lengths[0],
        slowest=lengths[1],
        gpus=tuple(visible(gpu.label) for gpu in gpus),
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
    return () if len(known) < len(found) or rule == "ranks/late" else tuple(known)


def _note(count: int) -> str:
    """Return which step is drawn."""
    return "the only step in the window" if count == 1 else f"the middle of {units.count(count)} steps in the window"


def _name(data: TimelineData, row: TimelineRow, at: int) -> str:
    names, number = data.texts.get("step", ()), int(row.items.details["step"][at])
    return elide(names[number], _NAME_WIDTH) if number < len(names) else "step"


def _are_inferred(report: Report) -> bool:
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
                "place": picture.PLACES.get(one.rule, ("gpu", one.rule)),
                "devices": one.devices,
                "anchor": one.anchor,
                "name": visible(rule_name(one.rule)),
            }
            for one in found
        ],
    }
    # In JSON, "<" occurs only inside strings, where its escape means the same.
    return Markup(json.dumps(content, separators=(",", ":")).replace("<", "\\u003c"))  # noqa: S704
