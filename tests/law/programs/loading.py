"""Programs that read data with DataLoader: order, bits, workers and their ends."""

import multiprocessing
import os
import random

import torch
from program import digest, failing, run
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    get_worker_info,
)


class Squares(Dataset):
    def __init__(self, count=10):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.tensor([index**2, int(torch.randint(1000, ())), random.randrange(1000)])


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        yield from range(info.id if info else 0, 10, info.num_workers if info else 1)


class Reporting(Squares):
    def __getitem__(self, index):
        info = get_worker_info()
        return index, info.id if info else -1, info.seed if info else 0, multiprocessing.current_process().name


def show(loader):
    for batch in loader:
        print(batch.tolist() if isinstance(batch, torch.Tensor) else batch)


def program_order_and_random_numbers():
    torch.manual_seed(0)
    random.seed(0)
    show(DataLoader(Squares(), batch_size=3, shuffle=True))
    print(digest(torch.get_rng_state()))
    show(DataLoader(Squares(), batch_size=4, drop_last=True, generator=torch.Generator().manual_seed(7), shuffle=True))
    print(digest(torch.get_rng_state()))


def program_forked_workers():
    torch.manual_seed(0)
    random.seed(0)
    for _ in range(2):
        show(DataLoader(Squares(), batch_size=3, shuffle=True, num_workers=2))
    show(DataLoader(Reporting(), batch_size=None, num_workers=2))
    print(multiprocessing.active_children(), digest(torch.get_rng_state()))


def program_persistent_workers():
    torch.manual_seed(0)
    loader = DataLoader(Squares(), batch_size=5, num_workers=2, persistent_workers=True, prefetch_factor=3)
    for _ in range(3):
        show(loader)
    print(len(multiprocessing.active_children()), iter(loader) is loader._iterator)


def program_iterable_data():
    show(DataLoader(Stream(), batch_size=4))
    show(DataLoader(Stream(), batch_size=4, num_workers=2))
    show(DataLoader(Stream(), batch_size=None))
    with failing():
        print(len(DataLoader(Stream())))


def program_left_early():
    loader = DataLoader(Squares(100), batch_size=2, num_workers=2)
    for number, _ in enumerate(loader):
        if number == 3:
            break
    batches = iter(loader)
    print(next(batches)[0][0], len(loader), len(batches))
    del batches
    print(multiprocessing.active_children())


def program_worker_dies():
    class Dying(Squares):
        def __getitem__(self, index):
            os._exit(9)

    try:
        next(iter(DataLoader(Dying(), num_workers=1)))
    except RuntimeError as error:
        # A signal handler raises the error wherever the program is.
        print(type(error).__name__, str(error).split("(")[0])


def program_own_loaders():
    class Own(DataLoader):
        def __iter__(self):
            print("own iter")
            for batch in super().__iter__():
                yield batch + 1

    class Prefetching:
        def __init__(self, loader):
            self.loader = loader

        def __iter__(self):
            batches = iter(self.loader)
            ahead = next(batches, None)
            while ahead is not None:
                yield ahead
                ahead = next(batches, None)

    loader = Own(TensorDataset(torch.arange(4)), collate_fn=lambda items: torch.stack([each[0] for each in items]))
    show(loader)
    show(Prefetching(loader))
    print(len(loader), Own.__iter__.__qualname__, sorted(vars(Own)))


if __name__ == "__main__":
    run(globals())
