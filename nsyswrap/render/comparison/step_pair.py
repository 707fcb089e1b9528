"""The typical steps of both sides, one above the other, on one scale of time and aligned at their starts."""

from typing import NamedTuple

from nsyswrap import units
from nsyswrap.compare import Comparison, Side
from nsyswrap.render import step_picture
from nsyswrap.render.escape import visible
from nsyswrap.render.step_picture import Picture
from nsyswrap.render.step_view import TypicalStep, are_inferred, typical_step

_GIVE = "Give captures, or folders that hold them, instead of report.json."


class DrawnStep(NamedTuple):
    """The typical step of a side: which side and its name, which step, and the drawing."""

    side: str
    of: str
    name: str
    note: str
    picture: Picture


class StepPair(NamedTuple):
    """Both typical steps, and how much longer or shorter the new one is."""

    steps: tuple[DrawnStep, DrawnStep]
    difference: str


def step_pair(comparison: Comparison) -> StepPair | None:
    """Return the typical steps of both sides; None where a side has no timeline, as a report.json has none."""
    base, new = (typical_step(side.report) for side in (comparison.base, comparison.new))
    if base is None or new is None:
        return None
    lengths = [one.span.end_ns - one.span.start_ns for one in (base, new)]
    drawn = (
        _drawn("base", comparison.base, base, max(lengths)),
        _drawn("new", comparison.new, new, max(lengths)),
    )
    more = lengths[1] - lengths[0]
    words = f"{units.duration(abs(more))} {'longer' if more > 0 else 'shorter'}" if more else "as long"
    return StepPair(drawn, words)


def why_none(comparison: Comparison) -> str:
    """Return a sentence on the missing picture: which side has no timeline, or no measured steps."""
    sides = (("base", comparison.base.report), ("new", comparison.new.report))
    without = [word for word, report in sides if report.timeline is None]
    if without:
        return f"The typical steps are not drawn: {' and '.join(without)} {_has(without)} no timeline. {_GIVE}"
    without = [word for word, report in sides if typical_step(report) is None]
    return f"The typical steps are not drawn: {' and '.join(without)} {_has(without)} no measured steps."


def _has(sides: list[str]) -> str:
    return "has" if len(sides) == 1 else "have"


def _drawn(word: str, side: Side, step: TypicalStep, scale_ns: int) -> DrawnStep:
    """Return one of the steps; without numbers of findings, since each side has its own ones."""
    span, inferred = (step.span.start_ns, step.span.end_ns), are_inferred(side.report)
    picture = step_picture.draw(step.data, step.gpus[0], span, (), inferred=inferred, scale_ns=scale_ns)
    note = ", ".join(part for part in (step.length, step.note, step.gpu) if part)
    return DrawnStep(word, visible(side.name), step.name, note, picture)
