"""The experiments of data loaders: each is made where a loader is made, so it needs a process of its own."""

from collections.abc import Callable
from typing import Any

from ..tried.experiment import NOTHING, RANDOM, Experiment, NotApplicableError, require, with_arguments
from ..tried.program import TriedProgram
from . import copies


def _check(program: TriedProgram) -> None:
    """Raise ``NotApplicableError`` for a program whose loaders cannot be changed."""
    require(program.loaders, "the loop uses no DataLoader")
    if all(_is_iterable(program, each.dataset) for each in program.loaders):
        raise NotApplicableError("workers of an iterable data set share it in a way that only the program knows")


def _is_iterable(program: TriedProgram, dataset: Any) -> bool:
    return isinstance(dataset, program.torch.utils.data.IterableDataset)


def _with_arguments(program: TriedProgram, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the arguments of each loader of a data set with indices."""
    with_arguments(
        program.torch.utils.data.DataLoader,
        lambda dataset, named: named if _is_iterable(program, dataset) else change(named),
    )


def _workers_values(program: TriedProgram) -> list[str]:
    """Return the numbers of workers to try: powers of two up to the cores, without the number that is set."""
    _check(program)
    now = {each.num_workers for each in program.loaders}
    numbers = [0, *(1 << power for power in range(program.cores.bit_length()))]
    return [str(each) for each in numbers if each <= program.cores and each not in now]


def _workers(program: TriedProgram, value: str) -> None:
    number = int(value)

    def change(named: dict[str, Any]) -> dict[str, Any]:
        without = {} if number else {"prefetch_factor": None, "persistent_workers": False}
        return {**named, **without, "num_workers": number}

    _with_arguments(program, change)


def _has_workers(named: dict[str, Any]) -> bool:
    return bool(named.get("num_workers", 0))


def _prefetch_values(program: TriedProgram) -> list[str]:
    _check(program)
    require(any(each.num_workers for each in program.loaders), "the loaders have no workers")
    return [each for each in ("4", "8") if each not in {str(one.prefetch_factor) for one in program.loaders}]


def _prefetch(program: TriedProgram, value: str) -> None:
    _with_arguments(program, lambda named: {**named, "prefetch_factor": int(value)} if _has_workers(named) else named)


def _persistent_values(program: TriedProgram) -> list[str]:
    _check(program)
    if not any(each.num_workers and not each.persistent_workers for each in program.loaders):
        raise NotApplicableError("no loader starts its workers again")
    return [""]


def _persistent(program: TriedProgram, _value: str) -> None:
    _with_arguments(program, lambda named: {**named, "persistent_workers": True} if _has_workers(named) else named)


def _pin_values(program: TriedProgram) -> list[str]:
    _check(program)
    require(program.uses_gpu, "the program uses no GPU")
    require(not all(each.pin_memory for each in program.loaders), "the loaders pin their batches already")
    return [""]


def _pin(program: TriedProgram, _value: str) -> None:
    _with_arguments(program, lambda named: {**named, "pin_memory": True})
    copies.switch(program, "")


EXPERIMENTS = (
    Experiment(
        key="workers",
        place=1,
        name="num_workers={value}",
        alters=RANDOM,
        values=_workers_values,
        prepare=_workers,
        lines={
            "PyTorch": "loader = DataLoader(dataset, batch_size=batch_size, num_workers={value})",
            "Hugging Face Transformers": "arguments = TrainingArguments(dataloader_num_workers={value})",
        },
    ),
    Experiment(
        key="prefetch",
        place=2,
        name="prefetch_factor={value}",
        alters=NOTHING,
        values=_prefetch_values,
        prepare=_prefetch,
        lines={
            "PyTorch": "loader = DataLoader(dataset, num_workers=workers, prefetch_factor={value})",
            "Hugging Face Transformers": "arguments = TrainingArguments(dataloader_prefetch_factor={value})",
        },
    ),
    Experiment(
        key="persistent",
        place=3,
        name="workers that stay",
        alters=RANDOM,
        values=_persistent_values,
        prepare=_persistent,
        lines={
            "PyTorch": "loader = DataLoader(dataset, num_workers=workers, persistent_workers=True)",
            "Hugging Face Transformers": "arguments = TrainingArguments(dataloader_persistent_workers=True)",
        },
    ),
    Experiment(
        key="pin_memory",
        place=4,
        name="pinned batches",
        alters=NOTHING,
        values=_pin_values,
        prepare=_pin,
        lines={
            "PyTorch": "loader = DataLoader(dataset, num_workers=workers, pin_memory=True)\n"
            "batch = batch.to(device, non_blocking=True)",
            "Lightning": "loader = DataLoader(dataset, num_workers=workers, pin_memory=True)",
            "Hugging Face Transformers": "arguments = TrainingArguments(\n"
            "    dataloader_pin_memory=True,\n"
            '    accelerator_config={{"non_blocking": True}},\n'
            ")",
        },
    ),
)
