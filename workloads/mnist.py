"""A small network learns digits faster than one process can prepare them.

Each sample is decoded, distorted and normalised on the CPU, as in any training on images. One loader process needs
longer for a batch than a GPU for a step, so the GPU waits; several share the work; with none, the training process
does the work itself.

    python workloads/mnist.py                  one loader process
    python workloads/mnist.py --workers 8      the same samples, bit for bit, from eight
    python workloads/mnist.py --workers 0      none: the training process prepares each batch

MNIST's own files are read from --data where they are. Else digits of the same form are drawn there.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import common
import digits
import numpy as np
import numpy.typing as npt
import torch
from digits import SIDE
from digits.idx import IdxError
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

EXPECTS = {
    "": ("idle/data_wait",),
    "--workers 8": ("launches/launch_bound",),
    "--workers 0": ("idle/data_work",),
}

Gray = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

# How far a sample is distorted: half ranges.
TURN = 0.15  # radians
SCALE = 0.1
SHIFT = 1.5  # pixels
RIPPLE = 0.6  # pixels, for each wave
GAMMA = (0.6, 1.4)  # exponents of brightness
NOISE = np.float32(12)  # gray levels, standard deviation
WHITE = np.float32(255)

TEST_BATCH = 1000


class Distortion:
    """Rotates, scales, moves and ripples an image, with bilinear interpolation; changes its brightness; adds noise."""

    def __init__(self, mean: float, deviation: float) -> None:
        """Take the mean and the standard deviation of gray levels, which become 0 and 1."""
        self.mean = np.float32(mean)
        self.deviation = np.float32(deviation)
        middle = (SIDE - 1) / 2
        y, x = (np.mgrid[:SIDE, :SIDE].reshape(2, -1) - middle) / middle
        waves = [np.sin(np.pi * (a * x + b * y)) for a, b in ((1, 0), (0, 1), (1, 1), (1, -1))]
        self.basis = np.stack([np.ones_like(x), x, y, *waves]).astype(np.float32)
        self.middle = np.float32(middle)

    def __call__(self, pixels: Gray, random: np.random.Generator) -> Floats:
        """Return a distorted and normalised float32 image of the same shape, [28, 28]."""
        # An empty border of one pixel: pixels outside the image are black, and no index is out of bounds.
        sheet = np.zeros((SIDE + 2, SIDE + 2), dtype=np.float32)
        sheet[1:-1, 1:-1] = pixels
        places = self._movement(random) @ self.basis
        np.clip(places + (self.middle + 1), 0, SIDE + 0.999, out=places)
        corner = np.floor(places)
        right, down = places - corner
        cell = (corner[1] * (SIDE + 2) + corner[0]).astype(np.intp)
        flat = sheet.ravel()
        above = flat[cell] * (1 - right) + flat[cell + 1] * right
        below = flat[cell + SIDE + 2] * (1 - right) + flat[cell + SIDE + 3] * right
        light = (above * (1 - down) + below * down) / WHITE
        gray = WHITE * light ** np.float32(random.uniform(*GAMMA))
        gray += NOISE * random.standard_normal(gray.shape, dtype=np.float32)
        normal: Floats = (gray - self.mean) / self.deviation
        return normal.reshape(SIDE, SIDE)

    def _movement(self, random: np.random.Generator) -> Floats:
        """Return coefficients [2, 7] of the basis for the places where the image is read, in pixels from the middle."""
        draws = random.uniform(-1, 1, 13).astype(np.float32)
        turn, wide, high = TURN * draws[0], 1 + SCALE * draws[1], 1 + SCALE * draws[2]
        cos, sin = np.cos(turn) * self.middle, np.sin(turn) * self.middle
        moved = np.zeros((2, 7), dtype=np.float32)
        moved[0, :3] = SHIFT * draws[3], wide * cos, -high * sin
        moved[1, :3] = SHIFT * draws[4], wide * sin, high * cos
        moved[:, 3:] = RIPPLE * draws[5:].reshape(2, 4)
        return moved


class DistortedDigits:
    """Digits, each distorted in another way in each epoch; the work of a loader process."""

    def __init__(self, images: Gray, labels: Gray, seed: int) -> None:
        """Take images uint8 [n, 28, 28] and labels uint8 [n]; the seed decides all distortions."""
        self.content = images.tobytes()
        self.labels = labels
        self.seed = seed
        self.distort = Distortion(*gray_statistics(images))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, draw: int) -> tuple[Tensor, int]:
        """Return image float32 [1, 28, 28] and label of a draw.

        A draw is the digit's index plus the length times the epoch.
        """
        index = draw % len(self)
        pixels = np.frombuffer(self.content, np.uint8, SIDE * SIDE, index * SIDE * SIDE).reshape(SIDE, SIDE)
        # A source of its own for each draw: the samples do not depend on how many processes share the work.
        random = np.random.Generator(np.random.Philox(key=[self.seed, draw]))
        return torch.from_numpy(self.distort(pixels, random)).unsqueeze(0), int(self.labels[index])


class Shuffled:
    """Every index once an epoch, in an order of its own, plus the length times the epoch."""

    def __init__(self, length: int, seed: int) -> None:
        """Take the length of the data set, and the seed of all orders."""
        self.length = length
        self.seed = seed
        self.epoch = 0

    def __len__(self) -> int:
        """Return the number of draws in an epoch."""
        return self.length

    def __iter__(self) -> Iterator[int]:
        """Yield the draws of the next epoch."""
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.length)
        draws = (order + self.length * self.epoch).tolist()
        self.epoch += 1
        return iter(draws)


def network() -> nn.Sequential:
    """Return the network: two convolutions and two linear layers, for images [n, 1, 28, 28] and 10 classes."""
    features = (nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU())
    hidden = (nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Dropout(0.5))
    return nn.Sequential(*features, *hidden, nn.Linear(128, digits.CLASSES))


class Training(NamedTuple):
    """What one step works on."""

    model: nn.Sequential
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    device: torch.device
    amp: bool


class Epoch(NamedTuple):
    """Results of an epoch: the mean loss over its steps, how long it took, how long each step waited for its data."""

    loss: float
    took_ns: int
    waits_ns: list[int]


def train(training: Training, loader: DataLoader[list[Tensor]], first: int, count: int) -> Epoch:
    """Train for `count` steps of one epoch, numbered from `first`; the loader must have as many batches.

    The number of batches is known in advance, so no range `batch N` is opened after the last batch.
    """
    losses: list[Tensor] = []
    waits_ns: list[int] = []
    began_ns = time.perf_counter_ns()
    batches: Iterator[list[Tensor]] = iter(loader)
    training.model.train()
    for number in range(first, first + count):
        with common.batch(number):
            started_ns = time.perf_counter_ns()
            with common.phase("data"):
                images, labels = next(batches)
            waits_ns.append(time.perf_counter_ns() - started_ns)
            losses.append(step(training, images, labels))
    # The only wait for the GPU: reading the loss in each step would add one to each.
    loss = torch.stack(losses).mean().item()
    return Epoch(loss, time.perf_counter_ns() - began_ns, waits_ns)


def step(training: Training, images: Tensor, labels: Tensor) -> Tensor:
    """Do one step on images float32 [n, 1, 28, 28] and labels int64 [n]; return the loss, still on the device."""
    model, optimizer, scaler, device, amp = training
    with common.phase("copy"):
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
    with common.phase("forward"), common.autocast(device, enabled=amp):
        loss = functional.cross_entropy(model(images), labels)
    with common.phase("backward"):
        scaler.scale(loss).backward()
    with common.phase("optimizer"):
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def accuracy(training: Training, images: Gray, labels: Gray, distort: Distortion) -> float:
    """Return the share of images that the model classifies correctly; they are normalised, not distorted."""
    training.model.eval()
    right = 0
    with common.phase("evaluate"), torch.no_grad():
        for start in range(0, len(labels), TEST_BATCH):
            gray = torch.tensor(images[start : start + TEST_BATCH], device=training.device, dtype=torch.float32)
            wanted = torch.tensor(labels[start : start + TEST_BATCH], device=training.device)
            guesses = training.model(((gray - distort.mean) / distort.deviation).unsqueeze(1)).argmax(1)
            right += int((guesses == wanted).sum())
    return right / len(labels)


def gray_statistics(images: Gray) -> tuple[float, float]:
    """Return mean and standard deviation of the gray levels; some thousand images are enough."""
    some = images[:5000]
    return float(some.mean()), float(some.std()) or 1.0


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = common.parser(__doc__, batch_size=64, steps=200)
    parser.add_argument("--epochs", type=common.positive, metavar="N", help="train N whole epochs, whatever --steps is")
    parser.add_argument("--workers", type=common.natural, default=1, metavar="N", help="loader processes (%(default)s)")
    parser.add_argument(
        "--data", type=Path, default=Path("data", "mnist"), metavar="DIR", help="MNIST's files (%(default)s)"
    )
    parser.add_argument("--pin", action=argparse.BooleanOptionalAction, help="pinned host memory (on with a GPU)")
    return parser


def loader_for(samples: DistortedDigits, chosen: argparse.Namespace, device: torch.device) -> DataLoader[list[Tensor]]:
    """Return the loader for these options; its processes live through all epochs."""
    loader: DataLoader[list[Tensor]] = DataLoader(
        samples,
        batch_size=chosen.batch_size,
        sampler=Shuffled(len(samples), chosen.seed),
        num_workers=chosen.workers,
        persistent_workers=chosen.workers > 0,
        pin_memory=device.type == "cuda" if chosen.pin is None else chosen.pin,
        drop_last=True,
        # The loader draws the seeds of its processes from a generator of its own. Otherwise their number would change
        # dropout.
        generator=torch.Generator(),
    )
    return loader


def main(arguments: list[str] | None = None) -> None:
    """Train, and print loss, accuracy, time and the wait for data after each epoch."""
    chosen = options().parse_args(arguments)
    common.plant(chosen.seed)
    device = common.device_named(chosen.device)
    try:
        data = digits.load(chosen.data)
    except (IdxError, OSError) as error:
        sys.exit(f"mnist.py: {error}")
    samples = DistortedDigits(data.train_images, data.train_labels, chosen.seed)
    loader = loader_for(samples, chosen, device)
    if not len(loader):
        sys.exit(f"mnist.py: --batch-size {chosen.batch_size} is more than the {len(samples)} images in {data.source}")
    model = network().to(device)
    scaler = common.scaler(device, enabled=chosen.amp)
    training = Training(model, torch.optim.Adam(model.parameters()), scaler, device, chosen.amp)
    steps = chosen.epochs * len(loader) if chosen.epochs else chosen.steps
    print(f"{data.source}: {len(samples)} digits; {device.type}, {chosen.workers} loader processes, {steps} steps")
    for number, first in enumerate(range(0, steps, len(loader)), start=1):
        epoch = train(training, loader, first, min(len(loader), steps - first))
        share = accuracy(training, data.test_images, data.test_labels, samples.distort)
        wait_ms = common.settled_median(epoch.waits_ns) / 1e6
        took = f"{epoch.took_ns / 1e9:.2f} s, data {wait_ms:.3f} ms a batch (median)"
        print(f"epoch {number}: loss {epoch.loss:.4f}, accuracy {share:.2%}, {took}")


if __name__ == "__main__":
    main()
