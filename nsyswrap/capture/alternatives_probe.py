"""The program that measures alternatives: some operators as the program ran them, and as they could be.

The program's own Python runs it, as it runs :mod:`nsyswrap.capture.product_rates_probe`. It reads a file of
alternatives, and prints a line of JSON for each: its times, or why it has none.

Both variants compute the same on tensors of the recorded shapes, strides and types, forward and backward, in turns. The
GPU first waits while the CPU launches a turn, so that the CPU does not count::

    queue    |wait|event|before before before|event|   |wait|event|after after after|event|   |wait|event|before ...
"""

import faulthandler
import json
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from nsyswrap.capture.product_rates_probe import is_busy

Described = Mapping[str, Any]
"""A tensor: ``shape``, ``strides``, ``dtype`` and ``storage``, as `xray.json` has it."""
Tensor = Any

# The turns of each variant; how long one lasts, in s; and how often it runs in one.
TURNS, FEWEST_TURNS, TURN_S, MOST_REPEATS = 9, 3, 0.01, 50
# The queue holds 1,024 launches, of some microseconds each. So long may the CPU launch a turn, in s.
LAUNCHED_S = 0.004
# The highest clock of a GPU, in Hz: the wait is at least as long as it should be. Source: NVIDIA's data sheets.
CLOCK_HZ = 2.0e9
# An alternative may need this share of the memory that is free. So many times as much as its tensors have: both
# variants, and gradients. Source: ours.
MEMORY_SHARE, COPIES = 0.5, 4
COMPILER = "inductor"
# How much later than its end the time is over, so that the clock shows it, in s; and for what Python cannot interrupt.
LATER_S, MUCH_LATER_S = 0.05, 1.0
# Those that overwrite what they take first.
OVERWRITES = ("copy_", "fill_", "zero_", "bernoulli_", "normal_", "uniform_", "exponential_")
# Numbers in place of those that were not recorded: scalars that PyTorch turned into tensors.
NUMBER, FAR_BELOW = 0.5, -1e4
# By the numbers that PyTorch gives to types and layouts. Source: c10/core/ScalarType.h and MemoryFormat.h.
TYPES = (
    *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64"),
    *("complex128", "bool", "qint8", "quint8", "qint32", "bfloat16"),
)
LAYOUTS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
IMAGES = 4
MATRIX = 2


class Variant(NamedTuple):
    """One way to compute the operators.

    Attributes:
        function: Computes the outputs from ``inputs``.
        tf32: Whether products of FP32 may use TF32.
        cut: Returns a result in the shape that the program has.
    """

    function: Callable[..., Sequence[Tensor]]
    inputs: list[Tensor]
    gradients: list[Tensor]
    tf32: bool
    cut: Callable[[Tensor, Tensor], Tensor]

    def run(self, torch: Any) -> list[Tensor]:  # noqa: ANN401 - a module without types
        """Return the outputs, and the gradients of the inputs that need one."""
        outputs = list(self.function(*self.inputs))
        wanted = [each for each in self.inputs if each.requires_grad]
        if not wanted:
            return outputs
        known = [at for at, each in enumerate(outputs) if each.requires_grad]
        gradients = [self.gradients[at] for at in known]
        found = torch.autograd.grad([outputs[at] for at in known], wanted, gradients, allow_unused=True)
        return [*outputs, *found]


