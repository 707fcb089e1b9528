"""What a rule over kernel names is, and how patterns look at a name."""

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
    """It is matrix work that tensor cores could do, and runs on CUDA cores."""
    NOT_ELIGIBLE = "not_eligible"
    """It is no matrix work."""
    UNKNOWN = "unknown"
    """The name does not say."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern over kernel names and what it says.

    Attributes:
        key: The rule's own name, unique among the rules.
        pattern: Searched in a name as ``kernel_names.subject`` spells it; the first rule that is found decides.
        verdict: What it says.
        precision: Type of the operands of the product, such as ``fp16``; ``@reader`` if the name tells it, a key of
            ``kernel_values.READERS``; empty if it is no product, or the name does not tell.
        library: Where the kernel comes from; ``@reader`` likewise.
        op: What it computes, such as ``gemm``; ``@reader`` likewise.
        examples: Names of real kernels that this rule decides, and none before it.
        source: Where the examples, and the proof of the verdict, were seen.
    """

    key: str
    pattern: re.Pattern[str]
    verdict: Verdict
    precision: str
    library: str
    op: str
    examples: tuple[str, ...]
    source: str
