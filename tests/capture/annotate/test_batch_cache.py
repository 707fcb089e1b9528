"""Loaders with a cache repeat their first batches: the same number of batches, new containers, and no loading."""

import importlib
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from nsyswrap.capture.annotate import batch_cache
from nsyswrap.capture.annotate.batch_cache import cache_batches

Loader = Callable[..., Iterable[Any]]
Tensor = Any


class Pair(NamedTuple):
    """A batch with named fields."""

    first: object
    second: object


class Counted:
    """A data set of numbers that counts how many were loaded in this process."""

    def __init__(self, length: int = 20) -> None:
        self.length = length
        self.loaded = 0

    def __len__(self) -> int:
        """Return the number of items."""
        return self.length

    def __getitem__(self, index: int) -> dict[str, float]:
        self.loaded += 1
        return {"x": float(index)}


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return PyTorch with a cache of three batches in this process; the loader is restored after the test."""
    found = importlib.import_module("torch")
    loader, base = found.utils.data.DataLoader, found.utils.data.dataloader._BaseDataLoaderIter  # noqa: SLF001
    monkeypatch.setattr(loader, "__iter__", loader.__iter__)
    monkeypatch.setattr(base, "__next__", base.__next__)
    cache_batches(found, 3)
    return found


@pytest.fixture
def loader_of(torch: ModuleType) -> Loader:
    """Return PyTorch's data loader, with the cache."""
    loader: Loader = torch.utils.data.DataLoader
    return loader


def test_the_first_batches_are_repeated_in_turn(loader_of: Loader) -> None:
    """Nothing else is loaded, in this epoch or the next."""
    data = Counted()
    loader = loader_of(data, batch_size=2)
    epochs = [[batch["x"][0].item() for batch in loader] for _ in range(2)]
    assert epochs[0][:3] == [0.0, 2.0, 4.0]
    assert set(epochs[0] + epochs[1]) == {0.0, 2.0, 4.0}
    assert [len(epoch) for epoch in epochs] == [10, 10]
    assert data.loaded == 6


@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}, {"prefetch_factor": 7}], ids=str)
@pytest.mark.parametrize("drop_last", [False, True])
def test_an_epoch_has_the_same_number_of_batches(
    loader_of: Loader, options: dict[str, Any], *, drop_last: bool
) -> None:
    """This also holds with worker processes that load ahead, in every epoch."""
    loader = loader_of(Counted(21), batch_size=2, num_workers=2, drop_last=drop_last, **options)
    assert [sum(1 for _ in loader) for _ in range(3)] == [10 if drop_last else 11] * 3


def test_leaving_an_epoch_early_does_not_change_the_next(loader_of: Loader) -> None:
    loader = loader_of(Counted(), batch_size=2)
    for number, _ in enumerate(loader):
        if number == 4:
            break
    assert len(list(loader)) == 10


def test_a_loader_with_fewer_batches_fills_its_cache_over_several_epochs(loader_of: Loader) -> None:
    """With two batches an epoch the third is the first of the second epoch."""
    data = Counted(4)
    loader = loader_of(data, batch_size=2)
    assert [len(list(loader)) for _ in range(4)] == [2] * 4
    assert data.loaded == 6


def test_the_sampler_yields_indices_for_every_batch(loader_of: Loader) -> None:
    """The sampler draws the same random numbers as without the cache."""
    drawn: list[int] = []

    class Sampler:
        def __iter__(self) -> Iterator[int]:
            for index in range(20):
                drawn.append(index)
                yield index

    list(loader_of(Counted(), batch_size=2, sampler=Sampler()))
    assert drawn == list(range(20))


def test_a_program_may_modify_a_batch(loader_of: Loader) -> None:
    """Containers are new each time, and tensors are shared."""
    loader = loader_of(Counted(), batch_size=2)
    tensors = {id(batch.pop("x")) for batch in loader}
    assert len(tensors) == 3


class Holder(Mapping[str, Any]):
    """A mapping with a method ``to``, like those of tokenizers."""

    def __init__(self, tensor: Tensor) -> None:
        self.values_by_name = {"x": tensor}

    def __getitem__(self, name: str) -> Tensor:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self.values_by_name)

    def to(self, device: object) -> "Holder":
        """Move the tensor."""
        return Holder(self.values_by_name["x"].to(device))


def test_all_tensors_of_a_batch_move(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors in lists, tuples, dicts and objects with a method ``to`` move. Other objects stay unchanged."""

    class Cuda:
        is_initialized = staticmethod(lambda: True)
        current_device = staticmethod(lambda: 0)

    class Torch:
        cuda = Cuda

        @staticmethod
        def device(kind: str, number: int) -> object:
            assert (kind, number) == ("cuda", 0)
            return torch.device("meta")

    tensor = torch.ones(1)
    batch = [tensor, (tensor, "text"), Pair(tensor, 3), {"a": {"b": tensor}}, Holder(tensor)]
    first, pair, named, nested, holder = batch_cache._on_gpu(batch, Torch)  # noqa: SLF001 - there is no GPU here
    moved: list[Any] = [first, pair[0], named.first, nested["a"]["b"], holder["x"]]
    assert {each.device.type for each in moved} == {"meta"}
    assert (pair[1], named.second, type(named)) == ("text", 3, Pair)
    monkeypatch.setattr(Cuda, "is_initialized", staticmethod(lambda: False))
    assert batch_cache._on_gpu(batch, Torch) is batch  # noqa: SLF001
    assert batch_cache._copied(batch)[4] is not batch[4]  # noqa: SLF001


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iterable_data_set_is_not_changed(workers: int, torch: ModuleType, loader_of: Loader) -> None:
    base: Any = torch.utils.data.IterableDataset

    class Stream(base):  # type: ignore[misc]
        def __iter__(self) -> Iterator[int]:
            return iter(range(10))

    context = "fork" if workers else None
    loader = loader_of(Stream(), batch_size=None, num_workers=workers, multiprocessing_context=context)
    assert [int(each) for each in loader] == list(range(10))


def test_worker_processes_end_with_the_epoch(loader_of: Loader) -> None:
    """No worker is left, so a program ends as usual."""
    before = set(multiprocessing.active_children())
    loader = loader_of(Counted(50), batch_size=2, num_workers=2)
    assert sum(1 for _ in loader) == 25
    assert set(multiprocessing.active_children()) <= before
