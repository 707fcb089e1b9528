"""All rules over kernel names, in the order in which they are tried: the first that is found decides."""

from nsyswrap.analyses.kernel_rule import Rule
from nsyswrap.analyses.kernel_rules_around import AROUND
from nsyswrap.analyses.kernel_rules_attention import MATRIX_PRODUCTS
from nsyswrap.analyses.kernel_rules_compiled import COMPILED, HINTS, TRITON
from nsyswrap.analyses.kernel_rules_framework import FRAMEWORKS, LIBRARIES, WORDS
from nsyswrap.analyses.kernel_rules_generated import GENERATED_BY_NVIDIA
from nsyswrap.analyses.kernel_rules_vendor import VENDOR

# Compilers' names quote what was fused, and helpers' names quote what they help: both come before matrix words count.
RULES: tuple[Rule, ...] = (
    *COMPILED,
    *AROUND,
    *GENERATED_BY_NVIDIA,
    *VENDOR,
    *MATRIX_PRODUCTS,
    *TRITON,
    *LIBRARIES,
    *FRAMEWORKS,
    *WORDS,
    *HINTS,
)
