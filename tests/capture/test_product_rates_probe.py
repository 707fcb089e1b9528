"""The program that measures products times each call on the GPU, and says why it measured nothing."""

import itertools
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from nsyswrap.capture import product_rates_probe as probe
from nsyswrap.capture.kept_measurement import DRIVER
from nsyswrap.capture.product_rates_probe import Calls, measure

MS = 1e-3


def small(monkeypatch: pytest.MonkeyPatch, *sizes: int) -> None:
    """Let matrices and copies be small, and time as few calls as possible."""
    monkeypatch.setattr(probe, "SIZES", sizes)
    monkeypatch.setattr(probe, "COPY_BYTES", 1024)
    monkeypatch.setattr(probe, "SPEND_S", 0.0)


def test_each_kind_computes_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 n^3 operations of a product, and a copy reads and writes. Older GPUs have fewer kinds."""
    small(monkeypatch, 16)
    kinds = dict(Calls(torch, "cpu").kinds((8, 9)))
    for name in ("memory", "float16", "fp32", "bfloat16", "tf32"):
        ((work, call),) = kinds[name]
        assert work == (2048 if name == "memory" else 2 * 16**3)
        assert isinstance(call(), torch.Tensor)
    assert {"fp8"} == set(kinds) - set(dict(Calls(torch, "cpu").kinds((8, 6))))
    assert [name for name, _ in Calls(torch, "cpu").kinds((7, 5))] == ["memory", "float16", "fp32"]
    torch.set_float32_matmul_precision("highest")


class Timed:
    """A PyTorch whose GPU has a clock of its own: calls take 1, 2, 4 and 2 ms, and so on."""

    def __init__(self) -> None:
        lengths = itertools.cycle([1.0, 2.0, 4.0, 2.0])
        self.cuda = SimpleNamespace(
            Event=lambda **_: SimpleNamespace(record=lambda: None, elapsed_time=lambda _end: next(lengths)),
            synchronize=lambda: None,
            get_device_properties=lambda _: SimpleNamespace(major=7, minor=0, name="A GPU", multi_processor_count=80),
        )

    def __getattr__(self, name: str) -> object:
        return getattr(torch, name)


def test_a_rate_is_that_of_the_slowest_the_median_and_the_fastest_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls take 1, 2, 4 and 2 ms. Of two sizes, the faster one counts."""
    small(monkeypatch, 8, 16)
    found = measure(Timed(), "cpu")
    assert (found["gpu"], found["multiprocessors"]) == ("A GPU", 80)
    operations = 2 * 16**3
    rates = found["rates"]
    assert isinstance(rates, dict)
    assert rates["fp32"] == pytest.approx([operations / (4 * MS), operations / (2 * MS), operations / (1 * MS)])
    assert set(rates) == {"memory", "float16", "fp32"}


def test_a_kind_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It says which one and why, and the others are measured."""
    small(monkeypatch, 8)
    timed = Timed()

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("not enough memory")

    monkeypatch.setattr(timed, "mm", fails, raising=False)
    assert set(measure(timed, "cpu")["rates"]) == {"memory"}  # type: ignore[call-overload]
    assert "float16: not enough memory" in capsys.readouterr().err


def test_a_gpu_in_use_is_not_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A process that leaves in time does not count; here one stays."""
    monkeypatch.setattr(probe, "LEAVE_S", 0.02)
    monkeypatch.setattr(probe, "processes_on_gpu", lambda: 1)
    assert (probe.main(), capsys.readouterr().err) == (1, "other processes use the GPU\n")
    counts = iter([2, 1, 0])
    monkeypatch.setattr(probe, "processes_on_gpu", lambda: next(counts))
    assert not probe.is_busy()


def test_rates_beside_another_process_are_not_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own process is the only one before and after."""
    counts = iter([0, 2])
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.setattr(probe, "processes_on_gpu", lambda: next(counts))
    monkeypatch.setattr(probe, "measure", lambda _torch: {})
    assert (probe.main(), capsys.readouterr().err) == (1, "other processes used the GPU meanwhile\n")


@pytest.mark.skipif(DRIVER.exists(), reason="this machine has a GPU")
def test_without_a_driver_it_says_so() -> None:
    """It runs as text, as in a Python that has no nsyswrap."""
    text = Path(probe.__file__).read_text(encoding="utf-8")
    found = subprocess.run([sys.executable, "-I", "-c", text], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("libcuda.so.1: cannot open shared object file")
