"""Trains a small model with the trainer of a library, two batches a step, with evaluations in between.

    python trainer_program.py lightning 60

``tests/real_nsys/test_recorded_loops.py`` runs it under the real nsys. It prints how many steps were taken.
"""

# ruff: noqa: ANN401, PLC0415 - a library is imported where it is used
import sys
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

DATA = TensorDataset(torch.linspace(-1, 1, 256).reshape(64, 4), torch.arange(64) % 2)


class Named(Dataset[dict[str, Any]]):  # type: ignore[misc]
    """Samples with names, as Transformers takes them."""

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(DATA)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return dict(zip(("inputs", "labels"), DATA[index], strict=True))


class Classifier(nn.Module):  # type: ignore[misc]
    """A model that computes its own loss, as Transformers calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 2)

    def forward(self, inputs: Any, labels: Any) -> dict[str, Any]:
        """Return loss and logits."""
        logits = self.inner(inputs)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def lightning(steps: int) -> int:
    from lightning import pytorch as pl

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = Classifier()

        def training_step(self, batch: Any, _index: int) -> Any:
            return self.inner(*batch)["loss"]

        def validation_step(self, batch: Any, _index: int) -> None:
            self.inner(*batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    silent = dict.fromkeys(("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger"), False)
    trainer = pl.Trainer(
        accelerator="cpu", max_steps=steps, accumulate_grad_batches=2, val_check_interval=0.5, **silent
    )
    trainer.fit(Module(), DataLoader(DATA, 4), DataLoader(DATA, 32))
    return int(trainer.global_step)


def transformers(steps: int) -> int:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir="out",
        max_steps=steps,
        gradient_accumulation_steps=2,
        per_device_train_batch_size=4,
        eval_strategy="steps",
        eval_steps=10,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
    )
    trainer = Trainer(Classifier(), arguments, train_dataset=Named(), eval_dataset=Named())
    trainer.train()
    return int(trainer.state.global_step)


def accelerate(steps: int) -> int:
    from accelerate import Accelerator

    accelerator, model, taken = Accelerator(cpu=True, gradient_accumulation_steps=2), Classifier(), 0
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(DATA, 4)
    )
    while taken < steps:
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(*batch)["loss"])
                optimizer.step()
                optimizer.zero_grad()
            taken += accelerator.sync_gradients
        with torch.no_grad():
            model(*DATA[:])
    return taken


if __name__ == "__main__":
    torch.set_num_threads(1)
    train = {"lightning": lightning, "transformers": transformers, "accelerate": accelerate}[sys.argv[1]]
    sys.stdout.write(f"{train(int(sys.argv[2]))} steps\n")
