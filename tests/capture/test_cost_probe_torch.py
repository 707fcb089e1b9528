"""The training steps of the cost probe: they train, and their launches are counted by kind."""

import io
import json
import statistics
from types import SimpleNamespace
from typing import Any, Self

import pytest

from nsyswrap.capture import cost_probe
from nsyswrap.capture.cost_probe import StepLaunches, TrainingSteps, Work, blocks_of_steps, find_steps, serve
from nsyswrap.hardware.profiler_cost import CONVOLUTION_LAUNCH, LAUNCH


def test_both_steps_train() -> None:
    """Each step changes the weights, so its loss differs from that of the step before."""
    pytest.importorskip("torch")
    for _name, step in TrainingSteps("cpu").kinds():
        first, second = step(), step()
        assert isinstance(first, float)
        assert first != second


def test_steps_are_timed_by_block_and_counted_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    steps = TrainingSteps("cpu")
    found = blocks_of_steps(Work(), steps)
    assert {name: list(each) for name, each in found.items()} == {
        "plain_step": ["tight"],
        "convolution_step": ["tight"],
    }
    assert all(min(each["tight"]()) > 0 for each in found.values())
    monkeypatch.setattr(TrainingSteps, "launches", lambda _self, _step: StepLaunches({LAUNCH: 40}, 2.5))
    answers = io.StringIO()
    serve(io.StringIO('{"count": true}\n'), answers, found, steps)
    assert json.loads(answers.getvalue().splitlines()[-1]) == {name: [{LAUNCH: 40}, 2.5] for name in found}


def test_a_profiler_that_cannot_count_leaves_the_times(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")

    def launches(_self: object, _step: object) -> StepLaunches:
        raise RuntimeError("no counters")

    monkeypatch.setattr(TrainingSteps, "launches", launches)
    answers = io.StringIO()
    serve(io.StringIO('{"count": true}\n'), answers, {}, TrainingSteps("cpu"))
    assert answers.getvalue().splitlines() == ["{}", "{}"]
    assert "not counted: no counters" in capsys.readouterr().err


def test_kernels_are_counted_by_the_kind_of_their_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies and the calls of the host are no kernels. Of three launches, the last follows after 30 us, not 10."""
    on_gpu = (
        "vectorized_elementwise_kernel",
        "cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float>",
        "Memcpy DtoH",
        "Memset",
    )
    pytest.importorskip("torch")
    steps = TrainingSteps("cpu")
    events = [SimpleNamespace(name=each, device_type=SimpleNamespace(name="CUDA")) for each in (*on_gpu, on_gpu[0])]
    for name, end in (("cudaLaunchKernel", 40), ("cudaLaunchKernel", 0), ("cuLaunchKernelEx", 10), ("aten::add", 90)):
        time = SimpleNamespace(end=end)
        events.append(SimpleNamespace(name=name, device_type=SimpleNamespace(name="CPU"), time_range=time))

    class Found:
        """A finished profile."""

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_error: object) -> None:
            """Have nothing to end."""

        def events(self) -> list[Any]:
            return events

    monkeypatch.setattr("torch.profiler.profile", lambda **_options: Found())
    found = steps.launches(steps.plain)
    assert found.counts == {LAUNCH: 2, CONVOLUTION_LAUNCH: 1}
    assert found.longest == statistics.quantiles([10, 30], n=20)[-1] / 20


@pytest.mark.parametrize("error", [ImportError("no torch"), RuntimeError("no GPU"), AssertionError("no CUDA")])
def test_without_torch_or_its_gpu_nothing_is_timed(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def steps() -> TrainingSteps:
        raise error

    monkeypatch.setattr(cost_probe, "TrainingSteps", steps)
    assert find_steps() is None
    assert f"without training steps: {error}" in capsys.readouterr().err
