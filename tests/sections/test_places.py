"""Findings on kernels say in which module and from which line the program launches them."""

from pathlib import Path

import pytest
from analysis_fixtures import HasSection
from made_operators import NVJET, Made, findings, tensor

from nsyswrap.sections.compute import section as compute
from nsyswrap.sections.tensor_cores import section as tensor_cores

SINGLE = tensor(1024, 1024, dtype="float32")
SMALL = tensor(64, 64)


@pytest.mark.parametrize(
    ("of", "rule", "made", "kernel", "us", "times"),
    [
        (tensor_cores, "tensor_cores/not_used", SINGLE, "ampere_sgemm_128x64_nn", 500, 1),
        (compute, "compute/small_matrices", SMALL, NVJET.replace("128x256_64x4", "64x8_64x16"), 5, 40),
    ],
)
def test_a_finding_on_kernels_names_module_and_line(  # noqa: PLR0913, PLR0917 - a program
    of: HasSection, rule: str, made: dict[str, object], kernel: str, us: int, times: int, tmp_path: Path
) -> None:
    product = Made("mm", [made, made], [made], us, kernel, "layer.linear", 9)
    other = Made("relu", [made], [made], 50, module="layer", line=10)
    found = findings([*[product] * times, other], tmp_path, of)
    assert any(line.endswith("in layer.linear (model.py:9)") for line in found[rule].evidence)
    assert not any("model.py:10" in line for line in found[rule].evidence)


def test_three_of_five_places_are_named(tmp_path: Path) -> None:
    products = [Made("mm", [SINGLE, SINGLE], [SINGLE], 500, "ampere_sgemm_128x64_nn", f"layer.{at}") for at in range(5)]
    evidence = findings(products, tmp_path, tensor_cores)["tensor_cores/not_used"].evidence
    assert sum(" in layer." in line for line in evidence) == 3
