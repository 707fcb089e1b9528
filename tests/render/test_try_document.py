"""The lines to write are Python, and one call has all arguments that the changes give it."""

from nsyswrap.experiments.changes import experiments
from nsyswrap.experiments.outcome import Trial, TriedChange
from nsyswrap.experiments.tried.experiment import spec_of
from nsyswrap.render.try_document import lines_by_library


def lines(*specs: str) -> dict[str, tuple[str, ...]]:
    """Return the lines to write for changes that were kept."""
    kept = tuple(TriedChange(spec=each, verdict="faster", kept=True) for each in specs)
    return lines_by_library(Trial(command=("train.py",), outcomes=kept))


def test_one_call_has_the_arguments_of_all_changes() -> None:
    found = lines("workers=8", "prefetch=4", "pin_memory", "non_blocking", "tf32", "gc")
    assert found["PyTorch"] == (
        "loader = DataLoader(",
        "    dataset,",
        "    batch_size=batch_size,",
        "    num_workers=8,",
        "    prefetch_factor=4,",
        "    pin_memory=True,",
        ")",
        "batch = batch.to(device, non_blocking=True)",
        'torch.set_float32_matmul_precision("high")',
        "gc.collect()",
        "gc.freeze()",
        "gc.disable()  # and call gc.collect() every 1000 steps",
    )
    assert found["Hugging Face Transformers"][:8] == (
        "arguments = TrainingArguments(",
        "    dataloader_num_workers=8,",
        "    dataloader_prefetch_factor=4,",
        "    dataloader_pin_memory=True,",
        '    accelerator_config={"non_blocking": True},',
        "    tf32=True,",
        ")",
        "batch = batch.to(device, non_blocking=True)",
    )


def test_a_value_stays_where_a_later_change_names_what_is_there() -> None:
    assert lines("persistent", "workers=2")["PyTorch"] == (
        "loader = DataLoader(",
        "    dataset,",
        "    num_workers=2,",
        "    persistent_workers=True,",
        "    batch_size=batch_size,",
        ")",
    )
    assert lines("bucket_size=50", "static_graph")["Lightning"] == (
        "strategy = DDPStrategy(bucket_cap_mb=50, static_graph=True)",
        "trainer = Trainer(strategy=strategy)",
    )


def test_the_lines_of_all_changes_are_python() -> None:
    values = {"fused": "torch.optim.AdamW", "foreach": "torch.optim.SGD", "compile": "default", "attention": "flash"}
    every = lines(
        *(spec_of(key, values.get(key, "2" if "{value}" in each.name else "")) for key, each in experiments().items())
    )
    for library, found in every.items():
        compile("\n".join(found), library, "exec")
    assert len(every) == 3
