"""Which GPUs have tensor cores, by compute capability and by the names that the driver reports."""

import pytest

from nsyswrap.hardware.tensor_cores import has_tensor_cores


@pytest.mark.parametrize(
    ("name", "capability", "expected"),
    [
        ("NVIDIA GeForce GTX 1650", (7, 5), False),
        ("NVIDIA GeForce GTX 1650 SUPER", (7, 5), False),
        ("NVIDIA GeForce GTX 1660 Ti with Max-Q Design", (7, 5), False),
        ("NVIDIA GeForce GTX 1630", (7, 5), False),
        ("GeForce GTX 1660", None, False),
        ("NVIDIA GeForce MX450", (7, 5), False),
        ("NVIDIA GeForce MX550", (7, 5), False),
        ("NVIDIA T400 4GB", (7, 5), False),
        ("NVIDIA T600 Laptop GPU", (7, 5), False),
        ("Quadro T1000", (7, 5), False),
        ("Quadro T2000 with Max-Q Design", (7, 5), False),
        ("NVIDIA GeForce GTX 1080 Ti", (6, 1), False),
        ("Tesla P100-PCIE-16GB", (6, 0), False),
        ("Tesla M60", (5, 2), False),
        ("Tesla T4", (7, 5), True),
        ("NVIDIA T4G", (7, 5), True),
        ("NVIDIA GeForce RTX 2080 Ti", (7, 5), True),
        ("NVIDIA GeForce RTX 2050", (8, 6), True),
        ("Quadro RTX 4000", (7, 5), True),
        ("Quadro RTX 6000", (7, 5), True),
        ("NVIDIA RTX A2000", (8, 6), True),
        ("NVIDIA TITAN V", (7, 0), True),
        ("Tesla V100-SXM2-16GB", (7, 0), True),
        ("NVIDIA H100 80GB HBM3", (9, 0), True),
        ("", None, True),
    ],
)
def test_gpus_with_and_without_tensor_cores(name: str, capability: tuple[int, int] | None, *, expected: bool) -> None:
    """The compute capability 7.5 has GPUs of both sorts."""
    assert has_tensor_cores(name, capability) is expected
