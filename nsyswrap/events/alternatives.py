"""Alternatives of operators, and what was measured of them: `alternatives.json` beside a capture.

An alternative is some operators as the X-ray step shows them, and one change of them. After the program has ended,
:mod:`nsyswrap.capture.alternatives_probe` runs both in turns on the same GPU.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from nsyswrap.base.interval import Interval
from nsyswrap.events.xray_record import (
    Argument,
    RecordedOperator,
    Tensor,
    read_operator,
    read_tensor,
    tensors_of,
    written_argument,
)

SCHEMA = "nsyswrap.alternatives/1"
AlternativeKind = Literal["padded", "fused", "tf32", "single", "channels_last", "compiled"]
# What is done, in words, to follow the operators.
CHANGES: Mapping[AlternativeKind, str] = {
    "padded": "with padded sizes",
    "fused": "as one fused operator",
    "tf32": "in TF32",
    "single": "in FP32",
    "channels_last": "in channels-last layout",
    "compiled": "compiled",
}
# Results of both variants may differ by so much of the largest number: rounding in half precision and TF32. Source:
# 8 bits of bfloat16, and sums of thousands of products.
MOST_DIFFERENCE = 0.05


@dataclass(frozen=True, slots=True)
class Alternative:
    """Some operators of the forward pass, and how they could be computed.

    Attributes:
        operators: The operators in their order; their tensors have numbers of memory of their own, from 0.
        gradients: The tensors that they take whose gradients the backward pass computes.
        outputs: Numbers of the memory of the results that later operators take; empty for those of the last operator.
        sizes: Sizes to pad, each with the better one.
        is_causal: Whether attention has a triangular mask.
        tf32: Whether products of FP32 ran in TF32.
        benchmark: Whether cuDNN tried its algorithms.
    """

    kind: AlternativeKind
    operators: tuple[RecordedOperator, ...]
    gradients: tuple[Tensor, ...] = ()
    outputs: tuple[int, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    is_causal: bool = False
    tf32: bool = False
    benchmark: bool = False

    def written(self, *, texts: bool = True) -> dict[str, Any]:
        """Return it as the file has it; without texts among arguments where these may be private."""
        return {
            "kind": self.kind,
            "operators": [
                {
                    "name": each.name,
                    "inputs": [written_argument(one, texts=texts) for one in each.inputs],
                    "outputs": [written_argument(one) for one in each.outputs],
                }
                for each in self.operators
            ],
            "gradients": [written_argument(each) for each in self.gradients],
            "outputs": list(self.outputs),
            "sizes": {str(size): better for size, better in self.sizes},
            "causal": self.is_causal,
            "tf32": self.tf32,
            "benchmark": self.benchmark,
        }

    @property
    def words(self) -> str:
        """Return the operators and the change in words."""
        names = list(dict.fromkeys(each.name.removeprefix("aten::") for each in self.operators))
        taken = [each for each in self.operators[0].inputs if isinstance(each, Tensor)]
        shapes = ", ".join(" x ".join(f"{size:,}" for size in each.shape) or "scalar" for each in taken)
        return f"{', '.join(names)} of {shapes} {CHANGES[self.kind]}"


@dataclass(frozen=True, slots=True)
class MeasuredAlternative:
    """What was measured of an alternative.

    Attributes:
        before_ms: Time of the operators as they were, forward and backward, in ms.
        after_ms: Time with the change.
        ratio: Share of the time that is left: the lowest of the turns, the median, the highest.
    """

    before_ms: float
    after_ms: float
    ratio: Interval[float]


@dataclass(frozen=True, slots=True)
class MeasuredAlternatives:
    """What an `alternatives.json` holds.

    Attributes:
        reasons: Why others were not.
        failure: Why nothing was measured; empty where something was, or nothing was to measure.
    """

    gpu: str = ""
    found: Mapping[Alternative, MeasuredAlternative] = field(default_factory=dict)
    reasons: Mapping[Alternative, str] = field(default_factory=dict)
    failure: str = ""

    def shared(self) -> dict[str, object]:
        """Return what was measured as the file has it, fit to share: without texts of the program."""
        rows = [
            each.written(texts=False)
            | {"before_ms": of.before_ms, "after_ms": of.after_ms, "difference": 0.0}
            | {"ratio": [of.ratio.low, of.ratio.point, of.ratio.high]}
            for each, of in self.found.items()
        ]
        return {"schema": SCHEMA, "gpu": self.gpu, "alternatives": rows} if rows else {}


NO_ALTERNATIVES = MeasuredAlternatives()


def numbered(operators: Sequence[RecordedOperator]) -> tuple[tuple[RecordedOperator, ...], Mapping[int | None, int]]:
    """Return operators that compare equal where they do the same: without threads, and each tensor with its own number.

    An allocator gives memory that is free to the next tensor. So a result has a new number, except for a view or an
    operator that changes what it takes.
    """
    numbers: dict[int | None, int] = {}
    count = itertools.count()

    def renamed(argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(map(renamed, argument))
        if not isinstance(argument, Tensor):
            return argument
        if argument.storage not in numbers:
            numbers[argument.storage] = next(count)
        return Tensor(argument.shape, argument.strides, argument.dtype, numbers[argument.storage])

    found = []
    for each in operators:
        inputs = tuple(map(renamed, each.inputs))
        kept = {tensor.storage for tensor in tensors_of(each.inputs)}
        for tensor in tensors_of(each.outputs):
            if tensor.storage not in kept:
                numbers.pop(tensor.storage, None)
        found.append(RecordedOperator(each.name, inputs=inputs, outputs=tuple(map(renamed, each.outputs))))
    return tuple(found), numbers


def read_alternatives(found: object) -> MeasuredAlternatives:
    """Return what an `alternatives.json` holds; what cannot be read is left out.

    Args:
        found: What the file holds; None for no file.
    """
    if not isinstance(found, Mapping) or found.get("schema") != SCHEMA:
        return NO_ALTERNATIVES
    rows = list(_rows(found.get("alternatives")))
    return MeasuredAlternatives(
        gpu=str(found.get("gpu") or ""),
        found={each: result for each, result in rows if isinstance(result, MeasuredAlternative)},
        reasons={each: result for each, result in rows if isinstance(result, str)},
        failure=str(found.get("failure") or ""),
    )


def _rows(found: object) -> Iterator[tuple[Alternative, MeasuredAlternative | str]]:
    for each in found if isinstance(found, list) else []:
        try:
            yield _alternative(each), _result(each)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
            continue


def _alternative(found: Mapping[str, Any]) -> Alternative:
    kind = found["kind"]
    operators = tuple(read_operator(each) for each in found["operators"])
    if kind not in CHANGES or not operators:
        raise ValueError(kind)
    return Alternative(
        kind,
        operators,
        tuple(read_tensor(each) for each in found["gradients"]),
        tuple(map(int, found["outputs"])),
        tuple((int(size), int(better)) for size, better in found["sizes"].items()),
        bool(found["causal"]),
        bool(found["tf32"]),
        bool(found["benchmark"]),
    )


def _result(found: Mapping[str, Any]) -> MeasuredAlternative | str:
    if "ratio" not in found:
        return str(found.get("reason") or "the time was over")
    if not found["difference"] <= MOST_DIFFERENCE and not _is_random(found):
        return "the results differ"
    return MeasuredAlternative(
        float(found["before_ms"]), float(found["after_ms"]), Interval(*map(float, found["ratio"]))
    )


def _is_random(found: Mapping[str, Any]) -> bool:
    """Return whether an operator draws random numbers."""
    return any("dropout" in each["name"] or "bernoulli" in each["name"] for each in found["operators"])
