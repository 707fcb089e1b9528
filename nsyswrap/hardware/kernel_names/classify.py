"""What a kernel's name says: tensor cores or not, precision, library and operation.

The rules are data (``rules.RULES``). Here a name is normalised, matched against them, and checked against what the
device can do. A name that matches no rule is unknown, and never counts as not eligible.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from nsyswrap.hardware.kernel_names.library_functions import with_namespace
from nsyswrap.hardware.kernel_names.readers import value_of
from nsyswrap.hardware.kernel_names.rule import KernelRule, Verdict
from nsyswrap.hardware.kernel_names.rules import RULES
from nsyswrap.hardware.kernel_names.user_rules import NameRule

__all__ = ["RULES", "Classification", "KernelRule", "Verdict", "classify", "subject"]

UNMATCHED = "unmatched"
FROM_FILE = "kernel_rules"
# llama.cpp's product of quantised weights has one name for two implementations. Source: ggml-cuda/mmq.cuh.
MMQ = "llama_mmq"

Capability = tuple[int, int]

FIRST_WITH_TENSOR_CORES: Capability = (7, 0)
FIRST_WITH_MMQ: Capability = (7, 5)
# First compute capability whose tensor cores take the type. Source: CUDA C++ Programming Guide, "Compute Capabilities".
FIRST_WITH: Mapping[str, Capability] = {
    "fp16": (7, 0),
    "int8": (7, 2),
    "int4": (7, 5),
    "bf16": (8, 0),
    "tf32": (8, 0),
    "fp8": (8, 9),
    "fp6": (10, 0),
    "fp4": (10, 0),
}
# Only these data-centre GPUs run FP64 products on tensor cores.
WITH_FP64: frozenset[Capability] = frozenset({(8, 0), (9, 0), (10, 0), (10, 3)})

# Names are cut at this length. The part that decides comes much earlier, and the limit bounds the time for one name.
LONGEST = 16_384

# Libraries that programs of any kind use. All others are frameworks, compilers and libraries for neural networks.
GENERAL_LIBRARIES = frozenset({
    *("", "cub", "cublas", "cufft", "cupy", "cusolver", "cusparse", "cutlass", "magma", "xla"),
    *("nccl", "nvshmem", "mscclpp", "gloo", "ucc", "ucx"),
})  # fmt: skip
# Products of matrices, and the layers that consist of them.
PRODUCTS = frozenset({"attention", "conv", "conv_depthwise", "gemm", "gemv", "rnn"})
# Compilers whose kernels are fused already.
COMPILERS = frozenset({"inductor", "triton", "xla", "tensorrt"})
# What a compiler leaves to a kernel of its own, most often a library's. Source: the extern kernels of torch/_inductor.
UNFUSED_OPS = frozenset({
    *("attention", "attention_aux", "comm", "conv", "conv_aux", "conv_depthwise", "fft", "gemm", "gemm_aux", "gemv"),
    *("rnn", "solver", "sort", "sparse", "splitk_reduce"),
})  # fmt: skip

_RETURN_TYPE = re.compile(r"^(?:std::enable_if<.{0,400}?>::type |typename |void |static |__global__ ){1,4}")
_HIDDEN = re.compile(
    r"(?:\(anonymous namespace\)|<unnamed>|\{anonymous\}|_GLOBAL__N_\w{0,120}?_cpp\w{0,80}|_GLOBAL__N_{1,2}\d{0,4})::"
)
_CASTS = re.compile(r"\((?:bool|char|int|long|short|signed|unsigned|size_t|ggml_type| ){1,6}\)(?=-?\d)")
_PART = re.compile(r"L?([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class Classification:
    """The classification of one kernel name.

    Attributes:
        name: The name as given.
        verdict: Tensor cores, matrix work without them, no matrix work, or unknown.
        precision: Type of the operands where the kernel is matrix work and its name shows the type, else empty.
        library: Library of the kernel, or empty.
        op: Operation of the kernel, or empty.
        rule: Key of the rule that matched; ``unmatched`` if none did.
    """

    name: str
    verdict: Verdict
    precision: str
    library: str
    op: str
    rule: str

    @property
    def is_of_network(self) -> bool:
        """Return whether it shows a neural network: a framework's kernel, or a library's product in single precision.

        Solvers compute in double precision, and a program's own product may be anything.
        """
        is_product = self.op in PRODUCTS and self.library != "" and self.precision != "fp64"
        return is_product or self.library not in GENERAL_LIBRARIES

    @property
    def may_be_fused(self) -> bool:
        """Return whether a compiler may make one kernel of this one and the one before it."""
        return self.op not in UNFUSED_OPS and self.library not in COMPILERS


def classify(
    name: str,
    compute_capability: Capability | None = None,
    learned: Sequence[NameRule] = (),
    *,
    tensor_cores: bool = True,
) -> Classification:
    """Return what a kernel's name says.

    Args:
        name: The demangled name from nsys, CUPTI or Nsight Compute. Mangled and short names work too, but match less
            often.
        compute_capability: Of the device the kernel ran on, such as (9, 0): an impossible verdict is corrected. Without
            it, the verdict is that on a device which supports everything in the name.
        learned: Rules from a file. They come before all others, and no device corrects them.
        tensor_cores: Whether the device has tensor cores, as ``tensor_cores.has_tensor_cores`` returns it. Without
            them nothing is eligible.
    """
    text = subject(name) if learned else ""
    known = next((each for each in learned if _matches(each, text)), None)
    if known is not None:
        return Classification(name, known.verdict, known.precision, known.library, known.op, FROM_FILE)
    by_name = _by_rules(name)
    if not tensor_cores:
        return replace(by_name, verdict=Verdict.NOT_ELIGIBLE)
    return by_name if compute_capability is None else _on_device(by_name, compute_capability)


@lru_cache(maxsize=4096)
def _by_rules(name: str) -> Classification:
    """Return what our own rules say about a name; the GPUs and ranks of a job run kernels of the same names."""
    text = subject(name)
    rule = next((each for each in RULES if each.pattern.search(text)), None)
    if rule is None:
        return Classification(name, Verdict.UNKNOWN, "", "", "", UNMATCHED)
    is_matrix = rule.verdict in {Verdict.TENSOR, Verdict.SIMT_ELIGIBLE}
    precision = value_of(rule.precision, text) if is_matrix else ""
    return Classification(
        name, rule.verdict, precision, value_of(rule.library, text), value_of(rule.op, text), rule.key
    )


@lru_cache(maxsize=4096)
def subject(name: str) -> str:
    """Return a name as the rules see it: qualified function, then template arguments and parameters.

    Return types, anonymous namespaces and casts are removed, because each tool writes them differently, and a namespace
    that a tool left out is restored where the function is a known library's. In a mangled name only the function is
    decoded.
    """
    return with_namespace(as_written(name))


def as_written(name: str) -> str:
    """Return a name as ``subject`` does, with the namespaces alone that the tool wrote."""
    text = name[:LONGEST].strip()
    if text.startswith("_Z"):
        at, parts = (3 if text.startswith("_ZN") else 2), []
        while (length := _PART.match(text, at)) is not None:
            at = length.end() + int(length[1])
            parts.append(text[length.end() : at])
        if not parts:
            return text
        return "::".join(part for part in parts if not part.startswith("_GLOBAL__N_")) + "<" + text[at:]
    text = _RETURN_TYPE.sub("", text, count=1)
    return _CASTS.sub("", _HIDDEN.sub("", text))


def _matches(rule: NameRule, text: str) -> bool:
    """Return whether a rule from a file matches this kernel."""
    meant = subject(rule.kernel)
    return text.startswith(meant) if rule.is_prefix else text == meant


def _on_device(found: Classification, capability: Capability) -> Classification:
    """Return the classification, corrected for a device.

    On a device without tensor cores nothing is eligible. Few GPUs have tensor cores for FP64. A product in a type that
    the tensor cores lack runs on CUDA cores, and could use another type.
    """
    verdict, precision = found.verdict, found.precision
    if found.rule == MMQ and capability < FIRST_WITH_MMQ:
        verdict = Verdict.SIMT_ELIGIBLE
    is_matrix = verdict in {Verdict.TENSOR, Verdict.SIMT_ELIGIBLE}
    if capability < FIRST_WITH_TENSOR_CORES or (is_matrix and precision == "fp64" and capability not in WITH_FP64):
        verdict = Verdict.NOT_ELIGIBLE
    elif verdict is Verdict.TENSOR and capability < FIRST_WITH.get(precision, FIRST_WITH_TENSOR_CORES):
        verdict = Verdict.SIMT_ELIGIBLE
    return replace(found, verdict=verdict)
