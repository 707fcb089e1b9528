"""All rules over kernel names in the order in which they are tried. The first that matches decides."""

from nsyswrap.hardware.kernel_names.rule import KernelRule
from nsyswrap.hardware.kernel_names.rules_around import AROUND
from nsyswrap.hardware.kernel_names.rules_attention import MATRIX_PRODUCTS
from nsyswrap.hardware.kernel_names.rules_collectives import COLLECTIVES
from nsyswrap.hardware.kernel_names.rules_compiled import COMPILED, HINTS, TRITON
from nsyswrap.hardware.kernel_names.rules_framework import FRAMEWORKS, LIBRARIES, WORDS
from nsyswrap.hardware.kernel_names.rules_generated import GENERATED_BY_NVIDIA
from nsyswrap.hardware.kernel_names.rules_vendor import VENDOR

# Names of compiled kernels list the fused operations, and names of auxiliary kernels hold the name of the matrix work
# that they belong to. So both come before the rules for matrix work.
RULES: tuple[KernelRule, ...] = (
    *COLLECTIVES,
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
