"""The program that measures links times each kind of collective, of each size, on all GPUs."""

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from nsyswrap.capture import link_rates_probe as probe
from nsyswrap.hardware.link_rates import read_link_rates

KINDS = ["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "SendRecv"]


class Tensor:
    """Stands for a tensor on a GPU."""

    def __init__(self, count: int, device: str) -> None:
        self.count, self.device = count, device

    def copy_(self, other: "Tensor") -> None:
        assert other.device != self.device


def torch_with(gpus: int) -> Any:  # noqa: ANN401 - a stand-in for a module
    """Return what stands for PyTorch on a machine with some GPUs, and checks what its collectives get."""

    def parts(source: list[Tensor], target: list[Tensor], factor: int) -> None:
        assert [each.count * factor for each in source] == [each.count for each in target]

    def ignored(*_given: object) -> None:
        pass

    calls = SimpleNamespace(
        all_reduce=lambda each, other: parts(each, other, 1),
        all_gather=lambda each, other: parts(each, other, len(each)),
        reduce_scatter=lambda each, other: parts(other, each, len(each)),
        broadcast=ignored,
        reduce=ignored,
    )
    cuda = SimpleNamespace(
        nccl=calls, device_count=lambda: gpus, synchronize=range, get_device_name="NVIDIA H200, GPU {}".format
    )
    return SimpleNamespace(zeros=Tensor, cuda=cuda)


def test_each_kind_is_timed_with_each_size() -> None:
    found = probe.measure(torch_with(8), 4)
    assert found["gpus"] == 4
    assert list(found["rates"]) == KINDS  # type: ignore[call-overload]
    assert all([size for size, _ in each] == list(probe.SIZES) for each in found["rates"].values())  # type: ignore[attr-defined]
    assert list(read_link_rates(found).times) == KINDS


def test_it_says_why_it_measured_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_with(1))
    monkeypatch.setattr(sys, "argv", ["-c", "2"])
    assert probe.main() == 1
    assert capsys.readouterr().err == "fewer than two GPUs are visible\n"
    monkeypatch.setitem(sys.modules, "torch", torch_with(2))
    assert probe.main() == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["gpu"] == "NVIDIA H200, GPU 0"
