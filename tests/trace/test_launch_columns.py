"""Launch configurations are read from the export: products and sums of columns, and missing values."""

from pathlib import Path
from typing import Any

import pytest
from export_builder import ExportBuilder, trace_of

from nsyswrap.base.errors import ExportError
from nsyswrap.model import Gpu
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import Trace

LAUNCH = ["grid_blocks", "block_threads", "registers", "shared_bytes", "shared_executed_bytes"]
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"


def launch(trace: Trace) -> list[int]:
    """Return the launch configuration of the first kernel."""
    row: list[int] = trace.frames["kernels"][LAUNCH].iloc[0].tolist()
    return row


def test_a_launch_is_read() -> None:
    grid = {"gridX": 65536, "gridY": 65535, "gridZ": 3}
    block = {"blockX": 8, "blockY": 4, "blockZ": 2, "registersPerThread": 40}
    shared = {"staticSharedMemory": 48, "dynamicSharedMemory": 1000, "sharedMemoryExecuted": 32768}
    columns: dict[str, Any] = {**grid, **block, **shared}
    built = ExportBuilder().kernel(0, 9, "k", **columns)
    assert launch(trace_of(built)) == [65536 * 65535 * 3, 64, 40, 1048, 32768]


@pytest.mark.parametrize(
    ("column", "place"),
    [("gridZ", 0), ("blockY", 1), ("registersPerThread", 2), ("dynamicSharedMemory", 3), ("sharedMemoryExecuted", 4)],
)
def test_a_missing_column_reads_as_0(column: str, place: int) -> None:
    """A missing column affects only its own product or sum."""
    built = ExportBuilder().kernel(0, 9, "k", dynamicSharedMemory=5, sharedMemoryExecuted=7)
    expected = [1, 1, 32, 5, 7]
    expected[place] = 0
    assert launch(trace_of(built.without(KERNEL, column))) == expected


def test_an_impossible_number_is_damage(tmp_path: Path) -> None:
    """A number of blocks that overflows 64 bits, or of threads that overflows 32 bits, is refused as damage."""
    damages: list[dict[str, Any]] = [{"gridX": 2**40, "gridY": 2**40}, {"blockX": 2**33}]
    for columns in damages:
        path = ExportBuilder().kernel(0, 9, "k", **columns).write(tmp_path / "damaged.sqlite")
        with pytest.raises(ExportError, match=r"(grid|block)X \* "):
            load_export(path)


def test_the_limits_of_a_gpu_are_read() -> None:
    """All four limits are read, or none if one column is missing."""
    own: dict[str, Any] = {
        "maxWarpsPerSm": 64,
        "maxBlocksPerSm": 32,
        "maxRegistersPerSm": 65536,
        "maxShmemPerSm": 233472,
    }
    built = ExportBuilder().gpu(**own)
    (gpu,) = trace_of(built).gpus
    assert gpu == Gpu(0, "NVIDIA H200", (9, 0), 132, 150109880320, 64, 32, 65536, 233472, bus="0000:00:00.0")
    (silent,) = trace_of(built.without("TARGET_INFO_GPU", "maxShmemPerSm")).gpus
    assert silent == Gpu(0, "NVIDIA H200", (9, 0), 132, 150109880320, bus="0000:00:00.0")
