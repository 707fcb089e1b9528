"""Phases inferred from what the threads of a program launch in each of its steps."""

from dataclasses import replace

import numpy as np
import pytest
from loop_programs import AUTOGRAD, Program

from nsyswrap.base.intervals import Spans, times
from nsyswrap.loop.inferred_phases import BACKWARD, DATA, FORWARD, OPTIMIZER, StepSpans, infer_phases
from nsyswrap.loop.work_sequence import KERNEL

STEPS = 6
CODES = {DATA: 0, "copy": 1, FORWARD: 2, BACKWARD: 3, OPTIMIZER: 4}
APPLY = "multi_tensor_apply_kernel"
NORM, FACTOR = f"{APPLY}<LpNormFunctor<float>>", f"{APPLY}<BinaryOpScalarTensorFunctor<float>>"
ADAM = f"{APPLY}<FusedAdamMathFunctor<float>>"
BY_HAND = ("addcmul", "sqrt", "axpy")
READ, COPIED = "read", "to device"


def phases_of(*kernels: tuple[str, ...]) -> list[str]:
    """Return the phase of each kernel of a step in the middle of a loop, in the order of their launches.

    Args:
        kernels: Names of kernels of one step, and reads. Passes of the main thread and of autograd's take turns.
    """
    program = Program()
    for _ in range(STEPS):
        program.step()
        for turn, names in enumerate(kernels):
            for name in names:
                if name == READ:
                    program.to_host()
                elif name == COPIED:
                    program.to_device()
                elif turn % 2:
                    program.kernels(name, thread=AUTOGRAD)
                else:
                    program.kernels(name)
    sequence = program.sequence()
    starts = np.array(program.steps)
    spans = StepSpans(starts, np.append(starts[1:], sequence.end[-1] + 1), np.ones(STEPS, bool))
    frame = infer_phases(sequence, spans, CODES)
    phase_of = {code: name for name, code in CODES.items()}
    rows = list(zip(frame["start"].tolist(), frame["end"].tolist(), frame["phase"].tolist(), strict=True))
    launched = sequence.start[sequence.kind == KERNEL].tolist()
    launches = [at for at in launched if starts[2] <= at < starts[3]]
    found = [[phase_of[code] for start, end, code in rows if start <= at < end] for at in launches]
    assert all(len(each) <= 1 for each in found)
    return [each[0] if each else "" for each in found]


def test_a_pass_of_a_pipeline_between_two_backward_passes_is_forward() -> None:
    """It begins after the message with the gradients; the message with its activations, which is last, is its part."""
    between = ("nccl_send_recv", "layer_norm", "gemm_bf16", "nccl_send_recv")
    found = phases_of(("gemm_bf16",), ("gemm_bwd",), between, ("gemm_bwd",), (ADAM,))
    assert found == [FORWARD, BACKWARD, BACKWARD, *[FORWARD] * 3, BACKWARD, OPTIMIZER]


def test_gradients_that_are_summed_are_a_part_of_the_backward_pass() -> None:
    found = phases_of(("gemm_bf16",), ("gemm_bwd",), ("cat", "nccl_reduce_scatter", "div", ADAM))
    assert found == [FORWARD, *[BACKWARD] * 3, OPTIMIZER, OPTIMIZER]


@pytest.mark.parametrize("update", [(ADAM, ADAM), BY_HAND])
def test_what_clips_gradients_comes_before_the_optimizer(update: tuple[str, ...]) -> None:
    found = phases_of(("gemm_bf16",), ("gemm_bwd",), (NORM, NORM, "reduce", "clamp", FACTOR, *update))
    assert found == [FORWARD, BACKWARD, *[""] * 5, *[OPTIMIZER] * len(update)]


@pytest.mark.parametrize("update", [(ADAM, ADAM), BY_HAND * 2])
def test_what_the_loop_reads_comes_before_the_optimizer(update: tuple[str, ...]) -> None:
    """The norm of each gradient, or the loss."""
    norms = ("norm", READ) * 2
    found = phases_of(("gemm_bf16",), ("gemm_bwd",), (*norms, *update, READ))
    assert found == [FORWARD, BACKWARD, "", "", *[OPTIMIZER] * len(update)]


DRAW = "distribution_elementwise_grid_stride_kernel<unsigned int, random_from_to_kernel>"
TRAINING = ("gemm_bf16",), ("gemm_bwd",), (ADAM,)


@pytest.mark.parametrize("draw", [DRAW, "randperm_handle_duplicate_keys_kernel"])
def test_rows_that_are_drawn_on_the_gpu_are_data(draw: str) -> None:
    """Up to the last draw before the first matrix product; a draw after it is a part of the network."""
    first, *others = TRAINING
    found = phases_of(("cat", draw, "gather", *first, draw), *others)
    assert found == [DATA, DATA, *[FORWARD] * 3, BACKWARD, OPTIMIZER]


def test_a_draw_is_no_data_where_a_batch_is_copied_or_where_there_is_no_product() -> None:
    """A draw after the copy chooses the noise of a diffusion, and one without a network may simulate."""
    first, *others = TRAINING
    assert phases_of((COPIED, DRAW, *first), *others) == [*[FORWARD] * 2, BACKWARD, OPTIMIZER]
    assert phases_of((DRAW, "add"), *others)[:2] == [FORWARD, FORWARD]


def steps_with_data(most: int) -> list[int]:
    """Return the steps with a data phase of a loop whose thread reads at the start of its first steps, and check it."""
    program = Program()
    spans = []
    for step in range(STEPS):
        program.step()
        start = program.pause(2_000).steps[-1] + 1_000
        if step < most:
            spans.append((start, start + 50_000))
        program.pause(60_000).kernels("gemm_bf16").kernels("gemm_bwd", thread=AUTOGRAD).kernels(ADAM)
    starts = np.array(program.steps)
    begin, end = (times(each) for each in zip(*spans, strict=True))
    sequence = replace(program.sequence(), receives=Spans(begin, end))
    steps = StepSpans(starts, np.append(starts[1:], sequence.end[-1] + 1), np.ones(STEPS, bool))
    frame = infer_phases(sequence, steps, CODES)
    data = frame[frame["phase"] == CODES[DATA]]
    assert (data["end"] - data["start"]).eq(51_000).all()
    return [int(step) for step in np.searchsorted(starts, data["start"])]


def test_what_the_thread_reads_before_its_first_kernel_is_data() -> None:
    """From the start of the step, which is not known of the first one. Reads in few steps are something else."""
    assert steps_with_data(STEPS) == [1, 2, 3, 4, 5]
    assert steps_with_data(1) == []


@pytest.mark.parametrize(("requests", "has_phases"), [(STEPS, False), (STEPS // 2 + 1, False), (STEPS // 2, True)])
def test_a_loop_that_waits_for_requests_has_no_phases(requests: int, *, has_phases: bool) -> None:
    """It is one of a server: nothing in it is a forward pass, and no wait is one for a loader."""
    program = Program()
    for _ in range(STEPS):
        program.step().pause(60_000).kernels("gemm_bf16").kernels("gemm_bwd", thread=AUTOGRAD).kernels(ADAM)
    starts = np.array(program.steps)
    waits = Spans(starts[:requests] + 1_000, starts[:requests] + 50_000)
    sequence = replace(program.sequence(), requests=waits)
    steps = StepSpans(starts, np.append(starts[1:], sequence.end[-1] + 1), np.ones(STEPS, bool))
    assert (len(infer_phases(sequence, steps, CODES)) > 0) is has_phases
