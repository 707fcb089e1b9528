"""Changes to a program as a few lines of Python to copy: their form, and those that several rules share.

Each change is written for PyTorch, and for the training loops of Lightning and Transformers where it differs there.
The tests check that the lines are valid Python and that PyTorch knows each name and argument.
"""

from typing import NamedTuple

PYTORCH, LIGHTNING, TRANSFORMERS = "PyTorch", "Lightning", "Hugging Face Transformers"


class CodeChange(NamedTuple):
    """One change as code.

    Attributes:
        library: Whose training loop it is for: "PyTorch", "Lightning" or "Hugging Face Transformers".
        code: Lines of Python.
    """

    library: str
    code: str


WORKERS = (
    CodeChange(
        PYTORCH,
        "loader = DataLoader(\n"
        "    dataset,\n"
        "    batch_size=batch_size,\n"
        "    num_workers=8,  # up to one for each core\n"
        "    pin_memory=True,\n"
        "    persistent_workers=True,\n"
        "    prefetch_factor=4,\n"
        ")",
    ),
    CodeChange(
        TRANSFORMERS,
        "arguments = TrainingArguments(\n"
        "    dataloader_num_workers=8,\n"
        "    dataloader_pin_memory=True,\n"
        "    dataloader_persistent_workers=True,\n"
        "    dataloader_prefetch_factor=4,\n"
        ")",
    ),
)
COMPILED = (
    CodeChange(
        PYTORCH,
        "model = torch.compile(model)\n"
        "# With CUDA graphs, too, where shapes do not change:\n"
        '# model = torch.compile(model, mode="reduce-overhead")',
    ),
    CodeChange(LIGHTNING, "trainer.fit(torch.compile(module), loader)"),
    CodeChange(TRANSFORMERS, "arguments = TrainingArguments(torch_compile=True)"),
)
# Of a program that launches CUDA graphs already.
COMPILED_WITH_GRAPHS = (CodeChange(PYTORCH, "model = torch.compile(model)"), *COMPILED[1:])
NO_WAITS = (
    CodeChange(
        PYTORCH,
        "losses.append(loss.detach())  # stays on the GPU: no wait\n"
        "if step % 100 == 0:\n"
        "    print(torch.stack(losses).mean().item())  # one wait in 100 steps\n"
        "    losses.clear()",
    ),
    CodeChange(
        LIGHTNING,
        'self.log("loss", loss)  # in training_step, without .item()\ntrainer = Trainer(log_every_n_steps=100)',
    ),
    CodeChange(TRANSFORMERS, "arguments = TrainingArguments(logging_steps=100, logging_nan_inf_filter=False)"),
)
PINNED = (
    CodeChange(
        PYTORCH,
        "loader = DataLoader(dataset, num_workers=8, pin_memory=True)\nbatch = batch.to(device, non_blocking=True)",
    ),
    CodeChange(
        LIGHTNING, "loader = DataLoader(dataset, num_workers=8, pin_memory=True)  # Lightning copies without blocking"
    ),
    CodeChange(
        TRANSFORMERS,
        "arguments = TrainingArguments(\n"
        "    dataloader_num_workers=8,\n"
        "    dataloader_pin_memory=True,\n"
        '    accelerator_config={"non_blocking": True},\n'
        ")",
    ),
)
CHANNELS_LAST = (
    CodeChange(
        PYTORCH,
        "model = model.to(memory_format=torch.channels_last)\n"
        "images = images.to(device, memory_format=torch.channels_last, non_blocking=True)",
    ),
)
KEPT_MEMORY = (
    CodeChange(
        PYTORCH,
        "# Take torch.cuda.empty_cache() out of the step. Before the first CUDA call:\n"
        'os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"',
    ),
    CodeChange(TRANSFORMERS, "arguments = TrainingArguments(torch_empty_cache_steps=None)"),
)
FEWER_THREADS = (CodeChange(PYTORCH, "torch.set_num_threads(4)  # fewer than the cores that the program has"),)
IN_BACKGROUND = (
    CodeChange(
        PYTORCH,
        "from concurrent.futures import ThreadPoolExecutor\n"
        "\n"
        "background = ThreadPoolExecutor(1)\n"
        "waiting = background.submit(work, argument)  # as early as possible\n"
        "train(batch)\n"
        "result = waiting.result()  # where the step needs it",
    ),
)
