"""The type of a rule over kernel names, and the parts that patterns share."""

import re
from dataclasses import dataclass
from enum import StrEnum

# A pattern is searched once in a name. One that begins with HEAD sees only the qualified name of the function, which
# comes before template arguments and parameters. Heads are short: the bound keeps hostile names cheap.
HEAD = r"^[^<(]{0,400}?"
# A head without the words of a matrix product: the kernel may then be named after its library.
NO_MATRIX = r"(?![^<(]{0,400}?(?:gemm|GEMM|Gemm|gemv|matmul|MatMul|mul_mat|_mm(?![a-z])|attn|[Aa]ttention))"
# Namespaces of libraries whose kernels are known. A word in a name proves nothing alone: any program may use it.
NAMESPACES = (
    r"(?:at|at_cuda_detail|c10d?|torch|cudnn\w{0,30}|cask\w{0,30}|xmma\w{0,30}|cublas(?:Lt)?|cutlass\w{0,30}|vllm"
    r"|flashinfer|tensorrt_llm|trtllm\w{0,20}|sglang|sgl_kernel|moe::dev|lmdeploy|turbomind|transformer_engine"
    r"|fbgemm_gpu|apex|deep_gemm|deep_ep|marlin\w{0,20}|gptq_marlin\w{0,20}|flash|pytorch_flash|onnxruntime|tensorflow"
    r"|genericReformat|torchao|fastertransformer|faster_transformer|mscclpp|nvshmem\w{0,20})"
)
# A function of such a library, and one that may also stand without its namespace, as Nsight Compute writes it.
KNOWN_LIBRARY = rf"^{NAMESPACES}::(?:\w{{1,60}}::){{0,6}}"
KNOWN_FUNCTION = rf"^(?:{NAMESPACES}::(?:\w{{1,60}}::){{0,6}})?"


class Verdict(StrEnum):
    """What a kernel's name says about tensor cores."""

    TENSOR = "tensor"
    """It runs on tensor cores."""
    SIMT_ELIGIBLE = "simt_eligible"
    """It is matrix work that runs on CUDA cores and could run on tensor cores."""
    NOT_ELIGIBLE = "not_eligible"
    """It is not matrix work."""
    UNKNOWN = "unknown"
    """The name does not say."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern over kernel names and its verdict.

    Attributes:
        key: Unique name of the rule.
        pattern: Searched in a name as ``classify.subject`` returns it. The first rule that matches decides.
        verdict: The verdict.
        precision: Type of the operands of the product, such as ``fp16``; ``@reader``, a key of ``readers.READERS``, if
            the name shows it; empty if the kernel is no product or the name does not show it.
        library: Library of the kernel; ``@reader`` likewise.
        op: Operation of the kernel, such as ``gemm``; ``@reader`` likewise.
        examples: Names of real kernels that this rule is the first to match.
        source: Where the examples and the evidence for the verdict come from.
    """

    key: str
    pattern: re.Pattern[str]
    verdict: Verdict
    precision: str
    library: str
    op: str
    examples: tuple[str, ...]
    source: str
