"""Theoretical occupancy is right: cases computed by hand for each compute capability, a simulation, and laws."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.hardware.occupancy_calculator import (
    LIMITS,
    Limits,
    Shapes,
    block_limits,
    limiters,
    limits_of,
    occupancy,
)
from nsyswrap.model import Gpu

CAPABILITIES = sorted(LIMITS)


class Launch(NamedTuple):
    """One launch: threads of a block, registers of a thread, bytes of shared memory, bytes that the driver reserved."""

    threads: int
    registers: int = 32
    shared: int = 0
    executed: int = 0


def shapes(*launches: Launch) -> Shapes:
    """Return launches as arrays."""
    return Shapes(*(np.array(column, np.int64) for column in zip(*launches, strict=True)))


def one(limits: Limits, launch: Launch) -> tuple[int, float, str]:
    """Return resident blocks, occupancy and limiter of one launch."""
    launched = shapes(launch)
    blocks, share = occupancy(limits, launched)
    return int(blocks[0]), float(share[0]), limiters(limits, launched)[0]


# Worked out by hand from the table of compute capabilities and the rules of the CUDA occupancy calculator.
CASES = [
    # 64 registers: 2048 a warp, 8 warps in each of four parts of the register file, 4 blocks of 8 warps.
    ((7, 0), Launch(256, 64), 4, 32 / 64, "registers"),
    # 48 KiB of 96 KiB: two blocks.
    ((7, 0), Launch(256, 32, 48 * 1024), 2, 16 / 64, "shared memory"),
    # One block of 32 warps fits and fills the multiprocessor.
    ((7, 5), Launch(1024), 1, 1.0, "none"),
    # 16 blocks of one warp each, of 32 warps.
    ((7, 5), Launch(32), 16, 16 / 32, "blocks"),
    ((8, 0), Launch(32), 32, 32 / 64, "blocks"),
    # 100 KiB and 1 KiB reserved: one block in 164 KiB.
    ((8, 0), Launch(256, 32, 100 * 1024), 1, 8 / 64, "shared memory"),
    # One block of 32 warps of 48: the second does not fit, though its registers would.
    ((8, 6), Launch(1024), 1, 32 / 48, "threads"),
    ((8, 6), Launch(32), 16, 16 / 48, "blocks"),
    ((8, 9), Launch(32), 24, 24 / 48, "blocks"),
    ((9, 0), Launch(256), 8, 1.0, "none"),
    # 33 registers: 1056, allocated as 1280; 12 warps in each part, 6 blocks of 8 warps.
    ((9, 0), Launch(256, 33), 6, 48 / 64, "registers"),
    # A GEMM of cuBLAS: 168 registers are 5376 for a warp, 3 warps in each part; 226 KiB and 1 KiB reserved, of 228.
    ((9, 0), Launch(384, 168, 231_424), 1, 12 / 64, "registers, shared memory"),
    # 255 registers: 8160, allocated as 8192; 2 warps in each part.
    ((10, 0), Launch(256, 255), 1, 8 / 64, "registers"),
    ((10, 3), Launch(256, 255), 1, 8 / 64, "registers"),
    # 40 KiB and 1 KiB reserved: two blocks in 100 KiB.
    ((12, 0), Launch(128, 32, 40 * 1024), 2, 8 / 48, "shared memory"),
]


@pytest.mark.parametrize(("capability", "launch", "blocks", "share", "limiter"), CASES)
def test_hand_worked(capability: tuple[int, int], launch: Launch, blocks: int, share: float, limiter: str) -> None:
    found = one(LIMITS[capability], launch)
    assert (found[0], found[2]) == (blocks, limiter)
    assert found[1] == pytest.approx(share)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_every_capability_has_a_hand_worked_case(capability: tuple[int, int]) -> None:
    assert capability in {case[0] for case in CASES}


def test_shared_memory_that_the_driver_reserved_is_the_limit() -> None:
    """The driver made 100 of 228 KiB shared memory and the rest cache: 9 blocks of 10 KiB and 1 KiB reserved."""
    assert one(LIMITS[9, 0], Launch(64, 32, 10 * 1024, 100 * 1024)) == (9, 18 / 64, "shared memory")


def placed_blocks(limits: Limits, launch: Launch) -> int:
    """Return how many blocks fit, by placing one after another until a resource runs out."""
    warps = (launch.threads + 31) // 32
    a_warp = (launch.registers * 32 + 255) // 256 * 256
    a_block = launch.shared + limits.reserved_bytes
    a_block += -a_block % limits.shared_unit_bytes
    if a_warp * (warps + -warps % 4) > limits.registers:
        return 0
    room = [limits.registers // 4 // a_warp for _ in range(4)]
    memory = launch.executed or limits.shared_bytes
    blocks = 0
    while blocks < limits.blocks and (blocks + 1) * warps <= limits.warps:
        if sum(room) < warps or (blocks + 1) * a_block > memory:
            break
        for _ in range(warps):
            room[room.index(max(room))] -= 1
        blocks += 1
    return blocks


LAUNCHES = st.builds(
    Launch,
    st.integers(1, 1024),
    st.integers(1, 255),
    st.integers(0, 227 * 1024),
    st.sampled_from([0, 8192, 32768, 65536, 102_400]),
)
EVERY_LIMITS = st.sampled_from([LIMITS[each] for each in CAPABILITIES])


@given(EVERY_LIMITS, LAUNCHES)
def test_the_formula_equals_placing_blocks_one_by_one(limits: Limits, launch: Launch) -> None:
    assert one(limits, launch)[0] == placed_blocks(limits, launch)


@given(EVERY_LIMITS, LAUNCHES)
def test_the_limiter_is_the_least_of_the_four(limits: Limits, launch: Launch) -> None:
    blocks, share, limiter = one(limits, launch)
    every = dict(
        zip(
            ("threads", "registers", "shared memory", "blocks"), block_limits(limits, shapes(launch))[:, 0], strict=True
        )
    )
    if share < 1:
        assert limiter.split(", ") == [name for name, allowed in every.items() if allowed == blocks]
    else:
        assert limiter == "none"


def test_no_registers_are_no_limit() -> None:
    assert one(LIMITS[9, 0], Launch(256, 0)) == (8, 1.0, "none")


def test_the_export_comes_before_the_table() -> None:
    """This holds for a GPU with other numbers in the table and for a GPU that is not in the table."""
    said = Gpu(0, "", (9, 0), 132, 0, 40, 20, 32768, 50 * 1024)
    assert limits_of(said) == Limits(40, 20, 32768, 50 * 1024, 1024, 128)
    assert limits_of(Gpu(0, "", (7, 2), 8, 0, 64, 32, 65536, 96 * 1024)) == Limits(64, 32, 65536, 98304, 0, 256)
    assert limits_of(Gpu(0, "", (11, 0), 20, 0, 48, 24, 65536, 233_472)) == Limits(48, 24, 65536, 233_472, 1024, 128)


def test_the_table_is_used_where_the_export_lacks_limits() -> None:
    """The table is also used if the export has only some of the numbers."""
    assert limits_of(Gpu(0, "", (8, 6))) == LIMITS[8, 6]
    assert limits_of(Gpu(0, "", (8, 6), sm_warps=48)) == LIMITS[8, 6]


@pytest.mark.parametrize("capability", [None, (6, 1), (13, 0)])
def test_an_unknown_gpu_has_no_limits(capability: tuple[int, int] | None) -> None:
    """A GPU is unknown if its capability is missing, follows other rules, or is not in the table."""
    assert limits_of(Gpu(0, "", capability)) is None


def test_older_rules_are_not_applied() -> None:
    """A GPU older than 7.0 has no limits, even if the export has its numbers."""
    assert limits_of(Gpu(0, "", (6, 1), 28, 0, 64, 32, 65536, 98304)) is None
