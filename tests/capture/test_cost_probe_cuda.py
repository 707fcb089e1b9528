"""The CUDA calls of the cost probe succeed on a machine with a GPU, and give an error without a driver."""

from pathlib import Path

import pytest

from nsyswrap.capture import cost_probe_cuda
from nsyswrap.capture.cost_probe_cuda import PTX, Cuda, runtimes
from nsyswrap.capture.kept_measurement import DRIVER


def test_an_answer_other_than_success_is_an_error() -> None:
    Cuda._check(0)  # noqa: SLF001 - the rule behind all calls
    with pytest.raises(OSError, match="CUDA answered 700"):
        Cuda._check(700)  # noqa: SLF001


def test_the_runtime_of_this_python_comes_before_that_of_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of several runtimes in one folder, the newest comes first."""
    for version in ("12", "13"):
        library = tmp_path / "site" / "nvidia" / f"cu{version}" / "lib" / f"libcudart.so.{version}"
        library.parent.mkdir(parents=True)
        library.touch()
    monkeypatch.setattr(cost_probe_cuda, "SYSTEM_RUNTIMES", ())
    found = [Path(each).name for each in runtimes([str(tmp_path / "missing"), str(tmp_path / "site")])]
    assert found == ["libcudart.so.13", "libcudart.so.12"]


def test_the_kernels_are_text_with_as_many_parameters_as_arguments_are_passed() -> None:
    head = PTX[PTX.index("nothing(") : PTX.index("{ ret; }")]
    assert head.count(".param .u64") == cost_probe_cuda.PARAMETERS
    assert PTX.count(".entry") == 2


@pytest.mark.skipif(not DRIVER.exists(), reason="this machine has no GPU")
def test_every_call_succeeds_on_a_gpu() -> None:
    cuda = Cuda()
    for _, call in (*cuda.kinds(), *cuda.graphs()):
        assert call() in {0, None}
    cuda.settle()
    queues = dict(cuda.queues())
    assert set(queues) >= {"queued_empty_kernel", "queued_short_kernel"}
    assert all(0 < queue() < 100_000 for queue in queues.values())
