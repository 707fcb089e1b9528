"""Which GPUs have NVLink, by the names that the driver reports."""

import pytest

from nsyswrap.hardware.link_rates import has_nvlink


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200", True),
        ("NVIDIA H100 80GB HBM3", True),
        ("NVIDIA A100-SXM4-80GB", True),
        ("Tesla V100-SXM2-16GB", True),
        ("NVIDIA B200", True),
        ("NVIDIA H200 NVL", False),
        ("NVIDIA H100 PCIe", False),
        ("NVIDIA A100 80GB PCIe", False),
        ("NVIDIA GH200 480GB", False),
        ("NVIDIA GB200", False),
        ("NVIDIA L40S", False),
        ("", False),
    ],
)
def test_modules_have_nvlink_and_cards_may_not(name: str, expected: bool) -> None:  # noqa: FBT001 - a parameter
    assert has_nvlink(name) is expected
