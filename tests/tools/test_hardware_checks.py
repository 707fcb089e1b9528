"""The programs that check nsyswrap against hardware, tested on files and without the hardware."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tools" / "hardware_checks"


def load(name: str) -> ModuleType:
    """Import one of the programs as a module."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_every_case_has_a_name_and_the_run_knows_it() -> None:
    """The cases in run.sh are all the cases of programs.py."""
    program = [sys.executable, str(FOLDER / "programs.py"), "--list"]
    there = subprocess.run(program, capture_output=True, text=True, check=True).stdout.split()
    script = (FOLDER / "run.sh").read_text(encoding="utf-8")
    named = script.partition("cases=${CASES:-")[2].partition("}")[0].split()
    assert sorted(there) == sorted(named)
    assert len(there) >= 8


def known_operators() -> tuple[ModuleType, list[Any]]:
    """Return measurements of operators on tensors of known sizes, on an H200 with PyTorch 2.11."""
    module = load("known_table")
    listed = json.loads((ROOT / "tests" / "data" / "known_work.json").read_text())
    return module, [module.Known(**each) for each in listed]


def test_the_work_of_real_kernels_holds_what_was_measured() -> None:
    """Names and grids of 52 operators give elements for 36 and bytes for 34; the L2 cache has 60 MiB."""
    module, known = known_operators()
    found = module.works(known)
    shown = [(each, work) for each, work in zip(known, found, strict=True) if work is not None]
    assert (len(known), len(shown), sum(work.bytes_low is not None for _, work in shown)) == (52, 36, 34)
    assert [each.case for each, work in shown if not module.is_held(each, work, 60 << 20)] == []
