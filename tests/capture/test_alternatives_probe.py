"""The program that measures alternatives runs recorded operators, and both variants compute the same."""

import io
import json
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional

from nsyswrap.capture import alternatives_probe as probe
from nsyswrap.capture.xray_file import write_xray
from nsyswrap.events.alternatives import Alternative, AlternativeKind, numbered
from nsyswrap.events.xray_record import RecordedOperator, Tensor, read_operator, tensors_of
from nsyswrap.operators.candidates import channels_last

Inputs = tuple[torch.Tensor, ...]
LONG = 60.0


def recorded(program: Callable[..., object], inputs: Inputs, folder: Path) -> tuple[RecordedOperator, ...]:
    """Return the operators that autograd knows of a program, as the X-ray step records them."""
    path = folder / "trace.json"
    observer = torch.profiler.ExecutionTraceObserver().register_callback(str(path))
    observer.start()
    program(*inputs)
    observer.stop()
    observer.unregister_callback()
    write_xray(folder, [({}, [path])])

    (process,) = json.loads((folder / "xray.json").read_text())["processes"]
    known = {each["id"]: each for each in process["operators"]}
    outer = {each["parent"] for each in known.values() if each.get("sequence") is not None}
    views = {"aten::view", "aten::transpose", "aten::t", "aten::expand", "aten::permute", "aten::detach"}
    inner = [each for number, each in sorted(known.items()) if each.get("sequence") is not None and number not in outer]
    return tuple(read_operator(each) for each in inner if each["name"] not in views)


def gradients(operators: tuple[RecordedOperator, ...], inputs: Inputs) -> tuple[Tensor, ...]:
    """Return the tensors that need gradients, by their sizes."""
    sizes = {tuple(each.shape) for each in inputs if each.requires_grad}
    taken = dict.fromkeys(tensor for each in operators for tensor in tensors_of(each.inputs))
    return tuple(each for each in taken if each.shape in sizes or each.shape[::-1] in sizes)


def measure(
    kind: AlternativeKind,
    program: Callable[..., object],
    inputs: Inputs,
    folder: Path,
    sizes: tuple[tuple[int, int], ...] = (),
) -> dict[str, Any]:
    """Record a program, and measure an alternative of all its operators."""
    operators, _ = numbered(recorded(program, inputs, folder))
    made = Alternative(kind, operators, gradients(operators, inputs), sizes=sizes)
    return probe.measure(torch, made.written(), "cpu", time.monotonic() + LONG)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time few turns, and compile without generating code."""
    monkeypatch.setattr(probe, "TURNS", 3)
    monkeypatch.setattr(probe, "TURN_S", 0.0)
    monkeypatch.setattr(probe, "COMPILER", "aot_eager")


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return random numbers that need a gradient."""
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def test_a_vocabulary_is_padded(tmp_path: Path) -> None:
    hidden, weight, bias = drawn(6, 8), drawn(13, 8), drawn(13)
    found = measure("padded", functional.linear, (hidden, weight, bias), tmp_path, sizes=((13, 16),))
    assert found["difference"] < 1e-5
    low, point, high = found["ratio"]
    assert 0 < low <= point <= high
    assert found["before_ms"] > 0 < found["after_ms"]


def test_batched_products_are_padded(tmp_path: Path) -> None:
    found = measure("padded", torch.bmm, (drawn(2, 5, 7), drawn(2, 7, 3)), tmp_path, sizes=((7, 8), (3, 8)))
    assert found["difference"] < 1e-5


def test_a_product_may_use_tf32(tmp_path: Path) -> None:
    """The switches are set for each variant; a CPU computes the same."""
    assert measure("tf32", torch.mm, (drawn(8, 8), drawn(8, 8)), tmp_path)["difference"] < 1e-3
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")


def test_a_product_of_fp64_is_one_of_fp32(tmp_path: Path) -> None:
    left, right = (drawn(64, 64, dtype=torch.float64) for _ in range(2))
    assert 0 < measure("single", torch.mm, (left, right), tmp_path)["difference"] < 1e-5


