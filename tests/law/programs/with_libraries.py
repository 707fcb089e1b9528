"""Programs that train with Lightning, Transformers or Accelerate; each is skipped where its library is missing."""

import importlib
import io
import logging
import os
import warnings
from contextlib import redirect_stdout, suppress

import torch
from program import digest, need, run
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # bars of progress show times
# Imported here, once for all programs of this file.
for library in ("lightning.pytorch", "transformers", "transformers.trainer", "accelerate", "safetensors.torch"):
    with suppress(ImportError):
        importlib.import_module(library)

DATA = TensorDataset(torch.arange(32.0).reshape(8, 4) / 32, torch.tensor([0, 1] * 4))


def linear():
    torch.manual_seed(0)
    return nn.Linear(4, 2)


def quiet():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def lightning_trainer(**named):
    from lightning import pytorch as pl

    return pl.Trainer(
        accelerator="cpu",
        max_epochs=2,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
        **named,
    )


def lightning_module(calls, manual=False):
    from lightning import pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = not manual
            self.inner = linear()

        def forward(self, x):
            return self.inner(x)

        def training_step(self, batch, index):
            x, y = batch
            loss = nn.functional.cross_entropy(self(x), y)
            calls.append("step")
            if not manual:
                return loss
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            return None

        def validation_step(self, batch, index):
            calls.append("validation")
            self.log("loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

        def on_before_optimizer_step(self, optimizer):
            calls.append(type(optimizer).__name__)

        def on_after_backward(self):
            calls.append("backward")

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.1)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    return Module()


def program_lightning():
    need("lightning.pytorch")
    quiet()
    calls = []
    module = lightning_module(calls)
    trainer = lightning_trainer(enable_checkpointing=True, default_root_dir=os.getcwd())
    trainer.fit(module, DataLoader(DATA, batch_size=4, shuffle=True), DataLoader(DATA, batch_size=4))
    print(calls, digest(module), trainer.global_step)
    trainer.save_checkpoint("saved.ckpt")
    print(sorted(torch.load("saved.ckpt", weights_only=False)), float(trainer.callback_metrics["loss"]))
    print(
        len(trainer.predict(module, DataLoader(TensorDataset(DATA.tensors[0]), collate_fn=lambda items: items[0][0])))
    )


def program_lightning_by_hand():
    need("lightning.pytorch")
    quiet()
    calls = []
    module = lightning_module(calls, manual=True)
    lightning_trainer(enable_checkpointing=False).fit(module, DataLoader(DATA, batch_size=4, num_workers=1))
    print(calls, digest(module))


def program_lightning_fabric():
    need("lightning.fabric")
    quiet()
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", precision="bf16-mixed")
    module = linear()
    module, optimizer = fabric.setup(module, torch.optim.SGD(module.parameters(), lr=0.1))
    for x, y in fabric.setup_dataloaders(DataLoader(DATA, batch_size=4)):
        optimizer.zero_grad()
        fabric.backward(nn.functional.cross_entropy(module(x), y))
        optimizer.step()
    fabric.save("saved.ckpt", {"model": module})
    print(digest(module), type(optimizer).__name__, sorted(torch.load("saved.ckpt")["model"]))


def tokenizer():
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    words = WordLevel({"[PAD]": 0, "[UNK]": 1, "a": 2, "b": 3, "c": 4}, unk_token="[UNK]")
    inner = Tokenizer(words)
    inner.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]")


def small_bert():
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    )


def program_transformers_trainer():
    need("transformers.trainer", "accelerate")
    quiet()
    from transformers import Trainer, TrainingArguments

    encoded = tokenizer()(["a b c", "c", "b b", "a c"] * 2, padding=True)
    data = [{"input_ids": ids, "labels": number % 2} for number, ids in enumerate(encoded["input_ids"])]
    arguments = TrainingArguments(
        output_dir="out", max_steps=4, per_device_train_batch_size=2, save_steps=2, report_to=[], use_cpu=True, seed=3,
        disable_tqdm=True, logging_steps=2, gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=2,
    )  # fmt: skip
    model = small_bert()
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data)
    with redirect_stdout(io.StringIO()):
        trainer.train()
    print(
        digest(model), trainer.state.global_step, [sorted(set(each) - {"epoch"}) for each in trainer.state.log_history]
    )
    print(sorted(os.listdir("out")), sorted(os.listdir("out/checkpoint-2")))


def program_accelerate():
    need("accelerate")
    quiet()
    from accelerate import Accelerator
    from accelerate.utils import set_seed

    set_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    module = linear()
    optimizer = torch.optim.AdamW(module.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    module, optimizer, loader, scheduler = accelerator.prepare(
        module, optimizer, DataLoader(DATA, batch_size=2, shuffle=True), scheduler
    )
    for x, y in loader:
        with accelerator.accumulate(module):
            accelerator.backward(nn.functional.cross_entropy(module(x), y))
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    accelerator.save_state("saved")
    print(digest(module), type(optimizer).__name__, type(loader).__name__, sorted(os.listdir("saved")))
    accelerator.load_state("saved")
    print(digest(accelerator.unwrap_model(module)), scheduler.get_last_lr())


if __name__ == "__main__":
    run(globals())
