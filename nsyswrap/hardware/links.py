"""Which GPUs have NVLink, by their name, and how fast it is: ranks of one host need not exchange data over PCIe."""

import re

# Modules on a board with NVLink between all GPUs. Cards for PCIe slots (A100 PCIe, H100 PCIe, H200 NVL, L40, ...) have
# none, or a bridge that may be missing. GH200 and GB200 are left out: they reach the host's memory over a link as fast.
# Source: NVIDIA's data sheets of V100, A100, H100, H200, B200 and GH200, and the names that the driver reports:
# "Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA H200 NVL".
_NVLINK = re.compile(r"SXM|H100 \d+GB HBM|(?<!G)H200(?! NVL)|(?<!G)B[23]00")


def has_nvlink(name: str) -> bool:
    """Return whether a GPU of this name is a module with NVLink; False where that is not sure."""
    return _NVLINK.search(name) is not None


# Bytes a second in one direction, of all links of a GPU together. Source: NVIDIA's data sheets, which count both
# directions: 300 GB/s of V100, 600 of A100, 900 of H100 and H200, 1800 of B200 and B300.
_RATES = ((r"V100", 150e9), (r"A100", 300e9), (r"H[12]00", 450e9), (r"B[23]00", 900e9))


def nvlink_rate(name: str) -> float | None:
    """Return how many bytes a second a GPU of this name sends over NVLink; None where it may have none."""
    if not has_nvlink(name):
        return None
    return next((rate for pattern, rate in _RATES if re.search(pattern, name)), None)
