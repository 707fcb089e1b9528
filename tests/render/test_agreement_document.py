"""The agreement of names with hardware as text for a terminal, JSON for programs, and Markdown for pages."""

import json

import pandas as pd
import pytest
from ncu_fixtures import PACKED, PRODUCT, SIMT, TRITON

from nsyswrap.render import documents
from nsyswrap.render.agreement_document import SCHEMA, SHOWN, Measured
from nsyswrap.sections.tensor_cores.hardware_proof import NcuLaunch
from nsyswrap.sections.tensor_cores.name_agreement import compare

MMA, FMA = {"HGMMA.64x64x16.F32.BF16": 4096}, {"HFMA2.MMA": 512}
HOSTILE = 'evil|"<script>\x1b[31m\n`name'


def measured(*parts: tuple[str, int, dict[str, int] | None]) -> Measured:
    """Return kernels with their time and their counts; None stands for not measured."""
    frame = pd.DataFrame([(name, time) for name, time, _ in parts], columns=["name", "total_ns"])
    launches = [NcuLaunch(name, opcodes, {}, {}) for name, _, opcodes in parts if opcodes is not None]
    return Measured(compare(frame, launches, (9, 0)), "NVIDIA H100", "2025.3.1.0", ("train.py", "-n"), 3, "")


EXAMPLE = measured((PRODUCT, 600_000, MMA), (TRITON, 100_000, MMA), (SIMT, 200_000, MMA), (PACKED, 100_000, None))


def written(form: str, one: Measured = EXAMPLE) -> str:
    return documents.render("agreement", form, one, width=200)


def test_text_says_how_much_was_measured_and_how_far_names_are_right() -> None:
    text = written("text")
    assert text.startswith("nsyswrap verify-tensor-cores  train.py -n\nGPU  NVIDIA H100, Nsight Compute 2025.3.1.0\n")
    assert "Name and hardware agree for 60.0 % of kernel time, and differ for 20.0 %." in text
    for line in (
        "kernel time in the capture    1.00 ms",
        "measured, share of that time  90.0 % (3 launches)",
        "tensor cores, by hardware     90.0 to 100.0 %",
        "tensor cores, by name         60.0 to 70.0 %",
    ):
        assert line in text


def test_what_is_left_out_is_counted() -> None:
    many = measured(*((f"my_kernel_{number}", 100, FMA) for number in range(3)), (SIMT, 10**6, FMA))
    assert "lists all" not in written("text", many)
    agreeing = measured(*((f"void at::native::f<{number}>(int)", 100, None) for number in range(SHOWN + 5)))
    assert f"{SHOWN} of {SHOWN + 5} kernels; --format json lists all" in written("text", agreeing)


def test_json_has_every_kernel_and_the_shares() -> None:
    whole = json.loads(written("json"))
    assert (whole["schema"], whole["gpu"], whole["launches"]) == (SCHEMA, "NVIDIA H100", 3)
    assert (whole["tensor_share_low"], whole["tensor_share_high"]) == (0.9, 1.0)
    assert sum(whole["shares"].values()) == pytest.approx(1)
    assert [each["name"] for each in whole["kernels"]] == [PRODUCT, SIMT, TRITON, PACKED]
    assert whole["kernels"][3]["proof"] is None
    assert whole["kernels"][1]["measured_precisions"] == ["bf16"]


@pytest.mark.parametrize("form", documents.KINDS["agreement"])
def test_hostile_names_do_no_harm(form: str) -> None:
    text = written(form, measured((HOSTILE, 100, MMA)))
    assert "\x1b" not in text
    assert written(form, measured())
