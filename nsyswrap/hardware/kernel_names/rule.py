"""What a rule over kernel names is, and how patterns look at a name."""

import re
from dataclasses import dataclass
from enum import StrEnum

# Patterns look at a name with one search. One that begins with this looks at its head alone: the qualified name of the
# function, before template arguments and parameters. Heads are short: the bound keeps hostile names cheap.
HEAD = r"^[^<(]{0,400}?"
# A head that speaks of no matrix product: what follows may be called by its family.
NO_MATRIX = r"(?![^<(]{0,400}?(?:gemm|GEMM|Gemm|gemv|matmul|MatMul|mul_mat|_mm(?![a-z])|attn|[Aa]ttention))"


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
