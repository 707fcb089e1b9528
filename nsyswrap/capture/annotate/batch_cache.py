# ruff: noqa: ANN401 - torch is not imported here, and what a program passes on may be anything
"""What would the program do if its loaders cost nothing? Each gives its first batches again and again.

They are on the device already. An epoch has as many batches as before: the sampler is still asked for each, only
nothing is loaded for it. A loader of an iterable data set has no sampler that ends, so it is left as it is.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

KEPT = "_nsyswrap_kept"
DRAWN = "_nsyswrap_drawn_ahead"

Call = Callable[..., Any]


def replay(torch: Any, count: int) -> None:
    """Have every DataLoader load its first batches only.

    Args:
        torch: The module, imported to its end.
        count: How many batches each loader keeps.
    """
    data = torch.utils.data
    loader, iterator = data.DataLoader, data.dataloader._BaseDataLoaderIter  # noqa: SLF001
    loader.__iter__ = _begun(loader.__iter__)
    iterator.__next__ = _replayed(iterator.__next__, torch, count)


def _begun(begin: Call) -> Call:
    def begun(loader: Any) -> Any:
        kept = vars(loader).setdefault(KEPT, [])
        iterator = begin(loader)
        setattr(iterator, KEPT, kept)
        setattr(iterator, DRAWN, None)
        return iterator

    return begun


def _replayed(load: Call, torch: Any, count: int) -> Call:
    map_style = torch.utils.data.dataloader._DatasetKind.Map  # noqa: SLF001 - its sampler says when an epoch ends

    def replayed(iterator: Any) -> Any:
        kept: list[Any] | None = getattr(iterator, KEPT, None)
        if kept is None or iterator._dataset_kind != map_style:  # noqa: SLF001
            return load(iterator)
        if len(kept) < count:
            kept.append(_moved(load(iterator), torch))
            return _copied(kept[-1])
        _draw(iterator)
        iterator._num_yielded += 1  # noqa: SLF001 - as the loader itself does
        return _copied(kept[iterator._num_yielded % len(kept)])  # noqa: SLF001

    return replayed


def _draw(iterator: Any) -> None:
    """Take the next indices from the sampler; those that loader processes were sent already come first.

    Raises:
        StopIteration: The epoch is over.
    """
    if iterator._sampler_iter is None:  # noqa: SLF001
        iterator._reset()  # noqa: SLF001
    ahead = getattr(iterator, DRAWN, None)
    if ahead is None:
        ahead = getattr(iterator, "_send_idx", 0) - getattr(iterator, "_rcvd_idx", 0)
    if ahead > 0:
        setattr(iterator, DRAWN, ahead - 1)
        return
    setattr(iterator, DRAWN, 0)
    try:
        next(iterator._sampler_iter)  # noqa: SLF001
    except StopIteration:
        if hasattr(iterator, "_shutdown_workers") and not iterator._persistent_workers:  # noqa: SLF001
            iterator._shutdown_workers()  # noqa: SLF001
        raise


def _moved(batch: Any, torch: Any) -> Any:
    """Return a batch with its tensors on the current GPU; as it is where the program uses none."""
    if not torch.cuda.is_initialized():
        return batch
    device = torch.device("cuda", torch.cuda.current_device())
    return _each(batch, lambda leaf: leaf.to(device) if callable(getattr(leaf, "to", None)) else leaf)


def _copied(batch: Any) -> Any:
    """Return a batch whose containers are new: a program may take things out of them. Tensors are shared."""
    return _each(batch, lambda leaf: copy.copy(leaf) if isinstance(leaf, Mapping) else leaf)


def _each(batch: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a change to what is in lists, tuples and dicts, which are made anew; to all else as a whole."""
    if type(batch) is dict:
        return {key: _each(value, change) for key, value in batch.items()}
    if type(batch) is list:
        return [_each(value, change) for value in batch]
    if isinstance(batch, tuple):
        values = [_each(value, change) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else tuple(values)
    return change(batch)
