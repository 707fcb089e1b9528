# ruff: noqa: ANN401 - torch is not imported here, and what a program passes on may be anything
"""The batch cache: each data loader repeats its first batches, to measure the program without data loading.

Cached batches are on the device already. An epoch keeps its length: the sampler still yields indices for each batch,
but nothing is loaded for them. A loader of an iterable data set has no sampler that ends, so it is not changed.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

KEPT = "_nsyswrap_kept"
AHEAD = "_nsyswrap_indices_ahead"

Call = Callable[..., Any]


def cache_batches(torch: Any, count: int) -> None:
    """Make every DataLoader load only its first batches, and repeat them."""
    data = torch.utils.data
    loader, iterator = data.DataLoader, data.dataloader._BaseDataLoaderIter  # noqa: SLF001
    loader.__iter__ = _with_cache(loader.__iter__)
    iterator.__next__ = _cached(iterator.__next__, torch, count)


def _with_cache(begin: Call) -> Call:
    """Return a ``DataLoader.__iter__`` whose iterators share the cache of their loader."""

    def with_cache(loader: Any) -> Any:
        kept = vars(loader).setdefault(KEPT, [])
        iterator = begin(loader)
        setattr(iterator, KEPT, kept)
        setattr(iterator, AHEAD, None)
        return iterator

    return with_cache


def _cached(load: Call, torch: Any, count: int) -> Call:
    """Return a ``__next__`` of loader iterators that loads the first batches and then repeats them."""
    map_style = torch.utils.data.dataloader._DatasetKind.Map  # noqa: SLF001 - its sampler ends with the epoch

    def cached(iterator: Any) -> Any:
        kept: list[Any] | None = getattr(iterator, KEPT, None)
        if kept is None or iterator._dataset_kind != map_style:  # noqa: SLF001
            return load(iterator)
        if len(kept) < count:
            kept.append(_on_gpu(load(iterator), torch))
            return _copied(kept[-1])
        _advance_sampler(iterator)
        iterator._num_yielded += 1  # noqa: SLF001 - as the loader itself does
        return _copied(kept[iterator._num_yielded % len(kept)])  # noqa: SLF001

    return cached


def _advance_sampler(iterator: Any) -> None:
    """Take the next indices from the sampler, after those that were already sent to worker processes."""
    if iterator._sampler_iter is None:  # noqa: SLF001
        iterator._reset()  # noqa: SLF001
    ahead = getattr(iterator, AHEAD, None)
    if ahead is None:
        ahead = getattr(iterator, "_send_idx", 0) - getattr(iterator, "_rcvd_idx", 0)
    if ahead > 0:
        setattr(iterator, AHEAD, ahead - 1)
        return
    setattr(iterator, AHEAD, 0)
    try:
        next(iterator._sampler_iter)  # noqa: SLF001
    except StopIteration:
        if hasattr(iterator, "_shutdown_workers") and not iterator._persistent_workers:  # noqa: SLF001
            iterator._shutdown_workers()  # noqa: SLF001
        raise


def _on_gpu(batch: Any, torch: Any) -> Any:
    """Return a batch with its tensors on the current GPU; unchanged if the program uses no GPU."""
    if not torch.cuda.is_initialized():
        return batch
    device = torch.device("cuda", torch.cuda.current_device())
    return _each(batch, lambda leaf: leaf.to(device) if callable(getattr(leaf, "to", None)) else leaf)


def _copied(batch: Any) -> Any:
    """Return a batch with new containers, because a program may modify them; tensors are shared."""
    return _each(batch, lambda leaf: copy.copy(leaf) if isinstance(leaf, Mapping) else leaf)


def _each(batch: Any, change: Callable[[Any], Any]) -> Any:
    """Return a batch with a change applied to each item in its lists, tuples and dicts, or to the batch itself."""
    if type(batch) is dict:
        return {key: _each(value, change) for key, value in batch.items()}
    if type(batch) is list:
        return [_each(value, change) for value in batch]
    if isinstance(batch, tuple):
        values = [_each(value, change) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else tuple(values)
    return change(batch)
