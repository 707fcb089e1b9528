"""Reports of real captures say the same without the program's ranges."""

import importlib
import lzma
from pathlib import Path

import pytest

tool = importlib.import_module("without_ranges")

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "tests" / "captures"
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
    "ranks/checkpoints": ("steps",),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAME)
def test_without_ranges_a_report_says_the_same(name: str) -> None:
    """The number of measured steps agrees within 2, their median within 3 %, and the verdict is the same.

    95 % of kernel time is in the same phase.
    """
    ((_, trace),) = tool.captures([CAPTURES / f"{name}.sqlite.xz"])
    difference = tool.compare(name, trace)
    assert difference.steps[0] > 0
    assert difference.apart == ()
    assert "found by a pattern" in difference.says


@pytest.mark.slow
@pytest.mark.parametrize("name", APART)
def test_what_differs_without_ranges_is_known(name: str) -> None:
    """A report differs only in facts that ranges state and operations do not show."""
    ((_, trace),) = tool.captures([CAPTURES / f"{name}.sqlite.xz"])
    assert tool.compare(name, trace).apart == APART[name]


def test_a_capture_without_a_clear_loop_has_no_steps() -> None:
    """A capture that lost most of its calls has none."""
    ((_, trace),) = tool.captures([CAPTURES / "cnn_fp32_nsys2023.sqlite.xz"])
    assert tool.compare("lost", trace).steps == (0, 0)


def test_the_tool_fails_where_a_report_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints a line with the differences of each capture and returns 1; it reads unpacked exports, too."""
    packed = CAPTURES / "faults" / "many_ranges.sqlite.xz"
    (tmp_path / "many_ranges.sqlite").write_bytes(lzma.decompress(packed.read_bytes()))
    assert tool.main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "| many_ranges | 2 | 2 |" in printed
    assert "capture/overhead -> idle/cpu" in printed
    assert "0 of 1 captures" in printed
