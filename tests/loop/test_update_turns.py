"""Where kernels differ from step to step, the updates of the weights show the steps; what is unclear is not found."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_programs import Program

from nsyswrap.loop.update_turns import FoundSteps, find_step_parts, find_updates

FORWARD, BACKWARD = ("conv", "bias", "relu"), ("conv_bwd", "bias_bwd", "relu_bwd")
LAYER = ("norm", "gemm", "attention", "gemm_out", "norm", "mlp", "gelu", "mlp_out")
ADAM = ("multi_tensor_apply_kernel<FusedAdam>",) * 3
BY_HAND = ("axpy",) * 12
# The tolerance for the start of a step: a call and the time after it.
NEAR_NS = 20_000


def passes(program: Program, layers: int = 6) -> Program:
    """Add a forward and a backward pass."""
    return program.kernels("cast").layers(layers, *FORWARD).kernels("loss").backward(*BACKWARD, count=layers)


def trained(program: Program) -> Program:
    """Add a step of training with a batch and a loss that is read."""
    return passes(program.step().to_device()).kernels(*ADAM).to_host()


def evaluated(program: Program) -> Program:
    """Add a batch of an evaluation."""
    return program.to_device().kernels("cast").layers(6, *FORWARD).kernels("argmax").to_host()


def last_batches_are_few(program: Program) -> None:
    """Accumulate four passes a step, but two in the last step of each epoch."""
    for step in range(24):
        program.step()
        for _ in range(2 if step % 4 == 3 else 4):
            passes(program.to_device())
        program.kernels(*ADAM)


def mostly_evaluated(program: Program) -> None:
    """Evaluate six times as much as is trained."""
    for _ in range(8):
        for _ in range(5):
            trained(program)
        for _ in range(30):
            evaluated(program)


def evaluated_every_second(program: Program) -> None:
    """Evaluate some batches after each second step."""
    for step in range(40):
        trained(program)
        for _ in range(3 * (step % 2)):
            evaluated(program)


def played(program: Program) -> None:
    """Train an agent: some moves, then some updates, both of changing number."""
    draw = random.Random(5)  # noqa: S311 - no secret
    for _ in range(12):
        for _ in range(draw.randrange(20, 60)):
            program.to_device(16).kernels("l1", "tanh", "l2", "sample").to_host()
        for _ in range(draw.randrange(6, 14)):
            program.step().to_device(256).kernels("index", "l1", "tanh", "l2", "ppo")
            program.backward("l1_bwd", "tanh_bwd", "l2_bwd").kernels(*ADAM).to_host()


def updated_now_and_then(program: Program) -> None:
    """Train an agent: after some moves, at random, one update."""
    draw = random.Random(6)  # noqa: S311 - no secret
    program.step()
    for _ in range(400):
        program.to_device(16).kernels("l1", "relu", "l2", "argmax").to_host()
        if draw.random() < 0.3:
            program.to_device(256).to_device(256).kernels("gather", "l1", "relu", "l2", "l1", "relu", "l2", "mse")
            program.backward("l1_bwd", "relu_bwd", "l2_bwd").kernels(*ADAM).step()


def of_random_lengths(program: Program) -> None:
    """Train a recurrent network on texts of any length."""
    draw = random.Random(1)  # noqa: S311 - no secret
    for _ in range(40):
        length = draw.randrange(20, 100)
        program.step().to_device(length).layers(length, "cell1", "cell2", "cell3").kernels("loss")
        program.backward("cell1_bwd", "cell2_bwd", count=length).kernels(*ADAM).to_host()


def of_buckets(program: Program) -> None:
    """Train on texts of four lengths, for which libraries have kernels of other names."""
    draw = random.Random(2)  # noqa: S311 - no secret
    for _ in range(60):
        of = draw.choice((1, 2, 4, 8))
        program.step().to_device(of * 64).to_device(of * 8)
        for _ in range(12):
            names = ("norm", f"gemm{of}", f"attention{of}", f"gemm_out{of}", "norm", f"mlp{of}", "gelu", f"mlp_out{of}")
            program.kernels(*names, grid=of)
        program.kernels("loss").backward(f"gemm_bwd{of}", "attention_bwd", "gelu_bwd", count=12)
        program.kernels(*ADAM).to_host()


def of_two_tasks(program: Program) -> None:
    """Train one of two networks in each step, at random."""
    draw = random.Random(8)  # noqa: S311 - no secret
    for _ in range(60):
        if draw.random() < 0.5:
            trained(program)
        else:
            program.step().to_device().layers(8, *LAYER).kernels("loss")
            program.backward("gemm_bwd", "attention_bwd", count=8).kernels(*ADAM).to_host()


def clipped_by_hand(program: Program) -> None:
    """Accumulate four passes that read the loss, then read the norm of the gradients and update by hand."""
    for _ in range(15):
        program.step()
        for _ in range(4):
            passes(program.to_device()).to_host()
        program.kernels("norm", "norm", "clip").to_host().kernels(*("axpy",) * 12)


def with_closures(program: Program) -> None:
    """Evaluate a closure several times in each step, as LBFGS does: each has a backward pass and reads its loss."""
    for _ in range(15):
        program.step().to_device()
        for _ in range(5):
            program.kernels("zero").layers(4, "gemm", "tanh").kernels("mse").backward("gemm_bwd", "tanh_bwd", count=4)
            program.to_host().kernels("dot", "axpy", "dot").to_host().kernels("axpy", "mul")


def with_two_optimizers(program: Program) -> None:
    """Train the critic on real and made pictures, then the generator, on one batch."""
    for _ in range(25):
        program.step().to_device().layers(5, "d1", "d2").kernels("d_loss").backward("d1_bwd", "d2_bwd", count=5)
        program.layers(4, "g1", "g2").layers(5, "d1", "d2").kernels("d_loss").backward("d1_bwd", "d2_bwd", count=5)
        program.kernels(*ADAM).layers(5, "d1", "d2").kernels("d_loss")
        program.backward("d1_bwd", "d2_bwd", "g1_bwd", count=5).kernels(*ADAM).to_host().to_host()


LOOPS = (
    *(last_batches_are_few, mostly_evaluated, evaluated_every_second, played, updated_now_and_then, of_random_lengths),
    *(of_buckets, of_two_tasks, clipped_by_hand, with_closures, with_two_optimizers),
)


def found_in(loop: Callable[[Program], None]) -> tuple[Program, FoundSteps | None]:
    program = Program()
    loop(program)
    return program, find_step_parts(program.sequence())


@pytest.mark.parametrize("every", [2, 3, 4, 5, 8, 10])
@pytest.mark.parametrize("batches", [1, 2, 3, 20])
@pytest.mark.parametrize("reads", [True, False])
def test_an_evaluation_is_not_the_update_of_steps_without_a_known_optimizer(
    every: int, batches: int, *, reads: bool
) -> None:
    """The kernels between each backward pass and the next batch are the update, also after each second step."""

    def loop(program: Program) -> None:
        for number in range(40):
            passes(program.step().to_device()).kernels(*BY_HAND)
            if reads:
                program.to_host()
            if number % every == every - 1:
                for _ in range(batches):
                    evaluated(program)

    program, found = found_in(loop)
    assert found is not None
    assert abs(len(found.parts.start) - len(program.steps)) <= 1
    distance = np.abs(found.parts.start[:, None] - np.array(program.steps)[None, :]).min(axis=1)
    assert np.median(distance) < NEAR_NS


@pytest.mark.parametrize("loop", LOOPS)
def test_each_update_is_a_step(loop: Callable[[Program], None]) -> None:
    """The number of steps found is right to within one, and each step begins where the program begins it."""
    program, found = found_in(loop)
    assert found is not None
    parts = found.parts
    assert abs(len(parts.start) - len(program.steps)) <= 1
    distance = np.abs(parts.start[:, None] - np.array(program.steps)[None, :]).min(axis=1)
    assert np.median(distance) < NEAR_NS
    assert np.all(parts.end > parts.start)
    assert np.all(parts.start[1:] >= parts.end[:-1])


def inferred_in_buckets(program: Program) -> None:
    """Infer for texts of four lengths, with few kernels in common."""
    draw = random.Random(2)  # noqa: S311 - no secret
    for _ in range(60):
        of = draw.choice((1, 2, 4, 8))
        program.to_device(of * 64)
        for _ in range(12):
            names = ("norm", f"gemm{of}", f"attention{of}", f"gemm_out{of}", "norm", f"mlp{of}", "gelu", f"mlp_out{of}")
            program.kernels(*names, grid=of)
        program.kernels("head").to_host()


def tried_in_turn(program: Program) -> None:
    """Time eight functions one after another."""
    for function in range(8):
        for _ in range(20):
            program.kernels(f"f{function}", f"g{function}").wait()


def factorized(program: Program) -> None:
    """Factorize a matrix whose panels shrink, with a number read for each."""
    program.to_device(1 << 20).kernels("copy")
    for panel in range(60):
        program.kernels("householder", grid=60 - panel).kernels("gemv", "ger", grid=60 - panel).to_host()
    program.kernels("out").to_host(1 << 16)


def with_few_updates(program: Program) -> None:
    """Accumulate twelve passes a step, as the last stage of a pipeline does, for three steps."""
    for _ in range(3):
        program.step()
        for _ in range(12):
            passes(program)
        program.kernels(*ADAM)


@pytest.mark.parametrize(("more", "steps"), [(2, 20), (3, 23)])
def test_a_tenth_of_the_steps_may_hold_an_update_more(more: int, steps: int) -> None:
    """Two of 20 steps also train something else; where three do, each update is a step."""
    program = Program()
    for number in range(20):
        passes(program.to_device()).kernels(*ADAM)
        if number in (5, 8, 11)[:more]:
            program.backward("aux_bwd").kernels(*ADAM)
        program.to_host()
    found = find_step_parts(program.sequence())
    assert found is not None
    assert len(found.parts.start) == steps


def test_the_usual_size_of_steps_of_any_length_is_that_of_most() -> None:
    """The steps have 20 to 60 cells and a size each; two of 41 are smaller than usual, and two larger."""
    lengths = list(range(20, 61))
    random.Random(3).shuffle(lengths)  # noqa: S311 - no secret
    program = Program()
    for length in lengths:
        program.to_device(length).layers(length, "cell1", "cell2", "cell3").kernels("loss")
        program.backward("cell1_bwd", "cell2_bwd", count=length).kernels(*ADAM).to_host()
    found = find_step_parts(program.sequence())
    assert found is not None
    assert found.by_turns
    assert found.usual_items.tolist() == [5 * length + 8 for length in (22, 58)]


@pytest.mark.parametrize("program_of", [inferred_in_buckets, tried_in_turn, factorized, with_few_updates])
def test_what_is_not_clear_is_not_found(program_of: Callable[[Program], None]) -> None:
    """Inputs whose kernels have nothing in common, a benchmark of functions and a factorization have no steps.

    Nor have three steps of many passes each: a pass is no step, and three are too few.
    """
    assert found_in(program_of)[1] is None


def test_a_batch_of_set_up_says_nothing_of_steps_without_batches() -> None:
    """The optimizer has no known name, and each batch is made on the GPU: that weights are updated is not seen."""
    program = Program()
    for step in range(5):
        passes(program.step().kernels("random")).kernels("axpy")
        if not step:
            program.to_device()  # what the optimizer keeps
        program.kernels(*BY_HAND).wait()
    found = find_step_parts(program.sequence())
    assert found is not None
    assert len(found.parts.start) == 5


def test_an_optimizer_in_the_backward_pass_is_no_update_of_its_own() -> None:
    """Where autograd's thread runs the optimizer, the pattern of the kernels alone shows the steps."""
    program = Program()
    for _ in range(20):
        program.step().to_device().layers(6, *FORWARD).backward(*BACKWARD, "fused_adam", count=6).to_host()
    assert not len(find_updates(program.sequence()).last)
    found = find_step_parts(program.sequence())
    assert found is not None
    assert len(found.parts.start) == 20
    assert not found.by_turns


@given(lengths=st.lists(st.integers(1, 40), min_size=8, max_size=30), tests=st.integers(0, 5))
def test_no_update_is_lost(lengths: list[int], tests: int) -> None:
    """Whatever the lengths of the inputs, and with an evaluation in the middle, each update has a step.

    Two of them may be left out, or one in ten, where the others have the same kernels.
    """
    program = Program()
    for number, length in enumerate(lengths):
        program.step().to_device(length).layers(length, "cell1", "cell2").kernels("loss")
        program.backward("cell1_bwd", "cell2_bwd", count=length).kernels(*ADAM).to_host()
        for _ in range(tests * (number == len(lengths) // 2)):
            evaluated(program)
    found = find_step_parts(program.sequence())
    assert found is not None
    assert abs(len(found.parts.start) - len(lengths)) <= max(2, len(lengths) // 10)
