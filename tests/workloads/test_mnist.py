"""The MNIST workload: its ranges are correct, it learns, and a seed determines all its results."""

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest

WORKLOADS = Path(__file__).resolve().parents[2] / "workloads"
Floats = npt.NDArray[np.float64]
PHASES = ["data", "copy", "forward", "backward", "optimizer"]


@pytest.fixture(scope="module")
def mnist() -> Iterator[ModuleType]:
    """Import workloads/mnist.py with its folder on the path, as when it is started."""
    sys.path.insert(0, str(WORKLOADS))
    import mnist  # noqa: PLC0415 - only where the path is set

    yield mnist
    sys.path.remove(str(WORKLOADS))


@pytest.fixture(scope="module")
def data(mnist: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with MNIST's four files, with few digits."""
    folder = tmp_path_factory.mktemp("mnist")
    for number, count in enumerate((1000, 200)):
        images, labels = mnist.digits.drawing.draw(count, seed=number)
        mnist.digits.idx.write(folder / mnist.digits.FILES[2 * number], images)
        mnist.digits.idx.write(folder / mnist.digits.FILES[2 * number + 1], labels)
    return folder


def losses(output: str) -> list[str]:
    """Return loss and accuracy of each epoch, as printed."""
    return re.findall(r"loss (.*?%), ", output)


def trained(mnist: ModuleType, capsys: pytest.CaptureFixture[str], data: Path, *arguments: str) -> str:
    """Return the output of a training without loader processes."""
    mnist.main(["--data", str(data), "--workers", "0", *arguments])
    return capsys.readouterr().out


def test_each_step_is_a_batch_with_its_phases_in_order(
    mnist: ModuleType, data: Path, capsys: pytest.CaptureFixture[str], events: list[str]
) -> None:
    """`batch N` contains data, copy, forward, backward, optimizer. N continues over epochs, and no batch is empty."""
    trained(mnist, capsys, data, "--batch-size", "500", "--steps", "3")
    expected = []
    for number in range(3):
        expected += [f"+batch {number}", *(sign + name for name in PHASES for sign in "+-"), f"-batch {number}"]
        if number in (1, 2):  # the end of the first epoch, and of the second, which is cut short
            expected += ["+evaluate", "-evaluate"]
    assert events == expected


def test_the_data_range_holds_the_wait_for_the_batch_alone(
    mnist: ModuleType, events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is requested inside `data` once a step, and not again after the last batch."""

    class Loader:
        def __iter__(self) -> "Loader":
            events.append("start")
            return self

        def __next__(self) -> list[str]:
            events.append("next")
            return ["images", "labels"]

    monkeypatch.setattr(mnist, "step", lambda *_: mnist.torch.tensor(1.5))
    training = mnist.Training(mnist.network(), None, None, mnist.torch.device("cpu"), amp=False)
    epoch = mnist.train(training, Loader(), 4, 2)
    one, two = (["+batch %d", "+data", "next", "-data", "-batch %d"] for _ in range(2))
    assert events == ["start", *(each.replace("%d", "4") for each in one), *(each.replace("%d", "5") for each in two)]
    assert epoch.loss == 1.5
    assert len(epoch.waits_ns) == 2
    assert epoch.took_ns >= sum(epoch.waits_ns)


@pytest.mark.parametrize("precision", [[], ["--amp"]], ids=["float32", "amp"])
def test_it_learns(mnist: ModuleType, data: Path, capsys: pytest.CaptureFixture[str], precision: list[str]) -> None:
    """In two short epochs on drawn digits the loss falls, and most digits of the test set are recognized."""
    output = trained(mnist, capsys, data, "--epochs", "2", "--device", "cpu", *precision)
    first, second = (float(loss) for loss in re.findall(r"loss ([\d.]+)", output))
    assert second < first
    assert float(re.findall(r"accuracy ([\d.]+)%", output)[-1]) > 80


def test_a_seed_decides_the_training(mnist: ModuleType, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once, again, other = (
        losses(trained(mnist, capsys, data, "--device", "cpu", "--steps", "4", "--seed", seed)) for seed in "112"
    )
    assert once == again
    assert once != other


def test_loader_processes_change_nothing_but_the_time(
    mnist: ModuleType, data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two loader processes prepare the same samples as the training process, in every epoch."""
    chosen = ["--data", str(data), "--device", "cpu", "--batch-size", "500", "--steps", "3"]
    monkeypatch.setattr(sys, "argv", ["mnist.py", *chosen, "--workers", "2"])
    runpy.run_path(str(WORKLOADS / "mnist.py"), run_name="__main__")
    shared = capsys.readouterr()
    assert shared.err == ""
    mnist.main([*chosen, "--workers", "0"])
    alone = losses(capsys.readouterr().out)
    assert len(alone) == 2
    assert losses(shared.out) == alone


def test_each_epoch_draws_every_digit_once_in_an_order_of_its_own(mnist: ModuleType) -> None:
    sampler = mnist.Shuffled(100, seed=0)
    first, second = list(sampler), list(sampler)
    assert len(sampler) == 100
    assert sorted(first) == list(range(100))
    assert sorted(second) == list(range(100, 200))
    assert [each - 100 for each in second] != first


def test_a_digit_is_distorted_differently_in_each_epoch(mnist: ModuleType) -> None:
    """The same draw gives the same sample; the digit's next draw gives another, with the same label."""
    images, labels = mnist.digits.drawing.draw(10, seed=0)
    samples = mnist.DistortedDigits(images, labels, seed=5)
    (once, label), (again, _), (later, later_label) = (samples[draw] for draw in (3, 3, 13))
    assert once.shape == (1, 28, 28)
    assert once.dtype == mnist.torch.float32
    assert label == later_label == labels[3]
    assert (once == again).all()
    assert not (once == later).all()


class Middle:
    """A source of random numbers that always returns the middle of the distribution."""

    def uniform(self, low: float, high: float, size: int = 1) -> Floats:
        """Return the middle of the range, `size` times."""
        return np.full(size, (low + high) / 2)

    def standard_normal(self, shape: tuple[int, ...], dtype: type[np.float32]) -> npt.NDArray[np.float32]:
        return np.zeros(shape, dtype)


def test_no_distortion_only_normalises(mnist: ModuleType) -> None:
    """If every draw is the middle, an image is only normalised: gray levels less the mean, over the deviation."""
    image = np.arange(784, dtype=np.uint8).reshape(28, 28)
    plain = mnist.Distortion(100, 50)(image, Middle())
    assert plain == pytest.approx((image.astype(float) - 100) / 50, abs=1e-4)


def test_what_comes_in_from_outside_the_sheet_is_black(mnist: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A white sheet that is moved by 3 and 5 pixels is black on two sides."""
    read_at = np.array([[3, 13.5, 0, 0, 0, 0, 0], [-5, 0, 13.5, 0, 0, 0, 0]], dtype=np.float32)
    monkeypatch.setattr(mnist.Distortion, "_movement", lambda *_: read_at)
    moved = mnist.Distortion(0, 1)(np.full((28, 28), 255, np.uint8), Middle())
    assert (moved[5:, :25] > 254).all()
    assert (moved[:5] < 1).all()
    assert (moved[:, 25:] < 1).all()


def test_a_batch_larger_than_the_data_is_refused(mnist: ModuleType, data: Path) -> None:
    with pytest.raises(SystemExit, match="--batch-size 2001 is more than the 1000 images"):
        mnist.main(["--data", str(data), "--batch-size", "2001"])


def test_a_broken_file_is_an_error_without_a_traceback(mnist: ModuleType, tmp_path: Path) -> None:
    (tmp_path / mnist.digits.FILES[0]).write_bytes(b"")
    with pytest.raises(SystemExit, match=r"^mnist\.py: .* has some of MNIST's files but not"):
        mnist.main(["--data", str(tmp_path)])


@pytest.mark.parametrize(
    "arguments", [["--steps", "0"], ["--seed", "-1"], ["--workers", "-1"], ["--batch-size", "x"], ["--device", "tpu"]]
)
def test_options_that_make_no_sense_are_refused(mnist: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        mnist.main(arguments)
    assert refused.value.code == 2


def test_a_gpu_that_is_not_there_is_refused(mnist: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist.torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="PyTorch sees no GPU"):
        mnist.common.device_named("cuda")
    assert mnist.common.device_named("auto").type == "cpu"
    monkeypatch.setattr(mnist.torch.cuda, "is_available", lambda: True)
    assert mnist.common.device_named("auto").type == "cuda"
    assert mnist.common.device_named("cpu").type == "cpu"


def test_the_median_leaves_the_first_steps_out(mnist: ModuleType) -> None:
    """The first steps wait for processes to start. They count only if there are no others."""
    assert mnist.common.settled_median([900, 800, 700, 600, 500, 1, 2, 3]) == 2
    assert mnist.common.settled_median([9, 1, 5]) == 5
