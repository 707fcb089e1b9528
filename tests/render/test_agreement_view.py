"""The agreement of names with hardware as text for a terminal, JSON for programs, and Markdown for pages."""

import json

import pandas as pd
import pytest
from ncu_fixtures import PACKED, PRODUCT, SIMT, TRITON

from nsyswrap.render.agreement_view import FORMS, SCHEMA, SHOWN, Measured, json_of, text_of
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


def test_text_says_how_much_was_measured_and_how_far_names_are_right() -> None:
    text = text_of(EXAMPLE)
    assert text.splitlines()[:2] == ["train.py -n", "NVIDIA H100, Nsight Compute 2025.3.1.0"]
    values = dict(line.strip().rsplit("  ", 1) for line in text.splitlines() if line.startswith("  "))
    shown = {label.strip(): value for label, value in values.items()}
    assert shown["kernel time in the capture"] == "1.00 ms"
    assert shown["measured, share of that time"] == "90.0 % (3 launches)"
    assert shown["tensor cores, by hardware"] == "90.0 to 100.0 %"
    assert shown["tensor cores, by name"] == "60.0 to 70.0 %"
    assert shown["name and hardware differ"] == "20.0 %"


def test_what_is_left_out_is_counted() -> None:
    many = measured(*((f"my_kernel_{number}", 100, FMA) for number in range(3)), (SIMT, 10**6, FMA))
    assert "more kernels" not in text_of(many)
    agreeing = measured(*((f"void at::native::f<{number}>(int)", 100, None) for number in range(SHOWN + 5)))
    assert "and 5 more kernels" in text_of(agreeing)


def test_json_has_every_kernel_and_the_shares() -> None:
    whole = json.loads(json_of(EXAMPLE))
    assert (whole["schema"], whole["gpu"], whole["launches"]) == (SCHEMA, "NVIDIA H100", 3)
    assert (whole["tensor_share_low"], whole["tensor_share_high"]) == (0.9, 1.0)
    assert sum(whole["shares"].values()) == pytest.approx(1)
    assert [each["name"] for each in whole["kernels"]] == [PRODUCT, SIMT, TRITON, PACKED]
    assert whole["kernels"][3]["proof"] is None
    assert whole["kernels"][1]["measured_precisions"] == ["bf16"]


@pytest.mark.parametrize("form", FORMS)
def test_hostile_names_do_no_harm(form: str) -> None:
    text = FORMS[form](measured((HOSTILE, 100, MMA)))
    assert "\x1b" not in text
    assert text.endswith("\n")
    if form == "markdown":
        assert "evil\\|" in text


@pytest.mark.parametrize("form", FORMS)
def test_nothing_measured_can_be_printed_too(form: str) -> None:
    assert FORMS[form](measured())


@pytest.mark.parametrize("form", FORMS)
def test_the_same_bytes_twice(form: str) -> None:
    assert FORMS[form](EXAMPLE) == FORMS[form](EXAMPLE)
