"""Which GPUs have tensor cores."""

import re

from nsyswrap.hardware.kernel_names.classify import FIRST_WITH_TENSOR_CORES, Capability

# Turing chips without tensor cores, TU116 and TU117, have the compute capability 7.5 of those with them. Source:
# NVIDIA's product pages. The names are those that the driver reports: "NVIDIA GeForce GTX 1650", "Quadro T1000",
# "NVIDIA T400 4GB".
_WITHOUT = re.compile(r"\bGTX 16\d0|\bMX(?:450|550)\b|(?<!Tesla )\bT(?:400|500|550|600|1000|1200|2000)\b|\bCMP 30HX\b")


def has_tensor_cores(name: str, capability: Capability | None) -> bool:
    """Return whether a GPU has tensor cores; True where neither name nor compute capability shows that it has none."""
    older = capability is not None and capability < FIRST_WITH_TENSOR_CORES
    return not older and _WITHOUT.search(name) is None
