"""The rows of the timeline that belong to a GPU."""

from dataclasses import replace

from timeline_fixtures import US, timeline_data

from nsyswrap.render.step_picture import draw
from nsyswrap.render.step_rows import process_of, steps_of


def test_a_gpu_without_streams_has_the_host_of_its_rank() -> None:
    """With many GPUs, streams have no rows. Where the rank is unknown, no other rank's phases are shown."""
    data = timeline_data()
    gpu = next(row for row in data.rows if row.label == "GPU 0")
    host = [row for row in data.rows if row.kind in ("steps", "phases")]
    of_ranks = [replace(row, label=f"rank {rank}, {row.kind}", process=rank) for rank in (3, 4) for row in host]
    without = replace(data, rows=tuple(of_ranks))
    assert process_of(without, replace(gpu, label="rank 4, GPU 0")) == 4
    assert process_of(without, gpu) == -1
    picture = draw(replace(without, rows=(gpu, *of_ranks)), gpu, (1_000 * US, 2_000 * US), (), inferred=False)
    assert [lane.key for lane in picture.lanes] == ["compute", "idle"]
    steps = steps_of(without, gpu)
    assert steps is not None
    assert steps.process == 3
