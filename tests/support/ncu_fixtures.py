"""Helpers for tests that use Nsight Compute: a fake ncu on PATH, and kernels as ncu prints them."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from capture_fixtures import executable

FAKE = Path(__file__).parent / "fake_ncu.py"
VARIABLES = ("NSYSWRAP_NCU", "FAKE_NCU_FAILURE", "FAKE_NCU_VERSION", "FAKE_NCU_KERNELS", "FAKE_NCU_LOG")

# Real names, as nsys 2025.3 and ncu 2025.3 print them.
PRODUCT = "nvjet_sm90_hsh_64x32_64x16_2x2_h_bz_splitK_bias_TNT"
LAYOUT = (
    "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, (bool)0, (bool)1, "
    "(cudnnKernelDataType_t)0>(cudnn::engines_precompiled::nchw2nhwc_params_t<T3>, const T1 *, T2 *)"
)
PACKED = "void at::native::vectorized_elementwise_kernel<(int)8, at::native::GeluFunctor<c10::Half>>(int, T2, T3)"
TRITON = "triton_tem_fused_mm_0"
SIMT = "ampere_sgemm_128x64_nn"


def kernel(name: str, opcodes: dict[str, int] | None = None, **counts: float) -> dict[str, Any]:
    """Return a kernel for ``FAKE_NCU_KERNELS``: opcodes, or ``hmma``, ``gmma``, ``hfma2``, and ``pipe`` in per cent."""
    return {"name": name, "opcodes": opcodes or {}, **counts}


def fake_ncu(path: Path, version: str = "") -> Path:
    set_version = f"FAKE_NCU_VERSION={version} " if version else ""
    return executable(path, f'#!/bin/sh\n{set_version}exec "{sys.executable}" "{FAKE}" "$@"\n')


def put_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch, *kernels: dict[str, Any], failure: str = "") -> Path:
    """Put a fake ncu with these kernels first on PATH; return the log of its calls."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    path = fake_ncu(folder / "ncu-bin" / "ncu")
    log = folder / "ncu.log"
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_NCU_KERNELS", json.dumps(kernels))
    monkeypatch.setenv("FAKE_NCU_LOG", str(log))
    if failure:
        monkeypatch.setenv("FAKE_NCU_FAILURE", failure)
    return log


def calls(log: Path) -> list[list[str]]:
    """Return the arguments of each call of the fake ncu, in order."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
