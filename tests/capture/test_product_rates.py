"""What products reach on the GPU is measured once with the program's Python, kept for it, and never hides a failure."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from nsyswrap.capture import product_rates as measuring
from nsyswrap.capture.product_rates import link_rates, product_rates

GPU = SimpleNamespace(description={"name": "NVIDIA H200", "power_limit_mw": 700_000, "index": 0})
MEASURED = {"gpu": "NVIDIA H200", "multiprocessors": 132, "rates": {"bfloat16": [6e14, 7e14, 7.2e14]}}


class Machine:
    """A machine with GPUs, and a Python that stands for the program's.

    Attributes:
        gpus: What the driver lists.
    """

    def __init__(self, folder: Path) -> None:
        self.gpus, self.announced = [GPU], 0
        self._program, self._runs = folder / "python3", folder / "runs"
        self.python = (str(self._program),)
        self.answers(json.dumps(MEASURED))

    def answers(self, text: str, *, code: int = 0, torch: str = "2.11.0") -> None:
        """Set what the program that measures prints, to its output or with a code to its errors."""
        versions = json.dumps({"python": "3.12", "torch": torch})
        stream = "stderr" if code else "stdout"
        self._program.write_text(
            f"#!{sys.executable}\n"
            "import os, sys\n"
            f"if '-I' in sys.argv: print({versions!r}); sys.exit()\n"
            "links = 'IN_A_ROW' in sys.argv[-2]\n"
            "assert links or 'processes_on_gpu' in sys.argv[-1] and 'NVIDIA_TF32_OVERRIDE' not in os.environ\n"
            "assert not links or sys.argv[-1] == '2' and 'NCCL_P2P_DISABLE' not in os.environ\n"
            f"open({str(self._runs)!r}, 'a').write('.')\n"
            f"sys.{stream}.write({text!r}); sys.exit({code})\n"
        )
        self._program.chmod(0o755)

    @property
    def runs(self) -> int:
        """Return how often the program that measures ran."""
        return len(self._runs.read_text()) if self._runs.exists() else 0

    def announce(self) -> None:
        """Count an announcement."""
        self.announced += 1


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine with an empty cache."""
    found = Machine(tmp_path)

    @contextmanager
    def readers() -> Iterator[list[SimpleNamespace]]:
        yield found.gpus

    monkeypatch.setattr(measuring, "readers", readers)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    return found


def test_rates_are_measured_once(machine: Machine) -> None:
    """The second profile measures and announces nothing; other ranks of a job, too, have what is kept."""
    first = product_rates(machine.python, machine.announce)
    assert first["rates"] == MEASURED["rates"]
    assert product_rates(machine.python, machine.announce) == first
    assert product_rates(machine.python, machine.announce, kept_only=True) == first
    assert (machine.runs, machine.announced) == (1, 1)


def test_they_are_measured_again_with_another_pytorch_power_limit_or_choice_of_gpus(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    product_rates(machine.python, machine.announce)
    machine.answers(json.dumps(MEASURED), torch="2.12.0")
    product_rates(machine.python, machine.announce)
    machine.gpus = [SimpleNamespace(description={**GPU.description, "power_limit_mw": 500_000})]
    product_rates(machine.python, machine.announce)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    product_rates(machine.python, machine.announce)
    assert machine.runs == 4


def test_ranks_of_a_job_measure_nothing(machine: Machine) -> None:
    """They use the GPU at the same time."""
    assert (product_rates(machine.python, machine.announce, kept_only=True), machine.runs) == ({}, 0)


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("a warning\nother processes use the GPU\n", 1, "other processes use the GPU"),
        ("", 3, "exit code 3"),
        ("nothing", 0, "Expecting value: line 1 column 1 (char 0)"),
        (json.dumps({**MEASURED, "rates": {}}), 0, "nothing could be measured"),
    ],
)
def test_a_failure_has_its_reason_and_is_not_kept(machine: Machine, text: str, code: int, reason: str) -> None:
    machine.answers(text, code=code)
    found = product_rates(machine.python, machine.announce)
    assert (found["rates"], found["failure"]) == ({}, reason)
    machine.answers(json.dumps(MEASURED))
    assert product_rates(machine.python, machine.announce)["rates"] == MEASURED["rates"]


def test_a_program_without_pytorch_has_no_rates(machine: Machine) -> None:
    machine.answers(json.dumps(MEASURED), torch="")
    for python in (machine.python, ()):
        assert product_rates(python, machine.announce)["failure"] == "the program has no PyTorch"
    assert (machine.runs, machine.announced) == (0, 0)


TIMES = {"gpu": "NVIDIA H200", "gpus": 2, "rates": {"AllReduce": [[1e6, 2e4], [4e6, 5e4]]}}


def test_links_are_measured_once_for_a_number_of_ranks(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program does not get what keeps NCCL from using all links. One rank, and ranks of a job, measure nothing."""
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    machine.answers(json.dumps(TIMES))
    assert link_rates(machine.python, 1, machine.announce) == {}
    assert link_rates(machine.python, 2, machine.announce, kept_only=True) == {}
    first = link_rates(machine.python, 2, machine.announce)
    assert first["rates"] == TIMES["rates"]
    assert link_rates(machine.python, 2, machine.announce) == first
    assert (machine.runs, machine.announced) == (1, 1)


def test_links_that_cannot_be_measured_have_the_reason(machine: Machine) -> None:
    machine.answers("fewer than two GPUs are visible\n", code=1)
    found = link_rates(machine.python, 2, machine.announce)
    assert (found["rates"], found["failure"]) == ({}, "fewer than two GPUs are visible")
    machine.answers(json.dumps({**TIMES, "rates": {}}))
    assert link_rates(machine.python, 2, machine.announce)["failure"] == "nothing could be measured"