class OperatorText:
    """A function that runs recorded operators in their order, as text that a compiler can read.

    Raises:
        LookupError: An operator is not known here, or takes something else.
    """

    def __init__(self, torch: Any, alternative: Mapping[str, Any], device: str) -> None:  # noqa: ANN401 - no types
        self._torch, self._device = torch, device
        self.inputs: list[Described] = []
        self._made: dict[int, tuple[str, Described]] = {}
        self._lines: list[str] = []
        self._names: dict[str, object] = {"torch": torch}
        for operator in alternative["operators"]:
            self._add(operator)
        taken = {each["storage"] for one in alternative["operators"] for each in tensors_in(one["inputs"])}
        results = (next(tensors_in(one["outputs"]), None) for one in alternative["operators"])
        ends = [each["storage"] for each in results if each is not None and each["storage"] not in taken]
        used = [self._made[each] for each in dict.fromkeys([*alternative["outputs"], *ends]) if each in self._made]
        arguments = ", ".join(f"a{at}" for at in range(len(self.inputs)))
        self._lines.append(f"return ({' '.join(f'{name},' for name, _ in used)})")
        exec(f"def text({arguments}):\n    " + "\n    ".join(self._lines), self._names)  # noqa: S102 - text of ours
        self.function: Any = self._names["text"]

    def _add(self, operator: Mapping[str, Any]) -> None:
        name = operator["name"].removeprefix("aten::")
        taken: list[Any] = [infinite(each) for each in operator["inputs"]]
        if name in {"masked_fill", "masked_fill_"} and taken[2] is None:
            taken[2] = FAR_BELOW
        changes, target = name.endswith("_") and not name.endswith("__"), None
        if changes and taken[0]["storage"] not in self._made:
            if name in OVERWRITES:
                target = f"v{len(self._lines)}"
                self._lines.append(f"{target} = {self._empty(taken[0])}")
            else:
                name, changes = name[:-1], False  # it must not change what the next turn takes
        chosen, arguments = self._overload(name, taken)
        words = []
        for at, (argument, value) in enumerate(zip(arguments, taken, strict=True)):
            if argument.name in {"device", "layout", "pin_memory", "generator"}:
                continue
            if value is None and argument.has_default_value():
                continue
            word = target if target and not at else self._word(value, argument.name, name)
            words.append(f"{argument.name}={word}" if argument.kwarg_only else word)
        called, result = f"o{len(self._names)}", f"v{len(self._lines)}"
        self._names[called] = chosen
        self._lines.append(f"{result} = {called}({', '.join(words)})")
        if changes:
            first = taken[0]
            if target or describes(self._made[first["storage"]][1], first):
                self._made[first["storage"]] = result, first
            return
        outputs = operator["outputs"]
        self._bind(outputs[0] if len(outputs) == 1 else outputs, result)

    def _bind(self, made: object, name: str) -> None:
        """Remember under which name a result is."""
        if isinstance(made, Mapping):
            self._made[made["storage"]] = name, made
        elif isinstance(made, Sequence) and not isinstance(made, str):
            for at, each in enumerate(made):
                self._bind(each, f"{name}[{at}]")

    def _empty(self, tensor: Described) -> str:
        sizes = f"{tuple(tensor['shape'])}, {strides_of(tensor)}"
        return f"torch.empty_strided({sizes}, dtype=torch.{tensor['dtype']}, device={self._device!r})"

    def _word(self, value: object, argument: str, operator: str) -> str:
        if isinstance(value, Mapping):
            return self._tensor(value, operator)
        if isinstance(value, Sequence) and not isinstance(value, str):
            return f"[{', '.join(self._word(each, argument, operator) for each in value)}]"
        if argument == "dtype" and isinstance(value, int):
            return f"torch.{TYPES[value]}"
        if argument == "memory_format" and isinstance(value, int):
            return f"torch.{LAYOUTS[value]}"
        name = f"c{len(self._names)}"
        self._names[name] = value  # infinity has no text
        return name if isinstance(value, float) else repr(value)

    def _tensor(self, tensor: Described, operator: str) -> str:
        if tensor["storage"] in self._made:
            name, base = self._made[tensor["storage"]]
            return f"{name}{view_of(base, tensor)}"
        if not tensor["shape"] and is_number(tensor):
            return self._number(tensor, operator)
        at = next((at for at, each in enumerate(self.inputs) if describes(each, tensor)), len(self.inputs))
        if at == len(self.inputs):
            self.inputs.append(tensor)
        return f"a{at}"

    def _number(self, tensor: Described, operator: str) -> str:
        if operator != "where":
            return repr(NUMBER if is_float(tensor) else 1)
        name = f"c{len(self._names)}"  # it takes no numbers
        dtype = getattr(self._torch, tensor["dtype"])
        self._names[name] = self._torch.full((), FAR_BELOW, dtype=dtype, device=self._device)
        return name

    def _overload(self, name: str, taken: Sequence[object]) -> tuple[object, Sequence[Any]]:
        """Return the overload of an operator that takes these arguments, and what it calls them."""
        packet = getattr(self._torch.ops.aten, name, None)
        for each in packet.overloads() if packet is not None else ():
            arguments = getattr(packet, each)._schema.arguments  # noqa: SLF001 - the only way to know them
            if len(arguments) == len(taken) and all(map(fits, arguments, taken)):
                return getattr(packet, each), arguments
        raise LookupError(f"aten::{name} takes something else here")


def infinite(value: object) -> object:
    """Return infinity for its text, as PyTorch records it; other arguments unchanged."""
    return float(value) if isinstance(value, str) and value.lstrip("-") == "inf" else value


