"""The type of a rule over kernel names, and the parts that patterns share."""

import re
from dataclasses import dataclass
from enum import StrEnum

# A pattern is searched once in a name. One that begins with HEAD sees only the qualified name of the function, which
# comes before template arguments and parameters. Heads are short: the bound keeps hostile names cheap.
HEAD = r"^[^<(]{0,400}?"
# A head without the words of a matrix product: the kernel may then be named after its library.
NO_MATRIX = (
    r"(?![^<(]{0,400}?(?:gemm|GEMM|Gemm|gemv|matmul|MatMul|mul_mat|_mm(?![a-z])|[bB]mm(?![a-z])|attn|[Aa]ttention))"
)
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

# Words of operations that multiply no matrices, and words that change nothing about that. A head made of these words
# alone says what the kernel does. With any other word in it, such as a maker's name, the kernel may do anything.
OPERATION_WORDS = (
    r"softmax|SoftMax|Softmax|norm|Norm|layernorm|LayerNorm|rmsnorm|RMSNorm|rms|batchnorm|BatchNorm|groupnorm|GroupNorm"
    r"|l2norm|pool(?:ing)?(?:[123]d)?|Pool(?:ing)?|dropout|Dropout|entropy|Entropy|loss|Loss|embedding|Embedding|elementwise"
    r"|Elementwise|pointwise|Pointwise|adamw?|Adam|optimizer|Optimizer(?:32bit[12]State)?|swiglu|SwiGLU|silu|SiLU|gelu|Gelu"
    r"|relu|Relu|ReLU|sigmoid|Sigmoid|act|topk|TopK|argmax|ArgMax|sort|Sort|radix|cumsum|sum|Sum|histogram|Histogram"
    r"|hadamard|permute|Permute|transpose|Transpose|memcpy|memset|copy|Copy|fill|Fill|cast|Cast|add|Add|mul|sub|div|scale"
    r"|Scale|exp|sqrt|axpy|saxpy|bcast|lamb|lion|sgd|adagrad|bias|residual|unary|binary|scatter|gather|clamp|pad|concat"
    r"|quant|quantize|dequantize|Quantize|reduce|Reduce|reduction|Reduction|random|Random|philox|curand|gated_op|get_rows|partials"
)
NEUTRAL_WORDS = (
    r"kernel|Kernel|fused|Fused|fast|fwd|bwd|forward|backward|Forward|Backward|f16|f32|f64|bf16|fp16|fp32|fp64|half"
    r"|float|double|int|vec|vector|Vector|vectorized|layer|batch|group|cross|row|col|rows|cols|k|op|and|bin|in|out|inplace"
    r"|fp4|fp8|int4|int8|mxfp4|mxfp8|nvfp4|per|token|tokens|x|b\d{1,2}|cuda|\dpass|grad|prefix|multi|transform|block|warp|local|global|small|large|impl|[1-4]d|\d{1,4}"
)


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
class KernelRule:
    """A pattern over kernel names and its verdict.

    Attributes:
        pattern: Searched in a name as ``classify.subject`` returns it. The first rule that matches decides.
        op: Operation of the kernel, such as ``gemm``; ``@reader``, a key of ``readers.READERS``, if the name shows it.
        source: Where the names in tests/data/kernel_rule_examples.txt and the evidence for the verdict come from.
        precision: Type of the operands of the product, such as ``fp16``, or a ``@reader``; empty if the kernel is no
            product or the name does not show it.
        library: Library of the kernel, or a ``@reader``; empty if the name does not show it.
    """

    key: str
    pattern: re.Pattern[str]
    verdict: Verdict
    op: str
    source: str
    precision: str = ""
    library: str = ""