def test_a_convolution_is_in_channels_last_layout(tmp_path: Path) -> None:
    images, weight = drawn(2, 3, 8, 8), drawn(4, 3, 3, 3)

    def program(images: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(images, weight, stride=2, padding=1)

    assert measure("channels_last", program, (images, weight), tmp_path)["difference"] < 1e-5


def test_a_batch_norm_is_in_channels_last_layout(tmp_path: Path) -> None:
    """The operator that chooses the library is measured, in place of that of one library."""
    statistics = torch.zeros(3), torch.ones(3)

    def program(images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.batch_norm(images, *statistics, weight, bias, training=True)

    inputs = drawn(2, 3, 8, 8), drawn(3), drawn(3)
    ((operator,), _) = numbered(recorded(program, inputs, tmp_path))
    assert operator.name == "aten::native_batch_norm"
    made = channels_last(operator)
    assert made is not None
    wanted = replace(made, gradients=gradients((operator,), inputs)[:3])
    found = probe.measure(torch, wanted.written(), "cpu", time.monotonic() + LONG)
    assert found["difference"] < 1e-4
    assert channels_last(RecordedOperator("aten::mm", inputs=operator.inputs)) is None


@pytest.mark.parametrize(("free", "fits"), [(1536, True), (1535, False)])
def test_an_operator_needs_at_most_half_of_the_free_memory(
    free: int,
    fits: bool,  # noqa: FBT001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three matrices of 64 bytes, four times."""
    operators, _ = numbered(recorded(torch.mm, (drawn(4, 4), drawn(4, 4)), tmp_path))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 1 << 30))
    with nullcontext() if fits else pytest.raises(ValueError, match="GB of the GPU's memory are free"):
        probe.check_memory(torch, Alternative("tf32", operators).written(), "cuda")


def by_parts(mask: str, dtype: torch.dtype) -> Callable[..., torch.Tensor]:
    """Return attention that is written by parts."""

    def program(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        if mask == "filled":
            scores = scores.masked_fill(hidden, -1e4)
        elif mask == "chosen":
            scores = torch.where(hidden, scores, torch.finfo(dtype).min)
        elif mask == "added":
            scores = scores + hidden
        return torch.softmax(scores.float(), -1).to(dtype) @ value

    return program


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("mask", "causal"),
    [
        ("", False),
        ("filled", True),
        ("chosen", True),
        ("added", True),
        ("filled", False),
        ("chosen", False),
        ("added", False),
    ],
)
def test_attention_by_parts_is_fused(
    mask: str,
    causal: bool,  # noqa: FBT001
    dtype: torch.dtype,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scale that PyTorch recorded, and a mask that is a triangle or none, give the same.

    Kernels of fused attention need the features of a token side by side.
    """
    fused, steps = functional.scaled_dot_product_attention, set[int]()

    def watched(*parts: torch.Tensor, **options: Any) -> torch.Tensor:  # noqa: ANN401 - as the function
        steps.update(each.stride(-1) for each in parts)
        return fused(*parts, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", watched)
    # Queries and keys with heads beside one another, as a layer makes them: the product takes copies.
    parts = [drawn(2, 6, 3, 4, dtype=dtype).transpose(1, 2) for _ in range(2)]
    parts.append(drawn(2, 3, 6, 4, dtype=dtype))
    hidden = torch.zeros((6, 6) if causal else (2, 1, 1, 6), dtype=dtype if mask == "added" else torch.bool)
    program = by_parts(mask, dtype)
    operators = [each for each in recorded(program, (*parts, hidden), tmp_path) if each.name != "aten::clone"]
    first, last = (at for at, each in enumerate(operators) if each.name == "aten::bmm")
    same, _ = numbered(operators[first : last + 1])
    wanted = tuple(each for one in (same[0], same[-1]) for each in tensors_of(one.inputs))
    made = Alternative("fused", same, wanted, is_causal=causal)
    found = probe.measure(torch, made.written(), "cpu", time.monotonic() + LONG)
    assert (found["difference"] < (0.03 if dtype is torch.bfloat16 else 1e-5), steps) == (True, {1})


def norm(hidden: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """Return a norm by parts, after the residual was added."""
    added = hidden + residual
    return added * torch.rsqrt(added.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def gelu(hidden: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return an activation by parts, with casts."""
    full = (hidden + bias).float()
    return (0.5 * full * (1 + torch.tanh(0.8 * (full + 0.04 * full**3)))).to(hidden.dtype)


def loss(scores: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores.float(), torch.zeros(len(scores), dtype=torch.int64))


def changed_in_place(hidden: torch.Tensor) -> torch.Tensor:
    """Return what operators make that change their own results, through a view."""
    made = hidden * 2
    made.view(-1).add_(1.0)
    return torch.relu_(made).transpose(0, 1).contiguous()


@pytest.mark.parametrize(
    ("program", "shapes", "dtype"),
    [
        (norm, [(4, 6, 8), (8,), (4, 6, 8)], torch.float32),
        (gelu, [(4, 6), (6,)], torch.bfloat16),
        (loss, [(5, 7)], torch.bfloat16),
        (changed_in_place, [(4, 6)], torch.float32),
    ],
)
def test_a_chain_is_compiled(
    program: Callable[..., torch.Tensor], shapes: list[tuple[int, ...]], dtype: torch.dtype, tmp_path: Path
) -> None:
    """The chain as a function gives what the recorded one did, and so does the compiled one."""
    inputs = tuple(drawn(*shape, dtype=dtype) for shape in shapes)
    found = measure("compiled", program, inputs, tmp_path)
    assert found["difference"] < 1e-2


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_a_chain_is_compiled_by_inductor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "COMPILER", "inductor")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    found = measure("compiled", norm, (drawn(4, 6, 8), drawn(8), drawn(4, 6, 8)), tmp_path)
    assert found["difference"] < 1e-5


def test_the_text_computes_what_the_program_did(tmp_path: Path) -> None:
    """On the program's own tensors it gives the program's own result, where no scalar was lost."""

    def program(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(hidden, (8,), weight, None).softmax(-1).transpose(0, 1).contiguous()

    inputs = (drawn(4, 8), drawn(8))
    operators, _ = numbered(recorded(program, inputs, tmp_path))
    text = probe.OperatorText(torch, Alternative("compiled", operators).written(), "cpu")
    (found,) = text.function(*inputs)
    torch.testing.assert_close(found, program(*inputs))


def test_what_cannot_be_measured_has_a_reason(tmp_path: Path) -> None:
    """An operator that this PyTorch lacks; the others are measured all the same, those without a compiler first."""
    operators, _ = numbered(recorded(torch.mm, (drawn(4, 4), drawn(4, 4)), tmp_path))
    good = Alternative("tf32", operators).written()
    bad = Alternative("compiled", (RecordedOperator("aten::not_there", inputs=operators[0].inputs),)).written()
    rows = list(probe.measured(torch, [bad, good], "cpu", time.monotonic() + LONG))
    assert [each["at"] for each in rows] == [1, 0]
    assert "ratio" in rows[0]
    assert rows[1]["reason"] == "aten::not_there takes something else here"
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(("error", "ended"), [(TimeoutError(), False), (RuntimeError("TimeoutError"), True)])
def test_nothing_is_measured_once_the_time_is_over(
    error: Exception,
    ended: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compilers put the end of the time into an error of their own; then the clock shows it."""
    ends = time.monotonic() + (0.0 if ended else LONG)

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(probe, "measure", fails)
    assert list(probe.measured(torch, [{"kind": "tf32"}, {"kind": "padded"}], "cpu", ends)) == []


def test_an_end_of_the_time_interrupts_what_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was measured before is printed, and the program has not failed."""
    wanted = tmp_path / "alternatives.json"
    wanted.write_text("[]")

    def forever(*_: object) -> Iterator[dict[str, int]]:
        yield {"at": 0}
        time.sleep(LONG)

    gpu = SimpleNamespace(get_device_properties=lambda _: SimpleNamespace(name="A GPU"))
    monkeypatch.setattr(probe, "is_busy", lambda: False)
    monkeypatch.setattr(probe, "measured", forever)
    monkeypatch.setattr(torch, "cuda", gpu)
    monkeypatch.setattr(sys, "argv", ["probe", str(wanted), "0.1"])
    printed = io.StringIO()
    monkeypatch.setattr(sys, "stdout", printed)
    handler = signal.getsignal(signal.SIGALRM)
    try:
        assert probe.main(time.monotonic()) == 0
    finally:
        signal.signal(signal.SIGALRM, handler)
    assert [json.loads(line) for line in printed.getvalue().splitlines()] == [{"gpu": "A GPU"}, {"at": 0}]


@pytest.mark.parametrize(
    ("base", "other"),
    [
        (torch.zeros(4, 6), lambda x: x.t()),
        (torch.zeros(4, 6), lambda x: x.view(2, 2, 3, 2).permute(2, 0, 1, 3)),
        (torch.zeros(4, 6).t(), lambda x: x.t().view(24)),
        (torch.zeros(4, 1), lambda x: x.expand(4, 5)),
        (torch.zeros(4, 6), lambda x: x[:, :3]),
    ],
)
def test_views_are_made_again(base: torch.Tensor, other: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """From the description of a tensor and its view, the same sizes and strides."""
    wanted = other(base)
    described = [{"shape": [*each.shape], "strides": [*each.stride()], "storage": 0} for each in (base, wanted)]
    made = eval(f"base{probe.view_of(*described)}")  # noqa: S307 - the text is what is tested
    assert (made.shape, made.stride()) == (wanted.shape, wanted.stride())