def fits(argument: Any, value: object) -> bool:  # noqa: ANN401 - an argument of a schema
    """Return whether an argument of a schema may have a value."""
    kind = str(argument.type)
    if value is None:
        return kind.startswith("Optional") or bool(argument.has_default_value())
    if isinstance(value, Mapping):
        return "Tensor" in kind and "List" not in kind
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "List" in kind and ("Tensor" in kind) == any(map(is_tensor, value))
    return "Tensor" not in kind and "List" not in kind


def is_tensor(value: object) -> bool:
    """Return whether a recorded argument is a tensor."""
    return isinstance(value, Mapping)


def is_float(tensor: Described) -> bool:
    """Return whether a tensor may have a gradient."""
    return bool(tensor["dtype"].startswith(("float", "bfloat")))


def is_number(tensor: Described) -> bool:
    """Return whether a tensor has a number, and no truth."""
    return bool(tensor["dtype"] != "bool")


def tensors_in(arguments: object) -> Iterator[Described]:
    """Yield the tensors among arguments, those in lists included."""
    if isinstance(arguments, Mapping):
        yield arguments
    elif isinstance(arguments, Sequence) and not isinstance(arguments, str):
        for each in arguments:
            yield from tensors_in(each)


def describes(one: Described, other: Described) -> bool:
    """Return whether two descriptions are of the same part of the same memory."""
    same = one["storage"] == other["storage"] and list(one["shape"]) == list(other["shape"])
    return same and strides_of(one) == strides_of(other)


def strides_of(tensor: Described) -> tuple[int, ...]:
    """Return the strides of a tensor in elements; those of a dense one where none were recorded."""
    if tensor["strides"] is not None:
        return tuple(tensor["strides"])
    return dense(tensor["shape"], range(len(tensor["shape"])))


