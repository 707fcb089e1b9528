"""Calls of operators as PyTorch makes them: models, fused attention, and what PyTorch itself counts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from nsyswrap.events.xray_record import Argument, RecordedOperator, Tensor
from nsyswrap.operators.work import products_of


def argument(value: Any) -> Argument:  # noqa: ANN401 - whatever an operator takes
    """Return an argument as `xray.json` has it."""
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        storage = None if value.is_meta else value.untyped_storage().data_ptr()
        return Tensor(tuple(value.shape), tuple(value.stride()), dtype, storage)
    if isinstance(value, list | tuple):
        return tuple(argument(each) for each in value)
    return value if isinstance(value, int | float | str) else None


def recorded(function: object, args: Sequence[Any], result: object) -> RecordedOperator:
    outputs = result if isinstance(result, tuple) else (result,)
    name = str(function).removeprefix("aten.").partition(".")[0]
    return RecordedOperator(f"aten::{name}", inputs=tuple(map(argument, args)), outputs=tuple(map(argument, outputs)))


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch has no types for it
    """Records each call of an operator."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[RecordedOperator] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        result = func(*args, **(kwargs or {}))
        self.calls.append(recorded(func, args, result))
        return result


def counted(run: Callable[[], Any]) -> tuple[int, int]:
    """Return the operations of the products of a program: ours, and those of PyTorch's counter."""
    with Recorder() as recorder:
        run()
    with FlopCounterMode(display=False) as counter:
        run()
    found = (products_of(each) for each in recorder.calls)
    return sum(each.operations for each in found if each), counter.get_total_flops()


def models() -> Iterator[tuple[str, nn.Module, torch.Tensor]]:
    yield "linear", nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), torch.rand(3, 5, 8)
    yield "convolutions", nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.Conv2d(4, 6, 1)), torch.rand(2, 3, 9, 8)
    yield "one dimension", nn.Conv1d(3, 4, 3, padding=1), torch.rand(2, 3, 9)
    yield "transposed", nn.ConvTranspose2d(3, 4, 3, stride=2), torch.rand(2, 3, 5, 6)
    yield "attention", nn.MultiheadAttention(8, 2, batch_first=True), torch.rand(2, 5, 8)


def attention_calls() -> list[tuple[str, list[Any], tuple[torch.Tensor, ...]]]:
    """Return calls of fused attention that PyTorch's counter knows, forward and backward, with their results."""
    query, key = (torch.empty(2, 3, size, 8, device="meta") for size in (7, 11))
    value = torch.empty(2, 3, 11, 16, device="meta")
    passed = [query, query, key, key]
    gradients = (query, key, key)
    return [
        ("_flash_attention", [query, key, key, 0.0, False, False], (query,)),
        ("_efficient_attention", [query, key, value, None, True, 0.0, False], (query,)),
        ("_cudnn_attention", [query, key, key, None, True, 0.0, True], (query,)),
        ("_flash_attention_backward", [*passed, query, query, None, None, 7, 11, 0.0, True], gradients),
        ("_efficient_attention_backward", [*passed, None, query, query, None, None, 0.0, [True], False], gradients),
    ]


def grouped_convolution() -> list[RecordedOperator]:
    """Return the calls of a convolution with 4 groups, forward and backward."""
    convolution, inputs = nn.Conv2d(8, 8, 3, groups=4), torch.rand(2, 8, 6, 6, requires_grad=True)
    with Recorder() as recorder:
        convolution(inputs).sum().backward()
    return list(recorder.calls)


def convolution_for_each_group() -> int:
    """Return the operations, by PyTorch's counter, of that convolution as one for each group."""
    inputs = torch.rand(2, 8, 6, 6, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        torch.cat([nn.Conv2d(2, 2, 3)(part) for part in inputs.chunk(4, 1)], 1).sum().backward()
    return int(counter.get_total_flops())


def recurrent(*sizes: int, layers: int, directions: int) -> tuple[list[tuple[int, ...]], int]:
    """Return the shapes of the parameters of an LSTM, and the operations of its forward pass by PyTorch's counter.

    Args:
        sizes: Length, batch, and sizes of input and state.
        layers: Number of layers.
        directions: 1, or 2 for both.
    """
    length, batch, size, state = sizes
    network = nn.LSTM(size, state, layers, bidirectional=directions > 1).double()  # so not one call of oneDNN
    with FlopCounterMode(display=False) as counter:
        network(torch.rand(length, batch, size).double())
    return [tuple(each.shape) for each in network.parameters()], int(counter.get_total_flops())


def of_model(model: nn.Module, inputs: torch.Tensor) -> tuple[int, int]:
    """Return the operations of a forward and a backward pass: ours, and those of PyTorch's counter."""

    def step() -> None:
        batch = inputs.clone().requires_grad_()
        out = model(batch, batch, batch) if isinstance(model, nn.MultiheadAttention) else model(batch)
        (out if isinstance(out, torch.Tensor) else out[0]).sum().backward()

    return counted(step)


def of_attention(name: str, args: list[Any], result: tuple[torch.Tensor, ...]) -> tuple[int, int]:
    """Return the operations of a call of fused attention: ours, and those that PyTorch counts for it."""
    function = getattr(torch.ops.aten, f"_scaled_dot_product{name}")
    products = products_of(recorded(function, args, result))
    return products.operations if products else 0, flop_registry[function](*args, out_val=result)
