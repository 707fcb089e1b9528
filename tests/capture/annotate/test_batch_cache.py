"""Loaders with a cache repeat their first batches: the same number of batches, new containers, and no loading."""

import multiprocessing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from nsyswrap.capture.annotate import batch_cache
from nsyswrap.capture.annotate.batch_cache import cache_batches


class Pair(NamedTuple):
    """A batch with named fields."""

    first: object
    second: object


class Counted(Dataset[dict[str, torch.Tensor]]):  # type: ignore[misc]
    """A data set of numbers that counts how many were loaded in this process."""

    def __init__(self, length: int = 20) -> None:
        """Set the number of items."""
        self.length = length
        self.loaded = 0

    def __len__(self) -> int:
        """Return the number of items."""
        return self.length

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return an item."""
        self.loaded += 1
        return {"x": torch.tensor(float(index))}


@pytest.fixture(autouse=True)
def cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache three batches in this process; the loader is restored after the test."""
    base = torch.utils.data.dataloader._BaseDataLoaderIter  # noqa: SLF001 - what is replaced
    monkeypatch.setattr(DataLoader, "__iter__", DataLoader.__iter__)
    monkeypatch.setattr(base, "__next__", base.__next__)
    cache_batches(torch, 3)


def values(batch: dict[str, torch.Tensor]) -> list[float]:
    """Return the numbers in a batch."""
    found: list[float] = batch["x"].tolist()
    return found


def test_the_first_batches_are_repeated_in_turn() -> None:
    """Nothing else is loaded, in this epoch or the next."""
    data = Counted()
    loader = DataLoader(data, batch_size=2)
    epochs = [[values(batch)[0] for batch in loader] for _ in range(2)]
    assert epochs[0][:3] == [0.0, 2.0, 4.0]
    assert set(epochs[0] + epochs[1]) == {0.0, 2.0, 4.0}
    assert [len(epoch) for epoch in epochs] == [10, 10]
    assert data.loaded == 6


@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}, {"prefetch_factor": 7}], ids=str)
@pytest.mark.parametrize("drop_last", [False, True])
def test_an_epoch_has_the_same_number_of_batches(options: dict[str, Any], *, drop_last: bool) -> None:
    """This also holds with worker processes that load ahead, in every epoch."""
    loader = DataLoader(Counted(21), batch_size=2, num_workers=2, drop_last=drop_last, **options)
    assert [sum(1 for _ in loader) for _ in range(3)] == [10 if drop_last else 11] * 3


def test_leaving_an_epoch_early_does_not_change_the_next() -> None:
    loader = DataLoader(Counted(), batch_size=2)
    for number, _ in enumerate(loader):
        if number == 4:
            break
    assert len(list(loader)) == 10


def test_a_loader_with_fewer_batches_fills_its_cache_over_several_epochs() -> None:
    """With two batches an epoch the third is the first of the second epoch."""
    data = Counted(4)
    loader = DataLoader(data, batch_size=2)
    assert [len(list(loader)) for _ in range(4)] == [2] * 4
    assert data.loaded == 6


def test_the_sampler_yields_indices_for_every_batch() -> None:
    """The sampler draws the same random numbers as without the cache."""
    drawn: list[int] = []

    class Sampler(torch.utils.data.Sampler[int]):  # type: ignore[misc]
        def __iter__(self) -> Iterator[int]:
            for index in range(20):
                drawn.append(index)
                yield index

    list(DataLoader(Counted(), batch_size=2, sampler=Sampler()))
    assert drawn == list(range(20))


def test_a_program_may_modify_a_batch() -> None:
    """Containers are new each time, and tensors are shared."""
    loader = DataLoader(Counted(), batch_size=2)
    tensors = {id(batch.pop("x")) for batch in loader}
    assert len(tensors) == 3


class Holder(Mapping[str, torch.Tensor]):
    """A mapping with a method ``to``, like those of tokenizers."""

    def __init__(self) -> None:
        """Create it with one tensor."""
        self.values_by_name = {"x": torch.ones(1)}

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return a tensor."""
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.values_by_name)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self.values_by_name)

    def to(self, device: torch.device) -> "Holder":
        """Move the tensor."""
        moved = Holder()
        moved.values_by_name = {name: tensor.to(device) for name, tensor in self.values_by_name.items()}
        return moved


def test_all_tensors_of_a_batch_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors in lists, tuples, dicts and objects with a method ``to`` move. Other objects stay unchanged."""

    class Cuda:
        is_initialized = staticmethod(lambda: True)
        current_device = staticmethod(lambda: 0)

    class Torch:
        cuda = Cuda

        @staticmethod
        def device(kind: str, number: int) -> torch.device:
            assert (kind, number) == ("cuda", 0)
            return torch.device("meta")

    tensor = torch.ones(1)
    batch = [tensor, (tensor, "text"), Pair(tensor, 3), {"a": {"b": tensor}}, Holder()]
    first, pair, named, nested, holder = batch_cache._on_gpu(batch, Torch)  # noqa: SLF001 - there is no GPU here
    moved: list[Any] = [first, pair[0], named.first, nested["a"]["b"], holder["x"]]
    assert {each.device.type for each in moved} == {"meta"}
    assert (pair[1], named.second, type(named)) == ("text", 3, Pair)
    monkeypatch.setattr(Cuda, "is_initialized", staticmethod(lambda: False))
    assert batch_cache._on_gpu(batch, Torch) is batch  # noqa: SLF001
    assert batch_cache._copied(batch)[4] is not batch[4]  # noqa: SLF001


class Stream(IterableDataset[int]):  # type: ignore[misc]
    """A data set of ten numbers."""

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers."""
        return iter(range(10))


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iterable_data_set_is_not_changed(workers: int) -> None:
    assert [int(each) for each in DataLoader(Stream(), batch_size=None, num_workers=workers)] == list(range(10))


def test_worker_processes_end_with_the_epoch() -> None:
    """No worker is left, so a program ends as usual."""
    before = set(multiprocessing.active_children())
    loader = DataLoader(Counted(50), batch_size=2, num_workers=2)
    assert sum(1 for _ in loader) == 25
    assert set(multiprocessing.active_children()) <= before
