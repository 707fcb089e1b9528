"""Reports of real captures say the same without the program's ranges."""

import pytest
from real_captures import RealTrace
from without_ranges import compare

pytestmark = pytest.mark.thorough

# Loops of many kinds in small captures: loaders, checkpoints, varying lengths, graphs, one kernel a step, ranks.
SAME = (
    *("cnn_amp", "alexnet_data_parallel_2gpu", "ddp_2gpu_slow_links", "faults/checkpoints", "faults/few_workers"),
    *("faults/uneven_steps", "faults/short_epochs", "faults/new_lengths", "faults/launch_bound"),
    "faults/unpinned_columns",
    *("cuda_graph_node_trace", "faults/graph_for_each_layer", "faults/recurrent_cells", "faults/exposed_communication"),
    *("faults/saved_each_step", "faults/loading_in_the_training_process"),
    *("faults/hashed_experts", "faults/one_shard", "ranks/uneven_input", "ranks/pipeline_uneven"),
    *("mnist_counters_python", "plans/trainer", "faults/growing_history", "faults/files_one_by_one"),
)
# Known differences, in this order: the finding on the ranges themselves; a range around eight updates of the weights; a
# forward pass of one kernel that is of no network; a checkpoint between two steps of one of two ranks, which is part of
# the step before it, so that this step is as long as one of warm-up. Ranges say that it is part of the step after it.
APART = {
    "faults/many_ranges": ("verdict",),
    "host/shared_core": ("steps", "median"),
    "faults/low_occupancy": ("phases",),
    "ranks/checkpoints": ("steps", "verdict"),
}


@pytest.mark.parametrize("name", SAME)
def test_without_ranges_a_report_says_the_same(name: str, real_trace: RealTrace) -> None:
    """The number of measured steps agrees within 2, their median within 3 %, and the verdict is the same.

    95 % of kernel time is in the same phase.
    """
    difference = compare(real_trace(name))
    assert difference.steps[0] > 0
    assert difference.apart == ()
    assert "found by a pattern" in difference.says


@pytest.mark.parametrize("name", APART)
def test_what_differs_without_ranges_is_known(name: str, real_trace: RealTrace) -> None:
    """A report differs only in facts that ranges state and operations do not show."""
    assert compare(real_trace(name)).apart == APART[name]


def test_a_capture_without_a_clear_loop_has_no_steps(real_trace: RealTrace) -> None:
    """A capture that lost most of its calls has none."""
    assert compare(real_trace("cnn_fp32_nsys2023")).steps == (0, 0)
