"""All rules over kernel names, in the order in which they are tried: the first that is found decides."""

from nsyswrap.hardware.kernel_names.rule import Rule
from nsyswrap.hardware.kernel_names.rules_around import AROUND
from nsyswrap.hardware.kernel_names.rules_attention import MATRIX_PRODUCTS
from nsyswrap.hardware.kernel_names.rules_compiled import COMPILED, HINTS, TRITON
from nsyswrap.hardware.kernel_names.rules_framework import FRAMEWORKS, LIBRARIES, WORDS
from nsyswrap.hardware.kernel_names.rules_generated import GENERATED_BY_NVIDIA
from nsyswrap.hardware.kernel_names.rules_vendor import VENDOR

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
