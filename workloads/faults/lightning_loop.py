"""The training loop of Lightning, with the ranges that the other programs have.

A step begins where the one before it ends, so the wait for its batch and what the library does between epochs belong
to it.
"""

import logging
import warnings
from contextlib import ExitStack
from typing import Any

import common
import lightning
import torch
from lightning.pytorch.plugins.environments import LightningEnvironment
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from faults import training
from faults.training import Run


class Marks(lightning.Callback):  # type: ignore[misc]  # lightning is not typed here
    """Opens and closes the ranges of steps and phases, and keeps the host's pace."""

    def __init__(self, run: Run) -> None:
        self.steps = run.steps
        self.pace = training.Pace(run.device)
        self.step, self.phase = ExitStack(), ExitStack()

    def _begin(self, number: int) -> None:
        """Begin a step, which waits for its batch first."""
        self.step.enter_context(common.batch(number))
        self.phase.enter_context(common.phase("data"))

    def on_train_start(self, *_: object) -> None:
        """Begin the first step."""
        self._begin(0)

    def on_train_batch_start(self, *_: object) -> None:
        """End the wait for the batch."""
        self.phase.close()

    def on_before_backward(self, *_: object) -> None:
        """Begin the backward pass."""
        self.phase.enter_context(common.phase("backward"))

    def on_after_backward(self, *_: object) -> None:
        """End the backward pass."""
        self.phase.close()

    def on_before_optimizer_step(self, *_: object) -> None:
        """Begin the optimizer's phase."""
        self.phase.enter_context(common.phase("optimizer"))

    def on_train_batch_end(self, trainer: Any, *_: object) -> None:  # noqa: ANN401 - not typed here
        """End a step, and begin the next one."""
        self.phase.close()
        self.pace.wait()
        self.step.close()
        if trainer.global_step < self.steps:
            self._begin(trainer.global_step)


class Module(lightning.LightningModule):  # type: ignore[misc]  # lightning is not typed here
    """A network for the library's loop, with the mean squared error of its output and a fused optimizer."""

    def __init__(self, run: Run, network: nn.Module) -> None:
        super().__init__()
        self.run, self.network = run, network

    def training_step(self, batch: list[Tensor], number: int) -> Tensor:
        """Return the loss of a batch of inputs and targets."""
        del number
        with common.phase("forward"):
            return self.loss(self.network(batch[0]), batch[1])

    def loss(self, given: Tensor, wanted: Tensor) -> Tensor:
        """Return the loss of the network's output."""
        found: Tensor = functional.mse_loss(given, wanted)
        return found

    def transfer_batch_to_device(self, batch: list[Tensor], device: torch.device, number: int) -> list[Tensor]:
        """Return the batch on the device; the copy does not block the host."""
        del number
        with common.phase("copy"):
            return [each.to(device, non_blocking=True) for each in batch]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return an optimizer that is one kernel on a GPU."""
        return training.sgd(self, self.run)


def repeated(run: Run, batch: list[Tensor]) -> DataLoader[list[Tensor]]:
    """Return a loader that yields the same batch in each step."""
    return DataLoader([batch] * run.steps, batch_size=None)


def fit(run: Run, module: lightning.LightningModule, batches: object, **changed: object) -> None:
    """Let the library train as many epochs as the steps need.

    Args:
        run: Settings of the run.
        module: What to train.
        batches: Loader that yields the batches of an epoch.
        changed: Settings of the library's trainer, by their names.
    """
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    # Lightning advises more loader processes for any kind of batches.
    warnings.filterwarnings("ignore", module="lightning")
    usual: dict[str, object] = {
        "accelerator": "gpu" if run.device.type == "cuda" else "cpu",
        "devices": 1,
        "max_steps": run.steps,
        "max_epochs": -1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "callbacks": [Marks(run)],
        # Otherwise Lightning starts MPI, where that is installed, to find out whether there are several processes.
        "plugins": [LightningEnvironment()],
    }
    lightning.Trainer(**(usual | changed)).fit(module, batches)
