"""Alternatives are measured with the program's Python, for a limited time, and a failure has its reason."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from nsyswrap.capture import alternatives as measuring
from nsyswrap.capture.alternatives import measure_alternatives, program_text
from nsyswrap.capture.kept_measurement import DRIVER

GPU = SimpleNamespace(description={"name": "NVIDIA H200"})
WANTED = [{"kind": "tf32", "operators": []}, {"kind": "padded", "operators": []}]


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    found = [GPU]

    @contextmanager
    def readers() -> Iterator[list[SimpleNamespace]]:
        yield found

    monkeypatch.setattr(measuring, "readers", readers)
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    return found


def python(folder: Path, body: str) -> tuple[str, ...]:
    """Return a program that stands for the program's Python."""
    program = folder / "python3"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys, time\n"
        "text, wanted, seconds = sys.argv[-3:]\n"
        "assert 'def processes_on_gpu' in text and 'class OperatorText' in text\n"
        "assert 'NVIDIA_TF32_OVERRIDE' not in os.environ\n"
        f"{body}"
    )
    program.chmod(0o755)
    return (str(program),)


def test_each_alternative_has_its_times_or_a_reason(gpus: list[SimpleNamespace], tmp_path: Path) -> None:
    """They come in any order; one that is not there had no time. What a compiler writes is in a temporary folder."""
    assert gpus
    row = {"before_ms": 2.0, "after_ms": 1.0, "ratio": [0.5, 0.5, 0.5], "difference": 0.0}
    body = (
        "assert [each['kind'] for each in json.load(open(wanted))] == ['tf32', 'padded'] and float(seconds) < 20\n"
        f"open({str(tmp_path / 'cache')!r}, 'w').write(os.environ['TORCHINDUCTOR_CACHE_DIR'])\n"
        f"print(json.dumps({{'gpu': 'NVIDIA H200'}})); print(json.dumps({{'at': 1, **{row!r}}}))\n"
    )
    found = measure_alternatives(python(tmp_path, body), WANTED)
    assert found == {
        "schema": "nsyswrap.alternatives/1",
        "gpu": "NVIDIA H200",
        "alternatives": [WANTED[0], {**WANTED[1], **row}],
    }
    assert not Path((tmp_path / "cache").read_text()).exists()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("sys.exit('a warning\\nother processes use the GPU')\n", "other processes use the GPU"),
        ("print()\n", "Expecting value: line 1 column 1 (char 0)"),
        ("", "the time was over before anything was measured"),
        ("time.sleep(9)\n", "ran longer than 0.5 s"),
    ],
)
def test_a_failure_has_its_reason(
    body: str, reason: str, gpus: list[SimpleNamespace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gpus
    monkeypatch.setattr(measuring, "TIMEOUT_S", 0.5 if "sleep" in body else 20)
    found = measure_alternatives(python(tmp_path, body), WANTED)
    assert found["failure"].endswith(reason)
    assert found["alternatives"] == WANTED


def test_without_a_gpu_or_a_python_nothing_runs(gpus: list[SimpleNamespace], tmp_path: Path) -> None:
    assert measure_alternatives((), WANTED)["failure"] == "the Python of the program is not known"
    gpus.clear()
    missing = (str(tmp_path / "python3"),)
    assert measure_alternatives(missing, WANTED)["failure"] == "this machine has no GPU"


@pytest.mark.skipif(DRIVER.exists(), reason="this machine has a GPU")
def test_the_program_runs_as_text(tmp_path: Path) -> None:
    """In a Python that has no nsyswrap; without a driver it says so."""
    wanted = tmp_path / "alternatives.json"
    wanted.write_text("[]")
    command = [sys.executable, "-I", "-c", program_text(), str(wanted), "19"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("libcuda.so.1: cannot open shared object file")
    assert json.loads(wanted.read_text()) == []