def dense(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Return strides without gaps.

    The order has the dimension with the largest stride first.
    """
    strides, apart = [0] * len(shape), 1
    for at in reversed(order):
        strides[at], apart = apart, apart * max(shape[at], 1)
    return tuple(strides)


def order_of(tensor: Described) -> list[int]:
    """Return the dimensions of a tensor, the one with the largest stride first."""
    strides = strides_of(tensor)
    return sorted(range(len(strides)), key=lambda at: (-strides[at], at))


def view_of(base: Described, tensor: Described) -> str:
    """Return the text that makes a view of a tensor from another one of its memory."""
    if list(base["shape"]) == list(tensor["shape"]) and strides_of(base) == strides_of(tensor):
        return ""
    shape, strides = tuple(tensor["shape"]), strides_of(tensor)
    kept = [size if step else 1 for size, step in zip(shape, strides, strict=True)]
    one = {"shape": kept, "strides": strides, "storage": 0}
    order, outer = order_of(base), order_of(one)
    whole = math.prod(kept) == math.prod(base["shape"])
    is_dense = strides_of(base) == dense(base["shape"], order)
    if not (
        whole and is_dense and all(a == b or s == 1 for a, b, s in zip(strides, dense(kept, outer), kept, strict=True))
    ):
        return f".as_strided({shape}, {strides})"
    back = tuple(outer.index(at) for at in range(len(outer)))
    text = f".permute({tuple(order)}).view({tuple(kept[at] for at in outer)}).permute({back})"
    return text if tuple(kept) == shape else f"{text}.expand({shape})"


def tensor_of(torch: Any, tensor: Described, device: str, *, positive: bool = False) -> Tensor:  # noqa: ANN401
    """Return a tensor with these sizes and strides, and with numbers that suit its type."""
    shape, strides = list(tensor["shape"]), strides_of(tensor)
    kept = [size if step else 1 for size, step in zip(shape, strides, strict=True)]
    made = torch.empty_strided(kept, strides, dtype=getattr(torch, tensor["dtype"]), device=device)
    if not is_float(tensor):
        made.zero_()
    elif positive:
        made.uniform_(0.5, 1.5)  # roots and logarithms take it
    else:
        made.normal_()
    return made.expand(shape) if kept != shape else made


def with_gradient(tensors: Sequence[Tensor], wanted: Sequence[bool]) -> list[Tensor]:
    """Return tensors; those that are wanted have gradients."""
    return [each.detach().requires_grad_() if want else each for each, want in zip(tensors, wanted, strict=True)]


def variants_of(torch: Any, alternative: Mapping[str, Any], device: str) -> tuple[Variant, Variant]:  # noqa: ANN401
    """Return the operators as they were and as they could be.

    Raises:
        LookupError, RuntimeError, TypeError, ValueError: They cannot be run here.
    """
    kind, text = alternative["kind"], OperatorText(torch, alternative, device)
    positive = kind == "compiled"
    wanted = [any(describes(each, one) for one in alternative["gradients"]) for each in text.inputs]
    tensors = [tensor_of(torch, each, device, positive=positive) for each in text.inputs]
    attention = AttentionParts(torch, alternative, text) if kind == "fused" else None
    if attention is not None:
        attention.fill(tensors)
    inputs, tf32 = with_gradient(tensors, wanted), bool(alternative["tf32"])
    with torch.no_grad():
        outputs = text.function(*inputs)
    gradients = [torch.randn_like(each) if each.is_floating_point() else each for each in outputs]
    before = Variant(text.function, inputs, gradients, tf32, lambda found, _: found)
    if kind == "tf32":
        return before._replace(tf32=False), before._replace(tf32=True)
    if kind == "compiled":
        torch._dynamo.reset()  # noqa: SLF001 - each alternative has a cache of its own
        return before, before._replace(function=torch.compile(text.function, backend=COMPILER, dynamic=False))
    if attention is not None:
        return before, before._replace(function=attention.fused)
    changed: Callable[[Tensor], Tensor]
    if kind == "channels_last":

        def changed(each: Tensor) -> Tensor:
            return each.detach().to(memory_format=torch.channels_last) if each.dim() == IMAGES else each

    elif kind == "single":

        def changed(each: Tensor) -> Tensor:
            return each.detach().float() if each.dtype == torch.float64 else each

    else:
        sizes = {int(size): better for size, better in alternative["sizes"].items()}

        def changed(each: Tensor) -> Tensor:
            shape = [sizes.get(size, size) for size in each.shape]
            order = sorted(range(each.dim()), key=lambda at: (-each.stride(at), at))
            made = torch.empty_strided(shape, dense(shape, order), dtype=each.dtype, device=each.device).zero_()
            made[tuple(map(slice, each.shape))] = each.detach()
            return made

    after = with_gradient([changed(each) for each in inputs], wanted)
    return before, Variant(
        text.function,
        after,
        [changed(each) for each in gradients],
        tf32,
        lambda found, like: found[tuple(map(slice, like.shape))],
    )


class AttentionParts:
    """Attention by parts, and the fused operator for it."""

    def __init__(self, torch: Any, alternative: Mapping[str, Any], text: OperatorText) -> None:  # noqa: ANN401
        self._torch, self._text, self._causal = torch, text, bool(alternative["causal"])
        first, last = (alternative["operators"][at] for at in (0, -1))
        softmax = next(each for each in alternative["operators"] if "softmax" in each["name"])
        self._heads = tuple(softmax["inputs"][0]["shape"][:-2])
        self._scale, self._dropout, self._masks = 1.0, 0.0, list[tuple[str, int, bool]]()
        factors = list(tensors_in(first["inputs"]))[-2:]
        self._at = [self._place(each) for each in (*factors, list(tensors_in(last["inputs"]))[-1])]
        self._width = factors[0]["shape"][-1]
        if "baddbmm" in first["name"]:
            self._scale *= first["inputs"][4]
        for each in alternative["operators"][1:-1]:
            self._read(each["name"].removeprefix("aten::").removesuffix("_"), each["inputs"])

    def _place(self, tensor: Described) -> int:
        found = (at for at, each in enumerate(self._text.inputs) if describes(each, tensor))
        return next(found)

    def _read(self, name: str, taken: Sequence[Any]) -> None:
        """Take the scale, the mask and the dropout from an operator between the products."""
        number: Any = taken[1] if len(taken) > 1 else None
        if is_tensor(number):
            number = None if number["shape"] else NUMBER
        if name in {"mul", "div"} and isinstance(number, int | float):
            self._scale *= number if name == "mul" else 1 / number
        elif name == "native_dropout":
            self._dropout = taken[1]
        elif name in {"add", "masked_fill", "where"}:
            inputs = self._text.inputs
            of = [at for at, each in enumerate(inputs) for tensor in tensors_in(taken) if describes(each, tensor)]
            kept = name == "where" and is_tensor(taken[1]) and bool(taken[1]["shape"])
            self._masks += [(name, at, kept) for at in of if at not in self._at]

    def fill(self, tensors: list[Tensor]) -> None:
        """Let masks hold what they hold in a program, the others mask nothing, and scores have their usual size.

        The number that scales scores is not always recorded. Of large scores a softmax shows little but the rounding.
        """
        queries = tensors[self._at[0]]
        if 0 not in queries.stride():
            queries.div_(self._scale * math.sqrt(self._width))
        for name, at, kept in self._masks:
            mask = tensors[at]
            if name == "add":
                below = self._torch.full_like(mask, FAR_BELOW if self._causal else 0.0)
                mask.copy_(self._torch.triu(below, 1) if self._causal else below)
                continue
            ones = self._torch.ones_like(mask)
            if name == "where" and kept:
                mask.copy_(self._torch.tril(ones) if self._causal else ones)
            else:
                mask.copy_(self._torch.triu(ones, 1) if self._causal else self._torch.zeros_like(mask))

    def fused(self, *inputs: Tensor) -> tuple[Tensor]:
        """Return what attention gives, by the operator that computes it at once."""
        query, key, value = (inputs[at] for at in self._at)
        # Products take keys that were copied transposed. Fused kernels need features side by side, as they were before.
        rows = (query, key.transpose(-1, -2).contiguous(), value)
        shaped = [each.view(*self._heads, *each.shape[-2:]) for each in rows]
        mask = None
        if self._masks and not self._causal:
            name, at, kept = self._masks[0]
            mask = inputs[at].to(query.dtype) if name == "add" else inputs[at] if kept else ~inputs[at]
        found = self._torch.nn.functional.scaled_dot_product_attention(
            *shaped, attn_mask=mask, dropout_p=self._dropout, is_causal=self._causal, scale=self._scale
        )
        return (found.reshape(*query.shape[:-1], value.shape[-1]),)


class VariantClock:
    """Times turns of a variant on a device."""

    def __init__(self, torch: Any, device: str) -> None:  # noqa: ANN401 - a module without types
        self._torch, self._gpu = torch, device != "cpu"

    def prepare(self, variant: Variant) -> None:
        """Let products use TF32 or not, as the variant says."""
        self._torch.set_float32_matmul_precision("high" if variant.tf32 else "highest")
        self._torch.backends.cudnn.allow_tf32 = variant.tf32

    def finished(self) -> None:
        """Wait for the device."""
        if self._gpu:
            self._torch.cuda.synchronize()

    def seconds(self, variant: Variant, repeats: int, launched_s: float) -> float:
        """Return how long a run of a variant takes on the device, in s.

        The CPU launches one run in ``launched_s``.
        """
        self.prepare(variant)
        if not self._gpu:
            began = time.perf_counter()
            for _ in range(repeats):
                variant.run(self._torch)
            return (time.perf_counter() - began) / repeats
        cuda = self._torch.cuda
        start, end = (cuda.Event(enable_timing=True) for _ in range(2))
        cuda._sleep(int(2 * launched_s * repeats * CLOCK_HZ))  # noqa: SLF001 - PyTorch's own tests use it
        start.record()
        for _ in range(repeats):
            variant.run(self._torch)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / repeats

    def launching(self, variant: Variant) -> tuple[float, float]:
        """Return how long the CPU launches a run, and how long it takes as a whole, in s."""
        self.prepare(variant)
        self.finished()
        began = time.perf_counter()
        variant.run(self._torch)
        launched = time.perf_counter() - began
        self.finished()
        return launched, time.perf_counter() - began


def measure(torch: Any, alternative: Mapping[str, Any], device: str, ends: float) -> dict[str, Any]:  # noqa: ANN401
    """Return the times of an alternative, in ms, and the share of its time that it takes when it is changed.

    No turn begins after ``ends``, by ``time.monotonic``.

    Raises:
        LookupError, RuntimeError, TypeError, ValueError: It cannot be measured here.
    """
    check_memory(torch, alternative, device)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = bool(alternative["benchmark"])
    both, clock = variants_of(torch, alternative, device), VariantClock(torch, device)
    found = []
    for each in both:
        clock.prepare(each)
        found.append(each.run(torch))  # libraries choose kernels, compilers compile
    difference = compared(torch, found, both[1].cut)
    del found
    launched, whole = (max(each) for each in zip(*(clock.launching(each) for each in both), strict=True))
    repeats = max(min(int(TURN_S / whole), int(LAUNCHED_S / launched), MOST_REPEATS), 1)
    times: list[tuple[float, float]] = []
    while len(times) < FEWEST_TURNS or (len(times) < TURNS and time.monotonic() < ends):
        before, after = (clock.seconds(each, repeats, launched) for each in both)
        times.append((before, after))
    ratios = sorted(after / before for before, after in times)
    return {
        "before_ms": statistics.median(before for before, _ in times) * 1e3,
        "after_ms": statistics.median(after for _, after in times) * 1e3,
        "ratio": [ratios[0], statistics.median(ratios), ratios[-1]],
        "difference": difference,
    }


def compared(torch: Any, found: Sequence[Sequence[Tensor]], cut: Callable[[Tensor, Tensor], Tensor]) -> float:  # noqa: ANN401
    """Return how far the results of both variants are apart at most, as a share of the largest number."""
    worst = 0.0
    for one, other in zip(*found, strict=True):
        if one is None or other is None or not one.is_floating_point() or not one.numel():
            continue
        mine, theirs = one.detach().float(), cut(other.detach(), one).float()
        largest = float(torch.nan_to_num(mine).abs().max()) or 1.0
        worst = max(worst, float(torch.nan_to_num(mine - theirs).abs().max()) / largest)
    return worst


def check_memory(torch: Any, alternative: Mapping[str, Any], device: str) -> None:  # noqa: ANN401
    """Check that an alternative fits into a share of the free memory.

    Raises:
        ValueError: It does not.
    """
    if device == "cpu":
        return
    tensors = [
        each
        for operator in alternative["operators"]
        for each in tensors_in([operator[name] for name in ("inputs", "outputs")])
    ]
    sizes = {
        (each["storage"], tuple(each["shape"])): math.prod(each["shape"]) * item_bytes(torch, each) for each in tensors
    }
    needed, free = COPIES * sum(sizes.values()), torch.cuda.mem_get_info()[0]
    if needed > MEMORY_SHARE * free:
        raise ValueError(f"it needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of the GPU's memory are free")


def item_bytes(torch: Any, tensor: Described) -> int:  # noqa: ANN401
    """Return the bytes of an element."""
    return int(getattr(torch, tensor["dtype"]).itemsize)


def measured(
    torch: Any,  # noqa: ANN401 - a module without types
    alternatives: Sequence[Mapping[str, Any]],
    device: str,
    ends: float,
) -> Iterator[dict[str, Any]]:
    """Yield what was measured of each alternative, or a ``reason``, those first that need no compiler."""
    order = sorted(range(len(alternatives)), key=lambda at: alternatives[at]["kind"] == "compiled")
    for done, at in enumerate(order):
        left = (ends - time.monotonic()) / (len(order) - done)
        try:
            yield {"at": at, **measure(torch, alternatives[at], device, time.monotonic() + left)}
        except Exception as error:  # noqa: BLE001 - compilers raise all kinds, and put the end of the time into their own
            if isinstance(error, TimeoutError) or time.monotonic() >= ends:
                return
            yield {"at": at, "reason": (str(error).strip().splitlines() or [type(error).__name__])[0]}
        if device != "cpu":
            torch.cuda.empty_cache()


def over(_number: int, _frame: FrameType | None) -> None:
    """End what runs: the time is over."""
    raise TimeoutError


def main(began: float) -> int:
    """Measure the alternatives of the file that is named first, for as many seconds as are named second.

    ``began`` is when the program began, by ``time.monotonic``.

    Returns:
        1 where nothing can be measured, with the reason.
    """
    path, seconds = Path(sys.argv[1]), float(sys.argv[2])
    signal.signal(signal.SIGALRM, over)
    ends = began + seconds
    signal.setitimer(signal.ITIMER_REAL, max(ends - time.monotonic(), 0.0) + LATER_S)
    try:
        if is_busy():
            sys.stderr.write("other processes use the GPU\n")
            return 1
        import torch  # noqa: PLC0415 - it takes seconds, and may be missing

        gpu = torch.cuda.get_device_properties(0)
        sys.stdout.write(json.dumps({"gpu": gpu.name}) + "\n")
        sys.stdout.flush()
        for each in measured(torch, json.loads(path.read_text(encoding="utf-8")), "cuda", ends):
            sys.stdout.write(json.dumps(each) + "\n")
            sys.stdout.flush()
    except TimeoutError:
        return 0
    except (ImportError, OSError, AssertionError, AttributeError, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    # An alarm waits for compilers that Python cannot interrupt; this does not. What was printed so far counts.
    faulthandler.dump_traceback_later(float(sys.argv[2]) + MUCH_LATER_S, exit=True)
    code = main(time.monotonic())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the end of libraries and compilers takes time, and the alarm would kill the process in it
