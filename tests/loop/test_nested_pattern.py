"""A repetition is a whole step, not a layer, a micro-batch or one network of two."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_programs import Program, parts_of

from nsyswrap.loop.nested_pattern import find_step_pattern

LAYER = ("norm", "gemm", "attention", "gemm_out", "norm", "mlp", "gelu", "mlp_out")
ADAM = ("multi_tensor_apply_kernel<FusedAdam>",) * 3
BY_HAND = ("axpy",) * 12
MEGABYTE = 1 << 20
# The tolerance for the start of a step: a call and the time after it.
NEAR_NS = 20_000


def with_waits(passes: int, layers: int, *, batch: bool) -> Program:
    """Infer with a network that reads a number in each layer."""
    program = Program()
    for _ in range(passes):
        program.step()
        if batch:
            program.to_device()
        program.kernels("embed")
        for _ in range(layers):
            program.kernels(*LAYER).to_host()
        program.kernels("head", "softmax").to_host(64)
    return program


def of_experts(passes: int, layers: int, experts: int) -> Program:
    """Infer with a mixture of experts, where each expert reads how many tokens it gets."""
    program = Program()
    for _ in range(passes):
        program.step().to_device().kernels("embed")
        for _ in range(layers):
            program.kernels("norm", "qkv", "attention", "projection", "norm", "router", "softmax", "top_k")
            for _ in range(experts):
                program.kernels("nonzero").to_host().kernels("gather", "gate", "silu", "down", "scatter")
        program.kernels("norm", "head", "argmax").to_host(64)
    return program


def of_critics(critics: int) -> Program:
    """Train a critic several times and a generator once in each step, with one kind of optimizer."""
    program = Program()
    for _ in range(15):
        program.step()
        for _ in range(critics):
            program.to_device().layers(5, "d1", "d2").kernels("d_loss").backward("d1_bwd", "d2_bwd", count=5)
            program.kernels(*ADAM).to_host()
        program.layers(5, "g1", "g2").layers(5, "d1", "d2").kernels("g_loss")
        program.backward("g1_bwd", "d1_bwd", "d2_bwd", count=5).kernels(*ADAM).to_host()
    return program


def accumulated(batches: int, *, optimizer: tuple[str, ...], reads: bool) -> Program:
    """Train with several accumulated passes a step."""
    program = Program()
    for _ in range(12):
        program.step()
        for _ in range(batches):
            program.to_device().kernels("cast").layers(6, "conv", "relu").kernels("loss")
            program.backward("conv_bwd", "relu_bwd", count=6)
            if reads:
                program.to_host()
        program.kernels(*optimizer)
    return program


def with_prompts(tokens: int) -> Program:
    """Write texts, where a prompt and its first token are computed by kernels of a token and some others."""
    program = Program()
    for _ in range(6):
        program.step().to_device(512).kernels("embed").layers(24, "norm", "gemm_p", "attention_p", "mlp").kernels(
            "head"
        )
        program.kernels("argmax").to_host()
        for _ in range(tokens):
            program.step().kernels("embed").layers(24, "norm", "gemm", "attention", "mlp").kernels("head", "argmax")
            program.to_host()
    return program


def with_logs(every: int) -> Program:
    """Infer, and read a mean after some batches."""
    program = Program()
    for number in range(12 * every):
        program.step().to_device().layers(6, *LAYER).to_host(64)
        if number % every == every - 1:
            program.kernels("mean", "cast").to_host()
    return program


def in_turn() -> Program:
    """Repeat the same forward pass, and wait after each."""
    program = Program()
    for _ in range(40):
        program.step().layers(4, *LAYER).wait()
    return program


def without_rounds(passes: int, layers: int) -> Program:
    """Upload weights, then run a network several times without a copy or a wait."""
    program = Program().to_device(MEGABYTE).wait()
    for _ in range(passes):
        program.step().kernels("embed").layers(layers, *LAYER).kernels("head", "softmax")
    return program.wait()


WHOLE = (
    pytest.param(lambda: with_waits(12, 24, batch=True), id="layers that wait"),
    pytest.param(lambda: with_waits(20, 4, batch=True), id="few layers that wait"),
    pytest.param(lambda: of_experts(12, 6, 8), id="experts that wait"),
    pytest.param(lambda: of_critics(2), id="two critics"),
    pytest.param(lambda: of_critics(5), id="five critics"),
    pytest.param(lambda: accumulated(2, optimizer=BY_HAND, reads=False), id="two passes, weights updated by hand"),
    pytest.param(lambda: accumulated(16, optimizer=BY_HAND, reads=True), id="16 passes, weights updated by hand"),
    pytest.param(lambda: accumulated(16, optimizer=ADAM, reads=True), id="16 passes, Adam"),
    pytest.param(lambda: with_prompts(25), id="tokens after prompts"),
    pytest.param(lambda: with_logs(2), id="a log after each second batch"),
    pytest.param(lambda: with_logs(10), id="a log after each tenth batch"),
    pytest.param(in_turn, id="nothing but one pass"),
    pytest.param(lambda: without_rounds(10, 32), id="passes that neither copy nor wait"),
    pytest.param(lambda: without_rounds(4, 8), id="four such passes"),
)


@pytest.mark.parametrize("program_of", WHOLE)
def test_a_repetition_is_a_whole_step(program_of: Callable[[], Program]) -> None:
    """The number of steps is right to within one, and each begins where the program begins it."""
    program = program_of()
    found = parts_of(program)
    assert found is not None
    assert abs(len(found.start) - len(program.steps)) <= 1
    distance = np.abs(found.start[:, None] - np.array(program.steps)[None, :]).min(axis=1)
    assert np.median(distance) < NEAR_NS


@given(passes=st.integers(1, 8), layers=st.integers(2, 8), experts=st.integers(2, 8))
def test_experts_that_wait_are_never_steps(passes: int, layers: int, experts: int) -> None:
    """The passes are found or nothing is, with any number of layers and experts."""
    found = parts_of(of_experts(passes, layers, experts))
    assert found is None or abs(len(found.start) - passes) <= 1


@given(passes=st.integers(1, 12), layers=st.integers(1, 30))
def test_layers_of_passes_without_rounds_are_never_steps(passes: int, layers: int) -> None:
    found = parts_of(without_rounds(passes, layers))
    assert found is None or abs(len(found.start) - passes) <= 1


def test_without_rounds_any_other_kernel_leaves_it_open_what_repeats() -> None:
    """It may be the input of a single run of a network with large equal blocks; or equal layers are all there is."""
    program = without_rounds(10, 32)
    assert find_step_pattern(program.kernels("output").sequence()) is None
    assert find_step_pattern(Program().layers(40, *LAYER).sequence()) is None
    assert find_step_pattern(without_rounds(3, 32).sequence()) is None


def test_the_upload_of_layers_is_no_step() -> None:
    """Weights of equal layers are copied and converted: nothing comes back, and the link is the slowest part."""
    program = Program()
    for _ in range(24):
        for size in (4, 4, 16, 16, 1):
            program.to_device(size * MEGABYTE).wait().kernels("cast", grid=size)
    assert find_step_pattern(program.sequence()) is None


@pytest.mark.parametrize(("layers", "found"), [(250, 0), (300, 300)])
def test_more_repetitions_than_a_network_has_layers_are_steps(layers: int, found: int) -> None:
    """Each reads a number, between an input and an output: the layers of one pass, or steps."""
    parts = parts_of(with_waits(1, layers, batch=False))
    assert (0 if parts is None else len(parts.start)) == found


@pytest.mark.parametrize(("waits", "found"), [(2, 20), (3, 0)])
def test_a_pass_that_waits_more_than_twice_may_be_a_layer(waits: int, found: int) -> None:
    """It holds equal layers itself, so it is a pass if it reads its result and does no more."""
    program = Program().kernels("embed")
    for _ in range(20):
        program.layers(6, *LAYER)
        for _ in range(waits):
            program.wait()
    parts = parts_of(program.kernels("head"))
    assert (0 if parts is None else len(parts.start)) == found
