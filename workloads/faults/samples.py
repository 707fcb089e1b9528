"""Samples that a CPU has to prepare, and loaders that share the work."""

from typing import TYPE_CHECKING

import common
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from faults import training
from faults.training import Run

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKENS, FEATURES = 128, 64
BATCH = 32
# Each octave is a Fourier transform there and back: some 0.1 ms of a CPU.
OCTAVES = 4


class Waves:
    """Noise, filtered once for each octave; without octaves a constant that costs nothing. Samples repeat exactly."""

    def __init__(self, length: int, octaves: int) -> None:
        """Take the number of samples, and how often each is filtered."""
        self.length = length
        self.octaves = octaves

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return a sample float32 [TOKENS, FEATURES] and its target [TOKENS, OUTPUTS]."""
        if not self.octaves:
            sample = torch.full((TOKENS, FEATURES), index / self.length)
            return sample, sample[:, : training.OUTPUTS]
        random = np.random.Generator(np.random.Philox(key=[0, index]))
        values = random.standard_normal(TOKENS * FEATURES)
        for octave in range(self.octaves):
            spectrum = np.fft.rfft(values)
            spectrum[len(spectrum) >> octave :] *= 0.5
            values = np.fft.irfft(spectrum)
        sample = torch.from_numpy(values.astype(np.float32)).reshape(TOKENS, FEATURES)
        return sample, sample[:, : training.OUTPUTS].clone()


def loader(waves: Waves, workers: int, run: Run, *, persistent: bool = True) -> DataLoader[list[Tensor]]:
    """Return a loader of whole batches in pinned memory."""
    return DataLoader(
        waves,
        batch_size=BATCH,
        num_workers=workers,
        persistent_workers=persistent and workers > 0,
        pin_memory=run.device.type == "cuda",
        drop_last=True,
    )


def train(run: Run, batches: DataLoader[list[Tensor]], layers: int = 3) -> Tensor:
    """Train this many layers on a loader's batches, for as many epochs as the steps need; return the last loss."""
    model = training.network(run, FEATURES, layers=layers)
    optimizer = training.sgd(model, run)
    loss = torch.zeros(())
    epoch: Iterator[list[Tensor]] = iter(())
    for number in training.steps(run):
        with common.phase("data"):
            if number % len(batches) == 0:
                epoch = iter(batches)
            inputs, wanted = next(epoch)
        with common.phase("copy"):
            inputs = inputs.to(run.device, non_blocking=True)
            wanted = wanted.to(run.device, non_blocking=True)
        loss = training.train(model, optimizer, inputs, wanted)
    return loss
