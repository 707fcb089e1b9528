"""Pipelines of several stages whose truth a plain loop knows: who is late, and what a step loses by it."""

from typing import NamedTuple

import numpy as np
import pytest
from analysis_fixtures import attributions_of
from deep_pipelines import TRANSFER, Pipeline, built, interleaved, one_forward_one_backward, step_ns, timed
from export_builder import trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.loop.own_windows import OwnWindows, find_own_windows
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.ranks.late_ranks import LateRank, find_late_ranks
from nsyswrap.ranks.lateness import Lateness, find_lateness
from nsyswrap.ranks.same_work import PIPELINE
from nsyswrap.report import choose_window

STEPS = 6
ONE_WAY, CHUNKS = one_forward_one_backward(4, 6), interleaved(4, 2)
JOBS = {
    "one microbatch": (Pipeline(ONE_WAY, late={(1, 4): 1_500_000}), 1, 0.01),
    "each microbatch": (Pipeline(ONE_WAY, late={(2, batch): 300_000 for batch in range(6)}), 2, 0.1),
    "interleaved": (Pipeline(CHUNKS, late={(1, batch): 300_000 for batch in range(3)}), 1, 0.25),
}


class Analyzed(NamedTuple):
    """The late ranks of a job, all charges, the part of the window of each rank, and what a step loses, in ns."""

    late: tuple[LateRank, ...]
    lateness: Lateness
    own: OwnWindows
    lost_ns: float


def analyzed(job: Pipeline, steps: int = STEPS) -> Analyzed:
    context = find_context(trace_of(built(job, steps)))
    window, collectives = choose_window(context), find_collectives(context)
    lateness = find_lateness(context, window, collectives, attributions_of(context, window))
    late = find_late_ranks(context.steps, {}, window, collectives, lateness.charges)
    lost = late[0].lost_ns / context.steps.measured_count if late else 0.0
    return Analyzed(late, lateness, find_own_windows(context, window), lost)


@pytest.mark.parametrize(("job", "rank", "error"), JOBS.values(), ids=JOBS)
def test_a_late_host_is_named_with_what_a_step_loses(job: Pipeline, rank: int, error: float) -> None:
    """The delay reaches the other stages one after another, and comes back to the late one; it counts once."""
    late, *_, lost = analyzed(job)
    assert [each.device_id for each in late] == [rank]
    saved = step_ns(job, STEPS) - step_ns(Pipeline(job.plan), STEPS)
    assert lost == pytest.approx(saved, rel=error)


def test_a_host_that_is_late_in_some_steps_is_named_with_their_mean() -> None:
    job = Pipeline(ONE_WAY, late={(2, 0): 2_000_000}, late_steps=frozenset({3, 4, 6, 9, 11}))
    late, *_, lost = analyzed(job, 12)
    assert [each.device_id for each in late] == [2]
    saved = step_ns(job, 12) - step_ns(Pipeline(ONE_WAY), 12)
    assert lost == pytest.approx(saved, rel=0.1)


@pytest.mark.parametrize("plan", [ONE_WAY, CHUNKS], ids=["1F1B", "interleaved"])
def test_even_stages_have_bubbles_and_no_late_rank(plan: list[list[object]]) -> None:
    """All waits in the steps of each rank are those of a plain loop, and nearly all of them are bubbles."""
    job = Pipeline(plan)  # type: ignore[arg-type]  # the elements are checked where they are made
    late, lateness, own, _ = analyzed(job)
    assert late == ()
    charges = lateness.charges
    for rank, its in enumerate(timed(job, STEPS)):
        messages = [(each.start, each.end - TRANSFER) for each in its if each.item.name == "message"]
        inside = np.clip(np.array(messages), own.on(rank).start_ns, own.on(rank).end_ns)
        assert charges.wait_ns[charges.waiting == rank].sum() == (inside[:, 1] - inside[:, 0]).sum()
    assert charges.wait_ns[charges.rule == PIPELINE].sum() > 0.9 * charges.wait_ns.sum()
