"""The training loop of Hugging Face's transformers, with the ranges that the other programs have.

A step begins where the one before it ends, so the wait for its batch belongs to it. The batches are on the GPU, and the
loop reads nothing back unless a program requests it. So the measured cost is that of the fault alone.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import common
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.utils import logging

from faults import training
from faults.training import Run

Batch = dict[str, Tensor]


class Batches(Dataset):  # type: ignore[misc]  # torch is not typed here
    """A few batches, over and over, as many as the steps need."""

    def __init__(self, batches: Sequence[Batch], count: int) -> None:
        self.batches = batches
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Batch:
        return self.batches[index % len(self.batches)]


def whole(batches: list[Batch]) -> Batch:
    """Return the only batch of a list unchanged: the collate function for complete batches."""
    return batches[0]


class Marks(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Opens and closes the range of each step, and keeps the host's pace."""

    def __init__(self, run: Run) -> None:
        self.pace = training.Pace(run.device)
        self.step = ExitStack()
        self.optimizer = ExitStack()

    def on_train_begin(self, *_: object, **__: object) -> None:
        self.step.enter_context(common.batch(0))

    def on_pre_optimizer_step(self, *_: object, **__: object) -> None:
        """Begin the optimizer's phase."""
        self.optimizer.enter_context(common.phase("optimizer"))

    def on_optimizer_step(self, *_: object, **__: object) -> None:
        """End the optimizer's phase."""
        self.optimizer.close()

    def on_step_end(self, _: object, state: Any, *__: object, **___: object) -> None:  # noqa: ANN401 - not typed here
        """End a step, and begin the next one."""
        self.pace.wait()
        self.step.close()
        if state.global_step < state.max_steps:
            self.step.enter_context(common.batch(state.global_step))


class Marked(Trainer):  # type: ignore[misc]  # transformers is not typed here
    """The library's trainer; data, forward and backward pass have their ranges."""

    def __init__(self, run: Run, model: nn.Module, batches: Sequence[Batch], arguments: TrainingArguments) -> None:
        """Take the settings of the run, what to train on which batches, and the library's settings."""
        count = run.steps * arguments.gradient_accumulation_steps
        super().__init__(model=model, args=arguments, train_dataset=Batches(batches, count), data_collator=whole)
        self.remove_callback(PrinterCallback)
        self.add_callback(Marks(run))
        unmarked = self.accelerator.backward

        def backward(*given: object, **named: object) -> None:
            with common.phase("backward"):
                unmarked(*given, **named)

        self.accelerator.backward = backward

    def get_batch_samples(self, *given: object, **named: object) -> object:
        with common.phase("data"):
            return super().get_batch_samples(*given, **named)

    def compute_loss(self, *given: object, **named: object) -> object:
        with common.phase("forward"):
            return super().compute_loss(*given, **named)


def settings(run: Run, folder: str, **changed: object) -> TrainingArguments:
    """Return the library's settings for a loop without faults, with some settings changed.

    Args:
        run: Settings of the run.
        folder: Where checkpoints would go.
        changed: Settings by their names in the library.
    """
    usual: dict[str, object] = {
        "output_dir": folder,
        "max_steps": run.steps,
        "per_device_train_batch_size": 1,
        "learning_rate": 1e-4,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "optim": "adamw_torch_fused",
        "dataloader_pin_memory": False,
        "remove_unused_columns": False,
        "logging_strategy": "no",
        "logging_nan_inf_filter": False,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": run.device.type == "cpu",
        "average_tokens_across_devices": False,
    }
    return TrainingArguments(**(usual | changed))


def train(run: Run, model: nn.Module, batches: Sequence[Batch], **changed: object) -> float:
    """Let the library train on the batches in turn; return the mean loss.

    Args:
        run: Settings of the run.
        model: What to train.
        batches: What to train on, by the names of the model's arguments.
        changed: The library's settings, by their names.
    """
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Marked(run, model, batches, settings(run, folder, **changed))
        return float(trainer.train().training_loss)


def tokens(run: Run, vocabulary: int, rows: int, length: int) -> Iterator[Tensor]:
    """Yield random tokens int64 [rows, length] on the device, without end."""
    while True:
        yield torch.randint(vocabulary, (run.size(rows, 2), run.size(length, 8)), device=run.device)
