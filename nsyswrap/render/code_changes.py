"""The change to the program for each rule of findings, as a few lines of Python to copy.

Each change is written for PyTorch, and for the training loops of Lightning and Transformers where it differs there.
The tests check that the lines are valid Python and that PyTorch knows each name and argument.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from nsyswrap.program_kind import UNKNOWN, ProgramKind
from nsyswrap.sections.idle_advice import ADVICE, ADVICE_OF_LIBRARIES, OWN_THREADS, SHORT_CODE, SMALL_COPIES

PYTORCH, LIGHTNING, TRANSFORMERS = "PyTorch", "Lightning", "Hugging Face Transformers"


class CodeChange(NamedTuple):
    """One change as code.

    Attributes:
        library: Whose training loop it is for: "PyTorch", "Lightning" or "Hugging Face Transformers".
        code: Lines of Python.
    """

    library: str
    code: str


def code_changes(rule: str, advice: str = "", kind: ProgramKind = UNKNOWN) -> tuple[CodeChange, ...]:
    """Return the change for a finding, PyTorch's first; empty where no few lines make it.

    Args:
        rule: Rule of the finding.
        advice: Its advice, for rules whose advice depends on the capture, such as a rank that is late.
        kind: What kind of program it is; there is code for PyTorch alone.
    """
    if not kind.is_pytorch:
        return ()
    by_advice = (changes for words, changes in _BY_ADVICE.items() if kind.fitted(words) == advice)
    found = next(by_advice, ()) or CODE_CHANGES.get(rule, ())
    return _COMPILED_WITH_GRAPHS if kind.uses_graphs and found == _COMPILED else found


_WORKERS = (
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
_KEPT_WORKERS = (
    CodeChange(PYTORCH, "loader = DataLoader(dataset, num_workers=8, persistent_workers=True)"),
    CodeChange(
        TRANSFORMERS, "arguments = TrainingArguments(dataloader_num_workers=8, dataloader_persistent_workers=True)"
    ),
)
_COMPILED = (
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
_COMPILED_WITH_GRAPHS = (CodeChange(PYTORCH, "model = torch.compile(model)"), *_COMPILED[1:])
_FUSED_OPTIMIZER = (
    CodeChange(PYTORCH, "optimizer = torch.optim.AdamW(model.parameters(), lr=rate, fused=True)"),
    CodeChange(
        LIGHTNING,
        "def configure_optimizers(self):\n    return torch.optim.AdamW(self.parameters(), lr=self.rate, fused=True)",
    ),
    CodeChange(TRANSFORMERS, 'arguments = TrainingArguments(optim="adamw_torch_fused")'),
)
_NO_WAITS = (
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
_PINNED = (
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
_OVERLAPPED_COPIES = (
    CodeChange(
        PYTORCH,
        "copies = torch.cuda.Stream()\n"
        "\n"
        "\n"
        "def on_gpu(loader):\n"
        '    """Yield each batch; the next one is copied meanwhile."""\n'
        "    following = None\n"
        "    for batch in loader:  # pin_memory=True\n"
        "        with torch.cuda.stream(copies):\n"
        "            copied = batch.to(device, non_blocking=True)\n"
        "        if following is not None:\n"
        "            yield following\n"
        "        torch.cuda.current_stream().wait_stream(copies)\n"
        "        copied.record_stream(torch.cuda.current_stream())\n"
        "        following = copied\n"
        "    if following is not None:\n"
        "        yield following",
    ),
)
_MIXED_PRECISION = (
    CodeChange(
        PYTORCH,
        'torch.set_float32_matmul_precision("high")  # TF32 for what stays in float32\n'
        'with torch.autocast("cuda", dtype=torch.bfloat16):\n'
        "    loss = criterion(model(inputs), targets)",
    ),
    CodeChange(LIGHTNING, 'trainer = Trainer(precision="bf16-mixed")'),
    CodeChange(TRANSFORMERS, "arguments = TrainingArguments(bf16=True, tf32=True)"),
)
_CHANNELS_LAST = (
    CodeChange(
        PYTORCH,
        "model = model.to(memory_format=torch.channels_last)\n"
        "images = images.to(device, memory_format=torch.channels_last, non_blocking=True)",
    ),
)
_BATCHED = (
    CodeChange(PYTORCH, "products = torch.bmm(torch.stack(lefts), torch.stack(rights))  # one kernel, no loop"),
)
_COLLECTED_SELDOM = (
    CodeChange(
        PYTORCH,
        "gc.collect()\n"
        "gc.freeze()\n"
        "gc.disable()\n"
        "for step, batch in enumerate(loader):\n"
        "    train(batch)\n"
        "    if step % 1000 == 0:\n"
        "        gc.collect()",
    ),
)
_SAVED_BEHIND = (
    CodeChange(
        PYTORCH,
        "from torch.distributed.checkpoint import async_save\n"
        "\n"
        'saving = async_save({"model": model.state_dict()}, checkpoint_id=f"step-{step}")\n'
        "saving.result()  # before the next checkpoint",
    ),
    CodeChange(
        LIGHTNING,
        "from lightning.pytorch.plugins.io import AsyncCheckpointIO\n"
        "\n"
        "trainer = Trainer(plugins=[AsyncCheckpointIO()])",
    ),
    CodeChange(TRANSFORMERS, "arguments = TrainingArguments(save_steps=1000)  # less often"),
)
_KEPT_MEMORY = (
    CodeChange(
        PYTORCH,
        "# Take torch.cuda.empty_cache() out of the step. Before the first CUDA call:\n"
        'os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"',
    ),
    CodeChange(TRANSFORMERS, "arguments = TrainingArguments(torch_empty_cache_steps=None)"),
)
_COMPILED_ONCE = (
    CodeChange(
        PYTORCH,
        "model = torch.compile(model, dynamic=True)  # one compilation for all sizes\n"
        "for shape in shapes:  # before the first step\n"
        "    model(torch.zeros(shape, device=device))",
    ),
)
_OVERLAPPED_GRADIENTS = (
    CodeChange(
        PYTORCH,
        "model = DistributedDataParallel(model, bucket_cap_mb=25, gradient_as_bucket_view=True)\n"
        "with model.no_sync():  # where gradients accumulate: only the last pass communicates\n"
        "    criterion(model(inputs), targets).backward()",
    ),
    CodeChange(LIGHTNING, "trainer = Trainer(strategy=DDPStrategy(bucket_cap_mb=25, gradient_as_bucket_view=True))"),
    CodeChange(TRANSFORMERS, "arguments = TrainingArguments(ddp_bucket_cap_mb=25)"),
)
_MORE_MICROBATCHES = (
    CodeChange(PYTORCH, "schedule = Schedule1F1B(stage, n_microbatches=4 * stages, loss_fn=criterion)"),
)
_FEWER_THREADS = (CodeChange(PYTORCH, "torch.set_num_threads(4)  # fewer than the cores that the program has"),)
_LOADED_BEFORE = (CodeChange(PYTORCH, 'os.environ["CUDA_MODULE_LOADING"] = "EAGER"  # before the first CUDA call'),)
_TOKENIZED_BEFORE = (
    CodeChange(
        PYTORCH,
        "def tokenize(rows):\n"
        '    return tokenizer(rows["text"], truncation=True)\n'
        "\n"
        "\n"
        "dataset = dataset.map(tokenize, batched=True, num_proc=8)  # once, before the training",
    ),
)
_IN_BACKGROUND = (
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
_IN_PROCESSES = (
    CodeChange(
        PYTORCH,
        "from concurrent.futures import ProcessPoolExecutor\n"
        "\n"
        "others = ProcessPoolExecutor(1)  # a process has a GIL of its own\n"
        "waiting = others.submit(work, argument)\n"
        "train(batch)\n"
        "result = waiting.result()  # where the step needs it",
    ),
)
_ONE_COPY = (
    CodeChange(
        PYTORCH,
        "values = torch.stack(parts).pin_memory()  # on the host\nvalues = values.to(device, non_blocking=True)",
    ),
)
_OPENED_ONCE = (
    CodeChange(
        PYTORCH,
        'library = ctypes.CDLL("libown.so")  # once, before the loop\nfor batch in loader:\n    library.work(argument)',
    ),
)
_ONE_RANGE = (
    CodeChange(
        PYTORCH,
        "for number, batch in enumerate(loader):\n"
        '    with torch.cuda.nvtx.range(f"batch {number}"):  # around the step, and not in its inner loops\n'
        "        train(batch)",
    ),
)
_LARGER_BATCH = (
    CodeChange(PYTORCH, "loader = DataLoader(dataset, batch_size=2 * batch_size, num_workers=8)"),
    CodeChange(TRANSFORMERS, "arguments = TrainingArguments(per_device_train_batch_size=2 * batch_size)"),
)

CODE_CHANGES: Mapping[str, tuple[CodeChange, ...]] = MappingProxyType(
    {
        "idle/data_wait": _WORKERS,
        "idle/data_work": _WORKERS,
        "host/file_reads": _WORKERS,
        "data/worker_start": _KEPT_WORKERS,
        "idle/launch": _COMPILED,
        "launches/launch_bound": _COMPILED,
        "gpu/between_operations": _COMPILED,
        "compute/unfused": _COMPILED,
        "optimizer/many_kernels": _FUSED_OPTIMIZER,
        "idle/synchronization": _NO_WAITS,
        "synchronization/in_step": _NO_WAITS,
        "idle/blocking_copy": _PINNED,
        "copies/pageable": _PINNED,
        "copies/exposed": _OVERLAPPED_COPIES,
        "tensor_cores/not_used": _MIXED_PRECISION,
        "tensor_cores/layout": _CHANNELS_LAST,
        "compute/batch_norm": _CHANNELS_LAST,
        "compute/depthwise": _CHANNELS_LAST,
        "compute/small_matrices": _BATCHED,
        "idle/garbage_collection": _COLLECTED_SELDOM,
        "host/checkpoint": _SAVED_BEHIND,
        "idle/allocation": _KEPT_MEMORY,
        "memory/churn": _KEPT_MEMORY,
        "modules/in_window": _COMPILED_ONCE,
        "communication/exposed": _OVERLAPPED_GRADIENTS,
        "ranks/pipeline": _MORE_MICROBATCHES,
        "host/cpu_quota": _FEWER_THREADS,
        "host/tokenizer": _TOKENIZED_BEFORE,
        "host/outside_wait": _IN_BACKGROUND,
        "idle/file_io": _IN_BACKGROUND,
        "idle/module_load": _LOADED_BEFORE,
        "occupancy/small_grid": _LARGER_BATCH,
        "idle/lock": _IN_PROCESSES,
        "host/page_faults": _WORKERS,
        "capture/overhead": _ONE_RANGE,
    }
)
"""Changes as code, by rule. Rules without an entry need a look at the program first."""

# One rule may have several advices, and findings of several rules the same.
_BY_ADVICE: Mapping[str, tuple[CodeChange, ...]] = MappingProxyType(
    {ADVICE[rule].advice: changes for rule, changes in CODE_CHANGES.items() if rule in ADVICE}
    | {SHORT_CODE: _COMPILED, OWN_THREADS: _FEWER_THREADS}
    | {SMALL_COPIES: _ONE_COPY, ADVICE_OF_LIBRARIES: _OPENED_ONCE}
)
