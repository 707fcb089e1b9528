"""Where the steps of a pattern begin and end: set-up, checkpoints, sharded weights and a cut capture."""

import numpy as np
import pytest
from loop_programs import AUTOGRAD, Program

from nsyswrap.loop.nested_pattern import find_step_pattern
from nsyswrap.loop.step_bounds import StepParts, find_parts

ADAM = "multi_tensor_apply_kernel<FusedAdam>"
MS = 1_000_000
# The tolerance for the start of a step: a call and the time after it.
NEAR_NS = 20_000


def parts_of(program: Program) -> StepParts:
    sequence = program.sequence()
    pattern = find_step_pattern(sequence)
    assert pattern is not None
    return find_parts(sequence, pattern)


def passes(program: Program) -> Program:
    """Add a forward and a backward pass on data that is on the device."""
    return program.layers(4, "conv", "relu").kernels("loss").backward("conv_bwd", "relu_bwd", count=4)


def assert_begins(found: StepParts, program: Program) -> None:
    """Check that each step but the first, which set-up may precede, begins where the program begins it."""
    begins = np.array(program.steps)
    assert len(found.start) == len(begins)
    assert np.abs(found.start[1:] - begins[1:]).max() < NEAR_NS


def test_a_checkpoint_belongs_to_the_step_before_it() -> None:
    """Its copies, and the time in which it writes its file, come before the next step."""
    program = Program()
    for number in range(24):
        passes(program.step()).kernels(ADAM)
        if number % 4 == 3:
            for weight in range(4):
                program.to_host(1000 + weight)
            program.pause(5 * MS)
        program.wait()
    found = parts_of(program)
    assert_begins(found, program)
    length = found.end - found.start
    assert (length[3:-1:4] > 5 * MS).all()
    assert np.delete(length, np.arange(3, 24, 4)).max() < 5 * MS


def test_the_first_step_is_found_without_a_step_before_it() -> None:
    """If only the wait at the end of a step occurs once in it, the first step has no such wait before it."""
    program = Program()
    for _ in range(8):
        program.step().layers(40, "axpy", "gelu").wait()
    assert_begins(parts_of(program), program)


def test_a_step_with_sharded_weights_begins_before_they_are_gathered() -> None:
    """A copy after the collective is not a batch."""
    program = Program()
    for _ in range(12):
        program.step().kernels("cast", "cast", "nccl_all_gather").to_device(64)
        for _ in range(4):
            program.kernels("cast", "nccl_all_gather").to_device(64).kernels("gemm", "gelu")
        program.kernels("loss").backward("gemm_bwd", "gelu_bwd", count=4).kernels(ADAM).wait()
    assert_begins(parts_of(program), program)


def test_the_last_step_ends_with_the_last_launch_of_any_thread() -> None:
    """If the capture ends in a backward pass, autograd's launches belong to the last step."""
    program = Program()
    for _ in range(10):
        passes(program.step().to_device()).kernels(ADAM).wait()
    program.step().to_device().layers(4, "conv", "relu").kernels("loss").backward("conv_bwd", "relu_bwd", count=3)
    sequence, found = program.sequence(), parts_of(program)
    assert sequence.launcher[-1] == AUTOGRAD
    assert len(found.end) == len(program.steps)
    assert found.end[-1] == sequence.end[-1]


def test_a_barrier_after_the_loop_is_not_in_the_last_step() -> None:
    """The last step has as many calls as the others, and ends with as many waits."""
    program = Program()
    for _ in range(10):
        passes(program.step()).kernels(ADAM).wait()
    program.pause(3 * MS).kernels("nccl_all_reduce").pause(3 * MS).wait()
    length = np.diff([*program.steps, parts_of(program).end[-1]])
    assert length[-1] < MS


def test_a_step_that_had_begun_before_the_capture_is_known() -> None:
    """Its last three kernels are at the beginning of the capture. Without them, the first step is the program's."""

    def captured(kernels: int) -> StepParts:
        program = Program()
        if kernels:
            program.kernels("conv_bwd", thread=AUTOGRAD).kernels(*("norm", "scale", ADAM)[-kernels:]).wait()
        for _ in range(10):
            passes(program.step()).kernels("norm", "scale", ADAM).wait()
        return parts_of(program)

    assert [captured(kernels).begun for kernels in (0, 2, 3)] == [False, False, True]


@pytest.mark.parametrize(("layers", "steps"), [(9, 25), (10, 30)])
def test_a_repetition_with_less_than_half_of_the_work_is_no_step(layers: int, steps: int) -> None:
    """Each sixth of 30 repetitions has fewer than the usual 20 layers."""
    program = Program()
    for number in range(30):
        count = layers if number % 6 == 5 else 20
        program.to_device().layers(count, "conv").kernels("loss").backward("conv_bwd", count=count)
        program.kernels(*[ADAM] * 3).to_host()
    assert len(parts_of(program).start) == steps


@pytest.mark.parametrize(("memsets", "first"), [(2, 1), (4, 0)])
def test_a_kernel_up_to_four_items_after_the_begin_shows_where_a_step_begins(memsets: int, first: int) -> None:
    """Each step copies a batch, and sets memory some times before its first kernel; the first step once less.

    The way back from the kernel ends where the first step differs. Without a near kernel the copy is the begin.
    """
    program = Program()
    for number in range(10):
        program.step().to_device()
        for _ in range(memsets - (number == 0)):
            program.memset()
        program.kernels(*[f"layer{each}" for each in range(9)]).wait()
    assert parts_of(program).start[0] == program.sequence().start[first]
