"""The program is the part of the recording that is like the steps alone."""

import numpy as np
import pytest
from export_builder import ExportBuilder, global_id, trace_of
from measured_costs import US

from nsyswrap.hardware.steps_alone import ProcessSteps, StepsAlone
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.program.program import part_like_alone
from nsyswrap.report import choose_window


def part(lengths: list[int], alone: list[int]) -> tuple[int, int]:
    """Return the first measured step of the part, after two for warm-up, and the number of its steps.

    Args:
        lengths: The recorded steps, in us.
        alone: The steps that were timed alone, in us.
    """
    builder, at = ExportBuilder(), 0
    for number, length in enumerate([330, 330, *lengths]):
        builder.kernel(at + 10 * US, at + 20 * US, "kernel", launched=(at, at + 8 * US))
        builder.range(f"step {number}", at, at + length * US)
        at += length * US
    steps = StepsAlone((ProcessSteps(1, None, np.array(alone) * round(US)),))
    context = find_context(trace_of(builder), Settings(steps_alone=steps))
    whole = choose_window(context)
    found = part_like_alone(context, whole)
    inside = context.steps.measured_inside(found)
    return int(((inside["start"].min() - whole.start_ns) > np.cumsum([0, *lengths]) * US).sum()), len(inside)


@pytest.mark.parametrize(
    ("lengths", "alone", "found"),
    [
        ([330] * 20, [300] * 20, (0, 20)),
        ([100, 200, *[330] * 18], [300] * 20, (2, 18)),
        ([100, 200, *[330] * 18], [300] * 4, (0, 20)),
        ([330, 900, 330, 900, *[330] * 16], [300] * 20, (4, 16)),
        ([330] * 4 + [990] + [330] * 15, [300] * 19 + [900], (0, 20)),
    ],
    ids=["the same", "queue that fills up", "few steps alone", "memory is allocated", "as uneven alone"],
)
def test_the_part_has_the_mean_step_of_the_steps_alone(
    lengths: list[int], alone: list[int], found: tuple[int, int]
) -> None:
    """It is the longest one."""
    assert part(lengths, alone) == found


@pytest.mark.parametrize(("apart", "steps"), [(0, 18), (700, 16)])
def test_a_part_begins_where_the_queues_are_full(apart: int, steps: int) -> None:
    """The first two steps of both ranks are short. Then the host of one may be two steps ahead of the other."""
    builder, processes = ExportBuilder(), (1, 2)
    for process in processes:
        at = 0
        for number, length in enumerate([330, 330, 100, 200, *[330] * 18]):
            about = {"process": global_id(process), "thread": global_id(process) | 1, "device": process}
            builder.kernel(at + 10 * US, at + 20 * US, "kernel", launched=(at, at + 8 * US), **about)
            builder.range(f"step {number}", at, at + length * US, thread=global_id(process) | 1)
            at += length * US + (apart * US if number == 3 and process == 2 else 0)
    alone = StepsAlone(tuple(ProcessSteps(each, None, np.full(20, round(300 * US))) for each in processes))
    context = find_context(trace_of(builder), Settings(steps_alone=alone))
    whole = choose_window(context)
    found = part_like_alone(context, whole)
    assert (found.start_ns - whole.start_ns, len(context.steps.in_all(found))) == (300 * US, 2 * steps)
