"""The training steps of the cost probe: they train, and their launches are counted by kind."""

import math
from types import SimpleNamespace
from typing import Any, Self

import pytest

from nsyswrap.capture import cost_probe
from nsyswrap.capture.cost_probe import Work, step_times
from nsyswrap.capture.cost_probe_torch import Steps
from nsyswrap.hardware.profiler_cost import CONVOLUTION_LAUNCH, LAUNCH


@pytest.fixture
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the steps run on the CPU, a few times."""
    for name, value in {"BLOCKS": 2, "FEWEST_BLOCKS": 2, "STEPS": 2, "PACES": 3}.items():
        monkeypatch.setattr(cost_probe, name, value)
    monkeypatch.setattr(cost_probe, "Steps", lambda: Steps("cpu"))


def test_both_steps_train() -> None:
    """Each step changes the weights, so its loss differs from that of the step before."""
    pytest.importorskip("torch")
    for _name, step in Steps("cpu").kinds():
        first, second = step(), step()
        assert isinstance(first, float)
        assert first != second


@pytest.mark.usefixtures("on_the_cpu")
def test_steps_are_timed_by_block_and_counted_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    found = step_times(Work(), math.inf, count=False)
    assert set(found) == {"plain_step", "convolution_step"}
    assert all(len(each["tight"]) == 2 and min(time for time, _ in each["tight"]) > 0 for each in found.values())
    monkeypatch.setattr(Steps, "launches", lambda _self, _step: {LAUNCH: 40})
    counted = step_times(Work(), math.inf, count=True)
    assert set(counted) == {*found, "plain_step_launches", "convolution_step_launches"}
    assert counted["plain_step_launches"] == {LAUNCH: [(40, 0)]}


def test_kernels_are_counted_by_the_kind_of_their_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies and the calls of the host are no kernels."""
    on_gpu = (
        "vectorized_elementwise_kernel",
        "cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float>",
        "Memcpy DtoH",
        "Memset",
    )
    pytest.importorskip("torch")
    steps = Steps("cpu")
    events = [SimpleNamespace(name=each, device_type=SimpleNamespace(name="CUDA")) for each in (*on_gpu, on_gpu[0])]
    events.append(SimpleNamespace(name="cudaLaunchKernel", device_type=SimpleNamespace(name="CPU")))

    class Found:
        """A finished profile."""

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_error: object) -> None:
            """Have nothing to end."""

        def events(self) -> list[Any]:
            return events

    monkeypatch.setattr("torch.profiler.profile", lambda **_options: Found())
    assert steps.launches(steps.plain) == {LAUNCH: 2, CONVOLUTION_LAUNCH: 1}


@pytest.mark.parametrize("error", [ImportError("no torch"), RuntimeError("no GPU"), AssertionError("no CUDA")])
def test_without_torch_or_its_gpu_nothing_is_timed(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def steps() -> Steps:
        raise error

    monkeypatch.setattr(cost_probe, "Steps", steps)
    assert step_times(Work(), math.inf, count=True) == {}
    assert f"without training steps: {error}" in capsys.readouterr().err
