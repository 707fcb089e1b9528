"""Loops of every kind are found in the work that a program launches. Without a loop nothing is found."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_programs import AUTOGRAD, MAIN, Program, parts_of

FORWARD, BACKWARD = ("conv", "bias", "relu"), ("conv_bwd", "bias_bwd", "relu_bwd")
LAYER = ("norm", "gemm", "attention", "gemm_out", "norm", "mlp", "gelu", "mlp_out")
ADAM = ("multi_tensor_apply_kernel<FusedAdam>",) * 3
BY_HAND = ("axpy",) * 12
NETWORK = tuple(f"k{number}" for number in range(17))
# The tolerance for the start of a step: a call and the time after it.
NEAR_NS = 20_000


def count(program: Program) -> int:
    """Return how many steps are found in a program."""
    parts = parts_of(program)
    return 0 if parts is None else len(parts.start)


def inferred(program: Program) -> Program:
    """Add a batch of an inference."""
    return program.to_device().kernels(*NETWORK).to_host()


def passes(program: Program, optimizer: tuple[str, ...] = ADAM) -> Program:
    """Add forward pass, backward pass and optimizer."""
    return program.kernels("cast").layers(6, *FORWARD).kernels("loss").backward(*BACKWARD, count=6).kernels(*optimizer)


def trained(program: Program, optimizer: tuple[str, ...] = ADAM) -> Program:
    """Add a step of training with a batch and a loss that is read."""
    return passes(program.step().to_device().to_device(64), optimizer).to_host()


def evaluated(program: Program) -> Program:
    """Add a batch of an evaluation."""
    return program.to_device().to_device(64).kernels("cast").layers(6, *FORWARD).kernels("loss", "argmax").to_host()


def plain(program: Program) -> None:
    for _ in range(20):
        trained(program)


def logged(program: Program) -> None:
    """Train on data that is on the device, and read the loss of each tenth step."""
    for number in range(40):
        passes(program.step())
        if number % 10 == 9:
            program.to_host()


def saved(program: Program) -> None:
    """Train, and copy all weights to the host in each tenth step."""
    for number in range(40):
        trained(program)
        for weight in range(60 * (number % 10 == 9)):
            program.to_host(1000 + weight)


def tuned_before(program: Program) -> None:
    """Run an autotuner first, as a compiler does, then train."""
    tried(program)
    for _ in range(15):
        trained(program)


def with_evaluations(program: Program) -> None:
    """Train and evaluate in turn, then evaluate for longer than the training took."""
    for _ in range(4):
        for _ in range(10):
            trained(program)
        for _ in range(8):
            evaluated(program)
    for _ in range(90):
        evaluated(program)


def accumulated(program: Program) -> None:
    """Train with four accumulated passes a step."""
    for _ in range(12):
        program.step()
        for _ in range(4):
            passes(program.to_device().to_device(64), ())
        program.kernels(*ADAM).to_host()


def by_hand(program: Program) -> None:
    """Train without an optimizer of a known name."""
    for _ in range(30):
        trained(program, BY_HAND)


def skipped(program: Program) -> None:
    """Train with an optimizer that is skipped if a gradient overflows."""
    for number in range(30):
        trained(program, () if number in {0, 1, 7} else ADAM)


def of_two_networks(program: Program) -> None:
    """Train two networks in each step, each with its optimizer."""
    for _ in range(25):
        program.step().to_device().layers(5, "d1", "d2").kernels("d_loss").backward("d1_bwd", "d2_bwd", count=5)
        program.kernels("fused_adam_d").layers(5, "g1", "g2").layers(5, "d1", "d2").kernels("g_loss")
        program.backward("g1_bwd", "d1_bwd", "d2_bwd", count=5).kernels("fused_adam_g").to_host()


def of_cells(program: Program) -> None:
    """Train a recurrent network of a hundred cells."""
    for _ in range(12):
        program.step().to_device().layers(100, "cell1", "cell2", "cell3").kernels("loss")
        program.backward("cell1_bwd", "cell2_bwd", count=100).kernels("fused_adam").to_host()


def of_other_lengths(program: Program) -> None:
    """Train with inputs of different lengths, for which libraries use other kernels."""
    lengths = random.Random(3)  # noqa: S311 - no secret
    for _ in range(40):
        length = lengths.choice((4, 8, 12, 16))
        program.step().to_device(length).kernels("cast", grid=length)
        for _ in range(8):
            program.kernels(f"gemm_{length}", "relu", "norm", grid=length)
        program.kernels("loss").backward(f"gemm_{length}_bwd", "relu_bwd", count=8).kernels("fused_adam").to_host()


def decoded(program: Program) -> None:
    """Write five texts of thirty tokens each."""
    for _ in range(5):
        program.to_device(512).layers(24, "norm_p", "gemm_p", "attention_p", "mlp_p").kernels("head")
        for _ in range(30):
            program.step().kernels("embed").layers(24, *LAYER).kernels("norm_f", "head", "argmax").to_host()


def of_graphs(program: Program) -> None:
    """Launch a graph a step, with a log now and then."""
    for number in range(50):
        program.step().to_device().kernels("graph").wait()
        if number % 10 == 9:
            program.kernels("mean").to_host()


def tried(program: Program) -> None:
    """Launch many kernels some times each, with the cache emptied before, as an autotuner does."""
    for candidate in range(300):
        program.kernels("ones")
        for _ in range(30):
            program.memset().kernels(f"triton_{candidate}")
        program.wait()


def one_pass(program: Program) -> None:
    """Copy the weights of a network and compute one output."""
    for weight in range(300):
        program.to_device(5000 + weight % 7).wait()
    program.to_device().kernels("embed").layers(48, *LAYER).kernels("head").to_host()


def cast_weights(program: Program) -> None:
    """Copy weights of many sizes and cast each."""
    sizes = random.Random(1)  # noqa: S311 - no secret
    for _ in range(200):
        size = sizes.choice((64, 512, 2048, 4096))
        program.to_device(size).kernels("cast", grid=size).wait()


def replicated(program: Program) -> None:
    """Copy the weights to another device for each of three replicas."""
    for _ in range(3):
        for weight in range(50):
            program.memset().to_device(100 * weight)


def three_steps(program: Program) -> None:
    for _ in range(3):
        trained(program)


def read_once(program: Program) -> None:
    """Compute many quantities of one table, and read each."""
    program.to_device(10_000_000)
    for number in range(40):
        program.kernels(f"reduce_{number % 11}", "reduce_last", f"formula_{number}").to_host()


def of_random_blocks(program: Program) -> None:
    """Read a number after each of many random computations."""
    draw = random.Random(1)  # noqa: S311 - no secret
    for _ in range(60):
        for _ in range(draw.randrange(3, 40)):
            program.kernels(f"k{draw.randrange(30)}", grid=draw.randrange(5))
        program.to_host()


def initialized(program: Program) -> None:
    """Initialize the weights of a network."""
    for _ in range(200):
        program.kernels("normal", "mul", "add")
    program.wait()


LOOPS = (
    *(plain, logged, saved, tuned_before, with_evaluations, accumulated, by_hand, skipped, of_two_networks, of_cells),
    *(of_other_lengths, decoded, of_graphs),
)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_is_found_with_the_begin_of_each_step(loop: Callable[[Program], None]) -> None:
    """The number of steps found is right to within one, and each step begins where the program begins it."""
    program = Program()
    loop(program)
    found = parts_of(program)
    assert found is not None
    assert abs(len(found.start) - len(program.steps)) <= 1
    distance = np.abs(found.start[:, None] - np.array(program.steps)[None, :]).min(axis=1)
    assert np.median(distance) < NEAR_NS
    assert np.all(found.end > found.start)
    assert np.all(found.start[1:] >= found.end[:-1])


@pytest.mark.parametrize(("steps", "found"), [(9, 0), (10, 10)])
def test_a_few_items_in_turn_may_be_chance(steps: int, found: int) -> None:
    """A step has four items: a batch, a kernel, the loss and the wait for it. All steps must have forty."""
    program = Program()
    for _ in range(steps):
        program.to_device().kernels("net").to_host()
    assert count(program) == found


@pytest.mark.parametrize(("steps", "found"), [(3, 0), (4, 4)])
def test_four_repetitions_are_a_pattern(steps: int, found: int) -> None:
    program = Program()
    for _ in range(steps):
        inferred(program)
    assert count(program) == found


@pytest.mark.parametrize(("kernels", "found"), [(6, 20), (7, 10)])
def test_steps_differ_by_a_quarter_of_their_work(kernels: int, found: int) -> None:
    """Every second step of 20 items computes a log; where it is too long, two of them are one step."""
    program = Program()
    for number in range(20):
        program.to_device().kernels(*NETWORK).kernels(*[f"log{each}" for each in range(kernels * (number % 2))])
        program.to_host()
    assert count(program) == found


@pytest.mark.parametrize(("of_variant", "found"), [(16, 40), (20, 0)])
def test_what_is_alike_is_most_of_the_work(of_variant: int, found: int) -> None:
    """A step has 43 items; of them 27 are the same in each step, or 23. The others are one of four variants."""
    draw, program = random.Random(1), Program()  # noqa: S311 - no secret
    for _ in range(40):
        program.to_device().kernels(*[f"k{each}" for each in range(40 - of_variant)])
        variant = draw.randrange(4)
        program.kernels(*[f"v{variant}_{each}" for each in range(of_variant)]).to_host()
    assert count(program) == found


@pytest.mark.parametrize(("at_random", "found"), [(2, 20), (4, 0)])
def test_most_items_follow_from_those_before_them(at_random: int, found: int) -> None:
    """Of 23 items in a step, two are drawn at random, or four."""
    draw, program = random.Random(1), Program()  # noqa: S311 - no secret
    for _ in range(20):
        program.to_device().kernels(*[f"k{each}" for each in range(20 - at_random)])
        program.kernels(*[f"r{draw.randrange(50)}" for _ in range(at_random)]).to_host()
    assert count(program) == found


@pytest.mark.parametrize(("kernels", "found"), [(8, 0), (12, 6)])
def test_a_prompt_of_few_kernels_leaves_it_open_what_a_step_is(kernels: int, found: int) -> None:
    """A text of ten tokens has 170 kernels and those of its prompt: less than a twentieth of all, or more."""
    program = Program()
    for _ in range(6):
        program.kernels(*[f"p{each}" for each in range(kernels)]).to_host()
        for _ in range(10):
            program.kernels(*NETWORK).to_host()
    assert count(program) == found


@pytest.mark.parametrize(("kernels", "found"), [(60, 60), (70, 6)])
def test_work_after_ten_batches_is_a_log_or_makes_them_one_step(kernels: int, found: int) -> None:
    """Ten batches have 170 kernels: the others are a quarter of all, or more."""
    program = Program()
    for _ in range(6):
        for _ in range(10):
            inferred(program)
        program.kernels(*[f"p{each}" for each in range(kernels)])
    assert count(program) == found


def test_evaluations_that_compute_a_third_of_all_are_no_part_of_a_step() -> None:
    """After four steps of training come four batches of an evaluation."""
    program = Program()
    for _ in range(6):
        for _ in range(4):
            trained(program)
        for _ in range(4):
            evaluated(program)
    assert count(program) == 24


@pytest.mark.parametrize(("kernels", "found"), [(4, 0), (5, 40)])
def test_a_step_of_few_kinds_repeats_its_shapes(kernels: int, found: int) -> None:
    """The sizes and the grids are drawn at random: with seven kinds of items this is no loop, with eight it is one."""
    draw, program = random.Random(1), Program()  # noqa: S311 - no secret
    for _ in range(40):
        program.to_device(draw.randrange(99))
        for each in range(kernels):
            program.kernels(f"k{each}", grid=draw.randrange(99))
        program.to_host()
    assert count(program) == found


@pytest.mark.parametrize("batches", [2, 4])
def test_the_sum_of_losses_is_not_the_update_of_accumulated_passes(batches: int) -> None:
    """Each pass adds its loss to a sum on the device; the weights are updated after the last one, and the sum read."""
    program = Program()
    for _ in range(20):
        program.step()
        for _ in range(batches):
            passes(program.to_device(), ()).kernels("add")
        program.kernels(*BY_HAND).to_host()
    found = parts_of(program)
    assert found is not None
    assert abs(len(found.start) - len(program.steps)) <= 1


@pytest.mark.parametrize(
    "program_of",
    [tried, one_pass, cast_weights, replicated, three_steps, read_once, of_random_blocks, initialized],
)
def test_nothing_is_found_without_a_loop(program_of: Callable[[Program], None]) -> None:
    """Autotuning, one pass, copies of weights, three steps, a script and random work are no loop."""
    program = Program()
    program_of(program)
    assert parts_of(program) is None


@given(st.integers(0, 1 << 30), st.sampled_from([2, 3, 5, 10, 40]), st.sampled_from([100, 400, 1500]))
def test_nothing_is_found_in_random_work(seed: int, names: int, items: int) -> None:
    """Operations drawn at random, on two threads and with copies and waits among them, have no steps."""
    draw, program = random.Random(seed), Program(seed)  # noqa: S311 - no secret
    for _ in range(items):
        kind = draw.random()
        if kind < 0.1:
            program.wait()
        elif kind < 0.2:
            program.to_device(draw.choice((1, 2, 3)))
        else:
            program.kernels(f"k{draw.randrange(names)}", thread=draw.choice((MAIN, AUTOGRAD)))
    assert parts_of(program) is None
